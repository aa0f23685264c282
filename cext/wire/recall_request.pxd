"""Recall request (370 RECALL_MESSAGE): a timed message that is not due yet is to be forgotten.

Example: producerGroup=P, topic=t, recallHandle="djEgdCBicm9rZXItYSAxNzYzNzI2NDEwMDAxIDBB": what
that is, recall_handle.pxd says.

Any thread, no state.
"""
from cext.wire.header cimport Header
from cext.wire.text cimport Text

cdef struct RecallRequest:
    Text producer_group             # all texts borrow from the frame, may be escaped; NULL: none
    Text topic
    Text handle
    const char* bad_field           # which one is missing

# OK | MISSING_FIELD, with bad_field.
cdef int read_recall_request(const Header* header, RecallRequest* out) noexcept nogil
