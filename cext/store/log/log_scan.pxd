"""Log scan: the commit log record by record, at a start, to find where it ends.

    what is at the position                          decision          which crash leads here
    E1 a record, lengths, position and crc right     it is one         -
    E2 BLANK head                                    next segment      -
    E3 zeros, no valid record behind them            the end           none: where writing stopped
    E4 anything else, no valid record behind it      the end           torn write; stale bytes of a
                                                                       recycled file; power cut
       or a record whose topic or properties end     the end           torn write into fresh zeros
       in zeros, and nothing valid behind it
    E5 anything else or zeros, a valid record behind skip, name it     none: damage of the disk
                                                                       (in ASYNC_FLUSH a power cut)
       or a record that ends in zeros, more of them  skip, name it     a page that the disk has lost
       behind it, and then a valid record
    E6 a record that ends in zeros, a valid one, a   it is one         somebody stored it so
       BLANK, or damage and then one, behind it
    E7 a record that ends in zeros, just where the   it is one         the same, and nothing was
       store says that all was written                                 stored since

"Valid" includes that the record says it belongs at this very position, so bytes that an older use
of the file left behind are never taken for records. "Behind" is looked for in the next
RESYNC_BYTES and at the start of the next segment. Where damage is skipped nothing is written: the
bytes stay for whoever wants to look at them, and are never handed out. What the disk does not give
is none of these: the scan fails, whether it is at the position or behind it. A log that ended there
would lose the files behind it.

E7: the store says it in checkpoint and queueEnds; one that Apache's broker has stopped cleanly, by
the highest record that its queues name. A start that begins there (rows S4 and S5 in
recovery.pxd) never looks at the record before; whoever reads from the front comes to the same end.
The plain twin is persisted_ends() in rmq/format/store_files.py.

Example: segment of 4096 bytes, records at 0, 300, 600 (torn at byte 650): position ends at 600.
"""
from libc.stdint cimport int32_t, int64_t

from cext.store.log.commit_log cimport CommitLog
from cext.store.log.log_window cimport LogWindow
from cext.store.log.record cimport RecordView

cdef enum:
    SCAN_BYTES = 8 << 20        # read at once; more for a larger record
    RESYNC_BYTES = 64 << 20     # more than a torn write can be long
    DAMAGE_MAX = 256            # places named; more are only counted
    PERSISTED_ENDS_MAX = 4      # two of the checkpoint or one of queues, one of each queueEnds

cdef struct Damage:
    int64_t offset              # physical offset
    int64_t length              # bytes skipped
    int32_t problem             # RecordProblem of the first record that was not one

cdef class LogScan:
    cdef CommitLog log
    cdef int64_t position       # of the next record; after NOT_READY the end of the log
    cdef int64_t limit          # end of the last segment
    cdef bint check_crc
    cdef LogWindow window
    cdef int32_t end_problem    # RecordProblem at the end: AT_END for zeros
    cdef int64_t records        # found so far
    cdef int64_t last_record    # offset of the newest of them; -1: none
    cdef int64_t damage_count
    cdef Damage damages[DAMAGE_MAX]
    cdef int64_t persisted_ends[PERSISTED_ENDS_MAX]     # E7: log offsets
    cdef int32_t persisted_count

    # The record at `position`, which then moves behind it. Pointers are good until the next call.
    # OK | NOT_READY (the end) | IO_ERROR | POOL_EMPTY (no memory for a large record)
    cdef int next(self, RecordView* out) noexcept nogil
    # Looks at one offset without moving: OK and the record, or why not.
    cdef int peek(self, int64_t offset, RecordView* out) noexcept nogil
    cdef void seek(self, int64_t offset) noexcept nogil
    cdef void note_persisted_end(self, int64_t offset) noexcept nogil
    # Another one at the log's start, which knows the same of the store.
    cdef LogScan anew(self)
    # For a report: what is at the end, "" for nothing; the places named, by file.
    cdef str end_cause(self)
    cdef list damage_rows(self)

    cdef bint _is_persisted_end(self, int64_t offset) noexcept nogil
    cdef int _check_behind(self, RecordView* out) noexcept nogil
    cdef int _find_valid(self, int64_t offset, int64_t* found) noexcept nogil
    cdef int _resync(self, int32_t problem) noexcept nogil
    cdef int _skip_to(self, int64_t offset, int32_t problem) noexcept nogil
