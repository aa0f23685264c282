"""What the shard keeps for consumers that pop. See pop_table.pxd."""
from libc.stdint cimport int32_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

from cext.base.check cimport check
from cext.base.clock cimport wall_ms
from cext.base.status cimport OK
from cext.flow.fetch.readahead cimport readahead_open
from cext.flow.tables.group_table cimport group_find
from cext.memory.name_map cimport (
    PAIR_BYTES_MAX,
    NameEntry,
    name_map_close,
    name_map_find,
    name_map_next,
    name_map_obtain,
    name_map_open,
    name_map_remove,
    name_pair,
)
from cext.memory.use_count cimport UseCount, free_removed, removed_list_add
from cext.wire.system_topics cimport RETRY_PREFIX, RETRY_PREFIX_BYTES

from rmq.errors import ConfigError

cdef enum:
    SEPARATOR = 10              # a line feed: in no name


cdef PopPair* pair_find(Pops* pops, const Topic* topic, const uint8_t* group,
                        uint32_t group_length) noexcept nogil:
    cdef uint8_t name[PAIR_BYTES_MAX]
    cdef int length = name_pair(name, topic.name, topic.name_length, SEPARATOR, group,
                                group_length)
    return <PopPair*> name_map_find(&pops.pairs, name, length) if length >= 0 else NULL


cdef void link_topic(PopPair* pair, Topic* topic) noexcept nogil:
    """From now on the topic's messages wake the pops that wait in the pair."""
    pair.topic = topic
    pair.next_of_topic = <PopPair*> topic.pop_waiting
    topic.pop_waiting = pair


cdef PopPair* pair_make(Pops* pops, Topic* topic, const uint8_t* group,
                        uint32_t group_length) noexcept nogil:
    """NULL when memory is out."""
    cdef uint8_t name[PAIR_BYTES_MAX]
    cdef int length = name_pair(name, topic.name, topic.name_length, SEPARATOR, group,
                                group_length)
    cdef PopPair* pair
    if length < 0:
        return NULL
    pair = <PopPair*> name_map_obtain(&pops.pairs, name, length, sizeof(PopPair))
    if pair == NULL:
        return NULL
    pair.group = <uint8_t*> malloc(group_length + 1)
    if pair.group == NULL:
        free(name_map_remove(&pops.pairs, name, length))
        return NULL
    memcpy(pair.group, group, group_length)
    pair.group[group_length] = 0
    pair.group_length = group_length
    link_topic(pair, topic)
    return pair


cdef PopPair* pair_obtain(Pops* pops, Topic* topic, const uint8_t* group,
                          uint32_t group_length) noexcept nogil:
    cdef PopPair* pair = pair_find(pops, topic, group, group_length)
    if pair == NULL:
        return (pair_make(pops, topic, group, group_length) if pops.pairs.live < PAIRS_MAX
                else NULL)
    check(pair.topic == topic, b"a pair is removed with its topic", topic.name_length,
          group_length)
    if pair.beside and pops.pairs.live > PAIRS_MAX:
        return NULL                         # as if it did not exist
    pair.beside = False
    return pair


cdef PopPair* pair_of_check_point(Pops* pops, Topic* topic, const uint8_t* group,
                                  uint32_t group_length) noexcept nogil:
    cdef PopPair* pair = pair_find(pops, topic, group, group_length)
    cdef bint beside = pops.pairs.live >= PAIRS_MAX
    if pair == NULL:
        pair = pair_make(pops, topic, group, group_length)
        if pair != NULL:
            pair.beside = beside
    return pair


cdef void unlink_topic(PopPair* pair) noexcept nogil:
    cdef PopPair** link = <PopPair**> &pair.topic.pop_waiting
    while link[0] != pair:
        link = &link[0].next_of_topic
    link[0] = pair.next_of_topic


cdef void unlink_retry_topics(NameMap* topics, const PopPair* pair) noexcept nogil:
    cdef uint8_t name[RETRY_NAME_MAX]
    cdef Topic* topic
    cdef int v2
    for v2 in range(2):
        topic = <Topic*> name_map_find(topics, name, retry_topic_name(pair, v2, name))
        if topic != NULL and topic.pop_retry_of == pair:
            topic.pop_retry_of = NULL


cdef void pair_free(PopPair* pair) noexcept nogil:
    cdef int32_t i
    for i in range(pair.order_slots):
        free(pair.orders[i])
    free(pair.orders)
    free(pair.inflight_counts)
    free(pair.group)
    free_removed(pair, sizeof(PopPair))


cdef void pair_destroy(UseCount* object) noexcept nogil:
    pair_free(<PopPair*> object)


