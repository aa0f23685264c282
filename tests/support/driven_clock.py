"""A clock that a test drives: what takes an hour comes at once, and nothing is waited for.

    def test_x(clock: DrivenClock, tmp_path: Path) -> None:     # of this process
        with Shard(tmp_path) as shard:                          # made after the clock
            clock.advance(3600)                                 # an hour passes
            clock.set_wall(-60)                                 # somebody sets the wall clock back
            clock.now_ms()                                      # what the shard takes for now

    with clock.passing():                                       # who waits in a call of the client
        assert consumer.poll(60_000) == []

    with process_clock(tmp_path) as clock:                      # of broker processes
        with broker_process(tmp_path, environment=clock.environment): ...

All clocks of cext/base/clock.pxd and rmq/base/clock.py go by it, and the loop of a test that runs
`in_loop`. What sleeps sees a move within some milliseconds: states are waited for as ever. It goes
on by itself, too, but in a test marked still_clock: there a busy machine may take some seconds for
what is done at once. A test that has not moved it for so long waits for something, and time passes:
once QUIET_LOOKS have seen none at work (support/work.py). None passes while a thread waits for a
disk, whose time nobody drives, or wants a processor; but who turns in a loop stops it not for ever.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from mmap import mmap
from pathlib import Path

from support import rate_limits, work
from support.work import Work

from rmq.base import clock as rmq_clock
from rmq.base.clock import SHIFT_BYTES

STEP_S = 0.1  # what passes between two looks of one who waits
POLL_S = 0.005
WORK_LOOKS = 20  # of a clock that stands still, between two looks at who works
QUIET_LOOKS = 40  # at work: 4 s, and more where the machine lets anybody wait
BUSY_LOOKS = 10  # count as a quiet one
PASSED_STEPS = 4  # of a clock that goes on, between two looks at who works
_lock = threading.Lock()  # of the next two
_clock: DrivenClock | None = None  # of this process
_turn = object()  # another one whenever it gets a clock, or loses it


class DrivenClock:
    def __init__(
        self, memory: bytearray | mmap | None = None, environment: dict[str, str] | None = None
    ) -> None:
        self.memory = bytearray(SHIFT_BYTES) if memory is None else memory
        self._lock = threading.RLock()
        self._looks = 0
        self._quiet = 0  # busy looks since it was moved; a quiet one is BUSY_LOOKS of them
        self.environment = environment or {}

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Time passes when the test says so, and else while it waits. No core runs when this begins
        or ends."""
        passed_us, set_ms = self._shift()[:2]
        boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        stills = (time.monotonic_ns() // 1000, time.time_ns() // 1000, boot_ns // 1000)
        struct.pack_into("=5q", self.memory, 0, passed_us, set_ms, *stills)
        with self._each_look(self._pass_if_left_alone):
            yield

    def _pass_if_left_alone(self) -> None:
        """One look. When time passes, each step wants one more quiet look: what the one before has
        brought about is done first."""
        enough = QUIET_LOOKS * BUSY_LOOKS
        self._looks += 1
        if self._quiet < enough - BUSY_LOOKS and self._looks % WORK_LOOKS != 0:
            return
        found = work.under_way()
        with self._lock:
            if found is Work.DISK:
                self._quiet = self._looks = 0
                return
            self._quiet += BUSY_LOOKS if found is Work.NONE else 1
            if self._quiet >= enough:
                self._quiet = enough - BUSY_LOOKS
                self._pass(STEP_S)

    @property
    def is_still(self) -> bool:
        return self._shift()[2] != 0

    def advance(self, seconds: float) -> None:
        """So much time passes, at once."""
        assert seconds >= 0
        with self._lock:
            self._quiet = 0
            self._pass(seconds)

    def _pass(self, seconds: float) -> None:
        with self._lock:
            passed_us, set_ms, *_ = self._shift()
            self._write(passed_us + round(seconds * 1e6), set_ms)

    def set_wall(self, seconds: float) -> None:
        """Somebody sets the wall clock by so much; how long things take does not change."""
        with self._lock:
            passed_us, set_ms, *_ = self._shift()
            self._write(passed_us, set_ms + round(seconds * 1000))

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Time goes on meanwhile, STEP_S every POLL_S, whatever the test's own thread waits for.
        Where others are at work it waits for them, for BUSY_LOOKS: what a starved broker is to do
        in seconds would else be due before it gets a processor."""
        with self._each_look(self._steps()):
            yield

    def _steps(self) -> Callable[[], None]:
        """One look each."""
        steps = busy = 0

        def pass_unless_busy() -> None:
            nonlocal steps, busy
            if steps == 0:
                busy += 1
                if busy <= BUSY_LOOKS and work.is_busy():
                    return
                steps, busy = PASSED_STEPS, 0
            steps -= 1
            self._pass(STEP_S)

        return pass_unless_busy

    @contextmanager
    def _each_look(self, look: Callable[[], None]) -> Iterator[None]:
        ended = threading.Event()

        def pass_time() -> None:
            while not ended.wait(POLL_S):
                look()

        thread = threading.Thread(target=pass_time, name="time")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def now_ms(self) -> int:
        """Milliseconds since 1970 by the driven clock."""
        passed_us, set_ms, _, still_us, _ = self._shift()
        return ((still_us or time.time_ns() // 1000) + passed_us) // 1000 + set_ms

    def monotonic(self) -> float:
        passed_us, _, still_us, _, _ = self._shift()
        return (still_us / 1e6 or time.monotonic()) + passed_us / 1e6

    def _shift(self) -> tuple[int, int, int, int, int]:
        return struct.unpack_from("=5q", self.memory)

    def _write(self, passed_us: int, set_ms: int) -> None:
        """Each number in one piece: readers may be at it."""
        view = memoryview(self.memory).cast("q")
        view[0], view[1] = passed_us, set_ms
        view.release()


@contextmanager
def driven_clock(clock: DrivenClock | None = None) -> Iterator[DrivenClock]:
    """The clocks of this process, for the block; no core runs when it begins or ends. `clock`: it
    may be that of other processes, too."""
    clock = clock or DrivenClock()
    _drive(clock)
    try:
        yield clock
    finally:
        _drive(None)
        rate_limits.forget()  # its times are others


def _drive(clock: DrivenClock | None) -> None:
    global _clock, _turn
    with _lock:
        _clock, _turn = clock, object()
        rmq_clock.drive(None if clock is None else clock.memory)


def turn() -> object:
    """The same for as long as this process has the clock that it has now. (A clock that is driven
    again, for the next test, is the same one.)"""
    return _turn


def is_driven() -> bool:
    """This process has a clock that a test drives."""
    return _clock is not None


def is_still() -> bool:
    clock = _clock
    return clock is not None and clock.is_still


def pass_some_time(seconds: float = STEP_S, of: object | None = None) -> bool:
    """For those who wait: where this process has a driven clock, it goes on. False: it is not that
    of the turn `of` any more, and nothing was done."""
    with _lock:
        if of is not None and of is not _turn:
            return False
        if _clock is not None:
            _clock.advance(seconds)
        return True


@contextmanager
def process_clock(directory: Path) -> Iterator[DrivenClock]:
    """A clock of processes that are started with its environment."""
    path = directory / "clock"
    path.write_bytes(bytes(SHIFT_BYTES))
    with path.open("r+b") as file, mmap(file.fileno(), SHIFT_BYTES) as memory:
        told = {"RMQ_TEST_CLOCK": str(path), "RMQ_TESTING": "1"}
        yield DrivenClock(memory, {**os.environ, **told})
