"""What was due is counted by the schedules that the producers used, not by the pace that was asked
for.

Method: a publisher in its thread, and a peer that acknowledges or is silent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from support.scripted_cluster import silent, stored
from support.scripted_peer import ScriptedPeer
from support.waiting import HANG_S, wait_until

from rmq.codes import RequestCode as Code
from rmq.format.remoting import Command
from rmq.load.frames import Queue, SendShape, send_frames
from rmq.load.workload.publisher import Publisher


@contextmanager
def publisher(answer: Callable[[Command], Command | None]) -> Iterator[Publisher]:
    with ScriptedPeer({Code.SEND_MESSAGE_V2: answer}) as peer:
        frames = send_frames([Queue("t", 0, "b")], SendShape(payload=b"x"))
        yield Publisher(peer.address, frames, connections=1, window=8, rate=100.0)


@contextmanager
def running(each: Publisher, ended: threading.Event) -> Iterator[None]:
    """Runs the publisher. At the end nothing new is sent, and open sends are waited for."""
    sent_all = threading.Event()
    thread = threading.Thread(target=each.run, args=(sent_all, ended))
    thread.start()
    try:
        yield
    finally:
        sent_all.set()
        thread.join(HANG_S)
        assert not thread.is_alive()
        each.close()


def test_a_new_pace_counts_from_when_it_is_gone_by() -> None:
    with publisher(stored) as each:
        now = time.monotonic()
        each.pace(1e6)
        assert each.due(now + 1) == 0  # its thread has not begun
        began = time.monotonic()
        with running(each, threading.Event()):
            wait_until(lambda: each.due(time.monotonic()) > 10_000)
            now = time.monotonic()
            assert each.due(now) < 1e6 * (now - began)
            assert 0.9e6 < each.due(now + 1) - each.due(now) < 1.1e6


def test_who_ends_it_waits_for_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmq.load.workload.publisher.DRAIN_US", 10**12)
    ended = threading.Event()
    with publisher(silent) as each:
        with running(each, ended):
            wait_until(lambda: each.producer.stats()["requests"] == 8)  # as many as may be open
            wait_until(lambda: each.due(time.monotonic()) > 20)
            ended.set()
        assert each.unanswered == 8
        assert each.overdue > 5
        # The figures that are shown leave none out.
        assert each.producer.delay.count == 8 + each.overdue
        assert each.producer.latency.count == each.unanswered + each.overdue
