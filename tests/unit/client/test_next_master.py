"""A send while the only broker of its topic gets a new master: the send is tried again for a while.

Against scripted peers that refuse as a slave does. The second of grace is made longer where a send
must succeed, and shorter where it must fail, so that nothing here depends on the speed of the
machine. tests/ha has real masters that are killed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.scripted_cluster import Cluster, refused, stored
from support.waiting import HANG_S, wait_until

from rmq import Message, Producer, RemoteError, RequestTimeoutError
from rmq.format.remoting import Command

HOUR_MS = 3_600_000
LONG = {"send_msg_timeout": HOUR_MS}
WAYS = ["send", "send_batch", "send_async", "auto_batch"]


def send(producer: Producer, way: str) -> Any:
    one = Message("t", b"x")
    if way == "send":
        return producer.send(one)
    if way == "send_batch":
        return producer.send_batch([one, one])
    return producer.send_async(one).result(HANG_S)


def settings(way: str, **changes: Any) -> dict[str, Any]:
    return {**LONG, "auto_batch": way == "auto_batch", **changes}


def refusing(count: int) -> Callable[[Command], Command]:
    """An answer that refuses so many times, and then stores."""
    left = [count]

    def answer(request: Command) -> Command:
        left[0] -= 1
        return refused(14)(request) if left[0] >= 0 else stored(request)

    return answer


@pytest.fixture
def grace(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    def last(ms: float) -> None:
        monkeypatch.setattr("rmq.client.producer.failover_grace.GRACE_MS", ms)

    return last


@pytest.mark.parametrize("way", WAYS)
def test_tries_do_not_count_while_there_is_no_master(
    way: str, grace: Callable[[float], None]
) -> None:
    grace(HOUR_MS)
    with Cluster(refusing(7)) as cluster, cluster.producer(**settings(way)) as producer:
        assert send(producer, way)
        assert len(cluster.sends(0)) == 8


@pytest.mark.parametrize("way", WAYS)
def test_patience_ends_long_before_the_time_for_the_send(
    way: str, grace: Callable[[float], None]
) -> None:
    grace(100)
    with Cluster(refused(14)) as cluster, cluster.producer(**settings(way)) as producer:
        with pytest.raises(RemoteError, match="code 14"):
            send(producer, way)
        assert 3 <= len(cluster.sends(0)) <= 7  # the pauses are 30 ms


@pytest.mark.parametrize("way", WAYS)
def test_patience_ends_with_the_time_for_the_send(way: str, grace: Callable[[float], None]) -> None:
    grace(HOUR_MS)
    short = settings(way, send_msg_timeout=100)
    with Cluster(refused(14)) as cluster, cluster.producer(**short) as producer:
        # Depending on how the last try ended.
        with pytest.raises((RemoteError, RequestTimeoutError)):
            send(producer, way)
        assert len(cluster.sends(0)) <= 7  # may be none, if the machine stood still for that long


@pytest.mark.parametrize("way", WAYS)
def test_another_broker_is_tried_at_once(way: str) -> None:
    given = settings(way)
    with Cluster(refused(14), refused(14)) as cluster, cluster.producer(**given) as producer:
        with pytest.raises(RemoteError, match="code 14"):
            send(producer, way)
        assert len(cluster.sends(0)) + len(cluster.sends(1)) == 3


@pytest.mark.parametrize("way", WAYS)
def test_who_wants_one_try_has_one(way: str) -> None:
    given = settings(way, retry_times_when_send_failed=0, retry_times_when_send_async_failed=0)
    with Cluster(refused(14)) as cluster, cluster.producer(**given) as producer:
        with pytest.raises(RemoteError, match="code 14"):
            send(producer, way)
        assert len(cluster.sends(0)) == 1


def test_messages_that_waited_are_sent_in_their_order(
    grace: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sends that waited must go out in their order, although several threads are told of the
    refusals at the same time. The pause ends when all have failed."""
    grace(HOUR_MS)
    monkeypatch.setattr("rmq.client.producer.delayed_retries.PAUSE_MS", 300_000)
    bodies = [b"%d" % number for number in range(1000)]
    with Cluster(refusing(len(bodies))) as cluster, cluster.producer(**LONG) as producer:
        ends = [producer.send_async(Message("t", body)) for body in bodies]
        wait_until(lambda: len(producer._client.delayed_retries) == len(bodies))
        producer._client.delayed_retries._try_again()
        assert producer.flush(HANG_S * 1000)  # flush must wait for the waiting sends, too
        assert all(end.done() and end.result() for end in ends)
        assert [each.body for each in cluster.sends(0)] == bodies * 2


def test_a_producer_that_closes_tells_what_still_waits(grace: Callable[[float], None]) -> None:
    grace(HOUR_MS)
    told: list[Exception | None] = []
    came = threading.Event()

    def end(result: object, error: Exception | None) -> None:
        told.append(error)
        came.set()

    with Cluster(refused(14)) as cluster, cluster.producer(**LONG) as producer:
        producer.send_async(Message("t", b"x"), end)
        assert not producer.flush(50)
        producer.close()
        assert came.wait(HANG_S)
    assert len(told) == 1
    assert isinstance(told[0], RemoteError)
    assert told[0].code == 14
