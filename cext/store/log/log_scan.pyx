"""The scan of the log at a start, record by record. See log_scan.pxd for its decisions.

Files are read with pread into a buffer and not mapped: a sector that cannot be read is then an
errno instead of a signal that ends the process. Reading 8 MiB at a time keeps the speed of memory.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t

from cext.base.byteorder cimport load_u32
from cext.base.status cimport Status
from cext.store.log.commit_log cimport segment_end
from cext.store.log.log_window cimport window_at
from cext.store.log.record cimport (
    AT_END, AT_MAGIC, BAD_LENGTHS, RECORD_BYTES_LIMIT, RECORD_BYTES_MIN, is_record_magic,
    record_ends_in_zero, record_parse)

PROBLEMS = {1: "zeros", 2: "blank", 3: "bad magic", 4: "bad size", 5: "fields do not add up",
            6: "record of another offset", 7: "body checksum", 8: "record checksum"}


@cython.no_gc_clear                  # its owner is freed first, and may still use it then
cdef class LogScan:
    """For one thread, between CommitLog.load() and set_end()."""

    def __cinit__(self, CommitLog log, bint check_crc=True):
        self.log = log
        self.check_crc = check_crc
        self.limit = log.segment_start(log.segment_count())
        self.position = log.segment_start(0)
        self.last_record = -1
        self.window = LogWindow(log, SCAN_BYTES)

    cdef void seek(self, int64_t offset) noexcept nogil:
        self.position = offset

    cdef void note_persisted_end(self, int64_t offset) noexcept nogil:
        if self.persisted_count < PERSISTED_ENDS_MAX:
            self.persisted_ends[self.persisted_count] = offset
            self.persisted_count += 1

    cdef LogScan anew(self):
        cdef LogScan scan = LogScan(self.log, self.check_crc)
        cdef int32_t i
        for i in range(self.persisted_count):
            scan.note_persisted_end(self.persisted_ends[i])
        return scan

    cdef bint _is_persisted_end(self, int64_t offset) noexcept nogil:
        cdef int32_t i
        for i in range(self.persisted_count):
            if self.persisted_ends[i] == offset:
                return True
        return False

    cdef str end_cause(self):
        return PROBLEMS.get(self.end_problem, "")

    cdef list damage_rows(self):
        cdef int64_t i, offset, begin
        cdef list rows = []
        for i in range(min(self.damage_count, <int64_t> DAMAGE_MAX)):
            offset = self.damages[i].offset
            begin = offset - offset % self.log.segment_bytes
            rows.append({
                "file": f"{self.log.directory}/{begin:020d}", "offset": offset - begin,
                "log_offset": offset, "length": self.damages[i].length,
                "problem": PROBLEMS.get(self.damages[i].problem, "?")})
        return rows

    cdef int peek(self, int64_t offset, RecordView* out) noexcept nogil:
        cdef int64_t end = segment_end(self.log, offset)
        cdef int64_t left = end - offset
        cdef int64_t total
        cdef int status
        out.problem = AT_END
        out.total_bytes = 0
        if offset < 0 or offset >= self.limit:
            return Status.NOT_READY
        status = self.window.fill(offset, min(left, <int64_t> RECORD_BYTES_MIN), end)
        if status != Status.OK:
            return failed(status)
        if left >= 8:
            total = load_u32(window_at(self.window, offset))
            if is_record_magic(load_u32(window_at(self.window, offset + AT_MAGIC))) and (
                    total <= min(left, <int64_t> RECORD_BYTES_LIMIT)):
                status = self.window.fill(offset, total, end)
                if status != Status.OK:
                    return failed(status)
        # Bytes beyond the window belong to no record: the window was just made to hold all of it.
        return record_parse(window_at(self.window, offset),
                            <uint64_t> min(left, self.window.end - offset), offset,
                            self.check_crc, out)

    cdef int next(self, RecordView* out) noexcept nogil:
        cdef int status
        while True:
            if self.position >= self.limit:
                self.end_problem = AT_END
                return Status.NOT_READY
            status = self.peek(self.position, out)
            if status == Status.OK and record_ends_in_zero(out):
                status = self._check_behind(out)
            if status == Status.OK:
                self.last_record = self.position
                self.position += out.total_bytes
                self.records += 1
                return Status.OK
            if status == Status.NOT_FOUND:
                self.position = segment_end(self.log, self.position)
                continue
            if not is_no_record(status):
                return status
            status = self._resync(out.problem)
            if status != Status.OK:
                return status

    cdef int _check_behind(self, RecordView* out) noexcept nogil:
        """Decides on the record at `position`, which ends in zeros while no checksum covers topic
        and properties. OK; CORRUPT: zeros go on after it, or nothing valid follows (E4 to E7)."""
        cdef RecordView view
        cdef int64_t behind = self.position + out.total_bytes, found = 0
        cdef int status
        if self._is_persisted_end(behind):
            return Status.OK
        status = self.peek(behind, &view)
        if status == Status.CORRUPT:
            status = self._find_valid(behind, &found)
        if status == Status.OK or status == Status.NOT_FOUND:
            return self.peek(self.position, out)        # the window may have moved
        if status == Status.NOT_READY:
            out.problem = BAD_LENGTHS
            return Status.CORRUPT
        return status

    cdef int _find_valid(self, int64_t offset, int64_t* found) noexcept nogil:
        """Finds the first valid record after `offset`, at which there is none. NOT_READY: there is
        none. IO_ERROR: bytes cannot be read, and a record may be there."""
        cdef int64_t following = segment_end(self.log, offset)
        cdef int64_t at = offset
        cdef int64_t stop = min(following, offset + RESYNC_BYTES)
        cdef RecordView view
        cdef int status
        while True:
            status = self.window.find_head(at + 1, stop, following, &at)
            if status != Status.OK:
                break
            status = self.peek(at, &view)
            if status == Status.OK:
                found[0] = at
                return Status.OK
            if not is_no_record(status):
                return status
        if status == Status.NOT_FOUND:
            found[0] = following
            status = self.peek(following, &view)
        return <int> Status.NOT_READY if is_no_record(status) else status

    cdef int _resync(self, int32_t problem) noexcept nogil:
        """Moves to the next valid record. NOT_READY: there is none, and nothing moved."""
        cdef int64_t found = 0
        cdef int status = self._find_valid(self.position, &found)
        self.end_problem = problem
        return self._skip_to(found, problem) if status == Status.OK else status

    cdef int _skip_to(self, int64_t offset, int32_t problem) noexcept nogil:
        if self.damage_count < DAMAGE_MAX:
            self.damages[self.damage_count].offset = self.position
            self.damages[self.damage_count].length = offset - self.position
            self.damages[self.damage_count].problem = problem
        self.damage_count += 1
        self.position = offset
        return Status.OK


cdef inline bint is_no_record(int status) noexcept nogil:
    """Whether peek() found zeros, a BLANK, or other bytes that are no record."""
    return status == Status.NOT_READY or status == Status.NOT_FOUND or status == Status.CORRUPT


cdef inline int failed(int status) noexcept nogil:
    """The status of a window that could not be filled. A missing file is IO_ERROR, so that it is
    not taken for a BLANK."""
    return <int> Status.IO_ERROR if status == Status.NOT_FOUND else status
