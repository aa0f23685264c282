"""Messages that are popped and not acknowledged are recorded in the store: the other broker brings
them again.

On one broker messages are popped and some of them acknowledged; it ends, and the other one opens
its store. When their time is over the others come again there, each counted once more, and none
that was acknowledged, singly or in a batch; a second pop finds nothing. Both ways, by SIGTERM and
by SIGKILL. With enablePopBufferMerge=false, its default, Apache has its check points and acks in
the store; it reads its revive log some seconds late.
"""

from __future__ import annotations

import time
from base64 import b64encode
from pathlib import Path

import pytest
from compat.popper import Popper, bodies
from compat.targets import Target, make_target
from support.popping import BATCH_ACK

from rmq.client.blocking.cluster import Cluster
from rmq.demo.ports import free_port
from rmq.format import fastjson

SETTINGS = {
    "mappedFileSizeCommitLog": str(1024 * 1024),
    "maxMessageSize": str(256 * 1024),
    "flushConsumerOffsetInterval": "1000",
    "fileReservedTime": "720",
}
INVISIBLE_MS = 25_000  # longer than one broker takes to end and the other one to start
# Apache writes offsets for the first time 10 s after its start, rmq 3 s after the last change.
OFFSETS_S = {"apache": 12.0, "rmq": 7.0}


def leave_under_way(target: Target) -> None:
    """0 to 5 are popped together, then 6 to 9. 1, 3, 6 and 7 are acknowledged."""
    with Cluster(target.name_server) as cluster:
        popper = Popper(cluster, target, "exchanged")
        popper.send(*range(10))
        first = popper.pop(maxMsgNums=6, invisibleTime=INVISIBLE_MS)
        assert bodies(first) == list(range(6))
        second = popper.pop(invisibleTime=INVISIBLE_MS)
        assert bodies(second) == [6, 7, 8, 9]
        assert popper.ack(first, 1, 3) == [0, 0]
        row = {
            "c": popper.group, "t": popper.topic, "r": "0", "so": 6, "q": 0,
            "rq": int(second.fields["reviveQid"]), "pt": int(second.fields["popTime"]),
            "it": INVISIBLE_MS, "b": b64encode(b"\x03").decode(),
        }  # fmt: skip
        body = fastjson.dumps({"brokerName": "broker-a", "acks": [row]})
        assert popper.ask(BATCH_ACK, body).code == 0
    time.sleep(OFFSETS_S[target.kind])


def expect_the_rest(target: Target) -> None:
    with Cluster(target.name_server) as cluster:
        popper = Popper(cluster, target, "exchanged")
        again = popper.pop_until(6)
        assert sorted(int(message.body) for message in again) == [0, 2, 4, 5, 8, 9]
        assert {message.reconsume_times for message in again} == {1}
        for message in again:
            assert "1ST_POP_TIME" in message.properties
        time.sleep(2)
        assert popper.pop(pollTime=2000).code == 210


@pytest.mark.parametrize("manner", ["clean", "kill"])
@pytest.mark.parametrize("first", ["apache", "rmq"])
def test_messages_under_way_come_again_on_the_other_broker(
    kind: str, tmp_path: Path, first: str, manner: str
) -> None:
    if kind == "apache":
        pytest.skip("the exchange is between the two")
    port = free_port(2, 1)
    store = tmp_path / "store"
    second = "apache" if first == "rmq" else "rmq"
    one = make_target(first, tmp_path / "one", SETTINGS, store=store, port=port)
    other = make_target(second, tmp_path / "other", SETTINGS, store=store, port=port)
    try:
        one.start()
        leave_under_way(one)
        one.end(manner)
        one.stop()
        other.start()
        expect_the_rest(other)
    finally:
        one.stop()
        other.stop()
