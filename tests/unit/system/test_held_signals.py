"""Goal: no signal raises within a block that holds signals, wherever it comes, and no signal is
lost.

Method: real signals to this process, also before each line of Python in Event.set. Not shown here:
a whole command (tests/process/test_omb_workloads.py).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import nullcontext, suppress

import pytest
from support.ctrl_c import at_line_of_threading, can_be_taken, ctrl_c_raises

from rmq.system.held_signals import NUMBERS, held_signals, noted_signals

LINES_MAX = 100


@pytest.fixture(params=NUMBERS)
def number(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """A signal whose handler raises, as that of Ctrl-C does."""
    with ctrl_c_raises(request.param):
        yield request.param


def left_locked(is_held: bool) -> list[int]:
    """The lines before which a Ctrl-C would leave an Event's lock taken."""
    found = []
    for wanted in range(1, LINES_MAX):
        event = threading.Event()
        held = held_signals() if is_held else nullcontext()
        with suppress(KeyboardInterrupt), held, at_line_of_threading(wanted):
            event.set()
        if not can_be_taken(event._cond._lock):  # type: ignore[attr-defined]
            found.append(wanted)
    return found


def test_an_event_stays_whole_wherever_ctrl_c_comes() -> None:
    with ctrl_c_raises():
        assert left_locked(is_held=True) == []
        assert left_locked(is_held=False) != []  # the case that held_signals() is for


def test_it_is_raised_behind_the_block(number: signal.Signals) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), held_signals():
        signal.raise_signal(number)
        done.append(1)
    assert done and signal.getsignal(number) is signal.default_int_handler


def test_what_is_noted_is_not_raised_and_an_inner_block_has_its_own(
    number: signal.Signals,
) -> None:
    with noted_signals() as outer:
        with noted_signals() as inner:
            signal.raise_signal(number)
        assert inner.came and not outer.came
        signal.raise_signal(number)
        assert outer.came
    assert signal.getsignal(number) is signal.default_int_handler


def test_one_that_is_held_within_a_noted_block_is_noted(number: signal.Signals) -> None:
    with noted_signals() as outer:
        with held_signals():
            signal.raise_signal(number)
            assert not outer.came
        assert outer.numbers == [number]


def test_the_third_one_ends_what_is_stuck(number: signal.Signals) -> None:
    with noted_signals() as noted:
        signal.raise_signal(number)
        signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert len(noted.numbers) == 3


@pytest.mark.parametrize("number", NUMBERS)
def test_what_is_ignored_or_ends_the_process_stays_so(number: signal.Signals) -> None:
    for handler in (signal.SIG_IGN, signal.SIG_DFL):
        before = signal.signal(number, handler)
        try:
            with noted_signals():
                assert signal.getsignal(number) is handler
        finally:
            signal.signal(number, before)
