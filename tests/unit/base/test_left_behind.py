"""Goal: a test leaves nothing behind that later tests would notice: no thread, no rate limit of a
log.

Method: threads and log lines of this process. Not shown here: that no daemon thread goes on.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import rate_limits
from support.driven_clock import driven_clock
from support.left_threads import left_since, running
from support.waiting import HANG_S

from rmq.base.rate_limited_log import RateLimitedLog

quiet = RateLimitedLog(logging.getLogger("rmq.test_left_behind"))


def test_a_thread_that_goes_on_is_left_and_one_that_ends_is_waited_for() -> None:
    before, ended = running(), threading.Event()
    threading.Thread(target=ended.wait, args=(HANG_S,), name="goes-on").start()
    try:
        assert left_since(before, 0) == ["goes-on"]
    finally:
        ended.set()
    assert left_since(before) == []


def test_daemons_and_executors_are_not_left() -> None:
    before, ended = running(), threading.Event()
    threading.Thread(target=ended.wait, args=(HANG_S,), daemon=True).start()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(int).result(HANG_S) == 0
        assert left_since(before, 0) == []
    ended.set()


@pytest.mark.parametrize("number", [1, 2])
def test_what_one_test_has_said_the_next_may_say(
    caplog: pytest.LogCaptureFixture, number: int
) -> None:
    """Both runs must log the line; without the reset between tests the second one would hold it
    back."""
    quiet.warning("of each", "said by %d", number)
    assert caplog.messages == [f"said by {number}"]


def test_what_a_driven_clock_has_said_is_forgotten_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with driven_clock() as clock:
        clock.advance(3600)
        quiet.warning("late", "in an hour")
        quiet.warning("late", "held back")
    quiet.warning("late", "now")
    assert caplog.messages == ["in an hour", "now"]
    rate_limits.forget()
    quiet.warning("late", "now again")
    assert caplog.messages[-1] == "now again"
