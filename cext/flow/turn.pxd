"""One turn of the reactor, and the loop of turns.

    poll      wait; accept; receive; every whole frame -> produce | pull | control thread
    control   frames and calls that came from the control thread
    write     one pwritev for all records of the turn; queue entries; sends due at `written` acked
    pulls     those of the turn and those woken by its messages
    durable   sends due at `durable` acked
    flush     one writev per connection with replies
    timers    held pulls whose time is over, sync timeouts, idle connections

Nothing in a turn waits for a disk, a lock or the interpreter.
"""
from cext.flow.shard_state cimport ShardState

# Callbacks of the network half (cext/net/reactor.pxd).
cdef void connect_callbacks(ShardState s) noexcept nogil
# Turns until `stopping` is set and what is under way has been answered.
cdef void run_turns(ShardState s) noexcept nogil
