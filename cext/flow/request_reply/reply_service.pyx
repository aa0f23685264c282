"""Reply service. See reply_service.pxd."""
cimport cython
from libc.stdint cimport uint64_t

from cext.base.status cimport OK
from cext.flow.context.service cimport no_memory
from cext.flow.request_reply.reply_table cimport (
    reply_table_close,
    reply_table_open,
    reply_table_arena_bytes,
)
from cext.memory.arena cimport Arena


@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class ReplyService:
    cdef uint64_t arena_bytes(self, dict given) except? 0:
        return reply_table_arena_bytes()

    cdef int open(self, Arena* arena, dict given) except -1:
        if reply_table_open(&self.replies, arena) != OK:
            no_memory("the pushed replies")
        return 0

    cdef void close(self) noexcept:
        reply_table_close(&self.replies)

    cdef dict stats(self):
        return {"replies_pushed": self.replies.pushed, "replies_failed": self.replies.failed}
