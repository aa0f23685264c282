"""Topics: makes topics so that every client that asks afterwards finds them on every broker.

    with Admin(namesrv_addr=broker.namesrv) as admin:
        make_topic(admin, "orders", 4)              # or with a view: make_topic(cluster, ..)
    until_routed(broker.namesrv, "orders", {"broker-a": 4})     # for topics made otherwise

A broker answers when its name servers know the new topic, but it waits for them for half a second
at most. That is soon over on a busy machine, and a producer that begins then would find no route
and choose the queues itself, as for a topic that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.waiting import wait_until

from rmq import Admin
from rmq.client.blocking import admin as calls
from rmq.client.blocking.cluster import Cluster, ClusterView, Route
from rmq.codes import ResponseCode
from rmq.errors import RemoteError


def make_topic(asking: Admin | ClusterView, topic: str, queues: int = 1, **settings: Any) -> Route:
    """Makes the topic on every master (of `cluster_name`, if given); returns its route."""
    view = asking._cluster if isinstance(asking, Admin) else asking
    masters = calls.create_topic(view, topic, queues, **settings)
    return until_routed(view, topic, {broker.name: queues for broker in masters})


def until_routed(asked: ClusterView | str, topic: str, queues: Mapping[str, int]) -> Route:
    """Waits until the name servers know the topic with this number of write queues on each of these
    brokers; returns its route. `asked`: a view, or the addresses of the name servers."""
    if isinstance(asked, str):
        with Cluster(asked) as view:
            return until_routed(view, topic, queues)
    view = asked
    expected = {*queues.items()}
    found: list[Route] = []

    def is_known() -> bool:
        try:
            found[:] = [view.route(topic)]
        except RemoteError as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            return False
        return expected <= {(each.broker_name, each.write_queues) for each in found[0].entries}

    wait_until(is_known, still=True)
    return found[0]
