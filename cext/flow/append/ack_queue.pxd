"""Ack queue: requests whose records are in the log and that wait for their answer, in log order.

There is one queue for each mark that answers wait for. An entry is due when the mark has reached
its `end`; since entries are in log order, only the first one is ever looked at.

A mark is a set of conditions, one bit each. It has reached the lowest offset that any of its
conditions has reached, so an answer that must be durable here and at the slaves waits in one queue,
not in two. promise.pxd says which mark an answer waits for, acknowledgement.pxd how far each is.

Example: written = 1000; entries end at 400, 1000, 1400: two replies go out, the third waits.
Example: durable = 1400, replicated = 1000: CONFIRMED is 1000; at replicated = 2000 it is 1400.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from cext.base.check cimport debug_check
from cext.memory.arena cimport Arena
from cext.net.connection cimport Connection

cdef enum:
    UNIQ_KEY_MAX = 64           # bytes of the message's UNIQ_KEY given back

cdef enum Mark:                 # conditions beside `written`, which every mark includes
    MARK_WRITTEN = 0            # in the log's file: kill -9 of the process does not lose it
    MARK_DURABLE = 1            # on this machine's disk
    MARK_REPLICATED = 2         # in the log of every slave that must have it
    MARK_CONFIRMED = 3          # both
    MARKS = 4

cdef enum Answer:
    ANSWER_SEND = 0             # where the message is
    ANSWER_CODE = 1             # a code and a remark: the request was not a send
    ANSWER_RECALL = 2           # the key of the message that is recalled
    ANSWER_CHANGE = 3           # since when and for how long a popped message is invisible

cdef struct AckReply:           # what an answer needs of its request
    Connection* connection      # borrowed; valid while its id is connection_id; NULL: no answer
    uint64_t connection_id
    int32_t opaque
    int32_t version
    uint16_t request_code
    uint8_t serialize_type

cdef struct ChangedTime:
    int64_t pop_ms
    int64_t invisible_ms
    int32_t revive_queue

cdef struct PendingAck:
    int64_t end                 # log offset behind the (last) record
    int64_t physical_offset     # of the (first) record
    int64_t queue_offset        # of the (first) message
    int64_t arrived_ms          # monotonic; timeouts of the mark count from here
    AckReply to
    uint8_t* early_reply        # of a batch or a long key: jumbo buffer with the ready reply
    uint32_t early_reply_bytes
    int32_t queue_id
    uint8_t uniq_key_bytes
    uint8_t answer              # Answer
    uint8_t has_recall_handle   # a timed message: the reply says how to recall it
    uint8_t uniq_key[UNIQ_KEY_MAX]
    ChangedTime changed         # only for ANSWER_CHANGE

cdef struct AckQueue:
    PendingAck* entries         # in the arena; as many as a power of two
    uint64_t mask
    uint64_t head               # oldest waiting
    uint64_t tail               # next free

cdef struct Acks:
    AckQueue waiting[MARKS]     # by Mark
    int64_t durable_seen        # `durable` at the last look, once a turn

# What ack_queue_open takes from the arena.
cdef uint64_t ack_queue_arena_bytes(uint64_t capacity) noexcept nogil
cdef int ack_queue_open(AckQueue* queue, Arena* arena, uint64_t capacity) noexcept nogil

cdef inline bint ack_queue_is_empty(const AckQueue* queue) noexcept nogil:
    return queue.head == queue.tail

# Whether anything waits for a mark with one of these conditions.
cdef inline bint acks_wait(const Acks* acks, int32_t conditions) noexcept nogil:
    cdef int32_t mark
    for mark in range(1, MARKS):
        if mark & conditions and not ack_queue_is_empty(&acks.waiting[mark]):
            return True
    return False

cdef inline bint ack_queue_has_room(const AckQueue* queue, int32_t count) noexcept nogil:
    return queue.tail - queue.head + <uint32_t> count <= queue.mask + 1

# The next free entry, or NULL when the queue is full; ack_queue_push() then adds it.
cdef inline PendingAck* ack_queue_reserve(AckQueue* queue) noexcept nogil:
    if queue.tail - queue.head > queue.mask:
        return NULL
    return &queue.entries[queue.tail & queue.mask]

cdef inline void ack_queue_push(AckQueue* queue) noexcept nogil:
    cdef const PendingAck* ack = &queue.entries[queue.tail & queue.mask]
    cdef const PendingAck* before = &queue.entries[(queue.tail - 1) & queue.mask]
    debug_check(queue.head == queue.tail or before.end <= ack.end,
                b"answers that wait: they are in the order of the log", before.end, ack.end)
    queue.tail += 1

# The oldest entry, or NULL when nothing waits.
cdef inline PendingAck* ack_queue_first(AckQueue* queue) noexcept nogil:
    if queue.head == queue.tail:
        return NULL
    return &queue.entries[queue.head & queue.mask]

cdef inline void ack_queue_pop(AckQueue* queue) noexcept nogil:
    debug_check(queue.head < queue.tail and queue.tail - queue.head <= queue.mask + 1,
                b"answers that wait: no more are given than wait", queue.head, queue.tail)
    queue.head += 1
