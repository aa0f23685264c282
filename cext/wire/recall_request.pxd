"""Recall request (370 RECALL_MESSAGE): a producer takes back a timed message that is not due yet.

Example: producerGroup=P, topic=t, recallHandle="djEgdCBicm9rZXItYSAxNzYzNzI2NDEwMDAxIDBB";
recall_handle.pxd explains the handle.

Any thread, no state.
"""
from cext.wire.header cimport Header
from cext.wire.text cimport Text

cdef struct RecallRequest:
    Text producer_group             # texts borrow from the frame, may be escaped; NULL: absent
    Text topic
    Text handle
    const char* bad_field           # the name of the missing field

# OK | MISSING_FIELD, with bad_field.
cdef int read_recall_request(const Header* header, RecallRequest* out) noexcept nogil
