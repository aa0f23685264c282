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
what is done at once. A test that has not moved it for STILL_LOOKS waits for something: time passes,
unless a thread of this process waits for a disk, whose time nobody drives.
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

from rmq.base import clock as rmq_clock
from rmq.base.clock import SHIFT_BYTES
from rmq.system.threads import threads_of

STEP_S = 0.1  # what passes between two looks of one who waits
LOOK_S = 0.005
STILL_LOOKS = 1000  # 5 s, and more where the machine lets this process wait
DISK_LOOKS = 20  # between two looks at the disk
_clock: DrivenClock | None = None  # of this process


class DrivenClock:
    def __init__(
        self, memory: bytearray | mmap | None = None, environment: dict[str, str] | None = None
    ) -> None:
        self.memory = bytearray(SHIFT_BYTES) if memory is None else memory
        self._lock = threading.Lock()
        self._looks = 0  # since it was moved
        self.environment = environment or {}

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Time passes when the test says so, and else while it waits. No core runs when this begins
        or ends."""
        passed_us, set_ms = self._shift()[:2]
        boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        stills = (time.monotonic_ns() // 1000, time.time_ns() // 1000, boot_ns // 1000)
        struct.pack_into("=5q", self.memory, 0, passed_us, set_ms, *stills)
        with self._passing_when(self._is_left_alone):
            yield

    def _is_left_alone(self) -> bool:
        self._looks += 1
        if self._looks % DISK_LOOKS == 0 and _waits_for_disk():
            self._looks = 0
        return self._looks > STILL_LOOKS

    @property
    def is_still(self) -> bool:
        return self._shift()[2] != 0

    def advance(self, seconds: float) -> None:
        """So much time passes, at once."""
        assert seconds >= 0
        self._looks = 0
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
        """Time goes on meanwhile, STEP_S every LOOK_S, whatever the test's own thread waits for."""
        with self._passing_when(lambda: True):
            yield

    @contextmanager
    def _passing_when(self, is_time: Callable[[], bool]) -> Iterator[None]:
        ended = threading.Event()

        def pass_time() -> None:
            while not ended.wait(LOOK_S):
                if is_time():
                    self._pass(STEP_S)

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


def _waits_for_disk() -> bool:
    return any(thread.waits_for_disk for _, thread in threads_of(os.getpid()))


@contextmanager
def driven_clock(clock: DrivenClock | None = None) -> Iterator[DrivenClock]:
    """The clocks of this process, for the block; no core runs when it begins or ends. `clock`: it
    may be that of other processes, too."""
    global _clock
    _clock = clock or DrivenClock()
    rmq_clock.drive(_clock.memory)
    try:
        yield _clock
    finally:
        _clock = None
        rmq_clock.drive(None)


def current() -> DrivenClock | None:
    return _clock


def is_still() -> bool:
    return _clock is not None and _clock.is_still


def pass_some_time(seconds: float = STEP_S) -> None:
    """For those who wait: where this process has a driven clock, it goes on."""
    if _clock is not None:
        _clock.advance(seconds)


@contextmanager
def process_clock(directory: Path) -> Iterator[DrivenClock]:
    """A clock of processes that are started with its environment."""
    path = directory / "clock"
    path.write_bytes(bytes(SHIFT_BYTES))
    with path.open("r+b") as file, mmap(file.fileno(), SHIFT_BYTES) as memory:
        told = {"RMQ_TEST_CLOCK": str(path), "RMQ_TESTING": "1"}
        yield DrivenClock(memory, {**os.environ, **told})
