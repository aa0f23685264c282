"""Acknowledgement: answers to requests whose records have reached their mark (promise.pxd).

    mark         has reached the least of
    WRITTEN      log.marks.written (with a store pool: appended)
    DURABLE      that, log.marks.durable         a sync of the log has returned
    REPLICATED   written, log.marks.replicated   what every slave that counts has said it has
    CONFIRMED    all three

WRITTEN is looked at when a write-out has returned, the others at the end of each turn. Nothing is
answered by a master whose lease is over (replication/ha_lease.pxd).
"""
from libc.stdint cimport int32_t, uint16_t, uint64_t

from cext.flow.append.ack_queue cimport AckReply, PendingAck
from cext.flow.append.appender cimport Appender
from cext.flow.context.step cimport Step
from cext.net.connection cimport Connection
from cext.wire.codes cimport FLAG_ONE_WAY
from cext.wire.header cimport Header

# Who is to be answered. A request that wants no answer is known by its connection of NULL.
cdef inline void reply_to(AckReply* r, Connection* c, const Header* h) noexcept nogil:
    r.connection = NULL if h.flag & FLAG_ONE_WAY else c
    # Of one that is closed nobody is to be answered, and 0 is the id of every closed slot.
    r.connection_id = c.id if c.id != 0 else <uint64_t> -1
    r.opaque = h.opaque
    r.version = h.version
    r.request_code = <uint16_t> h.code          # as in a binary header
    r.serialize_type = h.serialize_type

# Answers all that waits for a mark and is below what it has reached.
cdef void settle(Appender s, int32_t mark) noexcept nogil
# The end of a turn: settles all marks but WRITTEN, by `durable` as it is now. What waits too long,
# or in vain, is answered by another code, whatever was asked: 0 is a promise, and these are none.
#   SLAVE_NOT_AVAILABLE (11)    fewer slaves follow than are to have it
#   FLUSH_SLAVE_TIMEOUT (12)    a slave is late for slaveTimeout
#   FLUSH_DISK_TIMEOUT (10)     the sync is, for syncFlushTimeout
cdef Step settle_step(Appender s) noexcept
# Answers all that waits with an error: the log is poisoned and nothing will be acked any more.
cdef void refuse_all(Appender s, const char* remark) noexcept nogil
