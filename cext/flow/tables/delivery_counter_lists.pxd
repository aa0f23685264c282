"""Delivery counter lists: messages and bytes delivered to each pair of group and topic since start.

They are the metric rocketmq_messages_out_total with its label consumer_group. A counter also says
how far the group has pulled each queue (RocketMQ's pull offset, which 208 shows beside the
commits).

A group has a list of its topics' counters. The list is short (for most groups a topic and its retry
topic), and a counter that is found moves to the front. A counter goes when its group or its topic
goes; a pull that keeps its address counts as a user of it (cext/memory/use_count.pxd).
"""
from libc.stdint cimport uint8_t, uint32_t

from cext.flow.tables.delivery_counter cimport DeliveryCounter
from cext.flow.tables.group_table cimport Group
from cext.flow.tables.tables cimport Tables
from cext.flow.tables.topic_table cimport Topic
from cext.memory.use_count cimport RemovedList

cdef enum:
    DELIVERY_TOPICS_MAX = 256   # of a group; further topics are counted without a group label

# The pair's counter, made on first use. NULL: the group has too many topics, or memory is out.
cdef DeliveryCounter* delivery_counter_of(Group* group, Topic* topic) noexcept nogil
# The pair's counter, by names; does not change the order of the list. NULL: nothing was pulled.
cdef DeliveryCounter* delivery_counter_find(Tables s, const uint8_t* topic,
                                            uint32_t topic_length, const uint8_t* group,
                                            uint32_t group_length) noexcept nogil
cdef void delivery_counters_remove_topic(RemovedList* removed, Topic* topic) noexcept nogil
cdef void delivery_counters_remove_group(RemovedList* removed, Group* group) noexcept nogil
