"""Pop in-flight: how many messages a group has popped that are neither acknowledged nor back.

They are counted with enablePopMessageThreshold only, for each queue of each pair of topic and
group. A queue with more than popInflightMessageThreshold of them gives no more until acks come, or
until messages come again. As in RocketMQ, messages popped before a restart are not counted, and
pops in order are limited by their batch anyway.

Example, threshold 100: 4 pops of 32 are given, since 96 are not more than 100; a fifth gets nothing
of this queue until 28 are acknowledged.

Reactor only.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.flow.pop.pop_pair cimport PopPair
from cext.flow.pop.pop_service cimport PopService
from cext.flow.pop.pop_table cimport Pops
from cext.flow.tables.topic_table cimport Topic

# `pair`: that of the topic in which the messages lie, which may be a retry topic.
cdef bint inflight_full(const Pops* pops, const PopPair* pair, int32_t queue_id) noexcept nogil
cdef void inflight_add(Pops* pops, PopPair* pair, int32_t queue_id, int32_t count) noexcept nogil
# Wakes pops that wait when the queue may give messages again.
cdef void inflight_remove(PopService s, Topic* topic, const uint8_t* group, uint32_t group_length,
                          int32_t queue_id, int64_t pop_ms, int32_t count) noexcept nogil
