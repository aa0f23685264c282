"""Consumer offsets: (topic, group, queue) -> next offset to consume.

Pulls commit here on the hot path (sysFlag bit 0), and so do commits (15); the control thread
answers 14 from here and writes consumerOffset.json from a copy every 5 s. The name is RocketMQ's:
"topic@group".

A reset by an operator moves the offset and marks it: until the group's next pull of that queue has
been told to go there (offset_take_reset), what its consumers commit does not count. The mark is in
the file too, so that a restart in between does not give the consumers their old places back.

Example: after a pull of group g on TopicTest queue 3 with commitOffset 128, "TopicTest@g" holds
offsets[3] = 128; queues never committed hold -1.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.memory.name_map cimport NameMap

cdef struct GroupOffsets:
    int32_t slots
    int64_t* offsets        # owned; -1: unknown
    uint8_t* resets         # owned; 1: the next pull is told to go to offsets[i]

cdef struct OffsetTable:
    NameMap names
    uint64_t version        # grows with each change: the writer of the file compares it
    int64_t reset_count     # marks set and not taken yet, all groups

cdef int offset_table_open(OffsetTable* table) noexcept nogil
cdef void offset_table_close(OffsetTable* table) noexcept nogil
cdef int offset_commit(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                       const uint8_t* group, uint32_t group_length, int32_t queue_id,
                       int64_t offset) noexcept nogil
# Moves the offset and marks it. OK | TOO_LARGE | POOL_EMPTY.
cdef int offset_reset(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                      const uint8_t* group, uint32_t group_length, int32_t queue_id,
                      int64_t offset) noexcept nogil
# Takes the mark away: the offset to go to, or -1 when there was none.
cdef int64_t offset_take_reset(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                               const uint8_t* group, uint32_t group_length,
                               int32_t queue_id) noexcept nogil
cdef int64_t offset_query(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                          const uint8_t* group, uint32_t group_length,
                          int32_t queue_id) noexcept nogil
# Forgets all entries of a group, of a topic, or of the pair; a length of 0 means any.
cdef void offsets_remove(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                         const uint8_t* group, uint32_t group_length) noexcept nogil
