"""Group table: consumer groups and their subscriptions, as a pull needs them.

A pull is served by the reactor when its group is known here and, unless the request carries its
own subscription, (group, topic) has one that is at least as new as the request's subVersion.
Everything else goes to the control thread, which knows why.

A subscription with more than CODES_MAX tags is held as "all": clients filter by the tag's text
anyway (two tags may share a hash code), so the only cost is bytes on the wire.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.flow.tables.sql_filter cimport SqlFilter
from cext.memory.name_map cimport NameMap
from cext.memory.use_count cimport UseCount

cdef enum:
    CODES_MAX = 64          # tags of one subscription that are filtered in the broker
    RETRY_LEVELS_MAX = 32   # retries with a delay level of their own; later ones have the last's

cdef struct TagFilter:
    bint all                # no filter
    int32_t count
    int64_t codes[CODES_MAX]   # tagsCode values, sign-extended as consume queues hold them

cdef struct DeliveryCounter:         # what the group was given of one topic (delivery_counters.pxd)
    UseCount use            # by pulls and pops
    void* topic             # Topic*; NULL when group or topic is removed, as `group` then
    void* group             # Group*
    uint64_t messages
    uint64_t bytes
    int32_t slots           # length of `pulled`
    int64_t* pulled         # owned: up to where each queue was pulled; -1: not since the start
    DeliveryCounter* next           # of the group
    DeliveryCounter* next_of_topic

cdef struct Group:
    bint consume_enable
    bint broadcast_enable
    int64_t broker_id               # brokerId: where its consumers pull, 0 is the master
    int64_t slow_broker_id          # whichBrokerWhenConsumeSlowly: those that are far behind
    bint retries_known              # the next fields have been set
    int32_t retry_queues            # retryQueueNums; 0: what comes back is dropped
    int32_t retry_times_max         # retryMaxTimes
    int32_t retry_level_count       # 0: level 3, 4, .. as RocketMQ's clients expect
    uint8_t retry_levels[RETRY_LEVELS_MAX]  # delay level of the first, second .. retry
    int64_t locked_until_ms         # monotonic; until then clients of the group hold queue locks
    DeliveryCounter* delivered                  # owned list

cdef struct Subscription:
    int64_t version         # subVersion of the heartbeat, ms
    bint broadcasting       # the group's message model
    TagFilter filter
    SqlFilter* sql          # one reference; NULL: by tags alone

cdef struct GroupTable:
    NameMap groups          # group -> Group*
    NameMap subscriptions   # group \n topic -> Subscription*

cdef int group_table_open(GroupTable* table) noexcept nogil
cdef void group_table_close(GroupTable* table) noexcept nogil
cdef int group_put(GroupTable* table, const uint8_t* name, uint32_t length, bint consume_enable,
                   bint broadcast_enable, int64_t broker_id,
                   int64_t slow_broker_id) noexcept nogil
# How often and how late messages of the group come again. OK | NOT_FOUND.
cdef int group_put_retries(GroupTable* table, const uint8_t* name, uint32_t length,
                           int32_t queues, int32_t times_max, const uint8_t* levels,
                           int32_t level_count) noexcept nogil
# Frees it: its counters and pairs are removed.
cdef void group_remove(GroupTable* table, const uint8_t* name, uint32_t length) noexcept nogil
cdef Group* group_find(GroupTable* table, const uint8_t* name, uint32_t length) noexcept nogil
# Takes over the reference of value.sql, also when it fails.
cdef int subscription_put(GroupTable* table, const uint8_t* group, uint32_t group_length,
                          const uint8_t* topic, uint32_t topic_length,
                          const Subscription* value) noexcept nogil
cdef Subscription* subscription_find(GroupTable* table, const uint8_t* group,
                                     uint32_t group_length, const uint8_t* topic,
                                     uint32_t topic_length) noexcept nogil
cdef void subscriptions_remove(GroupTable* table, const uint8_t* group,
                               uint32_t group_length) noexcept nogil

cdef inline bint tag_filter_passes(const TagFilter* tags, int64_t code) noexcept nogil:
    cdef int32_t i
    if tags.all:
        return True
    for i in range(tags.count):
        if tags.codes[i] == code:
            return True
    return False
