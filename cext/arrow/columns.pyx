"""Columns under construction. See columns.pxd.

    columns = Columns([Field.QUEUE_OFFSET, Field.BODY], rows_max=8192, bytes_wanted=1 << 20)
    columns.place("t", "broker-a", 3, 3)
    ...the decoder adds rows...
    pa.RecordBatch._import_from_c(columns.hand_over(), schema)
"""
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset, strlen

from cext.arrow.array cimport ArrowArray, array_free, array_give, array_open
from cext.arrow.byte_buffer cimport (
    ByteBuffer, buffer_append, buffer_append_text, buffer_free, buffer_reserve,
)
from cext.arrow.pairs cimport find_pair
from cext.base.byteorder cimport load_i32, store_i64
from cext.base.status cimport Status

from rmq.errors import not_copied

cdef extern from "arpa/inet.h" nogil:
    enum:
        AF_INET6
    const char* inet_ntop(int family, const void* address, char* out, unsigned int size)

cdef extern from "stdio.h" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)

cdef enum:
    ROWS_MAX = 1 << 20
    BYTES_WANTED_MAX = 256 << 20     # int32 offsets hold 2 GiB; a further record must fit
    TEXT_BYTES = 80                  # of a host or an id as text

cdef int64_t MS_MAX = INT64_MAX // 1000     # longest time in ms that fits into microseconds


cdef int32_t width_of(int32_t field) noexcept nogil:
    if field in (QUEUE_OFFSET, PHYSICAL_OFFSET, BORN_TIMESTAMP, STORE_TIMESTAMP, PREPARED_OFFSET):
        return 8
    if field in (QUEUE_ID, RECONSUME_TIMES, FLAG, SYS_FLAG, BODY_CRC, PARTITION, TIMESTAMP_TYPE,
                 BODY_SIZE):
        return 4
    return 0


cdef uint32_t hex_of(const uint8_t* bytes, uint32_t count, char* out) noexcept nogil:
    cdef const char* digits = b"0123456789ABCDEF"
    cdef uint32_t i
    for i in range(count):
        out[2 * i] = digits[bytes[i] >> 4]
        out[2 * i + 1] = digits[bytes[i] & 15]
    return 2 * count


cdef uint32_t number_of(uint32_t value, char* out) noexcept nogil:
    cdef char reversed_digits[10]
    cdef uint32_t count = 0, i
    while True:
        reversed_digits[count] = <char> (48 + value % 10)
        value //= 10
        count += 1
        if value == 0:
            break
    for i in range(count):
        out[i] = reversed_digits[count - 1 - i]
    return count


cdef uint32_t host_of(const uint8_t* host, uint32_t bytes, char* out) noexcept nogil:
    """ "127.0.0.1:10911" or "[::1]:10911"."""
    cdef uint32_t at = 0, i
    cdef char address[64]
    if bytes == 20:
        if inet_ntop(AF_INET6, host, address, sizeof(address)) == NULL:
            return 0
        return <uint32_t> snprintf(out, TEXT_BYTES, b"[%s]:%d", address, load_i32(host + 16))
    for i in range(4):
        at += number_of(host[i], out + at)
        out[at] = 46 if i < 3 else 58
        at += 1
    return at + number_of(<uint32_t> load_i32(host + 4), out + at)


cdef uint32_t message_id_of(const RecordView* view, char* out) noexcept nogil:
    cdef uint8_t id_bytes[28]
    memcpy(id_bytes, view.store_host, view.store_host_bytes)
    store_i64(id_bytes + view.store_host_bytes, view.physical_offset)
    return hex_of(id_bytes, view.store_host_bytes + 8, out)


cdef inline int64_t microseconds(int64_t ms) noexcept nogil:
    """A sender may send any number: one that is out of range must not look like another time."""
    return max(-MS_MAX, min(ms, MS_MAX)) * 1000


cdef int64_t long_of(int32_t field, const RecordView* view) noexcept nogil:
    if field == PHYSICAL_OFFSET:
        return view.physical_offset
    if field == BORN_TIMESTAMP:
        return microseconds(view.born_timestamp_ms)
    if field == STORE_TIMESTAMP:
        return microseconds(view.store_timestamp_ms)
    return view.prepared_offset


cdef int32_t int_of(int32_t field, const RecordView* view) noexcept nogil:
    if field == RECONSUME_TIMES:
        return view.reconsume_times
    if field == FLAG:
        return view.flag
    if field == SYS_FLAG:
        return view.sys_flag
    if field == BODY_CRC:
        return <int32_t> view.body_crc
    if field == BODY_SIZE:
        return <int32_t> view.body_bytes
    return 1                                    # TIMESTAMP_TYPE


cdef bint set_null(Column* column, int64_t row) noexcept nogil:
    column.valid.bytes[row >> 3] &= <uint8_t> (~(1 << (row & 7)))
    column.nulls += 1
    return True


cdef inline bint append_end(ByteBuffer* offsets, uint64_t size) noexcept nogil:
    """False when there is no memory, or the size is too large for an offset."""
    cdef int32_t end = <int32_t> size
    return size <= INT32_MAX and buffer_append(offsets, &end, 4)


