"""Answers requests whose records have reached the mark they wait for (promise.pxd)."""
from libc.stdint cimport int32_t, int64_t, uint16_t, uint64_t

from cext.flow.log.ack_queue cimport AckQueue, AckReply, PendingAck
from cext.flow.replying cimport FLAG_ONE_WAY
from cext.flow.shard_state cimport ShardState
from cext.net.connection cimport Connection
from cext.wire.header cimport Header

# Who is to be answered. A request that wants no answer is known by its connection of NULL.
cdef inline void reply_to(AckReply* r, Connection* c, const Header* h) noexcept nogil:
    r.connection = NULL if h.flag & FLAG_ONE_WAY else c
    # Making room may have answered others, and closed this one when no reply buffer was left: then
    # nobody is to be answered, and 0 is the id of every closed slot.
    r.connection_id = c.id if c.id != 0 else <uint64_t> -1
    r.opaque = h.opaque
    r.version = h.version
    r.request_code = <uint16_t> h.code          # as in a binary header
    r.serialize_type = h.serialize_type

# Answers every entry with end <= mark.
cdef void settle(ShardState s, AckQueue* queue, int64_t mark) noexcept nogil
# Answers every entry with an error: the log is poisoned and nothing will be acked any more.
cdef void refuse_all(ShardState s, AckQueue* queue, const char* remark) noexcept nogil
# Answers entries whose syncFlushTimeout has passed with FLUSH_DISK_TIMEOUT (10), whatever was
# asked: 0 is a promise, and this is none.
cdef void expire(ShardState s, AckQueue* queue) noexcept nogil
