"""Decoder: turns stored records into rows. See decoder.pxd.

    decoder = Decoder(columns, unpack=unpack_body, tags=["paid"], mode=DamageMode.PERMISSIVE)
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memset

from cext.arrow.columns cimport Columns, Row
from cext.arrow.pairs cimport PAIRS_MAX, Pair, find_pair, split_pairs
from cext.base.byteorder cimport load_i16, load_i32, load_u32
from cext.base.status cimport Status
from cext.store.log.record cimport (
    BAD_BODY_CRC, BAD_LENGTHS, BAD_MAGIC, BAD_POSITION, BAD_RECORD_CRC, BAD_SIZE, RECORD_BYTES_MIN,
    RecordView, record_parse,
)
from cext.wire.codes cimport COMPRESSED_FLAG, INNER_BATCH_FLAG, NEED_UNWRAP_FLAG

from rmq.errors import not_copied

cdef enum:
    INNER_BYTES_MIN = 22            # a message of a batch without body and properties


cdef const char* reason_of(int32_t problem) noexcept nogil:
    if problem == BAD_BODY_CRC:
        return b"the body does not match its checksum"
    if problem == BAD_RECORD_CRC:
        return b"the record does not match its checksum"
    if problem == BAD_MAGIC:
        return b"not a record: unknown magic"
    if problem == BAD_SIZE:
        return b"a record of an impossible size"
    if problem == BAD_POSITION:
        return b"the record belongs to another place"
    if problem == BAD_LENGTHS:
        return b"the record's lengths do not add up"
    return b"not a record"


cdef int64_t number_in(const Pair* pair) noexcept nogil:
    """The value as a decimal number, -1 when it is not one."""
    cdef int64_t value = 0
    cdef uint32_t i
    if pair == NULL or pair.value_bytes == 0 or pair.value_bytes > 18:
        return -1
    for i in range(pair.value_bytes):
        if not 48 <= pair.value[i] <= 57:
            return -1
        value = value * 10 + (pair.value[i] - 48)
    return value


@cython.no_gc_clear                  # __dealloc__ needs all its fields
cdef class Decoder:
    """For one thread."""

    def __cinit__(self, Columns columns not None, unpack=None, tags=(), int mode=FAIL_FAST,
                  bint check_crc=True, int64_t unpacked_max=64 << 20):
        cdef int i
        if mode not in (FAIL_FAST, PERMISSIVE, DROP):
            raise ValueError(f"no such mode: {mode}")
        self.columns = columns
        self.unpack = unpack
        self.mode = mode
        self.check_crc = check_crc
        self.unpacked_max = unpacked_max
        self.tags = [tag.encode() for tag in tags]
        self.wanted_count = <uint32_t> len(self.tags)
        self.wanted = <Tag*> calloc(len(self.tags) + 1, sizeof(Tag))
        self.pairs = <Pair*> malloc(PAIRS_MAX * sizeof(Pair))
        if self.wanted == NULL or self.pairs == NULL:
            raise MemoryError("no memory for a decoder")
        for i, tag in enumerate(self.tags):
            self.wanted[i].bytes = <const char*> (<bytes> tag)
            self.wanted[i].length = <uint32_t> len(tag)

    def __reduce__(self):
        raise not_copied(self, "make one in each process, from its Columns")

    def __dealloc__(self):
        free(self.wanted)
        free(self.pairs)

    cdef int decode(self, const uint8_t* at, uint64_t available, int64_t first, int64_t end,
                    int64_t* next, uint64_t* used) noexcept nogil:
        cdef RecordView view
        cdef uint64_t done = 0
        cdef int64_t offset
        cdef int status = Status.OK
        cdef bint ordered = first >= 0
        while done < available and status == Status.OK:
            if self.columns.is_full():
                status = Status.NOT_READY
                break
            if ordered and next[0] >= end:      # later records belong to another range
                status = Status.CLOSED
                break
            status = record_parse(at + done, available - done, -1, self.check_crc, &view)
            if status != Status.OK:
                offset = next[0]
                if view.problem == BAD_BODY_CRC:        # all but its body can be believed
                    offset = view.queue_offset
                    if ordered and offset >= end:
                        status = Status.CLOSED
                        break
                status = self.add_damage(offset, reason_of(view.problem))
                if ordered and offset > next[0]:
                    next[0] = offset
                if view.total_bytes < RECORD_BYTES_MIN or view.total_bytes > available - done:
                    done = available
                else:
                    done += view.total_bytes
                    next[0] += 1
                continue
            if ordered and view.queue_offset >= end:
                status = Status.CLOSED
                break
            if ordered and view.queue_offset < next[0] and not view.sys_flag & INNER_BATCH_FLAG:
                status = self.add_damage(next[0], b"a record out of order")
            else:
                # The reader may have some messages of a batch already: only the rest is added.
                status = self.add_record(&view, next[0] if ordered else first, end)
                if self.following > next[0]:
                    next[0] = self.following
            done += view.total_bytes
        used[0] = done
        return status

    cdef int add_damage(self, int64_t queue_offset, const char* reason) noexcept nogil:
        cdef Row row
        self.damaged += 1
        if self.mode == DROP:
            return Status.OK
        if self.mode == FAIL_FAST:
            return self._stop(queue_offset, reason)
        memset(&row, 0, sizeof(Row))
        row.queue_offset = queue_offset
        row.reason = reason
        return self.columns.add(&row)

    cdef int _stop(self, int64_t queue_offset, const char* reason) noexcept with gil:
        self.problem = (queue_offset, (<bytes> reason).decode())
        return Status.CORRUPT

    cdef bint _passes(self, const Pair* tag) noexcept nogil:
        cdef uint32_t i
        if tag == NULL:
            return False
        for i in range(self.wanted_count):
            if (self.wanted[i].length == tag.value_bytes
                    and memcmp(self.wanted[i].bytes, tag.value, tag.value_bytes) == 0):
                return True
        return False

    cdef int add_record(self, RecordView* view, int64_t first, int64_t end) noexcept nogil:
        cdef Row row
        cdef int status
        self.following = view.queue_offset + 1
        row.view = view
        row.queue_offset = view.queue_offset
        row.body = view.body
        row.body_bytes = view.body_bytes
        row.reason = NULL
        row.pairs = self.pairs
        row.pair_count = 0
        if self.columns.wants_pairs or self.wanted_count > 0 or view.sys_flag & INNER_BATCH_FLAG:
            row.pair_count = split_pairs(view.properties, view.properties_bytes, self.pairs)
        if view.sys_flag & COMPRESSED_FLAG and (self.columns.wants_body
                                                or view.sys_flag & INNER_BATCH_FLAG):
            status = self._unpack(view, &row)
            if status == Status.MALFORMED:
                return self.add_damage(view.queue_offset, b"the packed body cannot be unpacked")
            if status != Status.OK:
                return status
        if view.sys_flag & INNER_BATCH_FLAG and view.sys_flag & NEED_UNWRAP_FLAG:
            return self._unfold(view, &row, first, end)
        if self.wanted_count > 0 and not self._passes(
                find_pair(self.pairs, row.pair_count, b"TAGS", 4)):
            self.filtered += 1
            return Status.OK
        return self.columns.add(&row)

    cdef int _unfold(self, const RecordView* outer, Row* row, int64_t first,
                     int64_t end) noexcept nogil:
        """Makes a row of each message of a batch that is stored as one record."""
        cdef RecordView inner = outer[0]
        cdef const uint8_t* at = row.body
        cdef uint64_t left = row.body_bytes, properties_at
        cdef uint32_t total
        cdef int64_t offset = number_in(find_pair(self.pairs, row.pair_count, b"INNER_BASE", 10))
        cdef int status = Status.OK
        if offset < 0:
            offset = outer.queue_offset
        row.view = &inner
        while left > 0 and status == Status.OK:
            total = load_u32(at) if left >= INNER_BYTES_MIN else 0
            if total < INNER_BYTES_MIN or total > left:
                return self.add_damage(offset, b"a batch whose messages do not add up")
            inner.flag = load_i32(at + 12)
            inner.body_bytes = load_u32(at + 16)
            properties_at = 20 + <uint64_t> inner.body_bytes
            if (properties_at + 2 > total or load_i16(at + properties_at) < 0
                    or properties_at + 2 + load_i16(at + properties_at) != total):
                return self.add_damage(offset, b"a batch whose messages do not add up")
            inner.body = at + 20
            inner.properties = at + properties_at + 2
            inner.properties_bytes = <uint32_t> load_i16(at + properties_at)
            row.body = inner.body
            row.body_bytes = inner.body_bytes
            row.queue_offset = inner.queue_offset = offset
            row.pair_count = split_pairs(inner.properties, inner.properties_bytes, self.pairs)
            if first < 0 or first <= offset < end:
                if self.wanted_count > 0 and not self._passes(
                        find_pair(self.pairs, row.pair_count, b"TAGS", 4)):
                    self.filtered += 1
                else:
                    status = self.columns.add(row)
            at += total
            left -= total
            offset += 1
            self.following = offset
        return status

    cdef int _unpack(self, const RecordView* view, Row* row) noexcept nogil:
        return self._unpack_with_lock(view, row)

    cdef int _unpack_with_lock(self, const RecordView* view, Row* row) noexcept with gil:
        cdef bytes plain
        if self.unpack is None:
            return Status.MALFORMED
        try:
            plain = self.unpack(view.sys_flag, (<const char*> view.body)[:view.body_bytes],
                                self.unpacked_max)
        except ValueError:                      # the exception that means: damaged
            return Status.MALFORMED
        except BaseException as error:          # no memory, Ctrl-C, or a codec is not installed
            self.raised = error
            return Status.POOL_EMPTY
        self.unpacked = plain
        row.body = <const uint8_t*> plain
        row.body_bytes = <uint32_t> len(plain)
        return Status.OK

    cdef int raise_failure(self) except -1:
        error, self.raised = self.raised, None
        raise MemoryError("no memory for columns") if error is None else error

    def damage(self, int64_t queue_offset, str reason not None) -> None:
        """For a message that the broker reports as damaged: a row, or nothing, or ValueError."""
        text = reason.encode()
        cdef const char* at = text
        cdef int status = self.add_damage(queue_offset, at)
        if status == Status.POOL_EMPTY:
            self.raise_failure()
        if status != Status.OK:
            raise ValueError(reason)
