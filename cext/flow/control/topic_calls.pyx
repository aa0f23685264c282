"""Topic calls. See topic_calls.pxd."""
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from cext.base.status cimport OK, POOL_EMPTY, raise_status
from cext.flow.append.dispatch cimport write_and_dispatch
from cext.flow.context.call_block cimport Block, block_free, block_take
from cext.flow.context.control_link cimport CallFn
from cext.flow.control.control_side cimport borrowed
from cext.flow.pop.held_pops cimport wake_all_pops
from cext.flow.pop.pop_pair cimport PopPair
from cext.flow.pop.pop_service cimport PopService
from cext.flow.pop.pop_table cimport pair_remove
from cext.flow.pull.held_pulls cimport wake_all
from cext.flow.tables.delivery_counter_lists cimport delivery_counters_remove_topic
from cext.flow.tables.queue_mapping cimport QueueMapping, queue_mapping_make
from cext.flow.tables.tables cimport Tables
from cext.flow.tables.topic_table cimport (
    TOPIC_NUMBERS,
    Topic,
    TopicNumbers,
    topic_put,
    topic_remove,
)
from cext.memory.name_map cimport NameEntry, name_map_find, name_map_next
from cext.store.queues.consume_queue cimport Queue
from cext.wire.text cimport Text

cdef enum:
    TOPICS_PER_CALL = 256
    TOPIC_FIXED_BYTES = 8 + 8 * (4 + TOPIC_NUMBERS)


assert sizeof(TopicNumbers) == 8 * TOPIC_NUMBERS


# ---------------------------------------------------------------- put_topic

cdef struct PutTopic:
    Text name
    int32_t read_queues
    int32_t write_queues
    int32_t perm
    bint order
    # results
    int status


cdef void put_topic(Tables s, PutTopic* x) noexcept nogil:
    cdef Topic* topic = topic_put(&s.topics, x.name.bytes, x.name.length, x.read_queues,
                                  x.write_queues, x.perm, x.order)
    x.status = OK if topic != NULL else POOL_EMPTY


# ---------------------------------------------------------------- remove_topic

cdef struct RemoveTopic:
    Text name
    int64_t kept_from           # queues that replay began at this offset or later stay
    # results
    int64_t log_end             # all messages of the topic are below
    bint used                   # it may have messages in the log


cdef void forget_topic(PopService s, const Topic* topic) noexcept nogil:
    """Records of the removed topic that are in the store pool, or wait for room in its queues, are
    not dispatched any more."""
    cdef int32_t i
    for i in range(s.append.dispatch_first, s.append.dispatch_count):
        if s.append.dispatches[i].topic == topic:
            s.append.dispatches[i].topic = NULL
            s.append.dispatches[i].queue = NULL


cdef void remove_topic(PopService s, RemoveTopic* x) noexcept nogil:
    cdef Topic* topic
    cdef int32_t i
    write_and_dispatch(s.append)        # then few list entries refer to a queue that goes away
    x.log_end = min(s.append.log.marks.appended, x.kept_from)
    x.used = False
    topic = <Topic*> name_map_find(&s.tables.topics, x.name.bytes, x.name.length)
    if topic == NULL:
        return
    forget_topic(s, topic)
    while topic.pop_waiting != NULL:
        wake_all_pops(s.pull, <PopPair*> topic.pop_waiting)
        pair_remove(&s.pops, &s.tables.topics, &s.tables.removed,
                    <PopPair*> topic.pop_waiting)
    delivery_counters_remove_topic(&s.tables.removed, topic)
    for i in range(topic.queue_slots):
        if topic.queues[i] != NULL:
            wake_all(s.pull, topic.queues[i])
            topic.queues[i] = NULL
    s.append.queues.delete_topic(<const char*> topic.name, topic.name_length, x.kept_from, &x.used)
    topic_remove(&s.tables.topics, &s.tables.removed, topic)


# ---------------------------------------------------------------- put_queue_mapping

cdef struct PutMapping:
    Text name
    Text mapping
    # results
    int status


cdef void put_queue_mapping(PopService s, PutMapping* x) noexcept nogil:
    cdef Topic* topic = <Topic*> name_map_find(&s.tables.topics, x.name.bytes, x.name.length)
    cdef QueueMapping* made
    cdef int32_t i
    x.status = OK
    if topic == NULL:
        return
    x.status = queue_mapping_make(x.mapping.bytes, x.mapping.length, &made)
    if x.status != OK:
        return
    write_and_dispatch(s.append)        # then it is known where queues end that others lead now
    free(topic.mapping)
    topic.mapping = made
    for i in range(topic.queue_slots):
        if topic.queues[i] != NULL:
            wake_all(s.pull, topic.queues[i])   # each is answered by what it found before


# ---------------------------------------------------------------- topic_stats

cdef struct TopicStats:
    Text name
    # results
    bint found
    uint64_t messages_in
    uint64_t bytes_in
    uint64_t messages_out
    uint64_t bytes_out


cdef void topic_stats(Tables s, TopicStats* x) noexcept nogil:
    cdef const Topic* topic = <const Topic*> name_map_find(&s.topics, x.name.bytes, x.name.length)
    x.found = topic != NULL
    if topic != NULL:
        x.messages_in = topic.messages_in
        x.bytes_in = topic.bytes_in
        x.messages_out = topic.messages_out
        x.bytes_out = topic.bytes_out


