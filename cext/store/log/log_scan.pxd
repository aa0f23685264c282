"""Log scan: reads the commit log record by record, at a start, to find where it ends.

    what is at the position                          decision          which crash leads here
    E1 a record; lengths, position and crc right     a record          -
    E2 BLANK head                                    next segment      -
    E3 zeros, no valid record after them             the end           none: where writing stopped
    E4 anything else, no valid record after it       the end           torn write; stale bytes of a
                                                                       recycled file; power cut
       or a record whose topic or properties end     the end           torn write into fresh zeros
       in zeros, and nothing valid after it
    E5 anything else or zeros, a valid record after  skip, report it   none: damage of the disk
                                                                       (in ASYNC_FLUSH a power cut)
       or a record that ends in zeros, more zeros    skip, report it   a page that the disk has lost
       after it, and then a valid record
    E6 a record that ends in zeros, and after it a   a record          a client stored it so
       valid one, a BLANK, or damage and then one
    E7 a record that ends in zeros, just where the   a record          the same, and nothing was
       store says that all was written                                 stored since

A "valid" record says that it belongs at this very position, so bytes left from an older use of the
file are never taken for records. A record "after" is looked for in the next RESYNC_BYTES and at the
start of the next segment. Where damage is skipped nothing is written: the bytes stay, so that they
can be looked at, and are never given to clients. Bytes that the disk cannot read, at the
position or after it, are none of these cases: the scan fails, because a log that ended there would
lose the files after it.

E7: the store says it in checkpoint and queueEnds; a store that Apache's broker has stopped cleanly
says it by the highest record that its queues name. A start that begins there (rows S4 and S5 in
recovery.pxd) never looks at the record before; a scan from the front comes to the same end. The
same in plain Python is persisted_ends() in rmq/format/store_files.py.

Example: segment of 4096 bytes, records at 0, 300, 600 (torn at byte 650): position ends at 600.
"""
from libc.stdint cimport int32_t, int64_t

from cext.store.log.commit_log cimport CommitLog
from cext.store.log.log_window cimport LogWindow
from cext.store.log.record cimport RecordView

cdef enum:
    SCAN_BYTES = 8 << 20        # read at once; more for a larger record
    RESYNC_BYTES = 64 << 20     # no torn write is this long
    DAMAGE_MAX = 256            # places reported; more are only counted
    PERSISTED_ENDS_MAX = 4      # two of the checkpoint or one of queues, one of each queueEnds

cdef struct Damage:
    int64_t offset              # physical offset
    int64_t length              # bytes skipped
    int32_t problem             # RecordProblem at `offset`

cdef class LogScan:
    cdef CommitLog log
    cdef int64_t position       # of the next record; after NOT_READY the end of the log
    cdef int64_t limit          # end of the last segment
    cdef bint check_crc
    cdef LogWindow window
    cdef int32_t end_problem    # RecordProblem at the end: AT_END for zeros
    cdef int64_t records        # number found so far
    cdef int64_t last_record    # offset of the newest of these; -1: none
    cdef int64_t damage_count
    cdef Damage damages[DAMAGE_MAX]
    cdef int64_t persisted_ends[PERSISTED_ENDS_MAX]     # E7: log offsets
    cdef int32_t persisted_count

    # The record at `position`, which then moves to the record's end. Pointers are valid until the
    # next call. OK | NOT_READY (the end) | IO_ERROR | POOL_EMPTY (no memory for a large record)
    cdef int next(self, RecordView* out) noexcept nogil
    # Looks at one offset without moving. OK and the record, or a status that says why not.
    cdef int peek(self, int64_t offset, RecordView* out) noexcept nogil
    cdef void seek(self, int64_t offset) noexcept nogil
    # Notes an offset up to which the store says that all was written (E7).
    cdef void note_persisted_end(self, int64_t offset) noexcept nogil
    # A new scan at the log's start, with the same persisted ends.
    cdef LogScan anew(self)
    # For a report: what is at the log's end ("": nothing), and the damaged places by file.
    cdef str end_cause(self)
    cdef list damage_rows(self)

    cdef bint _is_persisted_end(self, int64_t offset) noexcept nogil
    cdef int _check_behind(self, RecordView* out) noexcept nogil
    cdef int _find_valid(self, int64_t offset, int64_t* found) noexcept nogil
    cdef int _resync(self, int32_t problem) noexcept nogil
    cdef int _skip_to(self, int64_t offset, int32_t problem) noexcept nogil
