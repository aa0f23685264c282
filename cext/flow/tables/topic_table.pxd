"""Topic table: topics as the hot path knows them: a name, its permissions and its queues.

The control thread decides which topics exist (rmq/broker/tables/topics.py) and puts them here by
calls, which the reactor runs between two turns. Code that keeps a Topic's address counts as a user
of it (cext/memory/use_count.pxd): a removed topic is marked, so that a pull that still points to it
can see that it is gone, and it is freed after the last user has let go.
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
    TOPIC_NUMBERS = 20      # of TopicNumbers

cdef enum MessageKind:      # RocketMQ's message_type; all other messages are "normal"
    KIND_FIFO = 0           # has a sharding key
    KIND_DELAY = 1          # delayed or timed, counted at the send and at the delivery
    KIND_TRANSACTION = 2    # half messages and committed ones
    KINDS = 3

cdef struct TopicNumbers:   # counters that most sends do not touch; u64 only: copied as an array
    uint64_t messages[KINDS]    # those of each kind among messages_in
    uint64_t bytes[KINDS]       # the same of bytes_in
    uint64_t committed      # transactions
    uint64_t rolled_back
    uint64_t timed_out      # timed messages delivered
    HistogramBuckets timed             # timed messages taken, by their delay in seconds

cdef struct Topic:
    UseCount use            # by pulls and pops
    uint8_t* name           # owned
    uint32_t name_length
    int32_t read_queues
    int32_t write_queues
    int32_t permission      # sum of Permission (codes.pxd)
    bint order
    TopicKind kind          # given by its name, set once
    int32_t queue_slots     # length of `queues`; 0 when it is removed
    Queue** queues          # owned array; NULL until a queue is first used
    QueueMapping* mapping   # owned; a static topic's logical queues, else NULL
    void* pop_waiting       # list of PopPair (pop_pair.pxd) that pop from the topic
    void* counters          # list of DeliveryCounter (delivery_counter.pxd), one a group
    void* pop_retry_of      # PopPair whose unacknowledged messages this topic holds
    uint64_t messages_in
    uint64_t bytes_in
    uint64_t messages_out
    uint64_t bytes_out
    TopicNumbers numbers

cdef Topic* topic_put(NameMap* topics, const uint8_t* name, uint32_t length, int32_t read_queues,
                      int32_t write_queues, int32_t permission, bint order) noexcept nogil
# Takes the topic out of the map; no counter and no waiting pair refers to it any more.
cdef void topic_remove(NameMap* topics, RemovedList* removed, Topic* topic) noexcept nogil
# Frees all topics and the map.
cdef void topics_close(NameMap* topics) noexcept nogil
# NULL when the id is outside 0 .. max(read, write) - 1 or memory is out.
cdef Queue* topic_queue(Topic* topic, QueueStore store, int32_t queue_id) noexcept nogil
