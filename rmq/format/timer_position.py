"""Timer position: how far timed messages are delivered, as brokers tell each other.

    rmqTimers of 906    "due_ms place due_ms place fed log_end", as timer_position.pxd has it
    the body of 60      RocketMQ's timer check point, 56 bytes: i64 up to when (ms) the wheel has
                        fired, i64 place in its log, i64 how much of its queue is taken in, ..

Source: RocketMQ 5.5.0, TimerCheckpoint.
"""

from __future__ import annotations

from rmq.errors import ProtocolError

NUMBERS = 6
NUMBER_DIGITS_MAX = 18  # of a place in the log
I64_DIGITS_MAX, I64_MAX = 19, 2**63 - 1
MOMENT_MAX = 10**NUMBER_DIGITS_MAX - 1  # the limit of offsets, too
TIMER_CHECK_BYTES = 24  # how many of the 56 are read
CLOCKS_DIFFER_MS = 60_000
SLOT_MS = 1000  # of RocketMQ's wheel
TAKEN_MAX = 1 << 50

Position = tuple[int, int, int, int, int, int]


def read_timer_check(body: bytes, now_s: float) -> tuple[int, int]:
    """(up to when the wheel has fired, in ms, 0: it has not begun; how much of its queue it has
    taken in) from RocketMQ's timer check point, which has eight-byte numbers and no checksum.
    ProtocolError: the numbers are impossible."""
    numbers = [int.from_bytes(body[at : at + 8], "big", signed=True) for at in (0, 16)]
    fired_ms, taken = numbers
    latest_ms = int(now_s * 1000) + CLOCKS_DIFFER_MS
    if (
        len(body) < TIMER_CHECK_BYTES
        or not 0 <= fired_ms <= latest_ms
        or not 0 <= taken < TAKEN_MAX
    ):
        raise ProtocolError(f"timer check point: {body[:TIMER_CHECK_BYTES].hex()}")
    return fired_ms, taken


def read_timers(text: str) -> Position:
    """The position in a text; ProtocolError unless it has six possible numbers. A place has bit 62
    set if the last one was a message and not a deletion (timer_heap.pxd), so it may have 19
    digits."""
    words = text.split(" ")
    limits = (MOMENT_MAX, I64_MAX, MOMENT_MAX, I64_MAX, MOMENT_MAX, MOMENT_MAX)
    if len(words) != NUMBERS or not all(
        word.isdecimal() and len(word) <= I64_DIGITS_MAX and int(word) <= limit
        for word, limit in zip(words, limits, strict=True)
    ):
        raise ProtocolError(f"rmqTimers: {text[:100]!r}")
    a, b, c, d, e, f = map(int, words)
    return a, b, c, d, e, f


def timer_check(position: Position, now_s: float) -> bytes:
    """RocketMQ's timer check point for a position: in whole slots, rounded down."""
    wall_ms, _, steady_ms, _, fed, _ = position
    fired_ms = max(min(wall_ms, steady_ms) - 1, 0) // SLOT_MS * SLOT_MS
    numbers = (fired_ms, 0, fed, fed, 0, int(now_s * 1000), 1)
    return b"".join(number.to_bytes(8, "big") for number in numbers)
