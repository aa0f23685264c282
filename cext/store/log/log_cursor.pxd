"""Log cursor: reads the log's records behind the reactor, up to `written`, in another thread.

    next()  the record at `position`, which then moves to its end; NOT_READY at the log's end
    at()    one record anywhere, whole and with its checksum, or a status that says why not

Bytes come through a LogWindow: by pread or, while the reader is close behind the reactor, borrowed
from the log's tail ring; in that case what next() returned counts only once `window.is_sound()` is
true. Bytes below `written` that are no record (damage of the disk) are skipped as recovery skips
them: up to the next bytes that are a record of their own position, or to the next segment.
With a store pool `written` may be inside a record (committer.pxd): that record is not ready.

Example: records of 97 bytes at 0 and 97, written 194: next() returns both, then NOT_READY with
position 194. When the first segment is dropped meanwhile, the next call goes on at the start of the
second.
"""
from libc.stdint cimport int64_t, uint64_t

from cext.store.log.commit_log cimport CommitLog
from cext.store.log.log_window cimport LogWindow
from cext.store.log.record cimport RecordView

cdef class LogCursor:
    """For one thread. Pointers in a view are valid until the next call."""
    cdef CommitLog log
    cdef int64_t position           # of the next record
    cdef uint64_t skipped           # number of bytes that were no record
    cdef LogWindow window
    cdef int64_t segment_start, segment_end     # of the segment last looked at

    # OK | NOT_READY | IO_ERROR | POOL_EMPTY (no memory for a large record)
    cdef int next(self, RecordView* out) noexcept nogil
    # OK | NOT_FOUND (no longer in the log) | NOT_READY (not yet) | CORRUPT | IO_ERROR | POOL_EMPTY
    cdef int at(self, int64_t offset, RecordView* out) noexcept nogil
    cdef void seek(self, int64_t offset) noexcept nogil

    cdef int64_t _segment_end(self, int64_t offset) noexcept nogil
    cdef int _parse(self, int64_t offset, bint check_crc, RecordView* out) noexcept nogil
    cdef int _resync(self) noexcept nogil
