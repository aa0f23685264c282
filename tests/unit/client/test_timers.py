"""Timers run in time, whatever waits for answers meanwhile."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.driven_clock import DrivenClock
from support.scripted_peer import ScriptedPeer
from support.waiting import HANG_S, wait_until

from rmq import PushConsumer
from rmq.client.connection.timers import Timers
from rmq.format.remoting import Command

pytestmark = pytest.mark.still_clock

ROUTE, HEARTBEAT, MEMBERS = 105, 34, 38


@pytest.fixture
def timers(clock: DrivenClock) -> Iterator[Timers]:
    found = Timers("test-timers", 4)
    found.start()
    yield found
    found.stop()


def test_a_chore_that_waits_holds_up_nothing(timers: Timers) -> None:
    gate, ticks, done = threading.Event(), [], []
    for _ in range(3):
        timers.after(0, lambda: gate.wait(HANG_S) and done.append(1), chore=True)
    timers.every(5, lambda: ticks.append(1))
    timers.every(5, lambda: done.append(2), chore=True)  # in the fourth thread
    wait_until(lambda: len(ticks) >= 5 and done.count(2) >= 5)
    assert 1 not in done
    gate.set()
    wait_until(lambda: done.count(1) == 3)


@pytest.mark.parametrize("chore", [False, True])
def test_what_would_end_a_thread_ends_no_timer(timers: Timers, chore: bool) -> None:
    """An error that would end a thread (SystemExit) must not end a timer: users' hooks, strategies
    and listeners of queues are called by timers."""
    ticks: list[int] = []

    def tick() -> None:
        ticks.append(1)
        sys.exit("of the user")

    timers.every(5, tick, chore=chore)
    wait_until(lambda: len(ticks) >= 3)


def test_who_asks_until_a_chore_begins_has_it_in_common(timers: Timers) -> None:
    gate, begun = threading.Event(), []
    blocked = [lambda: gate.wait(HANG_S) for _ in range(4)]
    for each in blocked:  # so all threads for chores are blocked
        timers.after(0, each, chore=True)

    def chore() -> None:
        begun.append(1)
        if len(begun) == 1:
            timers.soon(chore)  # asked for after its beginning: it must run once more
            raise ValueError("of the user")

    for _ in range(5):
        timers.soon(chore)
    gate.set()
    wait_until(lambda: len(begun) == 2, still=True)


def test_who_asks_while_a_chore_runs_takes_no_more_threads(timers: Timers) -> None:
    gate, begun = threading.Event(), []

    def chore() -> None:
        begun.append(1)
        gate.wait(HANG_S)

    timers.soon(chore)
    wait_until(lambda: begun, still=True)
    for _ in range(20):
        timers.soon(chore)
        mark = threading.Event()
        timers.after(0, mark.set, chore=True)  # runs after the chore
        assert mark.wait(HANG_S)
        assert len(begun) == 1
    gate.set()
    wait_until(lambda: not timers._asked_for and not timers._running, still=True)
    assert len(begun) == 2


def test_chores_of_one_function_for_different_things_run_at_once(timers: Timers) -> None:
    both, done = threading.Barrier(2), []

    def chore(name: str) -> None:
        both.wait(HANG_S)
        done.append(name)

    for name in ("a", "b"):
        timers.soon(chore, name)
    wait_until(lambda: sorted(done) == ["a", "b"], still=True)


def test_a_chore_never_runs_twice_at_once(timers: Timers) -> None:
    running: list[int] = []
    most: list[int] = []
    ticks: list[int] = []
    is_over = threading.Event()

    def chore() -> None:
        running.append(1)
        most.append(len(running))
        seen = len(ticks)
        # By now it would be due again.
        wait_until(lambda: len(ticks) > seen + 3 or is_over.is_set())
        running.pop()

    timers.every(1, lambda: ticks.append(1))
    timers.every(1, chore, chore=True)
    wait_until(lambda: len(most) >= 10)
    is_over.set()
    assert set(most) == {1}


def test_what_is_due_in_an_hour_is_done_then(clock: DrivenClock, timers: Timers) -> None:
    done: list[str] = []
    timers.after(3_600_000, lambda: done.append("late"))
    timers.after(1_800_000, lambda: done.append("early"), chore=True)
    timers.after(900_000, lambda: done.append("never")).cancel()
    clock.advance(1_000)
    mark = threading.Event()
    timers.after(0, mark.set)  # then the thread has looked at what is due
    assert mark.wait(HANG_S)
    assert done == []
    clock.advance(800)
    wait_until(lambda: done, still=True)
    clock.advance(1_800)
    wait_until(lambda: len(done) > 1, still=True)
    assert done == ["early", "late"]


@pytest.mark.parametrize("chore", [False, True])
def test_what_raises_is_done_again(timers: Timers, chore: bool) -> None:
    times: list[float] = []

    def failing() -> None:
        times.append(time.monotonic())
        raise ValueError("of the test")

    timer = timers.every(1, failing, chore=chore)
    wait_until(lambda: len(times) >= 3)
    timer.cancel()


def test_a_silent_broker_does_not_make_heartbeats_late() -> None:
    """While questions about a group's members wait for a silent broker, the other brokers must
    still get their heartbeats in time."""
    beats: list[float] = []
    asked: list[float] = []

    def heard(request: Command) -> Command:
        beats.append(time.monotonic())
        return request.reply(0)

    is_silent = threading.Event()

    def members(request: Command) -> Command | None:
        if is_silent.is_set():
            asked.append(time.monotonic())
            return None
        return request.reply(0, body=b'{"consumerIdList":[]}')

    ok = {35: lambda request: request.reply(0), MEMBERS: members}
    with (
        ScriptedPeer({HEARTBEAT: heard, **ok}) as lively,
        ScriptedPeer({HEARTBEAT: lambda request: request.reply(0), **ok}) as silent,
    ):
        brokers = {"a": silent.address, "b": lively.address}
        route = json.dumps({
            "brokerDatas": [{"brokerName": name, "cluster": "c", "brokerAddrs": {"0": address}}
                            for name, address in brokers.items()],
            "queueDatas": [{"brokerName": "a", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}],
        }).encode()  # fmt: skip
        with ScriptedPeer({ROUTE: lambda request: request.reply(0, body=route)}) as names:
            # The timeout of a question: four heartbeats may take seconds on a busy machine.
            given: dict[str, Any] = {
                "heartbeat_broker_interval": 50, "mq_client_api_timeout": 60_000,
            }  # fmt: skip
            with PushConsumer(
                "late", lambda *_: None, namesrv_addr=names.address, **given
            ) as consumer:
                consumer.subscribe("orders")
                is_silent.set()
                # Shares the queues anew; the question is not answered.
                consumer._client.group_changed()
                wait_until(lambda: asked)
                began = time.monotonic()
                wait_until(lambda: len([each for each in beats if each > began]) >= 4)
                assert len(asked) == 1, "the first question is still waited for"
                is_silent.clear()
                silent.__exit__()  # ends the question; the other broker answers then
