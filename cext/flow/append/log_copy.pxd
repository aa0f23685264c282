"""Log copy: a slave takes bytes of its master's log into its own, as many in a turn as it is given.

This is raw_append (cext/store/log/raw_append.pxd), with a write-out whenever the write buffer is
full. Both sources of such bytes use it: the master's stream, and the control thread's append_raw().

Reactor only.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.flow.append.appender cimport Appender

# As raw_append(), but RING_FULL only when nothing at all was taken, and POISONED also when a write
# failed. *taken: bytes that need not come again. After a BLANK the log goes on in the next segment,
# which is beyond the bytes that were given; then all of them count as taken.
cdef int copy_log(Appender s, int64_t offset, const uint8_t* bytes, uint32_t count, uint32_t* taken,
                  int32_t* problem) noexcept nogil
