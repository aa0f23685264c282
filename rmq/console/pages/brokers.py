"""Brokers: every process of every broker, its figures, and which slave copies which master."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.replicas import ControllerState, Replicas, ReplicaSet
from rmq.codes import ResponseCode
from rmq.console.change import Change
from rmq.console.console import console_of
from rmq.console.page import page
from rmq.console.section import section
from rmq.errors import RemoteError
from rmq.operations.replica_sets import controllers_of, replica_sets


def replicas_of(cluster: Cluster, *names: str) -> tuple[list[ReplicaSet], list[ControllerState]]:
    """The replicas of the named brokers, or without names of all brokers that have replicas, and
    the states of their controllers."""
    replicas = Replicas(cluster, [])
    entries = cluster.brokers()
    wanted = [each for each in entries if not names or each.name in names]
    replicas.controllers = controllers_of(replicas, wanted)
    return replica_sets(replicas, entries, names), replicas.states()


async def brokers(request: Request) -> Response:
    console = console_of(request)
    survey = await console.survey(request)
    replicas = await section(console.ask(request, replicas_of))
    return page(request, "brokers.html", survey=survey, replicas=replicas)


async def broker(request: Request) -> Response:
    console, name = console_of(request), request.query_params.get("name", "")
    survey = await console.survey(request)
    seen = [each for each in survey.brokers if each.entry.name == name]
    if not seen:
        text = f"no broker {name[:100]} is registered"
        raise RemoteError(ResponseCode.BROKER_NOT_EXIST, text)
    replicas = await section(console.ask(request, replicas_of, name))
    return page(request, "broker.html", name=name, seen=seen, replicas=replicas)


ROUTES = {"/brokers": brokers, "/broker": broker}
CHANGES: tuple[Change, ...] = ()
