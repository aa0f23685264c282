"""Page cache: how much of a file the kernel holds in memory, for operators. Not on the hot path."""
from libc.stdint cimport int64_t

cdef struct CachedPages:
    int64_t resident_bytes      # in the page cache
    int64_t dirty_bytes         # of those, not on the disk yet; -1: this kernel does not say

# Counts the first `bytes` bytes of the file. OK | IO_ERROR. A GiB takes about a millisecond.
cdef int cached_pages(int fd, int64_t bytes, CachedPages* out) noexcept nogil
# The way of kernels without cachestat; `bytes` > 0.
cdef int pages_by_mincore(int fd, int64_t bytes, CachedPages* out) noexcept nogil
