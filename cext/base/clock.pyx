"""The clocks of a process (clock.pxd says which to use when).

Store timestamps, born timestamps and retention use `wall_ms`, so it counts like Java's
System.currentTimeMillis(). Timeouts and latencies use `monotonic_us`.
The Python side has the same clocks in rmq/base/clock.py. `monotonic` and `now_ms` here are for its
modules that ask once per message; `look_s` says how soon it looks again at a clock that a test
drives.
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, clockid_t, timespec

from cext.base.atomics cimport load_acquire_i64, store_release_i64

cdef extern from "<time.h>" nogil:
    clockid_t CLOCK_BOOTTIME

cdef enum:
    # How long a sleeper may take to see that a driven clock has moved. It looks often soon after a
    # move, since moves come close together, and seldom when nobody has moved the clock for a while.
    DRIVEN_SLEEP_MS = 2
    DRIVEN_REST_MS = 20
    RECENT_US = 500000          # after a move

cdef ClockShift none            # zeros, which nobody writes
cdef ClockShift* shift = &none
cdef Py_buffer shift_memory     # keeps `shift` where it is
cdef int64_t seen_move = 0      # the sum of the shift's moves when last looked at
cdef int64_t seen_at_us = 0     # when that sum last changed, by the machine's clock


cdef inline int64_t read_us(clockid_t clock) noexcept nogil:
    cdef timespec now
    clock_gettime(clock, &now)
    return <int64_t>now.tv_sec * 1000000 + now.tv_nsec // 1000


cdef inline int64_t now_us(clockid_t clock, int64_t still_us) noexcept nogil:
    cdef int64_t machine = still_us if still_us else read_us(clock)
    return machine + load_acquire_i64(&shift.passed_us)


cdef int64_t wall_ms() noexcept nogil:
    cdef int64_t now = now_us(CLOCK_REALTIME, shift.still_wall_us)
    return now // 1000 + load_acquire_i64(&shift.set_ms)


cdef int64_t boot_ms() noexcept nogil:
    return now_us(CLOCK_BOOTTIME, shift.still_boot_us) // 1000


cdef int64_t monotonic_us() noexcept nogil:
    return now_us(CLOCK_MONOTONIC, shift.still_us)


cdef int64_t machine_us() noexcept nogil:
    return read_us(CLOCK_MONOTONIC)


cdef int64_t monotonic_us_at(int64_t machine_us) noexcept nogil:
    return (shift.still_us or machine_us) + load_acquire_i64(&shift.passed_us)


cdef int64_t look_ms(int64_t now_us) noexcept nogil:
    cdef int64_t move = load_acquire_i64(&shift.passed_us) + load_acquire_i64(&shift.set_ms)
    if move != load_acquire_i64(&seen_move):
        store_release_i64(&seen_at_us, now_us)
        store_release_i64(&seen_move, move)
    if now_us - load_acquire_i64(&seen_at_us) < RECENT_US:
        return DRIVEN_SLEEP_MS
    return DRIVEN_REST_MS


cdef int sleep_ms(int timeout_ms) noexcept nogil:
    if shift == &none or timeout_ms <= DRIVEN_SLEEP_MS:
        return timeout_ms
    return <int>min(<int64_t>timeout_ms, look_ms(machine_us()))


cdef int64_t wake_us(int64_t until_us) noexcept nogil:
    cdef int64_t now
    if shift == &none:
        return until_us
    now = machine_us()
    return now + min(until_us - monotonic_us_at(now), look_ms(now) * 1000)


def monotonic() -> float:
    """Seconds, as time.monotonic()."""
    return monotonic_us() / 1e6


def now_ms() -> int:
    """Milliseconds since 1970."""
    return wall_ms()


def look_s() -> float:
    """Seconds after which a sleeper in Python looks at a driven clock again; sleepers in C look as
    often."""
    return look_ms(machine_us()) / 1e3


def drive(memory) -> None:
    """Makes the clocks follow the ClockShift in `memory` (writable, 40 bytes or more, at an address
    divisible by 8) from now on, or the machine alone again (None). Call it only while no thread of
    a core runs."""
    global shift, shift_memory, seen_at_us
    cdef Py_buffer view
    if shift != &none:
        shift = &none
        PyBuffer_Release(&shift_memory)
    if memory is None:
        return
    PyObject_GetBuffer(memory, &view, PyBUF_WRITABLE)
    if view.len < <Py_ssize_t> sizeof(ClockShift) or <size_t> view.buf % 8 != 0:
        PyBuffer_Release(&view)
        raise ValueError("a shift of the clocks is 40 bytes at an address divisible by 8")
    seen_at_us = machine_us()
    shift_memory = view
    shift = <ClockShift*> view.buf
