"""Topic name: whether a topic may have this name.

The rules are those of rmq.names.topic_fault(), which also says what is wrong with a name.

Example: "orders" and "%RETRY%group" are allowed; "a b", "" and 128 characters are not.
"""
from libc.stdint cimport uint8_t, uint32_t

cdef bint is_topic_name(const uint8_t* name, uint32_t length) noexcept nogil
