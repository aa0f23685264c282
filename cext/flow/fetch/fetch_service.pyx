"""Fetch service. See fetch_service.pxd."""
cimport cython
from libc.stdint cimport uint32_t, uint64_t

from cext.base.status cimport OK
from cext.flow.context.service cimport no_memory, pool_numbers
from cext.flow.context.step cimport RunStep, StepDrained
from cext.flow.fetch.disk_fetch cimport fetch_pool_arena_bytes
from cext.flow.fetch.parked_requests cimport PARKED_MAX, parked_free
from cext.memory.arena cimport Arena
from cext.memory.buffer_pool cimport buffer_pool_close


cdef uint32_t fetches_of(dict given) except 0:
    """One for each buffer that can be read into, and one for each parked request."""
    return given["jumbo_buffers"] + PARKED_MAX


@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class FetchService:
    def __cinit__(self):
        self.pool = FetchPool()

    cdef uint64_t arena_bytes(self, dict given) except? 0:
        return fetch_pool_arena_bytes(fetches_of(given))

    cdef int open(self, Arena* arena, dict given) except -1:
        if self.pool.open(arena, fetches_of(given)) != OK:
            no_memory("the reads of the disk")
        self.parked.given = -1
        return 0

    cdef void close(self) noexcept:
        parked_free(&self.parked)
        buffer_pool_close(&self.pool.fetches)

    cdef dict stats(self):
        return {"fetches_in_flight": self.pool.in_flight, "fetches_failed": self.pool.failed,
                "records_asked": self.parked.records,
                "large_bytes": self.pool.large.bytes if self.pool.large != NULL else 0}

    cdef dict pools(self):
        return {"fetch": pool_numbers(&self.pool.fetches)}


cdef void collect(FetchService s) noexcept nogil:
    s.pool.collect()


cdef bint none_in_flight(FetchService s) noexcept nogil:
    return s.pool.drained()


cdef Step fetch_step(FetchService s) noexcept:
    return Step(b"fetch", <void*> s, <RunStep> collect, NULL, <StepDrained> none_in_flight)
