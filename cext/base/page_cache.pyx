"""Resident and dirty pages of a file: cachestat (Linux 6.5), else mincore. See page_cache.pxd.

    >>> of_file("/store/commitlog/00000000000000000000")    # (resident, dirty or -1, size)
    (1073741824, 40960, 1073741824)
"""
import os

from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc

from cext.base.status cimport IO_ERROR, OK, raise_status

cdef extern from "<unistd.h>" nogil:
    long syscall(long number, ...)
    long sysconf(int name)
    enum: _SC_PAGESIZE

cdef extern from "<sys/mman.h>" nogil:
    void* mmap(void* at, size_t size, int protection, int flags, int fd, long offset)
    int munmap(void* at, size_t size)
    int mincore(void* at, size_t size, unsigned char* out)
    enum: PROT_READ, MAP_SHARED
    void* MAP_FAILED

cdef enum:
    SYS_CACHESTAT = 451         # the same number on x86-64 and aarch64

cdef struct CacheRange:
    uint64_t offset
    uint64_t length

cdef struct CacheStat:          # counts of pages
    uint64_t cached
    uint64_t dirty
    uint64_t writing
    uint64_t evicted
    uint64_t evicted_recently


cdef int pages_by_mincore(int fd, int64_t bytes, CachedPages* out) noexcept nogil:
    cdef int64_t page = sysconf(_SC_PAGESIZE)
    cdef int64_t pages = (bytes + page - 1) // page
    cdef int64_t i, resident = 0
    cdef void* at = mmap(NULL, <size_t> bytes, PROT_READ, MAP_SHARED, fd, 0)
    cdef uint8_t* seen
    if at == MAP_FAILED:
        return IO_ERROR
    seen = <uint8_t*> malloc(<size_t> pages)
    if seen == NULL or mincore(at, <size_t> bytes, seen) != 0:
        free(seen)
        munmap(at, <size_t> bytes)
        return IO_ERROR
    for i in range(pages):
        resident += seen[i] & 1
    free(seen)
    munmap(at, <size_t> bytes)
    out.resident_bytes = resident * page
    out.dirty_bytes = -1
    return OK


cdef int cached_pages(int fd, int64_t bytes, CachedPages* out) noexcept nogil:
    cdef CacheRange whole
    cdef CacheStat stat
    cdef int64_t page = sysconf(_SC_PAGESIZE)
    out.resident_bytes = out.dirty_bytes = 0
    if bytes <= 0:
        return OK
    whole.offset = 0
    whole.length = <uint64_t> bytes
    if syscall(SYS_CACHESTAT, <long> fd, &whole, &stat, <long> 0) == 0:
        out.resident_bytes = <int64_t> stat.cached * page
        out.dirty_bytes = <int64_t> (stat.dirty + stat.writing) * page
        return OK
    return pages_by_mincore(fd, bytes, out)


def of_file(path):
    """(resident bytes, dirty bytes or -1, size) of one file."""
    cdef CachedPages pages
    cdef int status
    cdef int64_t size
    cdef int fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        with nogil:
            status = cached_pages(fd, size, &pages)
    finally:
        os.close(fd)
    raise_status(status, f"{path}: pages in memory")
    return pages.resident_bytes, pages.dirty_bytes, size
