"""Role: whether this core makes its log (master) or keeps a copy of another core's (slave).

It is a state of the core. Only role.pyx changes it, by what happens; a change that does not follow
ends the process:

    MASTER                   from the start; and a slave that is promoted, whose stream has ended
    SLAVE                    a master that is demoted; its master's log does not come
    REPLICATING              it comes
    UNCONFIRMED              a slave whose queues hold what may be cut, as control says: nobody
                             is given anything
    REPLICATING_UNCONFIRMED  likewise, and its master's log comes: which alone confirms what it has

What steps ask is a bit of `facts`. Some are those of the state and change with it alone. The others
hold in any state, each beside the others: the stop of writes (full disk, a shard that is taken
off), and what a controller grants.

What a slave does not do, and what clients are told, which is what RocketMQ's slaves say:

    sends, messages sent back, pops, acks, changes    14 SERVICE_NOT_AVAILABLE
    ends of transactions, recalls                     11 SLAVE_NOT_AVAILABLE; nothing when one-way
    pulls                                             served. An offset beyond the queue's end is
                                                      held as one at it, and one below its start is
                                                      20: a slave may be behind, so it resets
                                                      nobody's offset. While the master's log comes,
                                                      none is held longer than a second: its client
                                                      is sent back. slaveReadEnable=false: 2,
                                                      and 2 while its queues hold what may be cut
    peeks, notifications                              served, and refused as pulls are
    delay levels, timers, revival of pops, check      not run; appends of the control thread are
    backs, ops of ended transactions                  errors

A master that may not write (below) refuses the first row with 14 as well, but sends with RocketMQ's
1, "in-sync replicas not enough", where nothing else is the matter.

Nothing but append_raw() adds to a slave's log: message_append.pyx refuses the rest, whoever asks.

Example: a slave's disk fills up and has room again: FACT_STOPPED comes and goes, and it is a slave
all the time.

Reactor only; others may look.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.flow.context.options cimport TEXT_MAX
from cext.wire.text cimport Text

cdef enum RoleState:
    MASTER = 0
    SLAVE = 1
    REPLICATING = 2
    UNCONFIRMED = 3
    REPLICATING_UNCONFIRMED = 4

cdef enum RoleFact:
    # Of the state.
    FACT_SLAVE = 1                  # the log is a copy
    FACT_REPLICATING = 2            # it comes just now
    FACT_UNCONFIRMED = 4
    # In any state.
    FACT_STOPPED = 8                # control has stopped writes
    FACT_SET_SHORT = 16             # fewer are in sync than must have what is stored
    FACT_LEASE_OVER = 32            # another broker may be master by now
    FACT_SLAVES_MISSING = 64        # fewer follow than answers wait for
    FACT_SENDS_WAIT = 128           # with the control thread: this is a new master
    # Several.
    FACTS_OF_STATE = FACT_SLAVE | FACT_REPLICATING | FACT_UNCONFIRMED
    FACTS_UNWRITABLE = FACT_SLAVE | FACT_STOPPED | FACT_SET_SHORT | FACT_LEASE_OVER

cdef struct Role:
    int32_t state                   # RoleState
    uint32_t facts                  # of RoleFact
    int64_t lease_end_ms            # monotonic; INT64_MAX: no lease is needed
    uint8_t stop_reason[TEXT_MAX]   # of FACT_STOPPED; zero-terminated

# ------------------------------------------------------------------- what happens

# A master to whom nothing else applies.
cdef void role_open(Role* r) noexcept nogil
# Promoted and demoted; who is one already stays as it is.
cdef void role_promote(Role* r) noexcept nogil
cdef void role_demote(Role* r) noexcept nogil
# A slave's master's log begins to come, and has ended.
cdef void role_stream_began(Role* r) noexcept nogil
cdef void role_stream_ended(Role* r) noexcept nogil
# A slave's queues hold what may be cut; its master, whose log comes, has confirmed all of it.
cdef void role_doubt(Role* r) noexcept nogil
cdef void role_confirm(Role* r) noexcept nogil

# These facts, none of them the state's, hold or do not.
cdef void role_set(Role* r, uint32_t facts, bint hold) noexcept nogil
# FACT_STOPPED. `reason`: what is told to who is refused, cut at TEXT_MAX.
cdef void role_stop_writes(Role* r, bint stop, const Text* reason) noexcept nogil

# The lease ends then, once lease_look() has seen it.
cdef inline void role_grant(Role* r, int64_t end_ms) noexcept nogil:
    r.lease_end_ms = end_ms

# FACT_LEASE_OVER, as it is by now.
cdef inline bint lease_look(Role* r, int64_t now_ms) noexcept nogil:
    cdef bint over = now_ms >= r.lease_end_ms
    if over != (r.facts & FACT_LEASE_OVER != 0):
        role_set(r, FACT_LEASE_OVER, over)
    return over

# ------------------------------------------------------------------- what steps ask

cdef inline bint is_slave(const Role* r) noexcept nogil:
    return r.facts & FACT_SLAVE != 0

# Whether records are taken: by a master whose writes are not stopped, whose lease runs, and which
# has enough brokers in sync.
cdef inline bint is_writable(const Role* r) noexcept nogil:
    return r.facts & FACTS_UNWRITABLE == 0

# A slave whose master's log comes.
cdef inline bint has_master(const Role* r) noexcept nogil:
    return r.facts & FACT_REPLICATING != 0

cdef inline bint is_unconfirmed(const Role* r) noexcept nogil:
    return r.facts & FACT_UNCONFIRMED != 0

cdef inline bint slaves_missing(const Role* r) noexcept nogil:
    return r.facts & FACT_SLAVES_MISSING != 0

cdef inline bint set_is_short(const Role* r) noexcept nogil:
    return r.facts & FACT_SET_SHORT != 0

cdef inline bint lease_is_over(const Role* r) noexcept nogil:
    return r.facts & FACT_LEASE_OVER != 0

cdef inline bint sends_wait(const Role* r) noexcept nogil:
    return r.facts & FACT_SENDS_WAIT != 0

# Why nothing is written, zero-terminated, and the code of it for a send; only while it is not
# writable.
cdef const char* refuse_remark(const Role* r) noexcept nogil
cdef int32_t refuse_code(const Role* r) noexcept nogil
# Why nobody is shown messages (SYSTEM_BUSY), zero-terminated; NULL: they are shown. `slave_read`:
# of the options.
cdef const char* read_refusal(const Role* r, int32_t slave_read) noexcept nogil

cdef const char* LEASE_IS_OVER
