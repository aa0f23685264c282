"""A clock that a test drives: an hour passes at once, without waiting.

    def test_x(clock: DrivenClock, tmp_path: Path) -> None:     # of this process
        with Shard(tmp_path) as shard:                          # made after the clock
            clock.advance(3600)                                 # an hour passes
            clock.set_wall(-60)                                 # somebody sets the wall clock back
            clock.now_ms()                                      # what the shard takes for now

    with clock.passing():                                       # time passes while a call waits
        assert consumer.poll(60_000) == []

    with process_clock(tmp_path) as clock:                      # of broker processes
        with broker_process(tmp_path, environment=clock.environment): ...

All clocks of cext/base/clock.pxd and rmq/base/clock.py follow it, and so does the event loop of a
test that runs `in_loop`. A thread that sleeps sees a move of the clock within some milliseconds, so
a test still waits for states (support/waiting.py).

The clock also goes on by itself, except in a test marked still_clock: there it stands, so that the
seconds that a busy machine needs do not count. A test that has not moved such a clock for some
seconds must be waiting for something. Time then passes after all, once QUIET_LOOKS looks have found
no thread at work (support/work.py). It does not pass while a thread waits for a disk, whose time
nobody drives, or for a processor; but a thread that runs all the time only slows it down.
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

SECOND_NS = 1_000_000_000
STEP_S = 0.1  # driven time that passes between two looks of a waiting test
POLL_S = 0.005  # machine time between two looks
WORK_LOOKS = 20  # looks of a clock that stands still, for one look at the threads
QUIET_LOOKS = 40  # quiet looks at the threads before time passes: 4 s, or more on a busy machine
BUSY_LOOKS = 10  # so many looks that found work count as a quiet one
PASSED_STEPS = 4  # steps of a clock that goes on, for one look at the threads
_lock = threading.Lock()  # guards the next two
_clock: DrivenClock | None = None  # of this process
_turn = object()  # replaced whenever this process gets a clock or loses it


class DrivenClock:
    def __init__(
        self, memory: bytearray | mmap | None = None, environment: dict[str, str] | None = None
    ) -> None:
        self.memory = bytearray(SHIFT_BYTES) if memory is None else memory
        self._lock = threading.RLock()
        self._looks = 0
        self._quiet = 0  # looks at the threads since the last move; a quiet one counts BUSY_LOOKS
        self.environment = environment or {}

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Time passes only when the test says so, or while the test waits for something. No core
        may run when the block begins or ends."""
        passed_us, set_ms = self._shift()[:2]
        # Durations are whole seconds, because the product's times are floating-point numbers: what
        # is exact is due when a test has let the whole time pass, on every machine.
        boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        stills = (time.monotonic_ns() // SECOND_NS * 1_000_000, time.time_ns() // 1000,
                  boot_ns // SECOND_NS * 1_000_000)  # fmt: skip
        struct.pack_into("=5q", self.memory, 0, passed_us, set_ms, *stills)
        with self._each_look(self._pass_if_left_alone):
            yield

    def _pass_if_left_alone(self) -> None:
        """Looks once. After the first step, each further step needs one more quiet look, so that
        the work which a step has caused is done before the next."""
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
        """Lets that much time pass, at once."""
        assert seconds >= 0
        with self._lock:
            self._quiet = 0
            self._pass(seconds)

    def _pass(self, seconds: float) -> None:
        with self._lock:
            passed_us, set_ms, *_ = self._shift()
            self._write(passed_us + round(seconds * 1e6), set_ms)

    def set_wall(self, seconds: float) -> None:
        """Moves the wall clock, as if somebody had set it. Durations do not change."""
        with self._lock:
            passed_us, set_ms, *_ = self._shift()
            self._write(passed_us, set_ms + round(seconds * 1000))

    def suspend(self, seconds: float) -> None:
        """The machine is suspended for so long, and its monotonic clock with it. Only while the
        clock stands still."""
        with self._lock:
            assert self.is_still
            view = memoryview(self.memory).cast("q")
            for number in (3, 4):  # wall clock, and that of the boot
                view[number] += round(seconds * 1e6)
            view.release()

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Lets time pass during the block, STEP_S every POLL_S, whatever the test's own thread
        waits for. If other threads are at work, it waits for them for up to BUSY_LOOKS looks:
        otherwise a broker's deadlines of some seconds would pass before it gets a processor."""
        with self._each_look(self._steps()):
            yield

    def _steps(self) -> Callable[[], None]:
        """Returns a function that makes one look per call."""
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
        """Writes each number in one piece, since other processes may be reading."""
        view = memoryview(self.memory).cast("q")
        view[0], view[1] = passed_us, set_ms
        view.release()


@contextmanager
def driven_clock(clock: DrivenClock | None = None) -> Iterator[DrivenClock]:
    """Drives the clocks of this process during the block. No core may run when the block begins or
    ends. `clock` may be one that drives other processes, too."""
    clock = clock or DrivenClock()
    _drive(clock)
    try:
        yield clock
    finally:
        _drive(None)
        rate_limits.forget()  # they remember times of this clock


def _drive(clock: DrivenClock | None) -> None:
    global _clock, _turn
    with _lock:
        _clock, _turn = clock, object()
        rmq_clock.drive(None if clock is None else clock.memory)


def turn() -> object:
    """Returns an object that stays the same until this process gets another clock or loses its own.
    (A clock is not enough to compare: the next test may drive the same one again.)"""
    return _turn


def is_driven() -> bool:
    """Whether a test drives the clocks of this process."""
    return _clock is not None


def is_still() -> bool:
    clock = _clock
    return clock is not None and clock.is_still


def pass_some_time(seconds: float = STEP_S, of: object | None = None) -> bool:
    """For loops that wait: moves the driven clock of this process, if it has one. False: turn() is
    no longer `of`, and nothing was done."""
    with _lock:
        if of is not None and of is not _turn:
            return False
        if _clock is not None:
            _clock.advance(seconds)
        return True


@contextmanager
def process_clock(directory: Path) -> Iterator[DrivenClock]:
    """A clock that drives the processes that are started with its environment."""
    path = directory / "clock"
    path.write_bytes(bytes(SHIFT_BYTES))
    with path.open("r+b") as file, mmap(file.fileno(), SHIFT_BYTES) as memory:
        told = {"RMQ_TEST_CLOCK": str(path), "RMQ_TESTING": "1"}
        yield DrivenClock(memory, {**os.environ, **told})
