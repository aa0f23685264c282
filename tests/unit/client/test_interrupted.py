"""Goal: wherever a Ctrl-C comes while a user's thread is in a client, it leaves no lock taken that
the client's threads want: close() waits for those threads.

Method: real signals to this process, before each line of threading.py that runs. Not shown here:
that this holds for every lock (tests/source/test_conditions.py), and lines outside of threading.py;
`with lock` runs no line of Python.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from support.ctrl_c import at_line_of_threading, can_be_taken, ctrl_c_raises
from support.driven_clock import DrivenClock
from support.waiting import HANG_S

from rmq import PopConsumer
from rmq.base import clock as rmq_clock
from rmq.client.connection.timers import Timers
from rmq.client.consumer.start_offsets import StartOffsets
from rmq.client.parameters import PullConsumerParameters
from rmq.client.pop.acks import Acks
from rmq.client.pull.puller import Puller

LINES_MAX = 40  # in a wait, which a driven clock makes begin again a few times
NO_INSTANCE: Any = None

Case = tuple[Any, Callable[[], object]]  # the lock, and the call to interrupt


def a_poll() -> Case:
    puller = Puller(NO_INSTANCE, "billing", PullConsumerParameters())
    return puller.lock, lambda: puller.take(HANG_S * 1000, 1)


def a_close() -> Case:
    puller = Puller(NO_INSTANCE, "billing", PullConsumerParameters())
    return puller.lock, puller.close


def a_poll_of_pops() -> Case:
    consumer = PopConsumer("billing")
    return consumer._client._lock, lambda: consumer.poll(HANG_S * 1000)


def a_close_with_acks_under_way() -> Case:
    acks = Acks(NO_INSTANCE, "billing", 3_000)
    acks._in_flight.add("broker-a")
    return acks._lock, lambda: acks.drain(rmq_clock.monotonic() + HANG_S)


def a_subscribe() -> Case:
    offsets = StartOffsets(NO_INSTANCE, "billing", PullConsumerParameters(), None)
    offsets._begun(lambda start, error: None)
    return offsets._lock, lambda: offsets.wait(HANG_S)


def a_timer() -> Case:
    timers = Timers("test-timers", 1)
    return timers._lock, lambda: timers.after(0, lambda: None)


def a_with_of_a_condition() -> Case:
    lock = threading.RLock()
    news = threading.Condition(lock)

    def take() -> None:
        with news:
            pass

    return lock, take


def left_locked(case: Callable[[], Case]) -> list[int]:
    """The lines before which a Ctrl-C would leave the lock taken."""
    found = []
    for wanted in range(1, LINES_MAX):
        lock, act = case()
        # RuntimeError: the interrupted wait could not take the lock again, so nobody holds it.
        with suppress(KeyboardInterrupt, RuntimeError), at_line_of_threading(wanted) as struck:
            act()
        if not struck.came:
            assert wanted > 1, "nothing was interrupted"
            break
        if not can_be_taken(lock):
            found.append(wanted)
    return found


@pytest.mark.parametrize(
    "case",
    [a_poll, a_close, a_poll_of_pops, a_close_with_acks_under_way, a_subscribe, a_timer],
)
def test_a_ctrl_c_leaves_no_lock_taken(clock: DrivenClock, case: Callable[[], Case]) -> None:
    with ctrl_c_raises():
        assert left_locked(case) == []


def test_the_check_sees_one_that_is_left() -> None:
    with ctrl_c_raises():
        assert left_locked(a_with_of_a_condition) != []
