# Watermark: how far some work has come, in bytes of a log or in entries; it never moves back.
#
# One thread moves it, with release order: a thread that reads it with acquire order sees everything
# that was done before the move. A move back would break promises already made to others (acks at
# `written` and `durable`), so it ends the process. A mark that is set before other threads can see
# it is stored plainly. Setting a mark back later is an operation of its own, which checks when that
# is allowed (cext/flow/append/log_marks.pxd).
#
# Example: watermark_move(&marks.durable, end, b"the log: `durable` never moves back")

from libc.stdint cimport int64_t

from cext.base.atomics cimport store_release_i64
from cext.base.check cimport check


cdef inline void watermark_move(int64_t* mark, int64_t to, const char* text) noexcept nogil:
    check(to >= mark[0], text, mark[0], to)
    store_release_i64(mark, to)


# The same for a source that may report less than before; the mark then stays where it is.
cdef inline void watermark_raise(int64_t* mark, int64_t to) noexcept nogil:
    if to > mark[0]:
        store_release_i64(mark, to)
