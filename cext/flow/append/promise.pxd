"""Promise: an answer waits until a mark of the log has passed the records of its request.

    flushDiskType   slaves      the mark    what an answered request survives
    ASYNC_FLUSH     no          WRITTEN     kill -9 of the process
    SYNC_FLUSH      no          DURABLE     a power cut
    ASYNC_FLUSH     yes         REPLICATED  the loss of this machine
    SYNC_FLUSH      yes         CONFIRMED   either of these

With a store pool (ASYNC_FLUSH only) `appended` stands for `written`: a kill loses what is not
committed yet. A send whose property WAIT is false waits for WRITTEN in any case.

Every answer that promises a record goes through here, whatever the request was, and promise_mark()
is the only place that knows which mark the answer waits for. docs/promises.md has a row for each
request code; a test goes through them with a slow disk. State in memory (bits of half messages,
offsets, rings) changes before the answer; so a client that asks a second time for what is done
already is answered at the same mark as the first time.

    reply_to()          where the answer goes (acknowledgement.pxd)
    promise_room_to()   before anything is changed: is there room for the answer to wait
    ...                 records are appended, state in memory changes
    promise()           the answer waits for the end of the log as it is now

Example: SYNC_FLUSH, a commit ends at 1400, durable = 1000. The answer leaves when the sync that
carried the commits of 63 other clients moves durable to 9800.

Reactor only.
"""
from libc.stdint cimport int32_t

from cext.base.status cimport OK
from cext.flow.append.ack_queue cimport MARK_WRITTEN, AckReply, PendingAck, ack_queue_has_room
from cext.flow.append.appender cimport Appender
from cext.store.log.log_link cimport log_is_poisoned

# The mark that an answer waits for. `wait`: False for a send with the property WAIT=false.
cdef inline int32_t promise_mark(Appender s, bint wait) noexcept nogil:
    return s.turn.options.sync_flush | s.turn.options.sync_replicas << 1 if wait else MARK_WRITTEN

# OK: one more answer may wait, at any mark. RING_FULL: not in this turn (turn_room.pxd).
# NOT_READY: too many wait for the disk. POISONED: nothing is promised any more.
cdef inline int promise_room(Appender s) noexcept nogil:
    if (ack_queue_has_room(&s.acks.waiting[<int> MARK_WRITTEN], 1)
            and ack_queue_has_room(&s.acks.waiting[promise_mark(s, True)], 1)
            and not log_is_poisoned(&s.log.link)):
        return OK
    return promise_room_for(s, 1)

# The same for `count` answers at one mark.
cdef int promise_room_for(Appender s, int32_t count) noexcept nogil

# The same for this request; OK also when it wants no answer.
cdef inline int promise_room_to(Appender s, const AckReply* to) noexcept nogil:
    return promise_room(s) if to.connection != NULL else OK

# After promise_room_to(): queues the answer, to be sent when all that the log holds now is safe.
# Returns the queue's entry: `end`, `arrived_ms`, `to` and `answer` are set, the other fields are 0
# and may be filled in. NULL for a request that wants no answer.
cdef PendingAck* promise(Appender s, const AckReply* to, int32_t answer) noexcept nogil
# The same at a mark that promise_mark() gave.
cdef PendingAck* promise_at(Appender s, const AckReply* to, int32_t answer,
                            int32_t mark) noexcept nogil
