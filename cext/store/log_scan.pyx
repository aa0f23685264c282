"""The record-by-record reader of start-up. See log_scan.pxd for its decisions.

Files are read with pread into a buffer and not mapped: a sector that cannot be read is then an
error with a name instead of a signal that ends the process. 8 MiB at a time keeps it at memory
speed.
"""
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr

from cext.base.byteorder cimport load_u32
from cext.base.status cimport Status
from cext.store.record cimport (AT_END, BAD_LENGTHS, MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN,
                                record_parse)

cdef enum:
    RECORD_BYTES_LIMIT = 256 << 20      # no record is larger, whatever its size field says


cdef class LogScan:
    """One thread, between CommitLog.load and set_end."""

    def __cinit__(self, CommitLog log, bint check_crc=True):
        self.log = log
        self.check_crc = check_crc
        self.limit = log.segment_start(log.segment_count())
        self.position = log.segment_start(0)
        self.last_record = -1
        self.capacity = SCAN_BYTES
        self.buffer = <uint8_t*> malloc(<size_t> self.capacity)
        if self.buffer == NULL:
            raise MemoryError("no memory to scan the commit log")

    def __dealloc__(self):
        free(self.buffer)

    cdef void seek(self, int64_t offset) noexcept nogil:
        self.position = offset

    cdef int64_t segment_end(self, int64_t offset) noexcept nogil:
        return offset - offset % self.log.segment_bytes + self.log.segment_bytes

    cdef int _fill(self, int64_t offset, int64_t wanted) noexcept nogil:
        """Makes [offset, offset + wanted) part of the window; wanted stays inside the segment."""
        cdef int64_t size, got
        cdef void* memory
        if self.window_start <= offset and offset + wanted <= self.window_end:
            return Status.OK
        if wanted > self.capacity:
            memory = realloc(self.buffer, <size_t> wanted)
            if memory == NULL:
                return Status.POOL_EMPTY
            self.buffer = <uint8_t*> memory
            self.capacity = wanted
        size = min(self.capacity, self.segment_end(offset) - offset)
        self.window_start = self.window_end = 0
        got = self.log.read_log(offset, self.buffer, <uint64_t> size)
        if got < wanted:
            return Status.IO_ERROR
        self.window_start = offset
        self.window_end = offset + got
        return Status.OK

    cdef int peek(self, int64_t offset, RecordView* out) noexcept nogil:
        cdef int64_t left = self.segment_end(offset) - offset
        cdef int64_t total
        cdef int status
        out.problem = AT_END
        out.total_bytes = 0
        if offset < 0 or offset >= self.limit:
            return Status.NOT_READY
        status = self._fill(offset, min(left, <int64_t> RECORD_BYTES_MIN))
        if status != Status.OK:
            return status
        if left >= 8:
            total = load_u32(self.buffer + (offset - self.window_start))
            if is_magic(load_u32(self.buffer + (offset - self.window_start) + 4)) and total <= min(
                    left, <int64_t> RECORD_BYTES_LIMIT):
                status = self._fill(offset, total)
                if status != Status.OK:
                    return status
        # What is not in the window is no record: a record was just made to fit.
        return record_parse(self.buffer + (offset - self.window_start),
                            <uint64_t> min(left, self.window_end - offset), offset, self.check_crc,
                            out)

    cdef int next(self, RecordView* out) noexcept nogil:
        cdef int status
        while True:
            if self.position >= self.limit:
                self.end_problem = AT_END
                return Status.NOT_READY
            status = self.peek(self.position, out)
            if status == Status.OK and ends_in_zero(out) and self._is_torn(out):
                return Status.NOT_READY
            if status == Status.OK:
                self.last_record = self.position
                self.position += out.total_bytes
                self.records += 1
                return Status.OK
            if status == Status.NOT_FOUND:
                self.position = self.segment_end(self.position)
                continue
            if status != Status.NOT_READY and status != Status.CORRUPT:
                return status
            status = self._resync(out.problem)
            if status != Status.OK:
                return status

    cdef bint _is_torn(self, RecordView* out) noexcept nogil:
        """No checksum covers topic and properties. A record that ends in zeros is torn when nothing
        valid follows it; otherwise somebody stored a property like that."""
        cdef RecordView view
        cdef int status = self.peek(self.position + out.total_bytes, &view)
        if status == Status.OK or status == Status.NOT_FOUND:
            self.peek(self.position, out)       # the window may have moved
            return False
        self.end_problem = BAD_LENGTHS
        return True

    cdef int _resync(self, int32_t problem) noexcept nogil:
        """Moves to the next valid record; NOT_READY and no move when there is none."""
        cdef int64_t following = self.segment_end(self.position)
        cdef int64_t at = self.position + 1
        cdef int64_t stop = min(following, self.position + RESYNC_BYTES)
        cdef RecordView view
        cdef bint later = following < self.limit and self.peek(following, &view) == Status.OK
        cdef const uint8_t* found
        cdef int status
        self.end_problem = problem
        if problem == AT_END and not later:
            return Status.NOT_READY
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
            if at + 8 > stop:
                break
            status = self._fill(at, 8)
            if status != Status.OK:
                return status
            if (is_magic(load_u32(self.buffer + (at - self.window_start) + 4))
                    and self.peek(at, &view) == Status.OK):
                return self._skip_to(at, problem)
            at += 1
        if later:
            return self._skip_to(following, problem)
        return Status.NOT_READY

    cdef int _skip_to(self, int64_t offset, int32_t problem) noexcept nogil:
        if self.damage_count < DAMAGE_MAX:
            self.damages[self.damage_count].offset = self.position
            self.damages[self.damage_count].length = offset - self.position
            self.damages[self.damage_count].problem = problem
        self.damage_count += 1
        self.position = offset
        return Status.OK


cdef bint ends_in_zero(const RecordView* view) noexcept nogil:
    if view.properties_bytes > 0:
        return view.properties[view.properties_bytes - 1] == 0
    return view.topic_bytes == 0 or view.topic[view.topic_bytes - 1] == 0


cdef bint is_magic(unsigned int word) noexcept nogil:
    return word == MAGIC_V1 or word == MAGIC_V2
