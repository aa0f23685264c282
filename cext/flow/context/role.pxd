"""Role: whether this core makes its log (master) or keeps a copy of another core's (slave).

It is a state of the core. Only role.pyx changes it, and only by the events that it has functions
for; an impossible change ends the process:

    MASTER                   from the start; also a slave that was promoted, whose stream has ended
    SLAVE                    also a master that was demoted; its master's log does not come
    REPLICATING              a slave whose master's log comes
    UNCONFIRMED              a slave whose queues hold records that may be cut, as control says:
                             clients are given no messages
    REPLICATING_UNCONFIRMED  the same, while its master's log comes: only that master can confirm
                             what this slave has

Steps ask for bits of `facts`. Some facts belong to the state and change only with it. The others
are independent of the state and of each other: the stop of writes (full disk, a shard that is taken
off), and what a controller grants.

What a slave does not do, and what clients are told instead, which is what RocketMQ's slaves say:

    sends, messages sent back, pops, acks, changes    14 SERVICE_NOT_AVAILABLE
    ends of transactions, recalls                     11 SLAVE_NOT_AVAILABLE; nothing when one-way
    pulls                                             served. An offset beyond the queue's end is
                                                      held as one at it, and one below its start is
                                                      20: a slave may be behind, so it resets
                                                      nobody's offset. While the master's log comes,
                                                      no pull is held longer than a second; then its
                                                      client is sent back. With
                                                      slaveReadEnable=false, or while its queues
                                                      hold what may be cut: 2
    peeks, notifications                              served, and refused as pulls are
    delay levels, timers, revival of pops, check      not run; appends of the control thread are
    backs, ops of ended transactions                  errors

A master that may not write (FACTS_UNWRITABLE) refuses the first row with 14 as well; but when all
that is wrong is FACT_SET_SHORT, it refuses sends with RocketMQ's 1, "in-sync replicas not enough".

Only append_raw() adds to a slave's log: message_append.pyx refuses everything else, whoever asks.

Example: a slave's disk fills up and has room again: FACT_STOPPED comes and goes, and the core is a
slave all the time.

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
    # Facts of the state.
    FACT_SLAVE = 1                  # the log is a copy
    FACT_REPLICATING = 2            # the master's log comes just now
    FACT_UNCONFIRMED = 4            # queues hold records that may be cut
    # Facts that can hold in any state.
    FACT_STOPPED = 8                # control has stopped writes
    FACT_SET_SHORT = 16             # too few replicas are in sync to store anything
    FACT_LEASE_OVER = 32            # another broker may be master by now
    FACT_SLAVES_MISSING = 64        # fewer slaves follow than answers wait for
    FACT_SENDS_WAIT = 128           # sends wait at control: this is a new master
    # Sets of facts.
    FACTS_OF_STATE = FACT_SLAVE | FACT_REPLICATING | FACT_UNCONFIRMED
    FACTS_UNWRITABLE = FACT_SLAVE | FACT_STOPPED | FACT_SET_SHORT | FACT_LEASE_OVER

cdef struct Role:
    int32_t state                   # RoleState
    uint32_t facts                  # of RoleFact
    int64_t lease_end_ms            # boot time; INT64_MAX: no lease is needed
    uint8_t stop_reason[TEXT_MAX]   # of FACT_STOPPED; zero-terminated

# ------------------------------------------------------------------- what happens

# A master with no other fact.
cdef void role_open(Role* r) noexcept nogil
# Promoted or demoted; no change when it already is a master or a slave.
cdef void role_promote(Role* r) noexcept nogil
cdef void role_demote(Role* r) noexcept nogil
# The log of a slave's master begins to come, or has ended.
cdef void role_stream_began(Role* r) noexcept nogil
cdef void role_stream_ended(Role* r) noexcept nogil
# A slave's queues hold what may be cut; or its master, whose log comes, has confirmed all of it.
cdef void role_doubt(Role* r) noexcept nogil
cdef void role_confirm(Role* r) noexcept nogil

# Sets (`hold`) or clears these facts; none of them may be a fact of the state.
cdef void role_set(Role* r, uint32_t facts, bint hold) noexcept nogil
# Sets or clears FACT_STOPPED. `reason`: what refused clients are told, cut at TEXT_MAX.
cdef void role_stop_writes(Role* r, bint stop, const Text* reason) noexcept nogil

# Sets the end of the lease; FACT_LEASE_OVER follows at the next lease_look().
cdef inline void role_grant(Role* r, int64_t end_ms) noexcept nogil:
    r.lease_end_ms = end_ms

# Brings FACT_LEASE_OVER up to date and returns it.
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

# Whether it is a slave whose master's log comes.
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

# Why nothing is written (zero-terminated), and the response code for a send; only while the core is
# not writable.
cdef const char* refuse_remark(const Role* r) noexcept nogil
cdef int32_t refuse_code(const Role* r) noexcept nogil
# Why no client is given messages (for SYSTEM_BUSY), zero-terminated; NULL when they are given.
# `slave_read`: that of Options.
cdef const char* read_refusal(const Role* r, int32_t slave_read) noexcept nogil

cdef const char* LEASE_IS_OVER
