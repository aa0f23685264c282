"""Role of a core. See role.pxd."""
from libc.string cimport memcpy

from cext.flow.context.options cimport SLAVE_READ_OFF, TEXT_MAX
from cext.wire.codes cimport SERVICE_NOT_AVAILABLE, SYSTEM_ERROR

cdef const char* FOLLOWS = b"service not available now: this broker is a slave and takes no " \
    b"writes; send to the master of its name"


cdef const char* LEASE_IS_OVER = b"service not available now: this master has not heard from its " \
    b"controller for too long, and another broker may be master by now; send to the master of " \
    b"its name"
# RocketMQ's text of PutMessageStatus.IN_SYNC_REPLICAS_NOT_ENOUGH.
cdef const char* IN_SYNC_SHORT = b"in-sync replicas not enough"
cdef const char* UNCONFIRMED = b"[REJECTREQUEST]system busy, start flow control for a while: " \
    b"this broker does not know yet what of its messages the master has, and gives none of them"
cdef const char* NO_READS = b"[REJECTREQUEST]system busy, start flow control for a while: this " \
    b"broker is a slave and gives no messages (slaveReadEnable=false); ask the master of its name"


cdef void look(TurnContext t) noexcept nogil:
    t.writable = not (t.follower or t.write_stop or t.in_sync_short or t.lease_over)


cdef void set_role(TurnContext t, bint follower) noexcept nogil:
    t.follower = follower
    look(t)


cdef void set_write_stop(TurnContext t, bint stop, const Text* reason) noexcept nogil:
    cdef size_t length = min(reason.length, <size_t> TEXT_MAX - 1)
    memcpy(t.stop_reason, reason.bytes, length)
    t.stop_reason[length] = 0
    t.write_stop = stop
    look(t)


cdef void set_in_sync_short(TurnContext t, bint short) noexcept nogil:
    t.in_sync_short = short
    look(t)


cdef void set_lease_over(TurnContext t, bint over) noexcept nogil:
    t.lease_over = over
    look(t)


cdef const char* refuse_remark(TurnContext t) noexcept nogil:
    if t.follower:
        return FOLLOWS
    if t.lease_over:
        return LEASE_IS_OVER
    return <const char*> t.stop_reason if t.write_stop else IN_SYNC_SHORT


cdef int32_t refuse_code(TurnContext t) noexcept nogil:
    if t.follower or t.lease_over or t.write_stop:
        return SERVICE_NOT_AVAILABLE
    return SYSTEM_ERROR


cdef const char* read_refusal(TurnContext t) noexcept nogil:
    if t.unconfirmed:
        return UNCONFIRMED
    return NO_READS if t.follower and t.options.slave_read == SLAVE_READ_OFF else NULL
