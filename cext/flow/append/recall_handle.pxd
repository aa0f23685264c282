"""Recall handle: what a client needs to recall a timed message, from its send's reply.

    base64url("v1 " topic " " brokerName " " TIMER_OUT_MS + 1 " " UNIQ_KEY)

Made from the stored record when the send is answered, and read when it comes back (recall.pxd).
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t

from cext.flow.append.appender cimport Appender
from cext.wire.properties cimport SendProperties
from cext.wire.text cimport Text

cdef enum:
    HANDLE_BYTES_MAX = 1024         # of one that is made here
    HANDLE_READ_MAX = 4096          # of one that comes

cdef struct RecallHandle:
    uint8_t plain[HANDLE_READ_MAX]
    Text topic                      # of plain, as the others
    Text broker
    Text key
    int64_t deliver_ms              # 0: what stands there is no time

# Whether the reply of this send carries a handle: a timed message, not of a retry topic.
cdef bint has_recall_handle(const SendProperties* p) noexcept nogil
# The handle of the timed message stored at this log offset; its length, 0 when there is none.
cdef uint32_t write_recall_handle(Appender s, int64_t offset, uint8_t* out) noexcept nogil
# A handle as a client gives it back. OK | MALFORMED.
cdef int read_recall_handle(const Text* text, RecallHandle* out) noexcept nogil
