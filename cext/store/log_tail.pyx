"""The reader behind the log. See log_tail.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr

from cext.base.atomics cimport load_acquire_i64
from cext.base.byteorder cimport load_u32
from cext.base.status cimport Status
from cext.store.record cimport (
    MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN, record_parse)

cdef enum:
    HEAD_BYTES = 8                  # size and magic
    RECORD_BYTES_LIMIT = 256 << 20  # no record is larger, whatever its size field says


cdef class LogTail:
    def __cinit__(self, CommitLog log not None, int64_t chunk=256 << 10):
        self.log = log
        self.chunk = self.capacity = chunk
        self.buffer = <uint8_t*> malloc(<size_t> chunk)
        if self.buffer == NULL:
            raise MemoryError("no memory to read the commit log")

    def __dealloc__(self):
        free(self.buffer)

    cdef void seek(self, int64_t offset) noexcept nogil:
        self.position = offset

    cdef int64_t segment_end(self, int64_t offset) noexcept nogil:
        return offset - offset % self.log.segment_bytes + self.log.segment_bytes

    cdef int _fill(self, int64_t offset, int64_t wanted) noexcept nogil:
        """Makes [offset, offset + wanted) part of the buffer; NOT_READY: beyond `written`."""
        cdef int64_t size, got, end
        cdef void* memory
        if self.window_start <= offset and offset + wanted <= self.window_end:
            return Status.OK
        end = min(load_acquire_i64(&self.log.marks.written), self.segment_end(offset))
        if offset + wanted > end:
            return Status.NOT_READY
        size = max(wanted, self.chunk)
        if size > self.capacity or self.capacity > 4 * size:
            memory = realloc(self.buffer, <size_t> size)
            if memory == NULL:
                return Status.POOL_EMPTY
            self.buffer = <uint8_t*> memory
            self.capacity = size
        self.window_start = self.window_end = 0
        got = self.log.read_log(offset, self.buffer, <uint64_t> min(size, end - offset))
        if got < 0:
            return <int> got
        if got < wanted:
            return Status.IO_ERROR
        self.window_start = offset
        self.window_end = offset + got
        return Status.OK

    cdef int _parse(self, int64_t offset, bint check_crc, RecordView* out) noexcept nogil:
        cdef int64_t left = self.segment_end(offset) - offset
        cdef int64_t total
        cdef unsigned int magic
        cdef const uint8_t* at
        cdef int status = self._fill(offset, HEAD_BYTES)
        if status != Status.OK:
            return Status.CORRUPT if left < HEAD_BYTES else status
        at = self.buffer + (offset - self.window_start)
        total = load_u32(at)
        magic = load_u32(at + 4)
        if magic == MAGIC_BLANK:
            return Status.ABSENT        # nothing more in this segment
        if ((magic != MAGIC_V1 and magic != MAGIC_V2) or total < RECORD_BYTES_MIN
                or total > min(left, <int64_t> RECORD_BYTES_LIMIT)):
            return Status.CORRUPT
        status = self._fill(offset, total)
        if status != Status.OK:
            return Status.CORRUPT if status == Status.NOT_READY else status
        status = record_parse(self.buffer + (offset - self.window_start), <uint64_t> total, offset,
                              check_crc, out)
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
                return Status.OK
            if status == Status.ABSENT:
                self.position = self.segment_end(self.position)
            elif status == Status.CORRUPT:
                status = self._resync()
                if status != Status.OK:
                    return status
            elif status != Status.NOT_FOUND:    # dropped while it was read: look again
                return status

    cdef int _resync(self) noexcept nogil:
        """Moves to the next bytes of this segment that are a record, or to its end."""
        cdef int64_t begin = self.position
        cdef int64_t stop = min(self.segment_end(begin), load_acquire_i64(&self.log.marks.written))
        cdef int64_t at = begin + 1
        cdef RecordView view
        cdef const uint8_t* found
        cdef int status
        while at + RECORD_BYTES_MIN <= stop:
            status = self._fill(at, RECORD_BYTES_MIN)
            if status != Status.OK:
                return status
            # The first byte of the magic, four bytes into a record.
            found = <const uint8_t*> memchr(
                self.buffer + (at + 4 - self.window_start), 0xDA,
                <size_t> (min(self.window_end, stop) - at - 4))
            if found == NULL:
                at = max(at + 1, min(self.window_end, stop) - 4)
                continue
            at = self.window_start + (found - self.buffer) - 4
            if self._parse(at, True, &view) == Status.OK:
                stop = at
                break
            at += 1
        self.skipped += <uint64_t> (stop - begin)
        self.position = stop
        return Status.OK

    cdef int at(self, int64_t offset, RecordView* out) noexcept nogil:
        if offset < self.log.min_offset():
            return Status.NOT_FOUND
        return self._parse(offset, True, out)
