"""Log copy: a slave takes bytes of another log into its own, in one turn as many as it is given.

raw_append (cext/store/log/raw_append.pxd) with a write where the write buffer is full. Both ways on
which such bytes come use it: the stream of a master, and the control thread's append_raw().

Reactor only.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.flow.append.appender cimport Appender

# As raw_append(); RING_FULL only when nothing at all was taken, POISONED also when a write failed.
# *taken: bytes that need not come again. Behind a BLANK the log goes on in the next segment, beyond
# the bytes that were given; they are all taken then.
cdef int copy_log(Appender s, int64_t offset, const uint8_t* bytes, uint32_t count, uint32_t* taken,
                  int32_t* problem) noexcept nogil
