"""UPDATE_CONSUMER_OFFSET (15). See offset_commit.pxd."""
from cext.base.status cimport MALFORMED, MISSING_FIELD, OK
from cext.wire.field_slots cimport sort_into_slots
from cext.wire.name_table cimport NameTable, name_table_add
from cext.wire.text cimport text_i32, text_i64

cdef enum:                          # the order in which the names are added below
    CONSUMER_GROUP
    TOPIC
    QUEUE_ID
    COMMIT_OFFSET
    SLOT_COUNT

cdef NameTable names
name_table_add(&names, b"consumerGroup")
name_table_add(&names, b"topic")
name_table_add(&names, b"queueId")
name_table_add(&names, b"commitOffset")


cdef int read_offset_commit(const Header* header, OffsetCommit* out) noexcept nogil:
    cdef const Text* slots[SLOT_COUNT]
    cdef int slot
    sort_into_slots(&names, header, slots, SLOT_COUNT)
    for slot in range(SLOT_COUNT):
        if slots[slot] == NULL:
            return MISSING_FIELD
    if (text_i32(slots[QUEUE_ID], &out.queue_id) != OK
            or text_i64(slots[COMMIT_OFFSET], &out.offset) != OK):
        return MALFORMED
    out.consumer_group = slots[CONSUMER_GROUP][0]
    out.topic = slots[TOPIC][0]
    return OK
