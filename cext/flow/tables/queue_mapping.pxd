"""Queue mapping: the logical queues of a static topic, as the reactor sees them.

rmq/broker/tables/queue_mapping.py says what they are. Here each logical queue is a run of items,
oldest first; an item says which part of the logical queue a physical queue holds.

    items    logical 0: [queue 0 here, base 0] [queue 2 elsewhere, base 10000]   led elsewhere
             logical 1: [queue 1 here, base 0]                                   led here

For a topic without a mapping, as nearly all topics are, the cost is one look. Control makes a new
mapping for each change; code that needs a part of it across turns copies that part (LogicPlace).

Example: a pull of logical 1 at offset 7 finds (queue 1, offset 7); a pull of logical 0 is refused.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.wire.header cimport Header, header_find
from cext.wire.text cimport Text, text_is_true

cdef enum Finding:
    LED_HERE = 0
    LED_ELSEWHERE = 1           # another broker leads the queue, or nobody knows who does
    KEPT_ELSEWHERE = 2          # led here, but another broker holds what lies at this offset
    NOT_PLACED = 3              # led here, but it has no offsets yet

cdef struct LogicItem:
    int32_t logic_id            # of the logical queue
    int32_t queue_id            # of the physical one, on its broker
    bint here                   # its broker is this broker
    int64_t base                # logical offset of the item's beginning; negative: not known yet
    int64_t start               # the same place as offset in the physical queue
    int64_t end                 # behind its last message in the physical queue; -1: not known

cdef struct LogicQueue:
    int32_t first               # index of its first item
    int32_t count               # 0: this broker knows nothing of it

cdef struct QueueMapping:
    int32_t queue_count         # logical queues
    int32_t item_count
    LogicQueue* queues          # in one block of memory with this struct, like items
    LogicItem* items

cdef struct LogicPlace:         # of a pull; a copy, as the mapping may change before the answer
    bint mapped                 # False: an ordinary topic, and no field below is set
    bint oldest                 # it is in the oldest item
    int32_t queue_id            # physical
    int64_t offset              # physical
    int64_t base                # as in LogicItem
    int64_t start
    int64_t end
    int64_t following           # logical offset of the next item's beginning; -1: none is known
    int64_t known_end           # the logical queue's end as far as the mapping knows it

# OK, MALFORMED or POOL_EMPTY (no memory). For 0 bytes *out is NULL. The caller frees it by free().
cdef int queue_mapping_make(const uint8_t* bytes, uint32_t length,
                            QueueMapping** out) noexcept nogil
# The item that a message sent to this logical queue goes to; NULL: another broker leads the queue.
# A `logic_id` of -1 stands for any queue that is led here, searched from number `random` on.
cdef const LogicItem* logic_leader(const QueueMapping* mapping, int32_t logic_id,
                                   uint32_t random) noexcept nogil
# Finds the message at this logical offset; sets `out` unless it is LED_ELSEWHERE or NOT_PLACED.
cdef Finding logic_find(const QueueMapping* mapping, int32_t logic_id, int64_t offset,
                        LogicPlace* out) noexcept nogil


cdef inline bint is_logical(const Header* header) noexcept nogil:
    """Whether the request means logical queues; a broker that asks another one says lo=false."""
    cdef const Text* lo = header_find(header, b"lo")
    return lo == NULL or text_is_true(lo)


cdef inline int64_t logic_offset_sent(const LogicItem* item, int64_t physical) noexcept nogil:
    """The logical offset of a message that was just stored; -1: not known yet."""
    if item.base < 0:
        return -1
    return item.base + (physical - item.start if physical > item.start else 0)


cdef inline int64_t logic_offset_of(const LogicPlace* place, int64_t physical) noexcept nogil:
    return place.base + (physical - place.start if physical > place.start else 0)


cdef inline int64_t logic_item_end(const LogicPlace* place, int64_t queue_end) noexcept nogil:
    """The offset behind the item's last message, in the physical queue."""
    return place.end if place.start < place.end < queue_end else queue_end
