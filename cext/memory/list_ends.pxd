# List ends: the first and the last entry of a list: both or none; for debug_check.
#
# For lists that know both of their ends (chain.pxd has its own). Called where an end changes.
#
# Example: the last piece of a connection's output is sent: `first` is NULL, and `last` has to be.

from cext.base.check cimport debug_check


cdef inline void list_ends_check(const void* first, const void* last) noexcept nogil:
    debug_check((first == NULL) == (last == NULL), b"a list: it has both ends or none",
                first != NULL, last != NULL)
