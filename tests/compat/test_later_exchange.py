"""What waits for its time goes with the store: delayed and timed messages that one broker took must
be delivered by another one that is opened on the same directory.

rmq is filled, delivers what is due soon, and ends. Apache opens the directory, delivers what rmq
left, takes more and ends. Then rmq delivers the rest. RocketMQ's timerwheel and timerlog are made
from the queue of timed messages, and so are rmq's own files: whichever broker opens the store finds
all that waits in rmq_sys_wheel_timer and SCHEDULE_TOPIC_XXXX. After a clean end each message comes
once; after a kill at least once.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from pathlib import Path

import pytest
from compat.targets import Target, make_target
from support.shard import Client, messages, pull, send

from rmq.demo.ports import free_port

SETTINGS = {
    "mappedFileSizeCommitLog": str(16 << 20),
    "maxMessageSize": str(256 * 1024),
    "messageDelayLevel": "1s 20s 45s",
    "fileReservedTime": "720",
}
TOPIC = "later"
# Apache delivers in the right second of its wheel. Its clients use this machine's clock.
EARLY_MS = {"rmq": 0, "apache": 1000}
LATE_S = 60.0


class Later:
    """What was sent, when it is due, and what came."""

    def __init__(self) -> None:
        self.due: dict[str, int] = {}
        self.came: Counter[str] = Counter()
        self.offset = 0
        self._opaques = itertools.count(1)

    def fill(self, target: Target, run: str) -> None:
        """Sends ten messages for each wait, by delay level and by each property of timed
        messages."""
        client = connect(target)
        for seconds, level in ((1, 1), (20, 2), (45, 3)):
            for n in range(10):
                now = time.time_ns() // 1_000_000
                how = [
                    f"DELAY\x01{level}",
                    f"TIMER_DELAY_SEC\x01{seconds}",
                    f"TIMER_DELAY_MS\x01{seconds * 1000}",
                    f"TIMER_DELIVER_MS\x01{now + seconds * 1000}",
                ][n % 4]
                body = f"{run}-{seconds}-{n}"
                self.send(client, body, how)
                self.due[body] = now + seconds * 1000
        client.close()

    def send(self, client: Client, body: str, properties: str) -> None:
        for _ in range(50):  # a broker that has just started may refuse for a while
            reply = client.ask(
                send(TOPIC, body.encode(), next(self._opaques), i=properties + "\x02")
            )
            if reply.code == 0:
                return
            time.sleep(0.2)
        raise AssertionError((reply.code, reply.remark))

    def take(self, target: Target, wanted: set[str]) -> None:
        """Reads until all of these have come."""
        client = connect(target)
        limit = time.monotonic() + LATE_S
        while wanted - self.came.keys():
            assert time.monotonic() < limit, sorted(wanted - self.came.keys())
            reply = client.ask(
                pull("reader", TOPIC, self.offset, next(self._opaques), sysFlag=4,
                     subscription="*", expressionType="TAG")
            )  # fmt: skip
            if reply.code != 0:
                time.sleep(0.1)
                continue
            for message in messages(reply):
                body = message.body.decode()
                self.offset = message.queue_offset + 1
                if body == "make":
                    continue
                self.came[body] += 1
                early = self.due[body] - message.store_timestamp_ms
                assert early <= EARLY_MS[target.kind], f"{body} came {early} ms early"
        client.close()

    def of(self, *waits: int) -> set[str]:
        return {body for body in self.due if int(body.split("-")[1]) in waits}


def connect(target: Target) -> Client:
    return Client(int(target.broker.rpartition(":")[2]))


@pytest.mark.parametrize("manner", ["clean", "kill"])
def test_what_waits_for_its_time_is_delivered_by_the_other_broker(
    kind: str, tmp_path: Path, manner: str
) -> None:
    if kind == "apache":
        pytest.skip("both brokers are started by this test")
    port, store = free_port(2, 1), tmp_path / "store"
    ours = make_target("rmq", tmp_path / "ours", SETTINGS, store=store, port=port)
    theirs = make_target("apache", tmp_path / "theirs", SETTINGS, store=store, port=port)
    later = Later()
    try:
        ours.start()
        client = connect(ours)
        later.send(client, "make", "")
        client.close()
        later.fill(ours, "ours")
        later.take(ours, later.of(1))
        hand_over(ours, theirs, manner)
        later.fill(theirs, "theirs")
        later.take(theirs, later.of(1) | {body for body in later.of(20) if body[0] == "o"})
        hand_over(theirs, ours, manner)
        later.take(ours, set(later.due))
        time.sleep(2)
        later.take(ours, set())
    finally:
        ours.stop()
        theirs.stop()
    assert later.came.keys() == later.due.keys()
    if manner == "clean":
        assert {body: n for body, n in later.came.items() if n > 1} == {}


def hand_over(one: Target, other: Target, manner: str) -> None:
    # Apache writes its position once a second, and its offsets of delay levels once in ten seconds.
    time.sleep(0 if manner == "clean" else 1)
    one.end(manner)
    one.stop()
    other.start()
