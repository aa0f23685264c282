"""Group table: consumer groups as requests of their clients need them.

The reactor serves a pull, a pop or a message sent back when its group is known here. Everything
else goes to the control thread, which knows why.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.flow.tables.delivery_counter cimport DeliveryCounter
from cext.memory.name_map cimport NameMap

cdef enum:
    RETRY_LEVELS_MAX = 32   # retries with a delay level each; later ones get the last

cdef struct Group:
    bint consume_enable
    bint broadcast_enable
    int64_t broker_id               # brokerId: the broker its consumers pull from, 0 is the master
    int64_t slow_broker_id          # whichBrokerWhenConsumeSlowly: for those far behind
    bint retries_known              # the next four fields have been set
    int32_t retry_queues            # retryQueueNums; 0: messages sent back are dropped
    int32_t retry_times_max         # retryMaxTimes
    int32_t retry_level_count       # 0: level 3, 4, .. as RocketMQ's clients expect
    uint8_t retry_levels[RETRY_LEVELS_MAX]  # delay level of the first, second .. retry
    int64_t locked_until_ms         # monotonic; until then clients of the group hold queue locks
    DeliveryCounter* delivered      # owned list

cdef struct GroupTable:
    NameMap names           # group -> Group*

cdef int group_table_open(GroupTable* table) noexcept nogil
cdef void group_table_close(GroupTable* table) noexcept nogil
cdef int group_put(GroupTable* table, const uint8_t* name, uint32_t length, bint consume_enable,
                   bint broadcast_enable, int64_t broker_id,
                   int64_t slow_broker_id) noexcept nogil
# Sets how often and how late messages of the group come again. OK | NOT_FOUND.
cdef int group_put_retries(GroupTable* table, const uint8_t* name, uint32_t length,
                           int32_t queues, int32_t times_max, const uint8_t* levels,
                           int32_t level_count) noexcept nogil
# Frees the group; its counters and its pairs of pops are removed.
cdef void group_remove(GroupTable* table, const uint8_t* name, uint32_t length) noexcept nogil
cdef Group* group_find(GroupTable* table, const uint8_t* name, uint32_t length) noexcept nogil
