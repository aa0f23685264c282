"""Stage loops: one stage of the core over and over, without Python in between, to count its cost.

    stage = JsonHeader(header); stage.run(1000)     # 1000 headers parsed
    stage_mark()                                    # callgrind --dump-before=stage_mark

A stage gets what it works on when it is made. So run(2 * n) costs n operations more than run(n),
and the difference is the operation alone. bench/stages has the measurements.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from cext.base.checksum cimport body_crc
from cext.base.status cimport OK
from cext.flow.auth.user_table cimport (
    ACTION_PUB,
    TYPE_TOPIC,
    VERDICT_ALLOW,
    UserTable,
    user_find,
    user_put,
    user_table_close,
    user_table_open,
    user_verdict,
)
from cext.flow.tables.tag_filter cimport TagFilter, tag_filter_passes
from cext.memory.arena cimport SharedArena
from cext.net.address_network cimport ADDRESS_BYTES
from cext.store.index.index_file cimport (
    INDEX_ENTRY_BYTES,
    IndexFile,
    IndexKey,
    IndexShape,
    SlotTable,
    index_close,
    index_create,
    index_put,
    slots_close,
    slots_open,
)
from cext.store.log.record cimport RecordFields, record_finish, record_start
from cext.store.queues.consume_queue cimport Queue
from cext.store.queues.queue_store cimport QueueStore, queue_room
from cext.wire.frame cimport SERIALIZE_BINARY, SERIALIZE_JSON
from cext.wire.header cimport Header, parse_header
from cext.wire.header_shapes cimport (
    HeaderShapes,
    header_shapes_open,
    header_shapes_arena_bytes,
    parse_header_like,
)
from cext.wire.properties cimport SendProperties, append_property, scan_properties
from cext.wire.replies cimport (
    PULL_REPLY_BYTES_MAX,
    SEND_REPLY_FIXED_BYTES,
    PullReply,
    SendReply,
    write_pull_reply_header,
    write_send_reply,
)
from cext.wire.sql_program cimport SQL_TRUE, sql_program_check, sql_program_run
from cext.wire.text cimport Text, text_of

from cext.base.status import raise_status

cdef extern from *:
    """
    __attribute__((noinline, noclone)) static void stage_mark(void) { __asm__ volatile(""); }
    /* The compiler may not know what an operation is given, nor that nobody reads its result. */
    #define stage_hide(value) __asm__ volatile("" : "+r"(value))

    /* CALLGRIND_START_INSTRUMENTATION of <valgrind/callgrind.h>, which need not be installed where
       this is compiled. Without valgrind these instructions do nothing. */
    static void stage_counting_start(void) {
    #if defined(__x86_64__)
        volatile uint64_t request[6] = {((uint64_t)'C' << 24 | (uint64_t)'T' << 16) + 4};
        volatile uint64_t result = 0;
        __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; "
                         "xchgq %%rbx, %%rbx"
                         : "=d"(result) : "a"(&request[0]), "0"(result) : "cc", "memory");
    #elif defined(__aarch64__)
        volatile uint64_t request[6] = {((uint64_t)'C' << 24 | (uint64_t)'T' << 16) + 4};
        __asm__ volatile("mov x3, xzr; mov x4, %0; "
                         "ror x12, x12, #3; ror x12, x12, #13; "
                         "ror x12, x12, #51; ror x12, x12, #61; "
                         "orr x10, x10, x10"
                         : : "r"(&request[0]) : "cc", "memory", "x3", "x4");
    #endif
    }
    """
    void c_stage_mark "stage_mark"() noexcept nogil
    void c_stage_counting_start "stage_counting_start"() noexcept nogil
    void stage_hide(uint64_t value) noexcept nogil

cdef enum:
    PLACE_BYTES = 65536
    RECORD_BYTES = 400
    ENTRIES_AT_ONCE = 50                    # of a chunk's
    INDEX_BATCH = 1000
    INDEX_SLOTS = 1 << 16


def stage_mark():
    """A function that callgrind can find by its name."""
    c_stage_mark()


def stage_counting_start():
    """From here on callgrind counts, when it was started with --instr-atstart=no."""
    c_stage_counting_start()


cdef class Stage:
    """One operation in a loop, over the bytes that it was given; a subclass says which
    operation."""
    cdef bytes given
    cdef const uint8_t* at                  # the bytes of `given`
    cdef uint32_t length
    cdef uint64_t failures

    def __cinit__(self, bytes given not None=b"", *_):
        self.given = given
        self.at = <const uint8_t*> <char*> given
        self.length = <uint32_t> len(given)

    cdef void loop(self, int64_t count) noexcept nogil:
        pass

    def run(self, int64_t count):
        """Runs `count` operations. RuntimeError: one failed, so the cost means nothing."""
        with nogil:
            self.loop(count)
        if self.failures:
            raise RuntimeError(f"{self.failures} operations of {type(self).__name__} failed")


cdef class JsonHeader(Stage):
    """parse_header of a JSON header."""

    cdef void loop(self, int64_t count) noexcept nogil:
        cdef Header out
        cdef int64_t _i
        for _i in range(count):
            self.failures += parse_header(self.at, self.length, SERIALIZE_JSON, &out) != OK


cdef class BinaryHeader(Stage):
    """parse_header of a binary header."""

    cdef void loop(self, int64_t count) noexcept nogil:
        cdef Header out
        cdef int64_t _i
        for _i in range(count):
            self.failures += parse_header(self.at, self.length, SERIALIZE_BINARY, &out) != OK


@cython.no_gc_clear                  # its owners are freed first and may use it
cdef class HeaderShape(Stage):
    """parse_header_like of a JSON header after one of the same shape."""
    cdef SharedArena memory
    cdef HeaderShapes shapes

    def __cinit__(self, *_):
        self.memory = SharedArena(header_shapes_arena_bytes())
        raise_status(header_shapes_open(&self.shapes, &self.memory.arena), "header shapes")

    cdef void loop(self, int64_t count) noexcept nogil:
        cdef Header out
        cdef int64_t _i
        for _i in range(count):
            self.failures += parse_header_like(&self.shapes, self.at, self.length,
                                               SERIALIZE_JSON, &out) != OK
        self.failures += self.shapes.misses > 1


cdef class Properties(Stage):
    """scan_properties of the property string of a send."""

    cdef void loop(self, int64_t count) noexcept nogil:
        cdef SendProperties out
        cdef int64_t _i
        for _i in range(count):
            self.failures += scan_properties(self.at, self.length, &out) != OK


cdef class RecordBuild(Stage):
    """A record with its body and one property, written as into the log."""
    cdef uint8_t* place                     # owned

    def __cinit__(self, *_):
        if self.length > PLACE_BYTES // 2:
            raise ValueError(f"a body of {self.length} bytes does not fit")
        self.place = <uint8_t*> malloc(PLACE_BYTES)
        if self.place == NULL:
            raise MemoryError("no memory for a record")

    def __dealloc__(self):
        free(self.place)

    cdef void loop(self, int64_t count) noexcept nogil:
        cdef uint8_t host[8]
        cdef RecordFields fields
        cdef uint8_t* properties
        cdef uint32_t length
        cdef int64_t i
        for i in range(8):
            host[i] = <uint8_t> i
        fields.queue_id = 3
        fields.flag = 0
        fields.sys_flag = 0
        fields.born_timestamp_ms = fields.store_timestamp_ms = 1_700_000_000_000
        fields.born_host = fields.store_host = host
        fields.born_host_bytes = fields.store_host_bytes = 8
        fields.reconsume_times = 0
        fields.prepared_offset = 0
        fields.body = self.at
        fields.body_bytes = self.length
        fields.body_crc = 12345
        fields.topic = <const uint8_t*> b"orders"
        fields.topic_bytes = 6
        for i in range(count):
            fields.queue_offset = i
            fields.physical_offset = i * RECORD_BYTES
            properties = record_start(self.place, &fields)
            length = append_property(properties + 2, b"TAGS", <const uint8_t*> b"TagA", 4)
            self.failures += record_finish(self.place, properties, length) == 0


cdef class BodyCrc(Stage):
    """The checksum of a body."""

    cdef void loop(self, int64_t count) noexcept nogil:
        cdef uint64_t crc
        cdef int64_t _i
        for _i in range(count):
            crc = body_crc(self.at, self.length)
            stage_hide(crc)


@cython.no_gc_clear                  # its owners are freed first and may use it
cdef class QueuePut(Stage):
    """Entries appended to a consume queue, as dispatch does it; at most `entries` in all."""
    cdef QueueStore store
    cdef Queue* queue                       # the store has it
    cdef int64_t physical_offset

    def __cinit__(self, bytes directory not None, int64_t entries):
        self.store = QueueStore(directory, 300_000, entries // ENTRIES_AT_ONCE + 1)
        self.queue = self.store.open_queue(b"orders", 6, 0)
        if self.queue == NULL:
            raise MemoryError("no memory for a queue")

    cdef void loop(self, int64_t count) noexcept nogil:
        cdef int64_t _i
        for _i in range(count):
            if queue_room(self.store, self.queue) != OK:
                self.failures += 1
                return
            self.failures += self.store.append(self.queue, self.physical_offset, RECORD_BYTES,
                                               65) != OK
            self.queue.handed_offset = self.queue.max_offset    # as a run would: no file here
            self.physical_offset += RECORD_BYTES


cdef class IndexPut(Stage):
    """Keys put into a file of the key index, a thousand at a time, with one write for each time."""
    cdef IndexShape shape
    cdef IndexFile file                     # owned
    cdef SlotTable table                    # owned
    cdef IndexKey* keys                     # owned
    cdef uint8_t* scratch                   # owned

    def __cinit__(self, bytes directory not None, *_):
        cdef int error = 0
        cdef int32_t i
        self.file.fd = -1
        self.shape.slots = INDEX_SLOTS
        self.shape.entries = 20_000_000
        self.keys = <IndexKey*> calloc(INDEX_BATCH, sizeof(IndexKey))
        self.scratch = <uint8_t*> malloc(INDEX_BATCH * INDEX_ENTRY_BYTES)
        if (self.keys == NULL or self.scratch == NULL
                or slots_open(&self.table, INDEX_SLOTS) != OK):
            raise MemoryError("no memory for an index file")
        raise_status(index_create(directory, &self.shape, 20260101000000000, NULL, &self.file,
                                  &error), "an index file")
        for i in range(INDEX_BATCH):
            self.keys[i].hash = (i * 2654435761) & 0x7FFFFFFF
            self.keys[i].run = 1
            self.keys[i].offset = i * RECORD_BYTES
            self.keys[i].store_ms = 1_700_000_000_000

    def __dealloc__(self):
        if self.file.fd >= 0:
            index_close(&self.file)
        slots_close(&self.table)
        free(self.keys)
        free(self.scratch)

    cdef void loop(self, int64_t count) noexcept nogil:
        cdef int error = 0
        cdef int64_t done = 0
        while done < count:
            self.failures += index_put(&self.file, &self.table, &self.shape, self.keys,
                                       <int32_t> min(INDEX_BATCH, count - done), self.scratch,
                                       &error) != OK
            done += INDEX_BATCH


cdef class TagFilterLook(Stage):
    """An entry's code compared with those of a subscription of two tags; the second one matches."""
    cdef TagFilter tags

    def __cinit__(self, *_):
        self.tags.all = False
        self.tags.count = 2
        self.tags.codes[0] = 2598919
        self.tags.codes[1] = 2598920

    cdef void loop(self, int64_t count) noexcept nogil:
        cdef uint64_t code = 2598920
        cdef int64_t _i
        for _i in range(count):
            stage_hide(code)
            self.failures += not tag_filter_passes(&self.tags, <int64_t> code)


