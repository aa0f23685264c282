"""Service. See service.pxd."""
cimport cython

from rmq.errors import not_copied


@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class Service:
    def __reduce__(self):
        raise not_copied(self, "it is of one shard")

    cdef uint64_t arena_bytes(self, dict given) except? 0:
        return 0

    cdef int open(self, Arena* arena, dict given) except -1:
        return 0

    cdef void close(self) noexcept:
        pass

    cdef dict stats(self):
        return {}

    cdef dict pools(self):
        return {}


cdef int no_memory(str of) except -1:
    raise MemoryError(f"no memory for {of} of the shard")


cdef tuple pool_numbers(const BufferPool* pool):
    return pool.buffer_bytes, pool.count, pool.in_use, pool.high_water, pool.refusals
