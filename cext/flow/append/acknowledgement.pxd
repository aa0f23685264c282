"""Acknowledgement: answers to requests whose records have reached their mark (promise.pxd).

    mark         has reached the lowest of
    WRITTEN      log.marks.written (with a store pool: appended)
    DURABLE      that, log.marks.durable         a sync of the log has returned
    REPLICATED   written, log.marks.replicated   every slave that counts has said that it has it
    CONFIRMED    all three

WRITTEN is looked at when a write-out has returned, the others at the end of each turn. A master
whose lease is over answers nothing (replication/ha_lease.pxd).
"""
from libc.stdint cimport int32_t, uint16_t, uint64_t

from cext.flow.append.ack_queue cimport AckReply, PendingAck
from cext.flow.append.appender cimport Appender
from cext.flow.context.step cimport Step
from cext.net.connection cimport Connection
from cext.wire.codes cimport FLAG_ONE_WAY
from cext.wire.header cimport Header

# Fills in where the answer goes; connection NULL stands for a request that wants no answer.
cdef inline void reply_to(AckReply* r, Connection* c, const Header* h) noexcept nogil:
    r.connection = NULL if h.flag & FLAG_ONE_WAY else c
    # A closed connection gets no answer; its id must not match, and every closed slot has the id 0.
    r.connection_id = c.id if c.id != 0 else <uint64_t> -1
    r.opaque = h.opaque
    r.version = h.version
    r.request_code = <uint16_t> h.code          # as in a binary header
    r.serialize_type = h.serialize_type

# Sends the answers that wait for the mark and whose `end` it has reached.
cdef void settle(Appender s, int32_t mark) noexcept nogil
# The end of a turn: settles all marks but WRITTEN, by `durable` as it is now. A request that waits
# for too long, or in vain, is answered with another code, whatever it was: 0 would be a promise.
#   SLAVE_NOT_AVAILABLE (11)    fewer slaves follow than must have it
#   FLUSH_SLAVE_TIMEOUT (12)    a slave is late for slaveTimeout
#   FLUSH_DISK_TIMEOUT (10)     the sync is late for syncFlushTimeout
cdef Step settle_step(Appender s) noexcept
# Answers everything that waits with an error: the log is poisoned, nothing more will be acked.
cdef void refuse_all(Appender s, const char* remark) noexcept nogil
