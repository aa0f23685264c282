# Clock: wall time for what is stored, monotonic time for how long something took.
#
# All are vDSO calls of some 20 ns: read once per reactor turn, not once per message.
#
# Example: cdef int64_t now = wall_ms()      # 1763726400123, ms since 1970 as Java's clock
#
# The seam for tests: a process may have a ClockShift (rmq/base/clock.py says how). Its numbers are
# added to what the machine says. So an hour passes in a test without being waited for. All threads
# of the process see it. Without one the zeros of this module are added.

from libc.stdint cimport int64_t

# 40 bytes that somebody else writes while threads read: another thread, or another process.
cdef struct ClockShift:
    int64_t passed_us    # time that passed at once, by all clocks; only grows
    int64_t set_ms       # by how much an administrator set the wall clock, forward or back
    # Where the machine's clocks were when this process's stopped to go by themselves (0: they go).
    # A busy machine may take any time then, and none passes but what a test lets pass.
    int64_t still_us     # CLOCK_MONOTONIC
    int64_t still_wall_us
    int64_t still_boot_us

# Any thread. Milliseconds since 1970-01-01 UTC; may jump when the administrator sets the clock.
cdef int64_t wall_ms() noexcept nogil

# Any thread. Milliseconds since the machine started, suspended times included; nobody can set it.
cdef int64_t boot_ms() noexcept nogil

# Any thread. Microseconds from an arbitrary start; never goes backwards.
cdef int64_t monotonic_us() noexcept nogil

# Any thread. The same by the machine's clock alone, whatever a test has pass at once: it tells how
# long a thread was not let run. `monotonic_us_at` is what monotonic_us says at that time.
cdef int64_t machine_us() noexcept nogil
cdef int64_t monotonic_us_at(int64_t machine_us) noexcept nogil

# Any thread. How long to sleep by the machine's clock (poll, epoll_wait) for `timeout_ms` by this
# one: as long, and in a process whose clock tests drive some milliseconds, since it may have moved.
# A sleep without end (-1) stays one: no clock wakes anybody from it.
cdef int sleep_ms(int timeout_ms) noexcept nogil

# Any thread. The same for sleeps until a time (pthread_cond_timedwait): `until_us` by this clock is
# that by the machine's; some milliseconds from now at most where tests drive it.
cdef int64_t wake_us(int64_t until_us) noexcept nogil
