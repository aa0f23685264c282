# Watermark: how far something is, in bytes of a log or in entries; it never moves back.
#
# One thread moves it, with release order: whoever reads it with acquire order sees what was done
# before. A move back would take back what others were promised (acks at `written` and `durable`),
# so it ends the process. Where a mark is set anew, before others can see it, it is stored plainly;
# where it is set back later, that is an operation of its own that checks when it may be
# (cext/flow/append/log_marks.pxd).
#
# Example: watermark_move(&marks.durable, end, b"the log: `durable` never moves back")

from libc.stdint cimport int64_t

from cext.base.atomics cimport store_release_i64
from cext.base.check cimport check


cdef inline void watermark_move(int64_t* mark, int64_t to, const char* text) noexcept nogil:
    check(to >= mark[0], text, mark[0], to)
    store_release_i64(mark, to)


# For what may say less than before: the mark stays then.
cdef inline void watermark_raise(int64_t* mark, int64_t to) noexcept nogil:
    if to > mark[0]:
        store_release_i64(mark, to)
