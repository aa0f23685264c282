"""Region: binds a mapped range to a NUMA node, or locks it in memory. A failure is reported.

    region_prefer_node(base, size, 1)   pages touched from now on come from node 1 while it has any
    region_lock(base, size)             pages stay in memory once touched; costs nothing before

mbind is called as a system call, so libnuma need not be installed. rmq/system/affinity.py sets the
policy of the whole process; this module is for a range on another node, or a range whose refusal
must be known.

Example: with `ulimit -l` at 8 MiB, locking a ring of 16 MiB gives IO_ERROR and ENOMEM in *error.
"""
from libc.stdint cimport int32_t, uint64_t

cdef enum:
    NODE_MAX = 1023             # the kernel's largest node number

# node -1: no preference any more. OK | MALFORMED (node is out of range, or base is not at a page) |
# IO_ERROR (errno in *error: no such node, not allowed).
cdef int region_prefer_node(void* base, uint64_t size, int32_t node, int* error) noexcept nogil
# OK | IO_ERROR: beyond the limit of locked memory, or this kernel has no such call.
cdef int region_lock(void* base, uint64_t size, int* error) noexcept nogil