@cython.no_gc_clear                  # __dealloc__ needs all its fields
cdef class VerdictLook(Stage):
    """Whether a user, another of very many each time, may send to the topic of its last entry."""
    cdef UserTable users
    cdef int64_t user_count
    cdef list names
    cdef Text* name_of                      # owned

    def __cinit__(self, bytes packed not None, bytes topic not None, list names not None):
        cdef bytes name
        cdef int64_t i
        self.given = topic
        self.at = topic
        self.length = <uint32_t> len(topic)
        self.names = names
        self.user_count = len(names)
        self.name_of = <Text*> calloc(<size_t> self.user_count, sizeof(Text))
        if self.name_of == NULL or user_table_open(&self.users) != OK:
            raise MemoryError
        for i in range(self.user_count):
            name = names[i]
            self.name_of[i] = text_of(<const uint8_t*> name, <uint32_t> len(name))
            raise_status(user_put(&self.users, self.name_of[i].bytes, self.name_of[i].length,
                                  b"secret", 6, False, True, packed, <uint32_t> len(packed),
                                  NULL, 0), "user")

    def __dealloc__(self):
        user_table_close(&self.users)
        free(self.name_of)

    cdef void loop(self, int64_t count) noexcept nogil:
        cdef uint8_t address[ADDRESS_BYTES]
        cdef const Text* name
        cdef int64_t at = 0
        cdef int64_t _i
        for _i in range(ADDRESS_BYTES):
            address[_i] = 0
        for _i in range(count):
            at = (at + 7919) % self.user_count      # far from the last one
            name = &self.name_of[at]
            if user_verdict(user_find(&self.users, name.bytes, name.length), TYPE_TOPIC, self.at,
                            self.length, ACTION_PUB, address) != VERDICT_ALLOW:
                self.failures += 1


