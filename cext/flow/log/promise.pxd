"""What an answer promises: it waits until a mark of the log has passed what its request brought.

    flushDiskType   the mark    what is lost then
    ASYNC_FLUSH     written     nothing by kill -9 of the process
    SYNC_FLUSH      durable     nothing by a power cut

With a store pool (ASYNC_FLUSH only) `appended` stands for `written`: a kill loses what is not
committed yet. A send whose property WAIT is false waits for `written` in any case.

Every answer that promises a record goes through here, whatever was asked, and promise_queue() is
the only place that knows which mark that is. docs/promises.md has a row for each request code; a
test goes through them with a slow disk. What is in memory (bits of half messages, offsets, rings)
moves before; so who asks again for what was done is answered at the same mark as who asked first.

    reply_to()          who is to be answered (acknowledge.pxd)
    promise_room_to()   before anything is changed: what is appended can be answered
    ...                 records are appended, memory moves
    promise()           the answer, at the end of the log as it is now

Example: SYNC_FLUSH, a commit ends at 1400, durable = 1000. The answer leaves when the sync that
carried the commits of 63 other clients moves durable to 9800.

Reactor only.
"""
from libc.stdint cimport int32_t

from cext.base.status cimport OK
from cext.flow.log.ack_queue cimport AckQueue, AckReply, PendingAck
from cext.flow.shard_state cimport ShardState

# Where the answers wait that are due at the mark of the flush mode. `wait`: False for a send with
# the property WAIT=false.
cdef inline AckQueue* promise_queue(ShardState s, bint wait) noexcept nogil:
    return &s.await_durable if wait and s.options.sync_flush else &s.await_written

# OK: one more answer may wait, whatever its mark; a write-out makes room when need be. NOT_READY:
# too many wait for the disk. POISONED: nothing is promised any more.
cdef int promise_room(ShardState s) noexcept nogil

# The same for this request; OK also when it wants no answer.
cdef inline int promise_room_to(ShardState s, const AckReply* to) noexcept nogil:
    return promise_room(s) if to.connection != NULL else OK

# After promise_room_to(): answered when all that the log holds by now is safe. Returns the entry:
# all of it but who, when and `answer` is zero and may be filled. NULL for who wants no answer.
cdef PendingAck* promise(ShardState s, const AckReply* to, int32_t answer) noexcept nogil