cdef void pair_remove(Pops* pops, NameMap* topics, RemovedList* removed,
                      PopPair* pair) noexcept nogil:
    cdef uint8_t name[PAIR_BYTES_MAX]
    cdef int length = name_pair(name, pair.topic.name, pair.topic.name_length, SEPARATOR,
                                pair.group, pair.group_length)
    check(pair.first == NULL, b"a pair is removed when nobody waits at it", pair.waiting, 0)
    name_map_remove(&pops.pairs, name, length)
    unlink_topic(pair)
    unlink_retry_topics(topics, pair)
    if pair.order_slots > 0:
        pops.order_version += 1             # so that the file forgets its blocks
    pair.topic = NULL
    removed_list_add(removed, &pair.use, pair_destroy)


cdef void pair_leave(Pops* pops, NameMap* topics, RemovedList* removed,
                     PopPair* pair) noexcept nogil:
    if pair.beside and pair.use.uses == 0 and not pair.use.removed:
        pair_remove(pops, topics, removed, pair)


cdef PopPair* next_pair_of_group(Pops* pops, uint64_t* cursor, const uint8_t* group,
                                 uint32_t group_length) noexcept nogil:
    cdef NameEntry* entry
    cdef PopPair* pair
    cursor[0] = name_map_next(&pops.pairs, cursor[0], &entry)
    while cursor[0] != 0:
        pair = <PopPair*> entry.value
        if pair.group_length == group_length and memcmp(pair.group, group, group_length) == 0:
            return pair
        cursor[0] = name_map_next(&pops.pairs, cursor[0], &entry)
    return NULL


cdef uint32_t pop_retry_name(const uint8_t* group, uint32_t group_bytes, const uint8_t* topic,
                             uint32_t topic_bytes, bint v2, uint8_t* out) noexcept nogil:
    cdef uint32_t length = RETRY_PREFIX_BYTES + group_bytes
    memcpy(out, RETRY_PREFIX, RETRY_PREFIX_BYTES)
    memcpy(out + RETRY_PREFIX_BYTES, group, group_bytes)
    out[length] = c'+' if v2 else c'_'
    memcpy(out + length + 1, topic, topic_bytes)
    return length + 1 + topic_bytes


cdef uint32_t retry_topic_name(const PopPair* pair, bint v2, uint8_t* out) noexcept nogil:
    return pop_retry_name(pair.group, pair.group_length, pair.topic.name, pair.topic.name_length,
                          v2, out)


cdef bint is_others_retry_topic(GroupTable* groups, const uint8_t* name, uint32_t length,
                                const uint8_t* group, uint32_t group_bytes) noexcept nogil:
    cdef const uint8_t* named = name + RETRY_PREFIX_BYTES
    if (length <= RETRY_PREFIX_BYTES + group_bytes
            or memcmp(name, RETRY_PREFIX, RETRY_PREFIX_BYTES) != 0
            or memcmp(named, group, group_bytes) != 0 or named[group_bytes] != c'_'):
        return False
    return group_find(groups, named, length - RETRY_PREFIX_BYTES) != NULL


cdef int pops_open(Pops* pops, dict given) except -1:
    cdef bytes name = given["revive_topic"]
    if len(name) > sizeof(pops.revive_name):
        raise ConfigError("brokerClusterName is too long")
    memcpy(pops.revive_name, <const char*> name, len(name))
    pops.revive_name_bytes = <uint32_t> len(name)
    pops.retry_share = given["pop_retry_share"]
    pops.revive_queues = min(<int> given["revive_queues"], REVIVE_QUEUES_MAX)
    pops.waiting_max = given["pop_waiting_max"]
    pops.retry_v2 = given["pop_retry_v2"]
    pops.keep_retry_topic = given["pop_keep_retry_topic"]
    pops.inflight_max = given["pop_inflight_max"]
    pops.opened_ms = wall_ms()
    readahead_open(&pops.readahead, NULL)
    if name_map_open(&pops.pairs) != OK:
        raise MemoryError("no memory for the shard's tables")
    return 0


cdef void pops_close(Pops* pops) noexcept nogil:
    cdef NameEntry* entry
    cdef int32_t i
    cdef uint64_t cursor = name_map_next(&pops.pairs, 0, &entry)
    while cursor != 0:
        pair_free(<PopPair*> entry.value)
        cursor = name_map_next(&pops.pairs, cursor, &entry)
    name_map_close(&pops.pairs)
    for i in range(REVIVE_QUEUES_MAX):
        free(pops.queues[i].ring)
        free(pops.queues[i].buckets)
        free(pops.queues[i].heap)
