# List ends: checks in debug builds that a list has a first and a last entry, or neither.
#
# It is for lists that store both of their ends (chain.pxd has a check of its own), and is called
# where an end changes.
#
# Example: once the last piece of a connection's output is sent, `first` is NULL, so `last` must be.

from cext.base.check cimport debug_check


cdef inline void list_ends_check(const void* first, const void* last) noexcept nogil:
    debug_check((first == NULL) == (last == NULL), b"a list: it has both ends or none",
                first != NULL, last != NULL)
