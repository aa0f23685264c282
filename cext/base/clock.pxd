# Clock: wall time for what is stored, monotonic time for how long something took.
#
# Each clock is a vDSO call of some 20 ns: read it once per reactor turn, not once per message.
#
# Example: cdef int64_t now = wall_ms()      # 1763726400123, ms since 1970 as Java's clock
#
# For tests, a process may have a ClockShift (rmq/base/clock.py says how). Its numbers are added to
# the machine's clocks, so a test can let an hour pass without waiting for it. All threads of the
# process see the shift. A process without one adds the zeros that this module has.

from libc.stdint cimport int64_t

# 40 bytes, which another thread or another process writes while threads read them.
cdef struct ClockShift:
    int64_t passed_us    # time that a test let pass at once, on all clocks; only grows
    int64_t set_ms       # by how much an administrator set the wall clock, forward or back
    # What the machine's clocks said when this process's clocks were stopped (0: they run). While
    # they are stopped, only the time that a test lets pass passes, however slow the machine is.
    int64_t still_us     # CLOCK_MONOTONIC
    int64_t still_wall_us
    int64_t still_boot_us

# Any thread. Milliseconds since 1970-01-01 UTC. It may jump when the administrator sets the clock.
cdef int64_t wall_ms() noexcept nogil

# Any thread. Milliseconds since the machine started, with the time that it was suspended; nobody
# can set this clock.
cdef int64_t boot_ms() noexcept nogil

# Any thread. Microseconds from an arbitrary start; never goes backwards.
cdef int64_t monotonic_us() noexcept nogil

# Any thread. The same by the machine's clock alone, without the time that a test lets pass at once:
# it shows how long a thread was kept from running. `monotonic_us_at(t)` is what monotonic_us says
# when machine_us says t.
cdef int64_t machine_us() noexcept nogil
cdef int64_t monotonic_us_at(int64_t machine_us) noexcept nogil

# Any thread. How long to sleep by the machine's clock (poll, epoll_wait) in order to sleep
# `timeout_ms` by the process's clock. That is `timeout_ms` itself; in a process whose clock tests
# drive it is some milliseconds at most, since the clock may move meanwhile. A sleep without end
# (-1) stays one, as no clock ends it.
cdef int sleep_ms(int timeout_ms) noexcept nogil

# Any thread. The same for sleeps until a time (pthread_cond_timedwait): turns `until_us` of the
# process's clock into the machine's time. Where tests drive the clock, that is at most some
# milliseconds from now.
cdef int64_t wake_us(int64_t until_us) noexcept nogil
