"""Topics of tests: when one is made, a client that asks next finds it on every broker.

    with Admin(namesrv_addr=broker.namesrv) as admin:
        make_topic(admin, "orders", 4)              # or of a view: make_topic(cluster, ..)
    until_routed(broker.namesrv, "orders", {"broker-a": 4})     # one that was made otherwise

A broker answers when its name servers know the topic, and waits half a second for them, which is
soon over on a machine that others use: a producer that comes then sends to queues of its own
making.
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
    """On every master (of the cluster_name given); its route."""
    view = asking._cluster if isinstance(asking, Admin) else asking
    masters = calls.create_topic(view, topic, queues, **settings)
    return until_routed(view, topic, {broker.name: queues for broker in masters})


def until_routed(asked: ClusterView | str, topic: str, queues: Mapping[str, int]) -> Route:
    """Until name servers know it with so many queues to write to at each of these brokers; its
    route. `asked`: a view, or the addresses of the name servers."""
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
