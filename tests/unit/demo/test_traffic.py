"""Traffic: its sender is told to end wherever a Ctrl-C comes, and can read what it is told."""

from __future__ import annotations

from contextlib import suppress

from support.ctrl_c import at_line_of_threading, can_be_taken, ctrl_c_raises

from rmq.demo.traffic import Traffic

LINES_MAX = 100


def test_a_ctrl_c_leaves_no_sender_behind() -> None:
    with ctrl_c_raises():
        for wanted in range(1, LINES_MAX):
            traffic = Traffic("127.0.0.1:1")
            stops = traffic._stops
            with suppress(KeyboardInterrupt), at_line_of_threading(wanted) as struck:
                traffic.stop_sending()
            assert stops.is_set(), wanted
            assert can_be_taken(stops._cond._lock), wanted  # type: ignore[attr-defined]
            if not struck.came:
                break
    assert 1 < wanted < LINES_MAX - 1
