"""Requests whose records are in the log and that wait for their answer, in log order.

There is one for each mark that answers wait for (promise.pxd). An entry is due when the mark has
reached its `end`; since entries are in log order only the first one is ever looked at.

Example: written = 1000; entries end at 400, 1000, 1400: two replies go out, the third waits.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from cext.memory.arena cimport Arena
from cext.net.connection cimport Connection

cdef enum:
    UNIQ_KEY_MAX = 64           # bytes of the message's UNIQ_KEY given back

cdef enum Answer:
    ANSWER_SEND = 0             # where the message is
    ANSWER_CODE = 1             # a code and a remark: the request was not a send
    ANSWER_RECALL = 2           # the key of the message that is recalled
    ANSWER_CHANGE = 3           # from when on, and for how long, a popped message is invisible

cdef struct AckReply:           # what an answer needs of its request
    Connection* connection      # borrowed, and good while its id is connection_id; NULL: none
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
    int64_t deadline_ms         # monotonic; after it FLUSH_DISK_TIMEOUT is answered
    AckReply to
    uint8_t* early_reply        # of a batch or a long key: jumbo buffer with the ready reply
    uint32_t early_reply_bytes
    int32_t queue_id
    uint8_t uniq_key_bytes
    uint8_t answer              # Answer
    uint8_t has_recall_handle   # a timed message: the reply says how to recall it
    uint8_t uniq_key[UNIQ_KEY_MAX]
    ChangedTime changed         # of ANSWER_CHANGE alone

cdef struct AckQueue:
    PendingAck* entries         # of the arena, touched as far as used; capacity a power of two
    uint64_t mask
    uint64_t head               # oldest waiting
    uint64_t tail               # next free

# What ack_queue_open takes from the arena.
cdef uint64_t ack_queue_room(uint64_t capacity) noexcept nogil
cdef int ack_queue_open(AckQueue* queue, Arena* arena, uint64_t capacity) noexcept nogil

# The next free entry, or NULL when full; it counts once ack_queue_push() is called.
cdef inline PendingAck* ack_queue_reserve(AckQueue* queue) noexcept nogil:
    if queue.tail - queue.head > queue.mask:
        return NULL
    return &queue.entries[queue.tail & queue.mask]

cdef inline void ack_queue_push(AckQueue* queue) noexcept nogil:
    queue.tail += 1

# The oldest entry, or NULL when nothing waits.
cdef inline PendingAck* ack_queue_first(AckQueue* queue) noexcept nogil:
    if queue.head == queue.tail:
        return NULL
    return &queue.entries[queue.head & queue.mask]

cdef inline void ack_queue_pop(AckQueue* queue) noexcept nogil:
    queue.head += 1
