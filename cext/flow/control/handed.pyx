"""What each group was given of each topic. See handed.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, malloc
from libc.string cimport memcpy

from cext.base.status cimport OK, POOL_EMPTY
from cext.memory.name_map cimport NameEntry, name_map_next

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
