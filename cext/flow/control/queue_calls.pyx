"""Queue calls. See queue_calls.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from cext.base.status cimport ABSENT, NOT_FOUND, OK, raise_status
from cext.flow.append.dispatch cimport write_and_dispatch
from cext.flow.append.replay cimport drop_queue
from cext.flow.context.call_block cimport Block, block_free, block_numbers, block_take
from cext.flow.context.control_link cimport CallFn
from cext.flow.control.control_side cimport borrowed
from cext.flow.tables.topic_table cimport Topic, topic_queue
from cext.memory.name_map cimport name_map_find
from cext.store.queues.consume_queue cimport (
    QUEUE_ENTRY_BYTES, QueueEntry, queue_copy_entries, queue_entry_load, queue_is_of,
    queue_memory_offset)
from cext.store.queues.queue_files cimport QueueName, name_of
from cext.wire.limits cimport TOPIC_BYTES_MAX

cdef enum:
    RANGES_MAX = 1024           # queues that one call looks at
    QUEUE_ID_MAX = 0x7fffffff


cdef Queue* queue_of(Appender s, const Text* topic, int32_t queue_id) noexcept nogil:
    """Also finds queues of a topic that is in no table yet: a slave may have its records sooner."""
    cdef Topic* found = <Topic*> name_map_find(&s.tables.topics, topic.bytes, topic.length)
    if found != NULL:
        return topic_queue(found, s.queues, queue_id)
    return s.queues.find_queue(<const char*> topic.bytes, <int32_t> topic.length, queue_id)


# ---------------------------------------------------------------- queue_range

cdef struct QueueRange:
    Text topic
    int32_t queue_id
    # results
    bint found
    int64_t min_offset
    int64_t max_offset


cdef void queue_range(Appender s, QueueRange* x) noexcept nogil:
    cdef const Queue* queue = queue_of(s, &x.topic, x.queue_id)
    x.found = queue != NULL
    if queue != NULL:
        x.min_offset = queue.min_offset
        x.max_offset = queue.max_offset


# ---------------------------------------------------------------- queue_ranges

cdef struct QueueRanges:
    Text topic
    int64_t first               # queue id
    int64_t count               # at most RANGES_MAX
    # results
    int status                  # OK, NOT_FOUND, POOL_EMPTY
    Block block                 # i64 min and max offset of each; 0 and 0 for a queue that holds
    #                             nothing yet and is not made here


cdef void queue_ranges(Appender s, QueueRanges* x) noexcept nogil:
    cdef Topic* topic = <Topic*> name_map_find(&s.tables.topics, x.topic.bytes, x.topic.length)
    cdef int64_t i
    cdef const Queue* queue
    x.status = NOT_FOUND
    if (topic == NULL or x.count < 0 or x.count > RANGES_MAX
            or x.first < 0 or x.first > QUEUE_ID_MAX - x.count):
        return
    x.status = block_take(&x.block, 16 * <uint64_t> x.count)
    if x.status != OK:
        return
    memset(x.block.bytes, 0, x.block.length)
    for i in range(x.count):
        queue = topic.queues[x.first + i] if x.first + i < topic.queue_slots else NULL
        if queue == NULL:
            queue = s.queues.find_queue(<const char*> topic.name, topic.name_length,
                                        <int32_t> (x.first + i))
        if queue != NULL:
            memcpy(x.block.bytes + 16 * i, &queue.min_offset, 8)
            memcpy(x.block.bytes + 16 * i + 8, &queue.max_offset, 8)


# ---------------------------------------------------------------- queue_snapshot

cdef struct QueueSnapshot:
    Text topic
    int32_t queue_id
    # results
    int status                  # OK, NOT_FOUND, POOL_EMPTY
    int64_t min_offset
    int64_t max_offset
    int64_t memory_offset       # offset of the first entry in memory
    Block block                 # the entries from there on


cdef void queue_snapshot(Appender s, QueueSnapshot* x) noexcept nogil:
    cdef Queue* queue = queue_of(s, &x.topic, x.queue_id)
    cdef int64_t first, count
    x.status = NOT_FOUND
    if queue == NULL:
        return
    first = queue_memory_offset(queue)
    if first < queue.min_offset:
        first = queue.min_offset
    count = queue.max_offset - first
    x.status = block_take(&x.block, count * QUEUE_ENTRY_BYTES)
    if x.status != OK:
        return
    if count > 0:
        queue_copy_entries(queue, first, count, x.block.bytes)
    x.min_offset = queue.min_offset
    x.max_offset = queue.max_offset
    x.memory_offset = first


# ---------------------------------------------------------------- queues_without_topic

cdef struct LoneQueue:
    int64_t at                  # where to look in the table; result: where to go on
    # results
    bint is_end                 # of the table
    bint found
    char topic[TOPIC_BYTES_MAX]
    int32_t topic_length
    int32_t queue_id
    int64_t last_physical       # log offset of its last message; -1: cannot be read


cdef int64_t last_physical_of(Appender s, Queue* queue) noexcept nogil:
    cdef uint8_t raw[QUEUE_ENTRY_BYTES]
    cdef QueueEntry entry
    cdef QueueName name = name_of(queue)
    cdef int got = s.queues.read_entries(queue, queue.max_offset - 1, 1, raw)
    if got == ABSENT:                   # only on the disk; asked for before a slave becomes master
        got = s.queues.sync_files.read_entries(&name, queue.max_offset - 1, 1, False, raw)
    if got != 1:
        return -1
    queue_entry_load(raw, &entry)
    return entry.physical_offset


cdef void lone_queue(Appender s, LoneQueue* x) noexcept nogil:
    """Finds the next queue without a topic, looking at a bounded number."""
    cdef int64_t end = min(x.at + RANGES_MAX, s.queues.queue_top)
    cdef Queue* queue
    x.found = False
    while x.at < end and not x.found:
        queue = s.queues.queues[x.at]
        x.at += 1
        if (queue == NULL or queue.max_offset <= queue.min_offset
                or name_map_find(&s.tables.topics, <const uint8_t*> queue.topic,
                                 <uint32_t> queue.topic_length) != NULL):
            continue
        x.found = True
        memcpy(x.topic, queue.topic, <size_t> queue.topic_length)
        x.topic_length, x.queue_id = queue.topic_length, queue.queue_id
        x.last_physical = last_physical_of(s, queue)
    x.is_end = x.at >= s.queues.queue_top


# ---------------------------------------------------------------- drop_older_queues

cdef struct OlderQueues:
    Text topic
    int64_t end                 # of the log, when the topic was deleted
    # results
    int32_t dropped


cdef bint is_older(Appender s, Queue* queue, const OlderQueues* x) noexcept nogil:
    """Whether its newest message was there when the topic was deleted. No if it is unreadable."""
    cdef int64_t last
    if not queue_is_of(queue, <const char*> x.topic.bytes, <int32_t> x.topic.length):
        return False
    if queue.next_offset > queue.max_offset:        # its newest message is not dispatched yet
        return False
    if queue.max_offset <= queue.min_offset:        # its messages have left the log since
        return queue.max_offset > 0
    last = last_physical_of(s, queue)
    return 0 <= last < x.end


cdef void drop_older_queues(Appender s, OlderQueues* x) noexcept nogil:
    cdef Topic* topic
    cdef Queue* queue
    cdef int64_t i
    x.dropped = 0
    write_and_dispatch(s)
    topic = <Topic*> name_map_find(&s.tables.topics, x.topic.bytes, x.topic.length)
    for i in range(s.queues.queue_top):
        queue = s.queues.queues[i]
        if queue != NULL and is_older(s, queue, x):
            drop_queue(s, topic, queue)
            x.dropped += 1


cdef class QueueCalls(TopicCalls):
    def queue_range(self, bytes topic, int32_t queue_id):
        cdef QueueRange x
        x.topic = borrowed(topic)
        x.queue_id = queue_id
        self._call(<CallFn> queue_range, <void*> self.appender, &x)
        return (x.min_offset, x.max_offset) if x.found else None

    def queue_ranges(self, bytes topic, int32_t count):
        cdef QueueRanges x
        out = []
        x.topic = borrowed(topic)
        for first in range(0, count, RANGES_MAX):
            x.first = first
            x.count = min(<int64_t> RANGES_MAX, count - x.first)
            self._call(<CallFn> queue_ranges, <void*> self.appender, &x)
            if x.status == NOT_FOUND:
                out += [(0, 0)] * x.count
                continue
            raise_status(x.status, f"ranges of {topic!r}")
            numbers = block_numbers(&x.block)
            out += zip(numbers[::2], numbers[1::2])
        return out

    def queues_without_topic(self):
        cdef LoneQueue x
        out = []
        x.at = 0
        x.is_end = False
        while not x.is_end:
            self._call(<CallFn> lone_queue, <void*> self.appender, &x)
            if x.found:
                out.append((x.topic[:x.topic_length], x.queue_id, x.last_physical))
        return out

    def drop_older_queues(self, bytes topic, int64_t end):
        cdef OlderQueues x
        x.topic = borrowed(topic)
        x.end = end
        self._call(<CallFn> drop_older_queues, <void*> self.appender, &x)
        return x.dropped

    def queue_snapshot(self, bytes topic, int32_t queue_id):
        cdef QueueSnapshot x
        x.topic = borrowed(topic)
        x.queue_id = queue_id
        self._call(<CallFn> queue_snapshot, <void*> self.appender, &x)
        if x.status != OK:
            return None
        entries = (<char*> x.block.bytes)[:x.block.length]
        block_free(&x.block)
        return x.min_offset, x.max_offset, x.memory_offset, entries
