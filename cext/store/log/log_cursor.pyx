"""The reader behind the log. See log_cursor.pxd."""
cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t

from cext.base.atomics cimport load_acquire_i64
from cext.base.byteorder cimport load_u32
from cext.base.prefetch cimport prefetch
from cext.base.status cimport Status
from cext.store.log.commit_log cimport segment_end
from cext.store.log.log_window cimport window_at, window_has
from cext.store.log.record cimport (
    AT_MAGIC, MAGIC_BLANK, RECORD_BYTES_LIMIT, RECORD_BYTES_MIN, is_record_magic, record_parse)

cdef enum:
    HEAD_BYTES = 8                  # size and magic
    PREFETCH_HEAD_BYTES = 128       # of a record: the part before its body
    PREFETCH_TAIL_BYTES = 192       # and the part after it: topic and properties of most records


cdef inline void prefetch_ends(const uint8_t* at, int64_t bytes) noexcept nogil:
    """Prefetches both ends of the next record, which may be as long as the last one. Its body is
    not read."""
    prefetch(at, PREFETCH_HEAD_BYTES)
    if bytes > PREFETCH_HEAD_BYTES:
        prefetch(at + max(<int64_t> PREFETCH_HEAD_BYTES, bytes - PREFETCH_TAIL_BYTES),
                 PREFETCH_TAIL_BYTES)


@cython.no_gc_clear                  # its owner is freed first, and may still use it then
cdef class LogCursor:
    def __cinit__(self, CommitLog log not None, int64_t read_bytes=256 << 10, bint borrows=False):
        self.log = log
        self.window = LogWindow(log, read_bytes, borrows)

    cdef void seek(self, int64_t offset) noexcept nogil:
        self.position = offset

    cdef int64_t _segment_end(self, int64_t offset) noexcept nogil:
        """The end of the segment in which an offset is, mostly without a division."""
        if not self.segment_start <= offset < self.segment_end:
            self.segment_end = segment_end(self.log, offset)
            self.segment_start = self.segment_end - self.log.segment_bytes
        return self.segment_end

    cdef int _parse(self, int64_t offset, bint check_crc, RecordView* out) noexcept nogil:
        cdef int64_t end = self._segment_end(offset)
        cdef int64_t limit = min(load_acquire_i64(&self.log.marks.written), end)
        cdef int64_t total
        cdef unsigned int magic
        cdef int status = Status.OK
        if not window_has(self.window, offset, HEAD_BYTES):
            status = self.window.fill(offset, HEAD_BYTES, limit)
        if status != Status.OK:
            return Status.CORRUPT if end - offset < HEAD_BYTES else status
        total = load_u32(window_at(self.window, offset))
        magic = load_u32(window_at(self.window, offset + AT_MAGIC))
        if magic == MAGIC_BLANK:
            return Status.ABSENT        # no more records in this segment
        if (not is_record_magic(magic) or total < RECORD_BYTES_MIN
                or total > min(end - offset, <int64_t> RECORD_BYTES_LIMIT)):
            return Status.CORRUPT
        if not window_has(self.window, offset, total):
            status = self.window.fill(offset, total, limit)
        # Only a committer stops inside a record. A size larger than any record's is damage.
        if status == Status.NOT_READY and (not self.log.pooled
                                           or total > self.log.max_record_bytes):
            return Status.CORRUPT
        if status != Status.OK:
            return status
        status = record_parse(window_at(self.window, offset), <uint64_t> total, offset, check_crc,
                              out)
        return Status.OK if status == Status.OK else Status.CORRUPT

    cdef int next(self, RecordView* out) noexcept nogil:
        cdef int64_t low
        cdef int status
        while True:
            low = self.log.min_offset()
            if self.position < low:
                self.position = low
            if self.position >= load_acquire_i64(&self.log.marks.written):
                return Status.NOT_READY
            status = self._parse(self.position, False, out)
            if status == Status.OK:
                self.position += out.total_bytes
                prefetch_ends(window_at(self.window, self.position + out.total_bytes),
                              out.total_bytes)
                return Status.OK
            if status == Status.ABSENT:
                self.position = segment_end(self.log, self.position)
            elif status == Status.CORRUPT:
                status = self._resync()
                if status != Status.OK:
                    return status
            elif status != Status.NOT_FOUND:    # NOT_FOUND: dropped while it was read, look again
                return status

    cdef int _resync(self) noexcept nogil:
        """Moves to the next bytes of this segment that are a record, or to its end."""
        cdef int64_t begin = self.position
        cdef int64_t stop = min(segment_end(self.log, begin),
                                load_acquire_i64(&self.log.marks.written))
        cdef int64_t at = begin
        cdef RecordView view
        cdef int status
        while True:
            status = self.window.find_head(at + 1, stop, stop, &at)
            if status == Status.NOT_FOUND:
                at = stop
                break
            if status != Status.OK:
                return status
            status = self._parse(at, True, &view)
            if status == Status.OK or status == Status.NOT_READY:
                break
        self.skipped += <uint64_t> (at - begin)
        self.position = at
        return Status.OK

    cdef int at(self, int64_t offset, RecordView* out) noexcept nogil:
        if offset < self.log.min_offset():
            return Status.NOT_FOUND
        return self._parse(offset, True, out)
