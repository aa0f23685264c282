"""Subscription table: what each consumer group wants of each topic, as its newest heartbeat said.

The reactor serves a pull that does not carry its own subscription when (group, topic) has one here
that is at least as new as the request's subVersion.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t

from cext.flow.tables.sql_filter cimport SqlFilter
from cext.flow.tables.tag_filter cimport TagFilter
from cext.memory.name_map cimport NameMap

cdef struct Subscription:
    int64_t version         # subVersion of the heartbeat, ms
    bint broadcasting       # the group's message model
    TagFilter filter
    SqlFilter* sql          # one reference; NULL: by tags alone

cdef struct SubscriptionTable:
    NameMap names           # group \n topic -> Subscription*

cdef int subscription_table_open(SubscriptionTable* table) noexcept nogil
cdef void subscription_table_close(SubscriptionTable* table) noexcept nogil
# Takes over the reference of value.sql, even when it fails.
cdef int subscription_put(SubscriptionTable* table, const uint8_t* group, uint32_t group_length,
                          const uint8_t* topic, uint32_t topic_length,
                          const Subscription* value) noexcept nogil
cdef Subscription* subscription_find(SubscriptionTable* table, const uint8_t* group,
                                     uint32_t group_length, const uint8_t* topic,
                                     uint32_t topic_length) noexcept nogil
cdef void subscriptions_remove(SubscriptionTable* table, const uint8_t* group,
                               uint32_t group_length) noexcept nogil
