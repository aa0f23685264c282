"""Timer position: both forms are read and checked, and one is made from the other."""

import pytest

from rmq.errors import ProtocolError
from rmq.format.timer_position import read_timer_check, read_timers, timer_check

NOW_S = 1_763_726_400.0
NOW_MS = int(NOW_S * 1000)


def check(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "big", signed=True) for number in numbers)


def test_a_check_point_says_no_more_than_the_position():
    position = (NOW_MS - 1500, 70, NOW_MS - 200, 80, 12, 4096)
    body = timer_check(position, NOW_S)
    assert len(body) == 56
    assert read_timer_check(body, NOW_S) == (NOW_MS - 2000, 12)
    assert read_timer_check(timer_check((0, 0, 0, 0, 0, 0), NOW_S), NOW_S) == (0, 0)


@pytest.mark.parametrize(
    "body",
    [b"", check(1, 2), check(-1, 0, 0), check(NOW_MS + 60_001, 0, 0), check(1, 0, -1),
     check(1, 0, 1 << 50)],
)  # fmt: skip
def test_a_check_point_that_cannot_be_is_refused(body):
    with pytest.raises(ProtocolError, match="timer check point"):
        read_timer_check(body, NOW_S)


def test_our_own_text_has_six_numbers():
    assert read_timers("1 2 3 4 5 6") == (1, 2, 3, 4, 5, 6)
    for text in ("", "1 2 3 4 5", "1 2 3 4 5 x", "1 2 3 4 5 -6", f"1 {1 << 63} 3 4 5 6",
                 "1 2 3 4 5 " + "9" * 19, "9" * 19 + " 2 3 4 5 6"):  # fmt: skip
        with pytest.raises(ProtocolError, match="rmqTimers"):
            read_timers(text)


def test_what_was_delivered_last_may_be_a_message():
    """The place of a message has bit 62 set (timer_heap.pxd). A master that may deliver no more
    keeps such a position."""
    due_ms, place = 1_796_017_738_636, (1 << 62) + 433_058
    position = (due_ms, place, due_ms, (1 << 63) - 1, 1196, 3_279_454)
    assert read_timers(" ".join(map(str, position))) == position
