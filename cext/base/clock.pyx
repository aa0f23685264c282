"""The two clocks of a shard (clock.pxd says which to use when).

`wall_ms` is what store timestamps, born timestamps and retention are made of, so it counts like
Java's System.currentTimeMillis(). `monotonic_us` is what timeouts and latencies are made of.

    >>> wall_ms_for_tests()
    1763726400123
"""

from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, clockid_t, timespec

cdef extern from "<time.h>" nogil:
    clockid_t CLOCK_BOOTTIME


cdef int64_t wall_ms() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1000000


cdef int64_t boot_ms() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_BOOTTIME, &now)
    return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1000000


cdef int64_t monotonic_us() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1000000 + now.tv_nsec // 1000


# for tests

def wall_ms_for_tests() -> int:
    return wall_ms()


def boot_ms_for_tests() -> int:
    return boot_ms()


def monotonic_us_for_tests() -> int:
    return monotonic_us()