cdef bint give_text(ArrowArray* out, int64_t count, ByteBuffer* offsets,
                    ByteBuffer* data) noexcept nogil:
    if not array_open(out, count, 0, 3, 0):
        return False
    array_give(out, 1, offsets)
    array_give(out, 2, data)
    return True


cdef class Columns:
    """For one thread. The fields are fixed for its life; batches come one after another."""

    def __cinit__(self, list fields not None, int64_t rows_max=8192,
                  uint64_t bytes_wanted=1 << 20):
        cdef int i
        if not 1 <= rows_max <= ROWS_MAX or not 1 <= bytes_wanted <= BYTES_WANTED_MAX:
            raise ValueError(f"rows_max {rows_max}, bytes_wanted {bytes_wanted}")
        self.columns = <Column*> calloc(max(len(fields), 1), sizeof(Column))
        if self.columns == NULL:
            raise MemoryError("no memory for columns")
        for i, field in enumerate(fields):
            if not 0 <= field < FIELDS:
                raise ValueError(f"no such field: {field}")
            self.columns[i].field = field
            self.columns[i].width = width_of(field)
            self.wants_pairs = self.wants_pairs or field in (UNIQUE_KEY, TAGS, KEYS, PROPERTIES)
            self.wants_body = self.wants_body or field in (BODY, BODY_TEXT)
            self.row_bytes += self.columns[i].width if self.columns[i].width else 4
        self.count = len(fields)
        self.rows_max = rows_max
        self.bytes_wanted = bytes_wanted
        self.place("", "", 0, 0)
        if self._begin() != Status.OK:
            raise MemoryError("no memory for columns")

    def __reduce__(self):
        raise not_copied(self, "send the Arrow batch that hand_over() gives")

    def __dealloc__(self):
        cdef int i
        array_free(&self.batch)
        if self.columns == NULL:
            return
        for i in range(self.count):
            buffer_free(&self.columns[i].data)
            buffer_free(&self.columns[i].offsets)
            buffer_free(&self.columns[i].valid)
            buffer_free(&self.columns[i].values)
            buffer_free(&self.columns[i].value_offsets)
            buffer_free(&self.columns[i].name_offsets)
        free(self.columns)

    def place(self, str topic not None, str broker_name not None, int32_t queue_id,
              int32_t partition):
        """Sets what the next rows have in common; queue_id -1: their queues differ."""
        self.topic = topic.encode()
        self.broker_name = broker_name.encode()
        self.topic_at = self.topic
        self.topic_bytes = <uint32_t> len(self.topic)
        self.broker_at = self.broker_name
        self.broker_bytes = <uint32_t> len(self.broker_name)
        self.queue_id = queue_id
        self.partition = partition
        self.of_any_queue = queue_id < 0

    def hand_over(self):
        """The address of the batch, as an ArrowArray of its columns, valid until the next call. The
        code that imports it owns the batch. The next batch starts empty."""
        cdef int i
        cdef bint good
        array_free(&self.batch)             # the one before was not imported
        with nogil:
            good = array_open(&self.batch, self.rows, 0, 1, self.count)
            for i in range(self.count):
                good = good and self._give(&self.columns[i], self.batch.children[i])
            good = good and self._begin() == Status.OK
        if not good:
            raise MemoryError("no memory for columns")
        return <size_t> &self.batch

    cdef bint _give(self, Column* column, ArrowArray* out) noexcept nogil:
        cdef bint has_pairs = column.field == PROPERTIES
        cdef ArrowArray* pairs
        if not array_open(out, self.rows, column.nulls, 2 if column.width or has_pairs else 3,
                          1 if has_pairs else 0):
            return False
        if column.nulls > 0:
            array_give(out, 0, &column.valid)
        if column.width:
            array_give(out, 1, &column.data)
            return True
        array_give(out, 1, &column.offsets)
        if not has_pairs:
            array_give(out, 2, &column.data)
            return True
        pairs = out.children[0]
        return (array_open(pairs, column.pair_count, 0, 1, 2)
                and give_text(pairs.children[0], column.pair_count, &column.name_offsets,
                              &column.data)
                and give_text(pairs.children[1], column.pair_count, &column.value_offsets,
                              &column.values))

    cdef int _begin(self) noexcept nogil:
        cdef Column* column
        cdef int32_t zero = 0
        cdef uint64_t bits = <uint64_t> ((self.rows_max + 7) >> 3)
        cdef int i
        cdef bint good = True
        self.rows = 0
        self.rows_room = <int64_t> (bits << 3)
        self.bytes_used = 0
        for i in range(self.count):
            column = &self.columns[i]
            column.nulls = column.pair_count = 0
            column.valid.size = 0
            good = good and buffer_reserve(&column.valid, bits)
            if not good:
                return Status.POOL_EMPTY
            memset(column.valid.bytes, 0xFF, bits)
            if column.width:
                good = buffer_reserve(&column.data, self.rows_max * column.width)
                continue
            good = buffer_append(&column.offsets, &zero, 4)
            if column.field == BODY:
                good = good and buffer_reserve(&column.data,
                                               self.bytes_wanted + (self.bytes_wanted >> 3))
            elif column.field == PROPERTIES:
                good = good and buffer_append(&column.name_offsets, &zero, 4)
                good = good and buffer_append(&column.value_offsets, &zero, 4)
        return Status.OK if good else Status.POOL_EMPTY

    cdef bint _double_room(self) noexcept nogil:
        """Makes room for more validity bits, for a record that goes far beyond rows_max."""
        cdef uint64_t bits = <uint64_t> self.rows_room >> 3
        cdef int i
        for i in range(self.count):
            if not buffer_reserve(&self.columns[i].valid, 2 * bits):
                return False
            memset(self.columns[i].valid.bytes + bits, 0xFF, bits)
        self.rows_room *= 2
        return True

    cdef int add(self, const Row* row) noexcept nogil:
        cdef Column* column
        cdef int i
        cdef uint64_t before
        if self.rows == self.rows_room and not self._double_room():
            return Status.POOL_EMPTY
        for i in range(self.count):
            column = &self.columns[i]
            if column.width:
                if not self._add_fixed(column, row):
                    return Status.POOL_EMPTY
                continue
            before = column.data.size + column.values.size
            if column.field == PROPERTIES:
                if not self._add_pairs(column, row):
                    return Status.POOL_EMPTY
            elif not self._add_text(column, row) or not append_end(
                    &column.offsets, column.data.size):
                return Status.POOL_EMPTY
            self.bytes_used += column.data.size + column.values.size - before
        self.rows += 1
        self.bytes_used += self.row_bytes
        return Status.OK

    cdef bint _add_fixed(self, Column* column, const Row* row) noexcept nogil:
        cdef int64_t large = 0
        cdef int32_t small = 0
        if column.field == QUEUE_OFFSET:
            large = row.queue_offset
        elif column.field == QUEUE_ID:
            small = row.view.queue_id if row.view != NULL else self.queue_id
        elif column.field == PARTITION:
            small = self.partition
            if self.of_any_queue and row.view != NULL:
                small += row.view.queue_id
        elif row.view == NULL:
            set_null(column, self.rows)
        elif column.width == 8:
            large = long_of(column.field, row.view)
        else:
            small = int_of(column.field, row.view)
        if column.width == 8:
            return buffer_append(&column.data, &large, 8)
        return buffer_append(&column.data, &small, 4)

    cdef bint _add_text(self, Column* column, const Row* row) noexcept nogil:
        cdef char text[TEXT_BYTES]
        cdef const Pair* pair
        cdef int32_t field = column.field
        if field == BROKER_NAME:
            return buffer_append(&column.data, self.broker_at, self.broker_bytes)
        if field == CORRUPT:
            if row.reason == NULL:
                return set_null(column, self.rows)
            return buffer_append(&column.data, row.reason, strlen(row.reason))
        if row.view == NULL:
            if field == TOPIC:
                return buffer_append_text(&column.data, <const uint8_t*> self.topic_at,
                                          self.topic_bytes)
            return set_null(column, self.rows)
        if field == BODY:
            if row.body == NULL:
                return set_null(column, self.rows)
            return buffer_append(&column.data, row.body, row.body_bytes)
        if field == BODY_TEXT:
            if row.body == NULL:
                return set_null(column, self.rows)
            return buffer_append_text(&column.data, row.body, row.body_bytes)
        if field == TOPIC:
            return buffer_append_text(&column.data, row.view.topic, row.view.topic_bytes)
        if field == BORN_HOST:
            return buffer_append(&column.data, text, host_of(
                row.view.born_host, row.view.born_host_bytes, text))
        if field == STORE_HOST:
            return buffer_append(&column.data, text, host_of(
                row.view.store_host, row.view.store_host_bytes, text))
        if field == MESSAGE_ID:
            return buffer_append(&column.data, text, message_id_of(row.view, text))
        if field == UNIQUE_KEY:
            pair = find_pair(row.pairs, row.pair_count, b"UNIQ_KEY", 8)
        elif field == TAGS:
            pair = find_pair(row.pairs, row.pair_count, b"TAGS", 4)
        else:
            pair = find_pair(row.pairs, row.pair_count, b"KEYS", 4)
        if pair == NULL:
            return set_null(column, self.rows)
        return buffer_append_text(&column.data, pair.value, pair.value_bytes)

    cdef bint _add_pairs(self, Column* column, const Row* row) noexcept nogil:
        cdef uint32_t i
        if row.view == NULL:
            set_null(column, self.rows)
        else:
            for i in range(row.pair_count):
                if not buffer_append_text(&column.data, row.pairs[i].name,
                                          row.pairs[i].name_bytes):
                    return False
                if not buffer_append_text(&column.values, row.pairs[i].value,
                                          row.pairs[i].value_bytes):
                    return False
                if not append_end(&column.name_offsets, column.data.size):
                    return False
                if not append_end(&column.value_offsets, column.values.size):
                    return False
            column.pair_count += row.pair_count
        return append_end(&column.offsets, <uint64_t> column.pair_count)
