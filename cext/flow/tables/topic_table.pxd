"""Topic table: topics as the hot path knows them: a name, its permissions and its queues.

The control thread decides what exists (rmq/broker/tables/topics.py), puts it here by a command that
the reactor runs between two turns. Who keeps a Topic's address counts as a user of it
(cext/memory/use_count.pxd): a removed one is marked, so that a pull that still points to it can see
that it is gone, and freed behind the last of them.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from cext.base.histogram_buckets cimport HistogramBuckets

from cext.flow.tables.queue_mapping cimport QueueMapping
from cext.memory.name_map cimport NameMap
from cext.memory.use_count cimport RemovedList, UseCount
from cext.store.queues.consume_queue cimport Queue
from cext.store.queues.queue_store cimport QueueStore
from cext.wire.system_topics cimport TopicKind

cdef enum:
    QUEUES_PER_TOPIC_MAX = 65536
    TOPIC_NUMBERS = 20      # of TopicNumbers

cdef enum MessageKind:      # RocketMQ's message_type; what none of them is is "normal"
    KIND_FIFO = 0           # has a sharding key
    KIND_DELAY = 1          # delayed or timed, at its send and at its delivery
    KIND_TRANSACTION = 2    # half and committed ones
    KINDS = 3

cdef struct TopicNumbers:   # counters that most sends do not touch; u64 only: copied as an array
    uint64_t messages[KINDS]    # of messages_in
    uint64_t bytes[KINDS]       # of bytes_in
    uint64_t committed      # transactions
    uint64_t rolled_back
    uint64_t timed_out      # timed messages delivered
    HistogramBuckets timed             # timed messages taken, by the seconds they are to wait

cdef struct Topic:
    UseCount use            # by pulls and pops
    uint8_t* name           # owned
    uint32_t name_length
    int32_t read_queues
    int32_t write_queues
    int32_t permission      # sum of Permission (codes.pxd)
    bint order
    TopicKind kind          # what its name makes of it, set once
    int32_t queue_slots     # length of `queues`; 0 when it is removed
    Queue** queues          # owned array; NULL until a queue is first used
    QueueMapping* mapping   # owned; the logical queues of a static topic, NULL of a plain one
    void* pop_waiting       # list of PopPair (pop_pair.pxd): whose consumers pop from the topic
    void* counters          # list of DeliveryCounter (delivery_counter.pxd), one of each group
    void* pop_retry_of      # PopPair: the topic holds what its consumers did not acknowledge
    uint64_t messages_in
    uint64_t bytes_in
    uint64_t messages_out
    uint64_t bytes_out
    TopicNumbers numbers

cdef Topic* topic_put(NameMap* topics, const uint8_t* name, uint32_t length, int32_t read_queues,
                      int32_t write_queues, int32_t permission, bint order) noexcept nogil
# Takes it out of the map; nobody counts for it or waits at it any more.
cdef void topic_remove(NameMap* topics, RemovedList* removed, Topic* topic) noexcept nogil
# All topics and the map.
cdef void topics_close(NameMap* topics) noexcept nogil
# NULL when the id is outside 0 .. max(read, write) - 1 or memory is out.
cdef Queue* topic_queue(Topic* topic, QueueStore store, int32_t queue_id) noexcept nogil
