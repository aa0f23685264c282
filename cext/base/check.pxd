# Check: a broken invariant ends the process, with a line that says which (cext/c/check.h).
#
# For what only a mistake in this code can break. Trouble of operation and bad bytes from a wire or
# a file are a Status: what a client can bring about is never checked here, it could end the broker.
# The text says what should hold, without names of files; the two numbers are what it was.
#
# Example: check(bytes <= reserved, b"the log: more bytes than were reserved", bytes, reserved)

from libc.stdint cimport int64_t

cdef extern from "check.h" nogil:
    # A constant: what only debug_check needs is left out by the compiler where it is 0.
    const bint DEBUG_BUILD "RMQ_DEBUG_BUILD"
    # Any thread, with or without the GIL; a branch that is never taken.
    void check "rmq_check" (bint holds, const char* text, int64_t a, int64_t b) noexcept
    # Only in a build with RMQ_DEBUG (setup.py: debug, asan). Arguments must have no effects.
    void debug_check "rmq_debug_check" (bint holds, const char* text, int64_t a, int64_t b) noexcept
