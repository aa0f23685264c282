"""What each group was given of each topic. See handed.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, malloc, realloc
from libc.string cimport memcpy

from cext.base.status cimport OK, POOL_EMPTY
from cext.flow.tables.group_table cimport group_find
from cext.memory.name_map cimport NameEntry, name_map_find, name_map_next

cdef enum:
    GROUPS_PER_CALL = 64
    PAIR_FIXED_BYTES = 24


cdef Handed* handed_of(Group* group, Topic* topic) noexcept nogil:
    cdef Handed* at = group.handed
    cdef Handed* before = NULL
    cdef int count = 0
    while at != NULL and at.topic != topic:
        before = at
        at = at.next
        count += 1
    if at != NULL:
        if before != NULL:
            before.next = at.next
            at.next = group.handed
            group.handed = at
        return at
    if count == HANDED_TOPICS_MAX:
        return NULL
    at = <Handed*> calloc(1, sizeof(Handed))
    if at != NULL:
        at.topic = topic
        at.next = group.handed
        group.handed = at
    return at


cdef void handed_grow(Handed* handed, int32_t queue_id) noexcept nogil:
    cdef int32_t slots = 8
    cdef int64_t* pulled
    if handed == NULL or queue_id < handed.slots:
        return
    while slots <= queue_id:
        slots *= 2
    pulled = <int64_t*> realloc(handed.pulled, slots * sizeof(int64_t))
    if pulled == NULL:
        return
    handed.pulled = pulled
    while handed.slots < slots:
        pulled[handed.slots] = -1
        handed.slots += 1


cdef Handed* handed_find(ShardState s, const uint8_t* topic, uint32_t topic_length,
                         const uint8_t* group, uint32_t group_length) noexcept nogil:
    cdef void* wanted = name_map_find(&s.topics, topic, topic_length)
    cdef Group* found = group_find(&s.groups, group, group_length)
    cdef Handed* at = found.handed if found != NULL and wanted != NULL else NULL
    while at != NULL and at.topic != wanted:
        at = at.next
    return at


cdef void call_copy_pulled(ShardState s, Arguments* x) noexcept nogil:
    cdef const Handed* handed = handed_find(s, x.a, x.a_bytes, x.b, x.b_bytes)
    x.block_bytes = 8 * <uint64_t> handed.slots if handed != NULL else 0
    x.block = <uint8_t*> malloc(x.block_bytes + 1)
    x.status = OK if x.block != NULL else POOL_EMPTY
    if x.block != NULL and x.block_bytes > 0:
        memcpy(x.block, handed.pulled, x.block_bytes)


cdef uint64_t pairs_bytes(const NameEntry* entry) noexcept nogil:
    cdef const Handed* at = (<Group*> entry.value).handed
    cdef uint64_t bytes = 0
    while at != NULL:
        if at.messages > 0:
            bytes += PAIR_FIXED_BYTES + entry.length + (<Topic*> at.topic).name_length
        at = at.next
    return bytes


cdef uint8_t* copy_pairs(uint8_t* out, const NameEntry* entry) noexcept nogil:
    cdef const Handed* at = (<Group*> entry.value).handed
    cdef const Topic* topic
    while at != NULL:
        if at.messages > 0:
            topic = <Topic*> at.topic
            memcpy(out, &entry.length, 4)
            memcpy(out + 4, &topic.name_length, 4)
            memcpy(out + 8, &at.messages, 8)
            memcpy(out + 16, &at.bytes, 8)
            memcpy(out + PAIR_FIXED_BYTES, entry.name, entry.length)
            out += PAIR_FIXED_BYTES + entry.length
            memcpy(out, topic.name, topic.name_length)
            out += topic.name_length
        at = at.next
    return out


cdef void call_copy_handed(ShardState s, Arguments* x) noexcept nogil:
    cdef NameEntry* entry
    cdef uint64_t start = <uint64_t> x.numbers[0], cursor, bytes = 1
    cdef uint8_t* at
    cdef int _i, count = 0
    cursor = name_map_next(&s.groups.groups, start, &entry)
    while cursor != 0 and count < GROUPS_PER_CALL:
        bytes += pairs_bytes(entry)
        count += 1
        cursor = name_map_next(&s.groups.groups, cursor, &entry)
    x.block = at = <uint8_t*> malloc(bytes)
    if at == NULL:
        x.status = POOL_EMPTY
        return
    x.results[0] = 0
    cursor = start
    for _i in range(count):
        cursor = name_map_next(&s.groups.groups, cursor, &entry)
        at = copy_pairs(at, entry)
        x.results[0] = <int64_t> cursor
    x.block_bytes = <uint64_t> (at - x.block)
    x.status = OK


cdef int read_handed(const Arguments* x, dict out) except -1:
    cdef const uint8_t* at = x.block
    cdef const uint8_t* end = at + x.block_bytes
    cdef uint32_t group_bytes, topic_bytes
    cdef uint64_t numbers[2]
    while at < end:
        memcpy(&group_bytes, at, 4)
        memcpy(&topic_bytes, at + 4, 4)
        memcpy(numbers, at + 8, 16)
        names = (<const char*> at)[PAIR_FIXED_BYTES:PAIR_FIXED_BYTES + group_bytes + topic_bytes]
        out[names[:group_bytes], names[group_bytes:]] = (numbers[0], numbers[1])
        at += PAIR_FIXED_BYTES + group_bytes + topic_bytes
    return 0
