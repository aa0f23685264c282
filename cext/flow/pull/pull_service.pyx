"""Pull service. See pull_service.pxd."""
cimport cython
from libc.stdint cimport uint64_t

from cext.base.check cimport check
from cext.base.status cimport OK
from cext.flow.context.service cimport no_memory, pool_numbers
from cext.flow.pull.pull_job cimport PullJob
from cext.memory.arena cimport Arena, arena_page_bytes, arena_take_pages
from cext.memory.buffer_pool cimport buffer_pool_arena_bytes, buffer_pool_close, buffer_pool_open


@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class PullService:
    cdef uint64_t arena_bytes(self, dict given) except? 0:
        check(self.job_bytes >= sizeof(PullJob), b"pulls: a job has room for a pull",
              self.job_bytes, sizeof(PullJob))
        return (arena_page_bytes(TIMER_SLOTS * sizeof(ChainEntry*))
                + buffer_pool_arena_bytes(self.job_bytes, given["pulls_max"]))

    cdef int open(self, Arena* arena, dict given) except -1:
        self.timer_slots = <ChainEntry**> arena_take_pages(arena, TIMER_SLOTS * sizeof(ChainEntry*))
        if self.timer_slots == NULL or buffer_pool_open(&self.job_pool, arena, self.job_bytes,
                                                        given["pulls_max"], 0) != OK:
            no_memory("the pulls")
        return 0

    cdef void close(self) noexcept:
        buffer_pool_close(&self.job_pool)

    cdef dict stats(self):
        return {"pulls_waiting": self.held_count}

    cdef dict pools(self):
        return {"pull": pool_numbers(&self.job_pool)}
