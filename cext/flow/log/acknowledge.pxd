"""Answers sends whose bytes have reached the mark they wait for."""
from libc.stdint cimport int32_t, int64_t, uint16_t, uint64_t

from cext.flow.log.ack_queue cimport AckQueue, PendingAck
from cext.flow.shard_state cimport ShardState
from cext.net.connection cimport Connection
from cext.wire.header cimport Header

# Who is to be answered, and until when.
cdef inline void address_ack(ShardState s, PendingAck* ack, Connection* c,
                             const Header* h) noexcept nogil:
    ack.connection = c
    # Making room may have answered others, and closed this one when no reply buffer was left: then
    # nobody is to be answered, and 0 is the id of every closed slot.
    ack.connection_id = c.id if c.id != 0 else <uint64_t> -1
    ack.opaque = h.opaque
    ack.version = h.version
    ack.request_code = <uint16_t> h.code
    ack.serialize_type = h.serialize_type
    ack.deadline_ms = s.now_ms + s.options.sync_flush_timeout_ms

# Fills an entry that ack_queue_reserve() gave, for what the log holds so far; ack_queue_push() is
# the caller's. `answer`: one of ANSWER_*.
cdef void begin_ack(ShardState s, PendingAck* ack, Connection* c, const Header* h,
                    int32_t answer) noexcept nogil

# Answers every entry with end <= mark.
cdef void settle(ShardState s, AckQueue* queue, int64_t mark) noexcept nogil
# Answers every entry with an error: the log is poisoned and nothing will be acked any more.
cdef void refuse_all(ShardState s, AckQueue* queue, const char* remark) noexcept nogil
# Answers entries whose syncFlushTimeout has passed with FLUSH_DISK_TIMEOUT (10).
cdef void expire(ShardState s, AckQueue* queue) noexcept nogil
cdef void answer_ack(ShardState s, PendingAck* ack, int32_t code, const char* remark) noexcept nogil
