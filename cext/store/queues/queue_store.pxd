"""Queue store: all consume queues of a shard; appends to them and mends them.

    queue_table.pxd           finds and reads queues
    queue_persistence.pxd     brings entries into files: runs, syncs, the checkpoint
    here                      appends entries; has them made anew where a file is damaged

Reactor thread for everything, except where a line says otherwise.

An append means that the entry is in memory and that readers see it at once. It promises nothing
about files, which are derived from the commit log.

Room: an append needs a chunk every 50 entries. When the pool is empty, chunks whose entries are
persisted are taken back from any queue. When there are none, the reactor writes a queue itself
(counted in sync_writes); when that fails too, make_room returns NO_SPACE or IO_ERROR. Flow calls
queue_room (inline, one comparison) before it writes a record, so that a failing disk is known
before more is promised. This does not cover records that the same turn has written before and not
yet appended to their queues: an append that fails then has changed nothing, and is tried again
(cext/flow/append/dispatch.pxd). Counting the chunks that a turn will need would make every message
pay for a case that only occurs when a disk fails.
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
    cdef int64_t now_ms                 # wall clock of the last turn

    # A repair that is over; the caller logs it and then calls repair_logged(). NULL: none. *queue
    # is the repair's queue; NULL: it was deleted meanwhile.
    cdef Repair* repair_over(self, Queue** queue) noexcept nogil
    cdef void repair_logged(self, Repair* r) noexcept nogil
    # Adds an entry and moves max_offset. OK, or a status of make_room.
    cdef int append(self, Queue* queue, int64_t physical_offset, int32_t size,
                    int64_t tags_code) noexcept nogil
    # Slow half of queue_room: OK | NO_SPACE | IO_ERROR | POOL_EMPTY.
    cdef int make_room(self, Queue* queue) noexcept nogil
    # Once a turn: takes in what the writer finished, hands over what is due, wakes the writer.
    # now_ms: wall clock of the turn; log_durable: the log's durable watermark.
    cdef void turn(self, int64_t now_ms, int64_t log_durable) noexcept nogil
    # Deletes the queues of a topic and returns how many. used[0]: a record ever got an offset in
    # one of them. Queues that replay began at log offset `kept_from` or later are kept: they belong
    # to a newer topic of this name.
    cdef int delete_topic(self, const char* topic, int32_t topic_length, int64_t kept_from,
                          bint* used) noexcept nogil
    # Hands over everything, waits, writes the checkpoint. OK | IO_ERROR | NO_SPACE.
    cdef int flush_all(self, int64_t now_ms, int64_t log_durable, int timeout_ms) noexcept nogil

    cdef void _collect_repairs(self) noexcept nogil
    cdef Queue* _queue_of(self, const Repair* r) noexcept nogil
    cdef int _reclaim(self, int64_t wanted) noexcept nogil
    cdef int _write_here(self) noexcept nogil
    # Recovery only: sets where the files of a queue begin and end. The writer then does not know
    # the first and the last entry (Queue.file_ends).
    cdef void set_range(self, Queue* queue, int64_t min_offset, int64_t end_offset,
                        bint has_file) noexcept nogil


# OK when the next append to `queue` needs no chunk; otherwise the status of make_room.
cdef inline int queue_room(QueueStore store, Queue* queue) noexcept nogil:
    if queue.write_at != queue.write_end:
        return Status.OK
    return store.make_room(queue)
