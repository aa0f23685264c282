# Columns: the columns of one Arrow batch under construction. Each has one field of the records.
#
#     fixed width   data                               queueId, offsets, timestamps (in us; times
#                                                      beyond the range become its last one), flags
#     text, bytes   offsets (int32), data              body, topic, tags, keys, hosts, ids
#     pairs         offsets into the pairs, and the two columns (name, value) of the pairs
#     validity      one bit a row, kept for every column, handed over only when a row is null
#
# A batch is full at `rows_max` rows, or when its memory reaches `bytes_wanted`. One record may go
# beyond: so a batch holds at most bytes_wanted plus one record, which may itself be a batch of very
# many messages. Memory is given away with each batch (array.pxd), never copied.
#
# Example: columns (queueOffset, body), two records "ab", "" -> data 2 x int64; offsets 0 2 2, "ab".

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.arrow.array cimport ArrowArray
from cext.arrow.byte_buffer cimport ByteBuffer
from cext.arrow.pairs cimport Pair
from cext.store.log.record cimport RecordView

cpdef enum Field:
    TOPIC = 0
    BROKER_NAME = 1
    QUEUE_ID = 2
    QUEUE_OFFSET = 3
    PHYSICAL_OFFSET = 4
    MESSAGE_ID = 5              # the broker's: store host and log offset, upper-case hex
    UNIQUE_KEY = 6              # the sender's: UNIQ_KEY
    TAGS = 7
    KEYS = 8
    BODY = 9                    # unpacked
    PROPERTIES = 10             # map
    BORN_TIMESTAMP = 11
    STORE_TIMESTAMP = 12
    BORN_HOST = 13
    STORE_HOST = 14
    RECONSUME_TIMES = 15
    FLAG = 16
    SYS_FLAG = 17
    BODY_CRC = 18
    PREPARED_OFFSET = 19
    PARTITION = 20              # a number that stands for (broker, queue): schema=kafka
    TIMESTAMP_TYPE = 21         # always 1: the time of storing (Kafka's LogAppendTime)
    CORRUPT = 22                # null, or what is wrong with the row
    BODY_TEXT = 23              # unpacked, as UTF-8 (bad bytes replaced): for string columns
    BODY_SIZE = 24              # bytes as stored, packed or not
    FIELDS = 25

# The source of a row. A damaged row has no view.
cdef struct Row:
    const RecordView* view      # NULL: only offset and reason are known
    const uint8_t* body
    uint32_t body_bytes
    int64_t queue_offset
    const Pair* pairs
    uint32_t pair_count
    const char* reason          # NULL, or why the row is damaged

cdef struct Column:
    int32_t field               # Field
    int32_t width               # bytes of a fixed value; 0: text, bytes or pairs
    ByteBuffer data
    ByteBuffer offsets
    ByteBuffer valid
    ByteBuffer value_offsets       # pairs: of values (`offsets` counts pairs, `data` is names)
    ByteBuffer name_offsets
    ByteBuffer values
    int64_t pair_count
    int64_t nulls

cdef class Columns:
    cdef Column* columns        # owned
    cdef ArrowArray batch       # the last batch, until it is imported
    cdef readonly int count
    cdef readonly int64_t rows
    cdef int64_t rows_max
    cdef int64_t rows_room      # rows for which there are validity bits
    cdef uint64_t bytes_wanted
    cdef uint64_t bytes_used    # of this batch so far
    cdef uint64_t row_bytes     # of one row, without its text and bytes
    cdef bint wants_pairs       # some column needs the properties
    cdef bint wants_body
    cdef bytes topic            # of damaged rows; every other row has its own
    cdef bytes broker_name
    cdef const char* topic_at   # the same, for code without the GIL
    cdef const char* broker_at
    cdef uint32_t topic_bytes
    cdef uint32_t broker_bytes
    cdef int32_t queue_id
    cdef int32_t partition
    cdef bint of_any_queue      # rows name their queues; numbers count from `partition`

    cdef bint _double_room(self) noexcept nogil
    cdef inline bint is_full(self) noexcept nogil:
        return self.rows >= self.rows_max or self.bytes_used >= self.bytes_wanted

    # OK | POOL_EMPTY: no memory; the batch is unusable then.
    cdef int add(self, const Row* row) noexcept nogil
    cdef int _begin(self) noexcept nogil
    cdef bint _give(self, Column* column, ArrowArray* out) noexcept nogil
    cdef bint _add_fixed(self, Column* column, const Row* row) noexcept nogil
    cdef bint _add_text(self, Column* column, const Row* row) noexcept nogil
    cdef bint _add_pairs(self, Column* column, const Row* row) noexcept nogil
