"""Recall handle: what a client needs to recall a timed message, from its send's reply.

    base64url("v1 " topic " " brokerName " " TIMER_OUT_MS + 1 " " UNIQ_KEY)

Made from the stored record when the send is answered, and read when a client recalls (recall.pxd).
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t

from cext.flow.append.appender cimport Appender
from cext.wire.properties cimport SendProperties
from cext.wire.text cimport Text

cdef enum:
    HANDLE_BYTES_MAX = 1024         # of a handle that is made here
    HANDLE_READ_MAX = 4096          # of a handle that a client sends

cdef struct RecallHandle:
    uint8_t plain[HANDLE_READ_MAX]
    Text topic                      # part of `plain`, as the other two
    Text broker
    Text key
    int64_t deliver_ms              # 0: the handle's time is not a number

# Whether the reply of this send carries a handle: for a timed message, not of a retry topic.
cdef bint has_recall_handle(const SendProperties* p) noexcept nogil
# Writes the handle of the timed message at this log offset; returns its length, 0: none is made.
cdef uint32_t write_recall_handle(Appender s, int64_t offset, uint8_t* out) noexcept nogil
# Reads a handle that a client gives back. OK | MALFORMED.
cdef int read_recall_handle(const Text* text, RecallHandle* out) noexcept nogil
