"""Role: whether this core makes its log (leader) or keeps a copy of another core's (follower).

What a follower does not do, and what clients are told, which is what RocketMQ's slaves say:

    sends, messages sent back, pops, acks, changes    14 SERVICE_NOT_AVAILABLE
    ends of transactions, recalls                     11 SLAVE_NOT_AVAILABLE; nothing when one-way
    pulls                                             served. An offset beyond the queue's end is
                                                      held as one at it, and one below its start is
                                                      20: a follower may be behind, so it resets
                                                      nobody's offset
    delay levels, timers, revival of pops, check      not run; appends of the control thread are
    backs, ops of ended transactions                  errors

Nothing but append_raw() adds to a follower's log: message_append.pyx refuses the rest, whoever
asks.

The role and the stop of writes (full disk, a shard that is taken off) are two things: `writable` is
true for a leader whose writes are not stopped, and both change it through here.

Example: a follower's disk fills up and has room again: writes are stopped, then taken again, and it
is a follower all the time.
"""
from cext.flow.context.turn_context cimport TurnContext
from cext.wire.text cimport Text

cdef void set_role(TurnContext t, bint follower) noexcept nogil
# `reason`: what is told to who is refused, cut at TEXT_MAX.
cdef void set_write_stop(TurnContext t, bint stop, const Text* reason) noexcept nogil
# Why nothing is written, zero-terminated; only while not t.writable.
cdef const char* refuse_remark(TurnContext t) noexcept nogil
