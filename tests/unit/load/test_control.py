"""The topics of a load are made only at masters, and used when the route has all of these.

Method: name servers and brokers with scripted answers, because real ones do not do these things on
demand. Creation at real brokers: tests/process/test_omb_workloads.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.scripted_peer import ScriptedPeer

from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.demo.ports import free_port
from rmq.errors import RemoteError, UnreachableError
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.load import control


def agreed(request: Command) -> Command:
    return request.reply()


class NameServer(ScriptedPeer):
    """A name server that shows topics of only some of its brokers. brokers: name -> addresses by
    id."""

    def __init__(self, brokers: dict[str, dict[str, str]], shown: dict[str, int]) -> None:
        """shown: the name of a broker -> the permission of its queues."""
        self.brokers, self.shown = brokers, shown
        super().__init__({
            Code.GET_BROKER_CLUSTER_INFO: self._cluster, Code.GET_ROUTEINFO_BY_TOPIC: self._route,
        })  # fmt: skip

    def _rows(self) -> dict[str, Any]:
        return {name: {"brokerName": name, "cluster": "c", "brokerAddrs": addresses}
                for name, addresses in self.brokers.items()}  # fmt: skip

    def _cluster(self, request: Command) -> Command:
        return request.reply(0, None, None, fastjson.dumps({"brokerAddrTable": self._rows()}))

    def _route(self, request: Command) -> Command:
        route = fastjson.dumps({
            "brokerDatas": list(self._rows().values()),
            "queueDatas": [{"brokerName": name, "perm": perm, "readQueueNums": 2,
                            "writeQueueNums": 2} for name, perm in self.shown.items()],
        })  # fmt: skip
        return request.reply(0, None, None, route)


def test_no_slave_is_asked_to_make_a_topic() -> None:
    away = f"127.0.0.1:{free_port()}"
    with (
        ScriptedPeer({Code.UPDATE_AND_CREATE_TOPIC: agreed}) as slave,
        NameServer({"a": {"0": away, "1": slave.address}}, {}) as names,
        pytest.raises(UnreachableError, match=away),
    ):
        control.find_queues(names.address, ["t"], 2, are_new=True)
    assert slave.requests == []


def test_a_broker_that_takes_no_sends_is_not_waited_for() -> None:
    with ScriptedPeer({Code.UPDATE_AND_CREATE_TOPIC: agreed}) as broker:
        both = {"a": {"0": broker.address}, "b": {"0": broker.address}}
        with NameServer(both, {"a": 6, "b": 4}) as names:
            found = control.find_queues(names.address, ["t"], 2, are_new=True)
    assert [(target.queue.broker_name, target.queue.queue_id) for target in found] == [
        ("a", 0), ("a", 1)
    ]  # fmt: skip
    assert sum(each.code == Code.UPDATE_AND_CREATE_TOPIC for each in broker.requests) == 2


def test_the_broker_that_is_not_shown_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "ROUTE_SECONDS_MAX", 0.0)
    with ScriptedPeer({Code.UPDATE_AND_CREATE_TOPIC: agreed}) as broker:
        both = {"a": {"0": broker.address}, "b": {"0": broker.address}}
        names = NameServer(both, {"a": 6})
        with names, pytest.raises(RemoteError, match="does not show t of b 0 s after") as raised:
            control.find_queues(names.address, ["t"], 2, are_new=True)
    assert raised.value.code == ResponseCode.TOPIC_NOT_EXIST


def test_routes_of_new_topics_are_asked_for_once_and_as_they_come() -> None:
    stages: list[tuple[str, int, int]] = []
    topics = [f"t{number}" for number in range(130)]
    with (
        ScriptedPeer({Code.UPDATE_AND_CREATE_TOPIC: agreed}) as broker,
        NameServer({"a": {"0": broker.address}}, {"a": 6}) as names,
    ):
        found = control.find_queues(
            names.address, topics, 2, progress=lambda *how: stages.append(how), are_new=True
        )
        asked = [each.fields["topic"] for each in names.requests
                 if each.code == Code.GET_ROUTEINFO_BY_TOPIC]  # fmt: skip
    assert asked == topics
    assert [target.queue.topic for target in found[::2]] == topics
    assert stages == [
        (stage, done, 130) for stage in (control.CREATING, control.WAITING) for done in (0, 64, 128)
    ]


def test_topics_that_are_there_are_not_made() -> None:
    with ScriptedPeer({}) as broker, NameServer({"a": {"0": broker.address}}, {"a": 6}) as names:
        assert len(control.find_queues(names.address, ["t", "u"], 8)) == 4
    assert broker.requests == []
