"""Turn room: what one turn may append, asked for once before a request changes anything.

    the list of records to dispatch      dispatch_max entries
    the ring of the log's tail           all but what is not written yet, or is being read
    answers that wait for `written`      those of promise.pxd

The end of a turn writes, dispatches and answers, and so empties all three. A request that finds no
room is told RING_FULL, has changed nothing, and comes first in the next turn, which follows at
once:

    a request from its connection    Outcome TURN_FULL: its bytes stay where they are (reactor.pxd)
    one that control gave back, that stays at the head of its row (control_inbox.pyx,
    was parked or is postponed       parked_requests.pxd, postponed_requests.pxd)
    what comes from no request       its loop stops there (schedule, timer_deliver, revive,
                                     pop_merge, pop_answer, write_ops)

So no write-out happens, and no other client is answered, in the middle of a request.

An empty turn has room for the largest request: a record or batch of max_record_bytes takes at most
half of the ring, and a batch at most DISPATCH_MAX entries; room_open() checks this. With a store
pool a turn has room only as far as the committer has got on: the next turn waits for it, for
POOL_WAIT_US at most. When a whole turn has moved nothing there is no sense in waiting: NOT_READY,
a refusal.

In a file that a start has made or continued, blocks are allocated while it is used
(commit_log.pxd). Backpressure keeps small messages from overtaking that. Large ones may have come
already, all at once: then the next turns wait for the blocks, for page_cache_busy_ms in all at
most, and after that no turn waits before some blocks have come.

Connections come first in a turn and might leave nothing to the others for ever. When the others
found no room, half of the list and room for one record in the ring are theirs in the next turn.

A queue is asked for room for one entry, in its tail chunk as it was when the turn began; further
records of the turn may find no room for theirs (queue_store.pxd). While such a record waits for its
entry (dispatch.pxd) the list takes nothing, and a request that asks for room is told why.

Example: two clients have 10,000 sends each under way, and all of them are here: one turn appends
16,384, writes and answers them; the next begins with the 6,385th of the second client.

Reactor only.
"""
from libc.stdint cimport int32_t, uint32_t

from cext.flow.append.appender cimport Appender
from cext.flow.context.step cimport Step
from cext.store.queues.consume_queue cimport Queue

# Called when the log is there. Checks that an empty turn has room for the largest request.
cdef void room_open(Appender s) noexcept nogil
# Once a turn, before anything is received; and once when its connections have had their part.
cdef Step room_step(Appender s) noexcept
cdef Step whole_room_step(Appender s) noexcept

# Whether this turn has room for `bytes` more bytes in the log and `records` more entries in the
# queue. OK | RING_FULL (not in this turn) | NOT_READY | NO_SPACE | POISONED | TOO_LARGE | IO_ERROR.
cdef int append_room(Appender s, Queue* queue, uint32_t bytes, int32_t records) noexcept nogil
# The same for a request of which nothing was done yet, and which asks for no other room: when
# blocks for it are on their way, RING_FULL instead of NOT_READY.
cdef int send_room(Appender s, Queue* queue, uint32_t bytes, int32_t records) noexcept nogil
# append_room() for a request that appends several records, maybe to several queues: OK | RING_FULL
# | NOT_READY | NO_SPACE | IO_ERROR. After OK, append_room() for each of them does not say
# RING_FULL.
cdef int turn_room(Appender s, uint32_t bytes, int32_t records) noexcept nogil
# The status for a request that found no room for `bytes`: RING_FULL, or NOT_READY when the next
# turn would have none either; while a queue has no room for an entry, NO_SPACE | IO_ERROR too.
cdef int no_room(Appender s, uint32_t bytes) noexcept nogil
