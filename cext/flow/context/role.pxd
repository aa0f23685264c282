"""Role: whether this core makes its log (leader) or keeps a copy of another core's (follower).

What a follower does not do, and what clients are told, which is what RocketMQ's slaves say:

    sends, messages sent back, pops, acks, changes    14 SERVICE_NOT_AVAILABLE
    ends of transactions, recalls                     11 SLAVE_NOT_AVAILABLE; nothing when one-way
    pulls                                             served. An offset beyond the queue's end is
                                                      held as one at it, and one below its start is
                                                      20: a follower may be behind, so it resets
                                                      nobody's offset. While the master's log comes,
                                                      none is held longer than a second: its client
                                                      is sent back. slaveReadEnable=false: 2,
                                                      and 2 while its queues hold what may be cut
    peeks, notifications                              served, and refused as pulls are
    delay levels, timers, revival of pops, check      not run; appends of the control thread are
    backs, ops of ended transactions                  errors

Nothing but append_raw() adds to a follower's log: message_append.pyx refuses the rest, whoever
asks.

The role, the stop of writes (full disk, a shard that is taken off), and what a controller grants
are different things: `writable` is true for a leader whose writes are not stopped, whose lease
runs, and which has enough brokers in sync; all of these change it through here.

Example: a follower's disk fills up and has room again: writes are stopped, then taken again, and it
is a follower all the time.
"""
from libc.stdint cimport int32_t

from cext.flow.context.turn_context cimport TurnContext
from cext.wire.text cimport Text

cdef void set_role(TurnContext t, bint follower) noexcept nogil
# `reason`: what is told to who is refused, cut at TEXT_MAX.
cdef void set_write_stop(TurnContext t, bint stop, const Text* reason) noexcept nogil
# Fewer brokers are in sync than must have what is stored (minInSyncReplicas).
cdef void set_in_sync_short(TurnContext t, bint short) noexcept nogil
cdef void set_lease_over(TurnContext t, bint over) noexcept nogil
# Why nothing is written, zero-terminated, and the code of it for a send; only while not t.writable.
cdef const char* refuse_remark(TurnContext t) noexcept nogil
cdef int32_t refuse_code(TurnContext t) noexcept nogil
# Why nobody is shown messages (SYSTEM_BUSY), zero-terminated; NULL: they are shown.
cdef const char* read_refusal(TurnContext t) noexcept nogil

cdef const char* LEASE_IS_OVER
