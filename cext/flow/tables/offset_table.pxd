"""Offset table: (topic, group, queue) -> next offset to consume.

Pulls commit here on the hot path (sysFlag bit 0), and so do commit requests (15). The control
thread answers 14 from here, and every 5 s writes what has changed to its journal. An entry's name
is RocketMQ's: "topic@group". Entries that have changed since the control thread last took them are
in a list, so a write costs as much as there are changes, however many entries there are. A removed
entry stays in the list, without offsets, until it is taken.

A reset by an operator moves the offset and marks it: until a pull of the group from that queue has
been told to go there (offset_take_reset), commits of its consumers do not count. The mark is also
in the file, so that a restart in between does not take the consumers back to their old places.

Example: after a pull of group g on TopicTest queue 3 with commitOffset 128, "TopicTest@g" holds
offsets[3] = 128; queues never committed hold -1.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.memory.name_map cimport NameMap

cdef struct GroupOffsets:
    int32_t slots           # 0: nothing was committed, or the entry was removed
    int64_t* offsets        # owned; -1: unknown
    uint8_t* resets         # owned; 1: the next pull is told to go to offsets[i]
    uint32_t name_bytes     # of the name, which follows this struct
    bint is_changed         # it is in the table's list
    GroupOffsets* older     # neighbours in the list
    GroupOffsets* newer

cdef struct OffsetTable:
    NameMap names
    uint64_t version        # grows with each change: the writer of the file compares it
    GroupOffsets* changed_first     # the list, oldest change first
    GroupOffsets* changed_last
    uint64_t changed_count
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
# The offset to go to, or -1 when there is no mark.
cdef int64_t offset_marked(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                           const uint8_t* group, uint32_t group_length,
                           int32_t queue_id) noexcept nogil
# The same, and removes the mark.
cdef int64_t offset_take_reset(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                               const uint8_t* group, uint32_t group_length,
                               int32_t queue_id) noexcept nogil
cdef int64_t offset_query(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                          const uint8_t* group, uint32_t group_length,
                          int32_t queue_id) noexcept nogil
cdef inline const uint8_t* offsets_name(const GroupOffsets* entry) noexcept nogil:
    return <const uint8_t*> &entry[1]

# Takes the first entry from the list of changed ones, which must not be empty; frees a removed one.
cdef void offsets_take_changed(OffsetTable* table) noexcept nogil
# Forgets all entries of a group, of a topic, or of the pair; a length of 0 means any.
cdef void offsets_remove(OffsetTable* table, const uint8_t* topic, uint32_t topic_length,
                         const uint8_t* group, uint32_t group_length) noexcept nogil
