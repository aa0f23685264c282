"""RECALL_MESSAGE (370). See recall_request.pxd."""
from cext.base.status cimport Status
from cext.wire.field_slots cimport sort_into_slots
from cext.wire.name_table cimport NameTable, name_table_add
from cext.wire.text cimport text_of

cdef enum:
    GROUP, TOPIC, HANDLE, SLOTS_OF_RECALL

cdef NameTable names
name_table_add(&names, b"producerGroup")
name_table_add(&names, b"topic")
name_table_add(&names, b"recallHandle")


cdef int read_recall_request(const Header* header, RecallRequest* out) noexcept nogil:
    cdef const Text* slots[SLOTS_OF_RECALL]
    sort_into_slots(&names, header, slots, SLOTS_OF_RECALL)
    out.bad_field = b"topic" if slots[TOPIC] == NULL else b"recallHandle"
    if slots[TOPIC] == NULL or slots[HANDLE] == NULL:
        return Status.MISSING_FIELD
    out.producer_group = slots[GROUP][0] if slots[GROUP] != NULL else text_of(NULL, 0)
    out.topic = slots[TOPIC][0]
    out.handle = slots[HANDLE][0]
    return Status.OK
