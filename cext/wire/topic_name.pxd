"""Topic name: whether control could make a topic of such a name.

The same rules as rmq.names.topic_fault(), which has the words for what is wrong.

Example: "orders" and "%RETRY%group" are names; "a b", "" and 128 characters are none.
"""
from libc.stdint cimport uint8_t, uint32_t

cdef bint is_topic_name(const uint8_t* name, uint32_t length) noexcept nogil
