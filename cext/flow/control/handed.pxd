"""What each group was given of each topic since the start: messages_out with a consumer_group, and
up to where it has pulled each queue (RocketMQ's pull offset, shown by 208 beside the commits).

A group has a list of its topics' counters; it is short (a topic and the retry topic for most), and
the one looked for comes to its front. A counter is never freed while the shard runs, so a pull may
keep its address: those of a removed group go to the table's list of old ones.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.flow.tables.group_table cimport Group, Handed
from cext.flow.shard_state cimport ShardState
from cext.flow.tables.topic_table cimport Topic

cdef enum:
    HANDED_TOPICS_MAX = 256     # of a group; what further topics give has no group

# NULL: the group has too many topics, or memory is out.
cdef Handed* handed_of(Group* group, Topic* topic) noexcept nogil
cdef inline void handed_add(Handed* handed, uint64_t messages, uint64_t bytes) noexcept nogil:
    if handed != NULL:
        handed.messages += messages
        handed.bytes += bytes

# Room for the queue's pull offset; without memory it is not kept.
cdef void handed_grow(Handed* handed, int32_t queue_id) noexcept nogil
# A pull asks from this offset on, or is told to go on there: all before it was handed out.
cdef inline void handed_pull(Handed* handed, int32_t queue_id, int64_t offset) noexcept nogil:
    if handed != NULL and queue_id < handed.slots:
        handed.pulled[queue_id] = offset
# The same counters without a change of their order; NULL: nothing was pulled.
cdef Handed* handed_find(ShardState s, const uint8_t* topic, uint32_t topic_length,
                         const uint8_t* group, uint32_t group_length) noexcept nogil
