"""Appender. See appender.pxd."""
cimport cython

from cext.base.atomics cimport load_acquire_i64
from cext.base.status cimport OK
from cext.flow.append.ack_queue cimport MARKS, ack_queue_arena_bytes, ack_queue_open
from cext.flow.context.service cimport no_memory
from cext.memory.arena cimport Arena, arena_page_bytes, arena_take_pages
from cext.store.log.segment_map cimport segment_map_pages_lost
from cext.store.queues.consume_queue cimport chunk_pool_arena_bytes

cdef enum:
    ACKS_WAITING = 65536            # sends of one shard that wait for one mark of the log
    PAGE = 4096                     # unit of the store pool's figures


cdef int32_t dispatches_of(dict given) except 0:
    return POOL_DISPATCH_MAX if given["pool_bytes"] else DISPATCH_MAX


cdef inline int64_t in_pages(int64_t bytes) noexcept nogil:
    return (bytes + PAGE - 1) // PAGE


@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class Appender:
    cdef uint64_t arena_bytes(self, dict given) except? 0:
        # The queue store's chunks; they are taken when the shard opens its store.
        return (arena_page_bytes(dispatches_of(given) * sizeof(Dispatch))
                + MARKS * ack_queue_arena_bytes(ACKS_WAITING)
                + chunk_pool_arena_bytes(given["queue_chunks"]))

    cdef int open(self, Arena* arena, dict given) except -1:
        cdef int32_t mark
        self.dispatch_max = dispatches_of(given)
        self.dispatches = <Dispatch*> arena_take_pages(arena, self.dispatch_max * sizeof(Dispatch))
        if self.dispatches == NULL:
            no_memory("the dispatch list")
        for mark in range(MARKS):
            if ack_queue_open(&self.acks.waiting[mark], arena, ACKS_WAITING) != OK:
                no_memory("the ack queues")
        return 0

    cdef dict stats(self):
        return {
            "log_first": self.log.min_offset(),
            "log_appended": self.log.marks.appended,
            "log_written": load_acquire_i64(&self.log.marks.written),
            "log_durable": load_acquire_i64(&self.log.marks.durable),
            "log_dispatched": self.log.marks.dispatched,
            "log_ring_bytes": self.log.ring.size,
            "log_writes": self.log.writes,
            "log_rolls": self.log.rolls,
            "log_pages_lost": segment_map_pages_lost(),
            "ring_locked": int(self.log.ring_locked),
            "log_pooled": int(self.log.pooled),
            "log_committable": self.log.link.committable,
            "log_commits": self.committer.state.commits if self.log.pooled else 0,
            "log_syncs": self.flusher.state.syncs,
            "poisoned": int(self.log.poisoned()),
            "queue_writes": self.queues.counts.jobs_written,
            "queue_sync_writes": self.queues.counts.sync_writes,
            "queue_write_failures": self.queues.counts.write_failures,
        }

    cdef dict pools(self):
        chunks = &self.queues.pool
        # A chunk that goes back is the first to be taken again: `touched` is the most ever in use.
        cdef dict out = {"queue": (1024, chunks.capacity, chunks.touched - chunks.free_count,
                                   chunks.touched, chunks.refusals)}
        if self.log.pooled:
            out["store"] = (PAGE, self.log.ring.size // PAGE,
                            in_pages(self.log.marks.appended
                                     - load_acquire_i64(&self.log.marks.written)),
                            in_pages(self.turn.counters.tail_high), self.turn.counters.tail_full)
        return out
