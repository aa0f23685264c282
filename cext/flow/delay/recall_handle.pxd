"""What a client needs to recall a timed message: recallHandle of the send's reply.

    base64url("v1 " topic " " brokerName " " TIMER_OUT_MS + 1 " " UNIQ_KEY)

Made from the stored record when the send is answered. Recalling (370) is control's work
(rmq/broker/recall.py).
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t

from cext.flow.log.append cimport Appended
from cext.flow.shard_state cimport ShardState

cdef enum:
    HANDLE_BYTES_MAX = 1024

# Whether the reply of this send carries a handle: a timed message, not of a retry topic.
cdef bint has_recall_handle(const Appended* a) noexcept nogil
# The handle of the timed message stored at this log offset; its length, 0 when there is none.
cdef uint32_t write_recall_handle(ShardState s, int64_t offset, uint8_t* out) noexcept nogil
