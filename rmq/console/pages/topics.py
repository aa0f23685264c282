"""Topics: the list of all topics, by kind and by a part of the name; and a new topic.

One request to each broker gives all its topics; brokers are not asked for single topics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rmq.client.blocking import admin, topics
from rmq.client.blocking.cluster import BrokerEntry, Cluster
from rmq.client.blocking.partial import Missing, of_masters
from rmq.console.change import Change, Plan
from rmq.console.console import console_of
from rmq.console.forms import Field, chosen, flag, topic_name, whole
from rmq.console.page import page, url
from rmq.console.paging import Paging
from rmq.console.section import section
from rmq.errors import RmqError
from rmq.limits import TOPIC_QUEUES_MAX
from rmq.names import is_dead_letter, is_retry, is_system
from rmq.operations.texts import counted
from rmq.operations.topic_changes import MESSAGE_TYPES, PERMS, described, perm_text

KINDS = ("topics", "retry", "dead letters", "system")
PERM_CHOICES = (("rw", "read and write"), ("r", "read"), ("w", "write"))


class TopicRow(msgspec.Struct):
    name: str
    kind: str
    message_type: str = ""
    read_queues: int = 0  # summed over all brokers
    write_queues: int = 0
    perms: set[str] = set()
    brokers: list[str] = []


class TopicList(msgspec.Struct):
    rows: list[TopicRow]


def topic_list(cluster: Cluster, missing: Missing | None = None) -> TopicList:
    """All topics of all brokers, by name."""
    found: dict[str, TopicRow] = {}

    def told(broker: BrokerEntry) -> tuple[BrokerEntry, dict[str, dict[str, Any]], set[str]]:
        configs = topics.configs(cluster, broker)
        return broker, configs, admin.system_topics(cluster, [broker])

    for broker, configs, own in of_masters(cluster, told, missing):
        for name, members in configs.items():
            row = found.setdefault(name, TopicRow(name, kind_of(name, own)))
            _add(row, topics.state_of(broker, name, members), members)
    return TopicList([found[name] for name in sorted(found)])


def _add(row: TopicRow, state: topics.TopicState, members: Mapping[str, Any]) -> None:
    row.read_queues += state.read_queues
    row.write_queues += state.write_queues
    row.perms.add(perm_text(state.perm) or "none")
    row.brokers.append(state.broker.name)
    attributes = members.get("attributes")
    if isinstance(attributes, dict):
        row.message_type = str(attributes.get("message.type") or row.message_type)


def kind_of(name: str, system: set[str]) -> str:
    if is_retry(name):
        return "retry"
    if is_dead_letter(name):
        return "dead letters"
    return "system" if is_system(name) or name in system else "topics"


async def topic_page(request: Request) -> Response:
    console, asked = console_of(request), request.query_params
    kind = asked.get("kind", KINDS[0])
    part = asked.get("part", "").strip()
    missing: Missing = {}
    found = await console.ask_some(request, missing, topic_list)
    survey = await section(console.survey(request))
    of_kind = [each for each in found.rows if each.kind == kind]
    rows = [each for each in of_kind if part.lower() in each.name.lower()]
    return page(
        request, "topics.html", paging=Paging.of(request, rows), kinds=_counts(found), kind=kind,
        part=part, missing=missing, sights=survey.value.topics if survey.value else {},
    )  # fmt: skip


def _counts(found: TopicList) -> list[tuple[str, int]]:
    return [(kind, sum(each.kind == kind for each in found.rows)) for kind in KINDS]


# ---- a new one


def _plan(cluster: Cluster, values: Mapping[str, Any]) -> Plan:
    there = [state for _, state in topics.states(cluster, values["topic"]) if state is not None]
    if there:
        said = "; ".join(map(described, there))
        raise RmqError(f"Topic {values['topic']} exists: {said}. Its page can change it.")
    names = ", ".join(each.name for each in cluster.masters())
    queues = counted(values["queues"], "queue")
    return Plan([f"Topic {values['topic']} is created with {queues} on each of {names}."])


def _create(cluster: Cluster, values: Mapping[str, Any]) -> str:
    kind = values["message_type"]
    made = admin.create_topic(
        cluster, values["topic"], values["queues"], perm=PERMS[values["perm"]],
        order=values["order"], attributes={"message.type": kind} if kind else None,
    )  # fmt: skip
    return f"Topic {values['topic']} was created on {', '.join(each.name for each in made)}."


def page_of(name: str) -> Callable[[Mapping[str, Any]], str]:
    """A function for Change.back, which returns the page of the topic or group in this field."""
    return lambda values: url(f"/{name}", **{name: values.get(name)})


CREATE = Change(
    "/topic/create", "Create a topic", "Create it",
    (
        Field("topic", "Name", topic_name, help="Letters, digits, % | - and _"),
        Field("queues", "Queues on each broker", whole(1, TOPIC_QUEUES_MAX), "number", default="8"),
        Field("message_type", "Message type", chosen(*MESSAGE_TYPES), "select",
              choices=(("", "not said"), *((each, each) for each in MESSAGE_TYPES)),
              is_required=False, help="Proxies and clients of RocketMQ 5 look at it."),
        Field("perm", "Permission", chosen(*PERMS), "select", choices=PERM_CHOICES, default="rw"),
        Field("order", "Ordered: a fixed set of queues", flag, "checkbox", is_required=False),
    ),
    plan=_plan, carry_out=_create, back=page_of("topic"),
)  # fmt: skip

ROUTES = {"/topics": topic_page}
CHANGES = (CREATE,)
