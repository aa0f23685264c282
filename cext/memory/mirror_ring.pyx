"""A ring of bytes mapped twice. See mirror_ring.pxd."""
from libc.string cimport memset

from cext.base.status cimport Status

cdef extern from "<sys/mman.h>" nogil:
    void* mmap(void* at, size_t size, int protection, int flags, int fd, long offset)
    int munmap(void* at, size_t size)
    int memfd_create(const char* name, unsigned int flags)
    enum: PROT_NONE, PROT_READ, PROT_WRITE, MAP_SHARED, MAP_PRIVATE, MAP_ANONYMOUS, MAP_FIXED
    enum: MAP_NORESERVE, MFD_CLOEXEC
    void* MAP_FAILED

cdef extern from "<unistd.h>" nogil:
    int ftruncate(int fd, long size)
    int c_close "close" (int fd)
    long sysconf(int name)
    enum: _SC_PAGESIZE


cdef int mirror_ring_open(MirrorRing* ring, uint64_t size) noexcept nogil:
    cdef uint8_t* base
    cdef void* low
    cdef void* high
    cdef int fd
    memset(ring, 0, sizeof(MirrorRing))
    if size == 0 or size & (size - 1) != 0 or size < <uint64_t>sysconf(_SC_PAGESIZE):
        return Status.MALFORMED
    fd = memfd_create("rmq-ring", MFD_CLOEXEC)
    if fd < 0:
        return Status.IO_ERROR
    if ftruncate(fd, <long>size) != 0:
        c_close(fd)
        return Status.IO_ERROR
    base = <uint8_t*>mmap(NULL, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                          -1, 0)
    if base == MAP_FAILED:
        c_close(fd)
        return Status.IO_ERROR
    low = mmap(base, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0)
    high = mmap(base + size, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0)
    c_close(fd)              # the two mappings keep the memory
    if low == MAP_FAILED or high == MAP_FAILED:
        munmap(base, 2 * size)
        return Status.IO_ERROR
    ring.base = base
    ring.size = size
    return Status.OK


cdef void mirror_ring_close(MirrorRing* ring) noexcept nogil:
    if ring.base != NULL:
        munmap(ring.base, 2 * ring.size)
    memset(ring, 0, sizeof(MirrorRing))
