"""Queue store: all consume queues of a shard, appended to.

    queue_table.pxd           found and read
    queue_persistence.pxd     into files: runs, syncs, the checkpoint
    here                      appended to; made anew where a file is damaged

Reactor thread for everything, except where a line says otherwise.

What an append means: the entry is in memory and readers see it at once. It says nothing about
files: those are derived from the commit log.

Room: an append needs a chunk every 50 entries. When the pool is empty, chunks whose entries are
persisted are taken back from any queue; when there are none the reactor writes a queue itself
(counted in sync_writes); when that fails too, make_room says NO_SPACE or IO_ERROR. Flow calls
queue_room (inline, one compare) before it writes a record: a disk that fails is known before more
is promised. It says nothing of what the same turn wrote before and has not appended yet; an append
that fails then has done nothing, and is tried again (cext/flow/append/dispatch.pxd). To count the
chunks that a turn will need, of any queue, would cost every message what only a failing disk saves.
"""
from libc.stdint cimport int32_t, int64_t

from cext.base.status cimport Status
from cext.store.queues.consume_queue cimport Queue
from cext.store.queues.queue_persistence cimport QueuePersistence
from cext.store.queues.queue_repair cimport QueueRepair, Repair
from cext.store.queues.queue_writer cimport QueueJob

cdef class QueueStore(QueuePersistence):
    cdef int64_t clock_hand             # where the last search for persisted chunks ended
    cdef QueueRepair repair             # None: nothing is mended (tools, tests)
    cdef int64_t now_ms                 # of the last turn

    # A repair that has come to its end, to be told and given to repair_logged(); NULL: none. Its
    # queue is in *queue; NULL: deleted meanwhile.
    cdef Repair* repair_over(self, Queue** queue) noexcept nogil
    cdef void repair_logged(self, Repair* r) noexcept nogil
    # Adds an entry and moves max_offset. OK, or what make_room said.
    cdef int append(self, Queue* queue, int64_t physical_offset, int32_t size,
                    int64_t tags_code) noexcept nogil
    # Slow half of queue_room: OK | NO_SPACE | IO_ERROR | POOL_EMPTY.
    cdef int make_room(self, Queue* queue) noexcept nogil
    # Once a turn: takes in what the writer finished, hands over what is due, wakes the writer.
    # now_ms: wall clock of the turn; log_durable: the log's durable watermark.
    cdef void turn(self, int64_t now_ms, int64_t log_durable) noexcept nogil
    # The queues of a topic: how many. used[0]: one of them was ever given an offset for a record.
    # Those that replay began at `kept_from` of the log or behind stay: they are a newer topic's.
    cdef int delete_topic(self, const char* topic, int32_t topic_length, int64_t kept_from,
                          bint* used) noexcept nogil
    # Hands over everything, waits, writes the checkpoint. OK | IO_ERROR | NO_SPACE.
    cdef int flush_all(self, int64_t now_ms, int64_t log_durable, int timeout_ms) noexcept nogil

    cdef void _collect_repairs(self) noexcept nogil
    cdef Queue* _queue_of(self, const Repair* r) noexcept nogil
    cdef int _reclaim(self, int64_t wanted) noexcept nogil
    cdef int _write_here(self) noexcept nogil
    # Recovery only: where the files of a queue end and begin. What its first and last entry are is
    # not known to the writer then (Queue.file_ends).
    cdef void set_range(self, Queue* queue, int64_t min_offset, int64_t end_offset,
                        bint has_file) noexcept nogil


# OK when the next append to `queue` needs no chunk; otherwise what make_room says.
cdef inline int queue_room(QueueStore store, Queue* queue) noexcept nogil:
    if queue.write_at != queue.write_end:
        return Status.OK
    return store.make_room(queue)
