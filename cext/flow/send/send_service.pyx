"""Send service. See send_service.pxd."""
cimport cython
from libc.stdint cimport uint64_t

from cext.flow.context.service cimport no_memory
from cext.memory.arena cimport Arena, arena_page_bytes, arena_take_pages


@cython.auto_pickle(False)          # pickling would take batch_ids for text
@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class SendService:
    cdef uint64_t arena_bytes(self, dict given) except? 0:
        return arena_page_bytes(BATCH_IDS_BYTES)

    cdef int open(self, Arena* arena, dict given) except -1:
        self.batch_ids = <uint8_t*> arena_take_pages(arena, BATCH_IDS_BYTES)
        if self.batch_ids == NULL:
            no_memory("the ids of a batch")
        return 0