# ---------------------------------------------------------------- topic_table

cdef struct CopyTopics:
    uint64_t cursor             # 0 at first; result: where to go on, 0 at the end
    # results
    int status
    Block block                 # per topic u32 name bytes, u32 queues, 4 counters and TopicNumbers
    #                             as u64, name, then i64 (min, max offset) of each queue; -1 when it
    #                             was never used


cdef inline uint8_t* put(uint8_t* at, const void* value, uint64_t bytes) noexcept nogil:
    memcpy(at, value, bytes)
    return at + bytes


cdef uint8_t* copy_topic(uint8_t* at, const Topic* topic, uint32_t slots) noexcept nogil:
    cdef const Queue* queue
    cdef int64_t none = -1
    cdef uint32_t i
    at = put(at, &topic.name_length, 4)
    at = put(at, &slots, 4)
    at = put(at, &topic.messages_in, 8)
    at = put(at, &topic.bytes_in, 8)
    at = put(at, &topic.messages_out, 8)
    at = put(at, &topic.bytes_out, 8)
    at = put(at, &topic.numbers, 8 * TOPIC_NUMBERS)
    at = put(at, topic.name, topic.name_length)
    for i in range(slots):
        queue = topic.queues[i]
        at = put(at, &queue.min_offset if queue != NULL else &none, 8)
        at = put(at, &queue.max_offset if queue != NULL else &none, 8)
    return at


cdef uint32_t slots_of(const Topic* topic) noexcept nogil:
    return <uint32_t> topic.queue_slots if topic.queues != NULL else 0


cdef void copy_topics(Tables s, CopyTopics* x) noexcept nogil:
    cdef NameEntry* entry
    cdef const Topic* topic
    cdef uint64_t start = x.cursor, cursor, bytes = 0
    cdef uint8_t* at
    cdef int count = 0
    cursor = name_map_next(&s.topics, start, &entry)
    while cursor != 0 and count < TOPICS_PER_CALL:
        topic = <const Topic*> entry.value
        bytes += TOPIC_FIXED_BYTES + topic.name_length + 16 * <uint64_t> slots_of(topic)
        count += 1
        cursor = name_map_next(&s.topics, cursor, &entry)
    x.status = block_take(&x.block, bytes)
    if x.status != OK:
        return
    at = x.block.bytes
    x.cursor = 0
    cursor = start
    while count > 0:
        cursor = name_map_next(&s.topics, cursor, &entry)
        topic = <const Topic*> entry.value
        at = copy_topic(at, topic, slots_of(topic))
        count -= 1
        x.cursor = cursor


cdef int read_topics(const Block* block, dict out) except -1:
    """Adds what the block holds to topic_table()'s result."""
    cdef uint64_t at = 0
    cdef uint32_t length, slots, _i
    cdef int i
    cdef uint64_t counters[4 + TOPIC_NUMBERS]
    cdef int64_t span[2]
    while at < block.length:
        memcpy(&length, block.bytes + at, 4)
        memcpy(&slots, block.bytes + at + 4, 4)
        memcpy(counters, block.bytes + at + 8, sizeof(counters))
        at += TOPIC_FIXED_BYTES
        name = (<const char*> block.bytes)[at:at + length]
        at += length
        queues = []
        for _i in range(slots):
            memcpy(span, block.bytes + at, 16)
            at += 16
            queues.append(None if span[1] < 0 else (span[0], span[1]))
        out[name] = (counters[0], counters[1], counters[2], counters[3], queues,
                     [counters[4 + i] for i in range(TOPIC_NUMBERS)])
    return 0


cdef class TopicCalls(ConnectionCalls):
    def put_topic(self, bytes name, int32_t read_queues, int32_t write_queues, int32_t perm,
                  int32_t order):
        cdef PutTopic x
        x.name = borrowed(name)
        x.read_queues = read_queues
        x.write_queues = write_queues
        x.perm = perm
        x.order = order != 0
        self._call(<CallFn> put_topic, <void*> self.tables, &x)
        raise_status(x.status, f"topic {name!r}")

    def remove_topic(self, bytes name, int64_t kept_from=INT64_MAX):
        cdef RemoveTopic x
        x.name = borrowed(name)
        x.kept_from = kept_from
        self._call(<CallFn> remove_topic, <void*> self.pops, &x)
        return x.log_end if x.used else None

    def put_queue_mapping(self, bytes topic, bytes mapping):
        cdef PutMapping x
        x.name = borrowed(topic)
        x.mapping = borrowed(mapping)
        self._call(<CallFn> put_queue_mapping, <void*> self.pops, &x)
        raise_status(x.status, f"the queue mapping of topic {topic!r}")

    def topic_stats(self, bytes topic):
        cdef TopicStats x
        x.name = borrowed(topic)
        self._call(<CallFn> topic_stats, <void*> self.tables, &x)
        if not x.found:
            return None
        return x.messages_in, x.bytes_in, x.messages_out, x.bytes_out

    def topic_table(self):
        cdef CopyTopics x
        cdef dict out = {}
        x.cursor = 0
        while True:
            self._call(<CallFn> copy_topics, <void*> self.tables, &x)
            raise_status(x.status, "copy of the topics")
            read_topics(&x.block, out)
            block_free(&x.block)
            if x.cursor == 0:
                return out
