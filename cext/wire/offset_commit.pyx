"""UPDATE_CONSUMER_OFFSET (15). See offset_commit.pxd."""
from libc.stdint cimport uint8_t, uint32_t

from cext.base.status cimport MALFORMED, MISSING_FIELD, OK
from cext.wire.field_slots cimport sort_into_slots
from cext.wire.header cimport parse_header
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


# ---- for tests ----

def offset_commit_of(bytes header not None, int serialize_type) -> dict[str, object]:
    cdef Header parsed
    cdef OffsetCommit out
    cdef int status = parse_header(<const uint8_t*> header, <uint32_t> len(header),
                                   <uint8_t> serialize_type, &parsed)
    if status == OK:
        status = read_offset_commit(&parsed, &out)
    if status != OK:
        return {"status": status}
    return {
        "status": status,
        "consumer_group": (<const char*> out.consumer_group.bytes)[:out.consumer_group.length],
        "topic": (<const char*> out.topic.bytes)[:out.topic.length],
        "queue_id": out.queue_id,
        "offset": out.offset,
    }
