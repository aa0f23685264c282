"""One turn of the reactor, and the loop of turns.

    poll      wait; accept; receive; every whole frame -> its handler (request_router.pxd)
    gather    SYNC_FLUSH: once more for what has arrived meanwhile, as one sync is to serve all;
              when the turn has no more room, what came stays unread (turn_room.pxd)
    control   frames and calls that came from the control thread; postponed requests
    delayed   messages that are due are appended to their topics, a bounded number
    write     one pwritev for all records of the turn; queue entries; sends due at `written` acked
    pulls     those of the turn and those woken by its messages
    sync      SYNC_FLUSH on a quick disk: fdatasync here; on a slow one the flusher is woken
    durable   sends due at `durable` acked
    flush     one writev per connection with replies
    timers    held pulls whose time is over, sync timeouts, idle connections

Nothing in a turn waits for a lock or the interpreter, and for a disk only while its syncs usually
take less than a millisecond (cext/store/flusher.pxd): to hand over and back would take as long.
"""
from cext.flow.shard_state cimport ShardState

cdef void run_turn(ShardState s) noexcept nogil
# Turns until `stopping` is set and what is under way has been answered.
cdef void run_turns(ShardState s) noexcept nogil
