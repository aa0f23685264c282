"""Log reader: puts a range of a commit log into columns. See log_reader.pxd.

    reader = LogReader(decoder, fd, segment_start, segment_bytes, start, end, decide)
    while not reader.fill(): yield maker.batch()

Files are read with pread: so a sector that cannot be read is an ordinary error, and a file that a
live broker makes shorter gives a short read instead of a signal.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memchr

from cext.arrow.decoder cimport Decoder
from cext.base.byteorder cimport load_u32
from cext.base.status cimport Status
from cext.base.sysio cimport read_at
from cext.memory.name_map cimport (
    name_map_close, name_map_find, name_map_open, name_map_put,
)
from cext.store.log.record cimport (
    BAD_BODY_CRC, BAD_LENGTHS, RECORD_BYTES_LIMIT, RECORD_BYTES_MIN, RecordView,
    is_record_magic, record_ends_in_zero, record_parse,
)
from cext.wire.codes cimport TRANSACTION_COMMIT_TYPE, TRANSACTION_TYPE_MASK

from rmq.errors import not_copied

cdef enum:
    WINDOW_BYTES = 2 << 20          # read at a time; grows for a larger record
    END_WINDOW = 16 << 20           # for the search for the log's end

cdef int64_t FOR_EVER = 1 << 62


cdef inline bint is_trouble(int status) noexcept nogil:
    return status == Status.IO_ERROR or status == Status.POOL_EMPTY


@cython.no_gc_clear                  # __dealloc__ needs all its fields
cdef class LogReader:
    """For one thread; the descriptor is the caller's and stays open."""

    def __cinit__(self, Decoder decoder not None, int fd, int64_t segment_start,
                  int64_t segment_bytes, int64_t start, int64_t end, decide,
                  int64_t from_ms=0, int64_t until_ms=FOR_EVER):
        if name_map_open(&self.topics) != Status.OK:
            raise MemoryError("no memory to read a log")
        self.decoder = decoder
        self.fd = fd
        self.segment_start = segment_start
        self.segment_end = segment_start + segment_bytes
        self.position = max(start, segment_start)
        self.end = min(end, self.segment_end)
        self.started = start <= segment_start
        self.decide = decide
        self.from_ms = from_ms
        self.until_ms = until_ms
        self.capacity = WINDOW_BYTES
        self.buffer = <uint8_t*> malloc(WINDOW_BYTES)
        if self.buffer == NULL:
            raise MemoryError("no memory to read a log")

    def __reduce__(self):
        raise not_copied(self, "make one in each process, from the file")

    def __dealloc__(self):
        cdef TopicRule* rule = self.rules
        cdef TopicRule* following
        while rule != NULL:
            following = rule.following
            free(rule.ranges)
            free(rule)
            rule = following
        name_map_close(&self.topics)
        free(self.buffer)

    def fill(self) -> bool:
        """Reads until the columns are full (False) or the range is done (True)."""
        cdef int status
        with nogil:
            status = self.read_range()
        self._raise_trouble(status, self.position)
        if status == Status.CORRUPT:
            raise ValueError(self.decoder.problem[1])
        return status == Status.OK

    cdef int _raise_trouble(self, int status, int64_t at) except -1:
        """Raises nothing for a status that says something of records."""
        if status == Status.IO_ERROR:
            raise OSError(self.error, f"the commit log cannot be read at {at}")
        if status == Status.POOL_EMPTY:
            self.decoder.raise_failure()
        return 0

    def log_end(self, persisted_ends=()) -> int:
        """The offset behind the last valid record of this segment, whatever is damaged before it. A
        record at the end that is still being written, or was torn, does not count; one that ends
        where the store says that everything is written (persisted_ends() in
        rmq/format/store_files.py) is neither. OSError: the file cannot be read."""
        cdef int64_t low = self.segment_start, high = self.segment_end
        cdef int64_t middle, found = -1, last = -1, torn = -1
        cdef RecordView view
        cdef int status
        # Halves the range by looking for a window without records: no two records are END_WINDOW
        # apart.
        with nogil:
            while high - low > END_WINDOW:
                middle = low + (high - low) // 2
                found = self.find_record(middle, min(middle + END_WINDOW, high))
                if found < -1:
                    break
                if found >= 0:
                    low = found
                else:
                    high = middle
            last = low
            while found >= -1:
                status = self.peek(last, &view)
                if status == Status.OK:
                    torn = last if record_ends_in_zero(&view) else -1
                    last += view.total_bytes
                    continue
                if status == Status.NOT_FOUND:
                    torn = -1                   # a BLANK follows the record
                found = status if is_trouble(status) else self.find_record(
                    last + 1, min(last + END_WINDOW, self.segment_end))
                if found < 0:
                    break
                last = found
        self._raise_trouble(<int> min(found, <int64_t> 0), last)
        return last if torn < 0 or last in persisted_ends else torn

    def first_stored_ms(self) -> int:
        """Store time of the segment's first record; -1 without one. OSError: cannot be read."""
        cdef RecordView view
        cdef int status
        with nogil:
            status = self.peek(self.segment_start, &view)
        self._raise_trouble(status, self.segment_start)
        return view.store_timestamp_ms if status == Status.OK else -1

    cdef int _hold(self, int64_t offset, int64_t wanted) noexcept nogil:
        """Makes [offset, offset + wanted) part of the window; less of it at the file's end."""
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
        size = min(self.capacity, self.segment_end - offset)
        self.window_start = self.window_end = 0
        got = read_at(self.fd, self.buffer, <uint64_t> size, offset - self.segment_start,
                      &self.error)
        if got < 0:
            return Status.IO_ERROR
        self.window_start = offset
        self.window_end = offset + got
        return Status.OK

    cdef int peek(self, int64_t offset, RecordView* out) noexcept nogil:
        cdef int64_t left = self.segment_end - offset
        cdef int64_t total
        cdef const uint8_t* at
        cdef int status
        out.problem = 0
        out.total_bytes = 0
        if offset < self.segment_start or left <= 0:
            return Status.NOT_READY
        status = self._hold(offset, min(left, <int64_t> RECORD_BYTES_MIN))
        if status != Status.OK:
            return status
        at = self.buffer + (offset - self.window_start)
        if self.window_end - offset >= 8:
            total = load_u32(at)
            if (is_record_magic(load_u32(at + 4))
                    and total <= min(left, <int64_t> RECORD_BYTES_LIMIT)):
                status = self._hold(offset, total)
                if status != Status.OK:
                    return status
                at = self.buffer + (offset - self.window_start)
        return record_parse(at, <uint64_t> min(left, self.window_end - offset), offset,
                            self.decoder.check_crc, out)

    cdef int64_t find_record(self, int64_t offset, int64_t limit) noexcept nogil:
        cdef int64_t at = offset
        cdef RecordView view
        cdef const uint8_t* found
        cdef int status
        limit = min(limit, self.segment_end)
        while at < limit and at + RECORD_BYTES_MIN <= self.segment_end:
            status = self._hold(at, RECORD_BYTES_MIN)
            if status != Status.OK:
                return status
            if self.window_end - at < RECORD_BYTES_MIN:
                return -1
            # Searches for the magic's first byte, which is four bytes into a record.
            found = <const uint8_t*> memchr(self.buffer + (at + 4 - self.window_start), 0xDA,
                                            <size_t> (self.window_end - at - 4))
            if found == NULL:
                at = self.window_end - 4
                continue
            at = self.window_start + (found - self.buffer) - 4
            if at >= limit:
                return -1
            status = self._hold(at, min(<int64_t> 8, self.segment_end - at))
            if status != Status.OK:
                return status
            if (self.window_end - at >= 8
                    and is_record_magic(load_u32(self.buffer + (at - self.window_start) + 4))):
                status = self.peek(at, &view)
                if status == Status.OK:
                    return at
                if status == Status.IO_ERROR or status == Status.POOL_EMPTY:
                    return status
            at += 1
        return -1

    cdef int read_range(self) noexcept nogil:
        cdef RecordView view
        cdef int64_t found
        cdef bint is_beyond
        cdef int status
        while not self.ended:
            if self.decoder.columns.is_full():
                return Status.NOT_READY
            is_beyond = self.position >= self.end
            status = self.peek(self.position, &view) if self.started else Status.CORRUPT
            if status == Status.OK:
                if is_beyond:
                    break
                if record_ends_in_zero(&view):
                    status = self._check_behind(&view)
            if status == Status.OK:
                status = self._take(&view)
                self.position += view.total_bytes
            elif status == Status.NOT_FOUND:
                self.position = self.segment_end
                break
            elif self.position >= self.segment_end:
                break
            elif status == Status.NOT_READY or status == Status.CORRUPT:
                if self.started and view.problem == BAD_BODY_CRC:
                    found = self.position + view.total_bytes        # its lengths are right
                    status = self._take_damage(&view)
                    if status == Status.OK:
                        self.position = found
                else:
                    # In a cut range, the range before reports what precedes the first valid record.
                    found = self.find_record(self.position + (1 if self.started else 0),
                                             self.segment_end if self.started else self.end)
                    if found < -1:
                        return <int> found
                    if found == -1 and not self.started:
                        break
                    status = self._take_damage(&view) if self.started else Status.OK
                    if status == Status.OK:
                        self.position = found if found >= 0 else self.segment_end
                        self.started = True
            if status != Status.OK:
                return status
        self.ended = True
        return Status.OK

    cdef int _check_behind(self, RecordView* view) noexcept nogil:
        """The record at `position` ends in zeros. CORRUPT when zeros follow it although the log
        does not end there: then a page is lost (E5 in cext/store/log/log_scan.pxd)."""
        cdef RecordView behind
        cdef int64_t offset = self.position + view.total_bytes
        cdef int status = self.peek(offset, &behind)
        if is_trouble(status):
            return status
        if status == Status.NOT_READY and offset < self.segment_end:
            view.problem = BAD_LENGTHS
            return Status.CORRUPT
        return self.peek(self.position, view)   # the window may have moved

    cdef int _take(self, RecordView* view) noexcept nogil:
        cdef int status = Status.OK
        cdef int kind = view.sys_flag & TRANSACTION_TYPE_MASK
        if kind != 0 and kind != TRANSACTION_COMMIT_TYPE:
            return Status.OK
        if not self.from_ms <= view.store_timestamp_ms < self.until_ms:
            return Status.OK
        if not self._wants(view, &status):
            return status
        return self.decoder.add_record(view, -1, 0)

    cdef int _take_damage(self, const RecordView* view) noexcept nogil:
        """When the lengths are right, only damage of the wanted topics counts."""
        cdef int status = Status.OK
        if view.problem == BAD_BODY_CRC:
            if not self._wants(view, &status):
                return status
            self.decoder.columns.topic_at = <const char*> view.topic
            self.decoder.columns.topic_bytes = view.topic_bytes
            self.decoder.columns.queue_id = view.queue_id
            return self.decoder.add_damage(view.queue_offset,
                                           b"the body does not match its checksum")
        self.decoder.columns.topic_bytes = 0
        self.decoder.columns.queue_id = -1
        return self.decoder.add_damage(-1, b"bytes of the commit log that are no record")

    cdef bint _wants(self, const RecordView* view, int* status) noexcept nogil:
        cdef TopicRule* rule = self._rule(view)
        cdef int32_t i
        if rule == NULL:
            status[0] = Status.POOL_EMPTY
            return False
        for i in range(rule.count):
            if rule.ranges[i].queue_id == -1 or rule.ranges[i].queue_id == view.queue_id:
                return rule.ranges[i].first <= view.queue_offset < rule.ranges[i].end
        return False

    cdef TopicRule* _rule(self, const RecordView* view) noexcept nogil:
        cdef TopicRule* rule = <TopicRule*> name_map_find(&self.topics, view.topic,
                                                          view.topic_bytes)
        if rule == NULL:
            rule = self._decide(view)
        return rule

    cdef TopicRule* _decide(self, const RecordView* view) noexcept with gil:
        """Asks once for each topic that was not met before; NULL: see Decoder.raise_failure."""
        cdef TopicRule* rule = <TopicRule*> calloc(1, sizeof(TopicRule))
        cdef int i
        if rule == NULL:
            return NULL
        rule.following = self.rules
        self.rules = rule
        try:
            name = (<const char*> view.topic)[:view.topic_bytes].decode("utf-8", "replace")
            ranges = self.decide(name)
            rule.ranges = <QueueRange*> calloc(len(ranges) + 1, sizeof(QueueRange))
            if rule.ranges == NULL:
                return NULL
            for i, (queue_id, first, end) in enumerate(ranges):
                rule.ranges[i].queue_id = queue_id
                rule.ranges[i].first = first
                rule.ranges[i].end = end
            rule.count = <int32_t> len(ranges)
        except BaseException as error:          # of `decide`, not of the log: fill raises it
            self.decoder.raised = error
            return NULL
        if name_map_put(&self.topics, view.topic, view.topic_bytes, rule) != Status.OK:
            return NULL
        return rule