cdef class SqlFilterRun(Stage):
    """A compiled SQL92 expression run over the properties of a message, which passes."""
    cdef bytes properties
    cdef const uint8_t* properties_at
    cdef uint32_t properties_length

    def __cinit__(self, bytes program not None, bytes properties not None):
        raise_status(sql_program_check(self.at, self.length), "a filter's program")
        self.properties = properties
        self.properties_at = <const uint8_t*> <char*> properties
        self.properties_length = <uint32_t> len(properties)

    cdef void loop(self, int64_t count) noexcept nogil:
        cdef int64_t _i
        for _i in range(count):
            self.failures += sql_program_run(self.at, self.properties_at,
                                             self.properties_length) != SQL_TRUE


cdef class SendReplyWrite(Stage):
    """The JSON answer to a send."""

    cdef void loop(self, int64_t count) noexcept nogil:
        cdef uint8_t out[SEND_REPLY_FIXED_BYTES + 1024]
        cdef const char* identity = b"7F00000100002A9F0000000000001F40"
        cdef SendReply reply
        cdef Text none = text_of(NULL, 0)
        cdef int64_t i
        reply.code = 0
        reply.queue_id = 3
        reply.serialize_type = SERIALIZE_JSON
        reply.trace_on = True
        reply.remark = reply.recall_handle = none
        reply.message_ids = reply.transaction_id = text_of(<const uint8_t*> identity, 32)
        reply.region = text_of(<const uint8_t*> b"DefaultRegion", 13)
        for i in range(count):
            reply.opaque = 1_000_000 + <int32_t> (i & 0xFFFF)
            reply.queue_offset = 1_000_000 + (i & 0xFFFF)
            self.failures += write_send_reply(out, &reply) == 0


cdef class PullReplyWrite(Stage):
    """The JSON header of the answer to a pull."""

    cdef void loop(self, int64_t count) noexcept nogil:
        cdef uint8_t out[PULL_REPLY_BYTES_MAX]
        cdef PullReply reply
        cdef int64_t i
        reply.code = 0
        reply.serialize_type = SERIALIZE_JSON
        reply.remark = text_of(<const uint8_t*> b"FOUND", 5)
        reply.min_offset = 0
        reply.max_offset = 1_200_000
        reply.suggested_broker_id = 0
        reply.has_offset_delta = False
        reply.body_bytes = 12_800
        for i in range(count):
            reply.opaque = 1_000_000 + <int32_t> (i & 0xFFFF)
            reply.next_begin_offset = 1_000_000 + (i & 0xFFFF)
            self.failures += write_pull_reply_header(out, &reply) == 0
