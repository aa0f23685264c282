"""Routes of static topics: their logical queues, named by their leaders."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rmq.client.connection.routes import Route, parse_route
from rmq.errors import ProtocolError
from rmq.format.fastjson import MessageQueue


def route(mappings: Any, perm: int = 6) -> Route:
    rows = [{"brokerName": name, "readQueueNums": 3, "writeQueueNums": 3, "perm": perm,
             "topicSysFlag": 0} for name in "ab"]  # fmt: skip
    brokers = [{"brokerName": name, "cluster": "c", "brokerAddrs": {0: f"h:{port}"}}
               for port, name in enumerate("ab", 1)]  # fmt: skip
    body = {"brokerDatas": brokers, "queueDatas": rows, "topicQueueMappingByBroker": mappings}
    return parse_route("s", json.dumps(body).encode())


def info(name: str, epoch: int, *led: int) -> dict[str, Any]:
    return {"bname": name, "epoch": epoch, "totalQueues": 3, "scope": "__global__",
            "currIdMap": {queue: 0 for queue in led}}  # fmt: skip


def queues(*leaders: tuple[str, int]) -> list[MessageQueue]:
    return [MessageQueue("s", name, queue) for name, queue in leaders]


def test_logical_queues_are_in_the_order_of_their_numbers() -> None:
    found = route({"b": info("b", 1, 0, 2), "a": info("a", 1, 1)})
    assert found.readable() == found.writable() == found.in_order()
    assert found.in_order() == queues(("b", 0), ("a", 1), ("b", 2))


def test_the_newer_mapping_says_who_leads() -> None:
    found = route({"a": info("a", 1, 0, 1), "b": info("b", 2, 0)})
    assert found.in_order() == queues(("b", 0), ("a", 1))


def test_permissions_count_for_logical_queues_too() -> None:
    found = route({"a": info("a", 1, 0)}, perm=4)
    assert (len(found.readable()), found.writable()) == (1, [])
    gone = route({"gone": info("gone", 1, 0)})
    assert gone.readable() == gone.writable() == []


def test_a_plain_topic_is_sorted_by_broker_and_number() -> None:
    for nothing in (None, {}):
        found = route(nothing)
        assert found.in_order() == sorted(found.readable())
        assert len(found.in_order()) == 6


@pytest.mark.parametrize(
    "broken", [7, [1], {"a": 7}, {"a": {}}, {"a": {**info("a", 1), "currIdMap": {"x": 0}}},
               {"a": {**info("a", 1), "epoch": "new"}}]
)  # fmt: skip
def test_a_mapping_that_is_none_is_refused(broken: Any) -> None:
    with pytest.raises(ProtocolError):
        route(broken)
