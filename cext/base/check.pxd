# Check: ends the process when an invariant is broken, with a line that names it (cext/c/check.h).
#
# It is for invariants that only a mistake in this code can break. Trouble of operation and bad
# bytes from a wire or a file are a Status. Nothing that a client can bring about is checked here,
# because the client could then end the broker. The text says what should hold, without names of
# files; the two numbers are the values that were found.
#
# Example: check(bytes <= reserved, b"the log: more bytes than were reserved", bytes, reserved)

from libc.stdint cimport int64_t

cdef extern from "check.h" nogil:
    # A constant. Where it is 0, the compiler leaves out the code that only debug_check needs.
    const bint DEBUG_BUILD "RMQ_DEBUG_BUILD"
    # Any thread, with or without the GIL. Costs one branch, which is never taken.
    void check "rmq_check" (bint holds, const char* text, int64_t a, int64_t b) noexcept
    # Checks only in a build with RMQ_DEBUG (setup.py: debug, asan). The arguments must have no
    # side effects.
    void debug_check "rmq_debug_check" (bint holds, const char* text, int64_t a, int64_t b) noexcept
