"""Queue repair: the thread that makes lost entries of a queue file again, from the commit log.

A pull meets an entry that cannot be right, or whose record belongs to another place. The reactor
submits a repair. This thread reads for itself what is wrong and makes the entries around the place
anew from the log; the queue writer, which does all writing, puts them into the file.

    reactor  --Repair (SPSC ring, eventfd)-->  repair thread  --Repair-->  reactor
    reactor  --JOB_PATCH-->  queue writer  --JOB_PATCH-->  reactor, which wakes the pulls that wait

The log is read between two entries that name their own record: the nearest one before the place and
the nearest one after it. These are some pages, or all of the log when a whole file is gone. Up to
REPAIR_ENTRIES entries are made at a time; a consumer that goes on meets the next ones.

The log tells a damaged record from a damaged entry: a sound entry names a place that begins where a
record ends and ends where one begins. A damaged record cannot be repaired here, and the status says
so. Three results are remembered for RECENT_REPAIR_MS: the log has no record for these entries; the
repair failed for another reason (no memory, no space, a file that cannot be opened or read), so the
log may have the messages; nothing was wrong.

Example: page 3 of a file is zeros, entries 614-818. A pull at 700 meets it; entries 500 and 1,024
name their records; the log between these is read, 524 entries are compared, 205 are written.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.base.native_thread cimport NativeThread
from cext.base.state cimport state_move
from cext.memory.spsc_ring cimport SpscRing
from cext.store.log.commit_log cimport CommitLog
from cext.store.log.log_cursor cimport LogCursor
from cext.store.log.record cimport RecordView
from cext.store.queues.queue_files cimport QueueFiles, QueueName
from cext.store.queues.tags_code cimport DelayLevels

cdef enum:
    REPAIRS_MAX = 8                 # under way at once, each for another queue
    REPAIR_ENTRIES = 16384          # made anew at a time
    BEFORE_ENTRIES = 1024           # so many of these are before the place that was met
    REPAIR_TOPIC_BYTES = 256
    RECENT_REPAIRS_MAX = 512        # places remembered
    RECENT_REPAIR_MS = 60_000

cdef enum RepairState:              # of a slot; only the reactor uses it
    REPAIR_FREE = 0
    REPAIR_LOOKING = 1              # the repair thread has it
    REPAIR_WRITING = 2              # the queue writer has it
    REPAIR_OVER = 3                 # the result is `repaired`, `offset`, `status`

cdef struct Repair:
    int32_t state                   # RepairState, by repair_move()
    uint64_t serial                 # Queue.serial: the queue may be gone when the answer comes
    char topic[REPAIR_TOPIC_BYTES]  # ends with a NUL
    int32_t topic_length
    int32_t queue_id
    int64_t offset                  # queue offset of the entry that was met
    int64_t low, high               # entries [low, high) of the queue are only in files
    int64_t high_physical           # log offset where the last of their records ends
    # Results. Status: OK (marks say what to write), CORRUPT (the record itself is damaged, or the
    # log has none), CLOSED, POOL_EMPTY, NO_SPACE, IO_ERROR (writing failed).
    int32_t status
    int64_t first                   # queue offset of entries[0]
    int64_t count
    uint8_t* entries                # file form; owned
    uint8_t* marks                  # of each entry: ENTRY_MISSING, ENTRY_SAME, ENTRY_NEW; owned
    int64_t repaired                # number of entries that were otherwise in the file
    int64_t missing_from, missing_to  # offsets around `offset` for which the log has no record

# The only setter of the state: FREE -> LOOKING -> (WRITING ->) OVER -> FREE.
cdef inline void repair_move(Repair* r, int32_t to) noexcept nogil:
    cdef uint32_t allowed = 1 << (to + 3 & 3)
    if to == REPAIR_OVER:
        allowed |= 1 << REPAIR_LOOKING
    state_move(&r.state, to, allowed, b"queue repair: looked at, written, over, free")

cdef enum EntryMark:
    ENTRY_MISSING = 0               # the log has no record for it
    ENTRY_SAME = 1
    ENTRY_NEW = 2

cdef struct RecentRepair:
    uint64_t serial
    int64_t from_offset, to_offset
    int64_t until_ms
    # CORRUPT: the log has no records for these offsets; NOT_READY: the entries could not be made
    # anew; OK: nothing is wrong there.
    int32_t status

cdef class QueueRepair:
    cdef CommitLog log
    cdef LogCursor probe            # looks at single records
    cdef LogCursor scan
    cdef QueueFiles files
    cdef DelayLevels levels
    cdef SpscRing requests, results
    cdef NativeThread thread
    cdef int wake_fd                # owned
    cdef int32_t stopping
    # Reactor.
    cdef Repair slots[REPAIRS_MAX]
    cdef int32_t busy               # slots that are not free
    cdef RecentRepair recent[RECENT_REPAIRS_MAX]
    cdef int32_t next_recent

    # Reactor. What was lately found out about this offset, as request_repair() returns it
    # (queue_table.pxd); ABSENT: nothing.
    cdef int recent_status(self, uint64_t serial, int64_t offset, int64_t now_ms) noexcept nogil
    cdef void note_recent(self, const Repair* r, int64_t now_ms) noexcept nogil
    # Reactor. The queue's slot, or a free one (state REPAIR_FREE) to fill; NULL: all are busy.
    cdef Repair* slot_for(self, uint64_t serial) noexcept nogil
    cdef bint ask(self, Repair* r) noexcept nogil
    cdef Repair* answer(self) noexcept nogil        # NULL: none
    cdef void free_slot(self, Repair* r) noexcept nogil

    cdef void run(self) noexcept nogil
    cdef void _do(self, Repair* r) noexcept nogil
    cdef int _judge(self, Repair* r, const QueueName* name) noexcept nogil
    cdef bint _in_order(self, Repair* r, const QueueName* name, int64_t physical,
                        int32_t size) noexcept nogil
    cdef bint _names_its_record(self, const Repair* r, const uint8_t* raw, int64_t offset,
                                RecordView* view) noexcept nogil
    cdef int64_t _search(self, const Repair* r, const QueueName* name, int64_t at, int64_t stop,
                         int64_t* physical) noexcept nogil
    cdef int _read_log(self, Repair* r, int64_t low, int64_t high, int64_t low_offset,
                       int64_t high_offset) noexcept nogil
    cdef void _compare(self, Repair* r, const QueueName* name) noexcept nogil
