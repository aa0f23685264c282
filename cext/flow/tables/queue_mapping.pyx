"""Queue mapping. See queue_mapping.pxd."""
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from cext.base.status cimport MALFORMED, OK, POOL_EMPTY
from cext.wire.limits cimport MAPPING_ITEMS_MAX, TOPIC_QUEUES_MAX

cdef struct PackedHead:             # as QueueMapping.packed() in rmq/broker/tables writes it
    int32_t queue_count
    int32_t item_count

cdef struct PackedItem:
    int32_t logic_id                # ascending; equal ones oldest first
    int32_t queue_id
    int32_t here
    int32_t spare
    int64_t base
    int64_t start
    int64_t end


cdef bint add_item(QueueMapping* mapping, int32_t number, const PackedItem* given) noexcept nogil:
    cdef LogicItem* item = &mapping.items[number]
    cdef LogicQueue* queue
    if not 0 <= given.logic_id < mapping.queue_count or given.queue_id < 0 or given.start < 0:
        return False
    queue = &mapping.queues[given.logic_id]
    if queue.count == 0:
        queue.first = number
    elif queue.first + queue.count != number:
        return False                    # the items of a logical queue do not lie together
    queue.count += 1
    item.logic_id = given.logic_id
    item.queue_id = given.queue_id
    item.here = given.here != 0
    item.base = given.base
    item.start = given.start
    item.end = given.end
    return True


cdef int queue_mapping_make(const uint8_t* bytes, uint32_t length,
                            QueueMapping** out) noexcept nogil:
    cdef PackedHead head
    cdef PackedItem item
    cdef QueueMapping* mapping
    cdef int32_t i
    out[0] = NULL
    if length == 0:
        return OK
    if length < sizeof(head):
        return MALFORMED
    memcpy(&head, bytes, sizeof(head))
    if (not 0 <= head.queue_count <= TOPIC_QUEUES_MAX
            or not 0 <= head.item_count <= MAPPING_ITEMS_MAX
            or length != sizeof(head) + head.item_count * sizeof(item)):
        return MALFORMED
    mapping = <QueueMapping*> malloc(sizeof(QueueMapping) + head.item_count * sizeof(LogicItem)
                                     + head.queue_count * sizeof(LogicQueue))
    if mapping == NULL:
        return POOL_EMPTY
    mapping.queue_count = head.queue_count
    mapping.item_count = head.item_count
    mapping.items = <LogicItem*> (mapping + 1)
    mapping.queues = <LogicQueue*> (mapping.items + head.item_count)
    memset(mapping.queues, 0, head.queue_count * sizeof(LogicQueue))
    for i in range(head.item_count):
        memcpy(&item, bytes + sizeof(head) + i * sizeof(item), sizeof(item))
        if not add_item(mapping, i, &item):
            free(mapping)
            return MALFORMED
    out[0] = mapping
    return OK


cdef inline const LogicItem* leader_of(const QueueMapping* mapping,
                                       int32_t logic_id) noexcept nogil:
    """NULL: another broker leads the queue."""
    cdef const LogicQueue* queue = &mapping.queues[logic_id]
    cdef const LogicItem* last
    if queue.count == 0:
        return NULL
    last = &mapping.items[queue.first + queue.count - 1]
    return last if last.here else NULL


cdef const LogicItem* logic_leader(const QueueMapping* mapping, int32_t logic_id,
                                   uint32_t random) noexcept nogil:
    cdef const LogicItem* leader
    cdef int32_t _i, at
    if logic_id >= mapping.queue_count:
        return NULL
    if logic_id >= 0:
        return leader_of(mapping, logic_id)
    if mapping.queue_count == 0:
        return NULL
    at = <int32_t> (random % <uint32_t> mapping.queue_count)
    for _i in range(mapping.queue_count):
        leader = leader_of(mapping, at)
        if leader != NULL:
            return leader
        at = at + 1 if at + 1 < mapping.queue_count else 0
    return NULL


cdef Finding logic_find(const QueueMapping* mapping, int32_t logic_id, int64_t offset,
                        LogicPlace* out) noexcept nogil:
    cdef const LogicQueue* queue
    cdef const LogicItem* items
    cdef const LogicItem* item
    cdef int32_t at, placed
    if not 0 <= logic_id < mapping.queue_count or leader_of(mapping, logic_id) == NULL:
        return LED_ELSEWHERE
    queue = &mapping.queues[logic_id]
    items = mapping.items + queue.first
    placed = queue.count                    # only the last item may lack a place
    if items[placed - 1].base < 0:
        placed -= 1
    if placed == 0 or items[0].base < 0:
        return NOT_PLACED
    at = placed - 1
    while at > 0 and offset < items[at].base:
        at -= 1
    item = &items[at]
    out.mapped = True
    out.oldest = at == 0
    out.queue_id = item.queue_id
    out.base = item.base
    out.start = item.start
    out.end = item.end
    out.following = items[at + 1].base if at + 1 < placed else -1
    # Before the item's beginning there is nothing: -1 is answered as too small an offset.
    out.offset = offset - item.base + item.start if offset >= item.base else -1
    item = &items[queue.count - 1]
    out.known_end = item.base + (item.end - item.start if item.end > item.start else 0)
    return LED_HERE if items[at].here else KEPT_ELSEWHERE
