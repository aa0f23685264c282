# Clocks: wall time for what is stored, monotonic time for how long something took.
#
# Both are vDSO calls of some 20 ns: read once per reactor turn, not once per message.
#
# Example: cdef int64_t now = wall_ms()      # 1763726400123, ms since 1970 as Java's clock

from libc.stdint cimport int64_t

# Any thread. Milliseconds since 1970-01-01 UTC; may jump when the administrator sets the clock.
cdef int64_t wall_ms() noexcept nogil

# Any thread. Milliseconds since the machine started, suspended times included; nobody can set it.
cdef int64_t boot_ms() noexcept nogil

# Any thread. Microseconds from an arbitrary start; never goes backwards.
cdef int64_t monotonic_us() noexcept nogil
