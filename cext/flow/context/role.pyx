"""Role of a core. See role.pxd."""
from libc.stdint cimport INT64_MAX
from libc.string cimport memcpy, memset

from cext.base.check cimport check
from cext.base.state cimport state_move
from cext.flow.context.options cimport SLAVE_READ_OFF
from cext.wire.codes cimport SERVICE_NOT_AVAILABLE, SYSTEM_ERROR

cdef const char* A_SLAVE = b"service not available now: this broker is a slave and takes no " \
    b"writes; send to the master of its name"


cdef const char* LEASE_IS_OVER = b"service not available now: this master has not heard from its " \
    b"controller for too long, and another broker may be master by now; send to the master of " \
    b"its name"
# RocketMQ's text of PutMessageStatus.IN_SYNC_REPLICAS_NOT_ENOUGH.
cdef const char* SET_SHORT = b"in-sync replicas not enough"
cdef const char* MAY_BE_CUT = b"[REJECTREQUEST]system busy, start flow control for a while: " \
    b"this broker does not know yet what of its messages the master has, and gives none of them"
cdef const char* NO_READS = b"[REJECTREQUEST]system busy, start flow control for a while: this " \
    b"broker is a slave and gives no messages (slaveReadEnable=false); ask the master of its name"


# ------------------------------------------------------------------- the state

cdef uint32_t facts_of(int32_t state) noexcept nogil:
    if state == MASTER:
        return 0
    if state == SLAVE:
        return FACT_SLAVE
    if state == REPLICATING:
        return FACT_SLAVE | FACT_REPLICATING
    if state == UNCONFIRMED:
        return FACT_SLAVE | FACT_UNCONFIRMED
    return FACT_SLAVE | FACT_REPLICATING | FACT_UNCONFIRMED


cdef void look(const Role* r) noexcept nogil:
    check(r.facts & FACTS_OF_STATE == facts_of(r.state),
          b"a role: what is known of it is what its state says", r.facts, r.state)


cdef void move(Role* r, RoleState to, uint32_t allowed_from) noexcept nogil:
    """`allowed_from`: a bit for each RoleState."""
    look(r)
    state_move(&r.state, to, allowed_from,
               b"a role: a master, or a slave: without its master or with, confirmed or not")
    r.facts = (r.facts & ~<uint32_t> FACTS_OF_STATE) | facts_of(to)


cdef void role_open(Role* r) noexcept nogil:
    memset(r, 0, sizeof(Role))
    r.lease_end_ms = INT64_MAX


cdef void role_promote(Role* r) noexcept nogil:
    if r.state != MASTER:
        move(r, MASTER, 1 << SLAVE | 1 << UNCONFIRMED)


cdef void role_demote(Role* r) noexcept nogil:
    if r.state == MASTER:
        move(r, SLAVE, 1 << MASTER)


cdef void role_stream_began(Role* r) noexcept nogil:
    if r.state == UNCONFIRMED:
        move(r, REPLICATING_UNCONFIRMED, 1 << UNCONFIRMED)
    else:
        move(r, REPLICATING, 1 << SLAVE)


cdef void role_stream_ended(Role* r) noexcept nogil:
    if r.state == REPLICATING_UNCONFIRMED:
        move(r, UNCONFIRMED, 1 << REPLICATING_UNCONFIRMED)
    else:
        move(r, SLAVE, 1 << REPLICATING)


cdef void role_doubt(Role* r) noexcept nogil:
    if r.state == REPLICATING:
        move(r, REPLICATING_UNCONFIRMED, 1 << REPLICATING)
    elif not is_unconfirmed(r):
        move(r, UNCONFIRMED, 1 << SLAVE)


cdef void role_confirm(Role* r) noexcept nogil:
    move(r, REPLICATING, 1 << REPLICATING_UNCONFIRMED)


# ------------------------------------------------------------------- facts beside the state

cdef void role_set(Role* r, uint32_t facts, bint hold) noexcept nogil:
    look(r)
    check(facts & FACTS_OF_STATE == 0, b"a role: its state alone says what it is", facts, r.state)
    r.facts = r.facts | facts if hold else r.facts & ~facts


cdef void role_stop_writes(Role* r, bint stop, const Text* reason) noexcept nogil:
    cdef size_t length = min(reason.length, <size_t> TEXT_MAX - 1)
    memcpy(r.stop_reason, reason.bytes, length)
    r.stop_reason[length] = 0
    role_set(r, FACT_STOPPED, stop)


# ------------------------------------------------------------------- what clients are told

cdef const char* refuse_remark(const Role* r) noexcept nogil:
    check(not is_writable(r), b"a role: it says why it refuses while it does", r.facts, r.state)
    if is_slave(r):
        return A_SLAVE
    if r.facts & FACT_LEASE_OVER:
        return LEASE_IS_OVER
    return <const char*> r.stop_reason if r.facts & FACT_STOPPED else SET_SHORT


cdef int32_t refuse_code(const Role* r) noexcept nogil:
    if r.facts & (FACT_SLAVE | FACT_LEASE_OVER | FACT_STOPPED):
        return SERVICE_NOT_AVAILABLE
    return SYSTEM_ERROR


cdef const char* read_refusal(const Role* r, int32_t slave_read) noexcept nogil:
    if is_unconfirmed(r):
        return MAY_BE_CUT
    return NO_READS if is_slave(r) and slave_read == SLAVE_READ_OFF else NULL
