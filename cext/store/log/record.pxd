# Record: a message in the commit log, written and parsed in place. All integers are big-endian.
#
#      0 total size u32   4 magic u32    8 body crc u32  12 queue id i32   16 flag i32
#     20 queue offset    28 physical offset of this record               36 sys flag i32
#     40 born time ms    48 born host: ip 4 or 16 bytes + port i32  (H1 = 8 or 20 bytes)
#     48+H1 store time ms, +8 store host (H2 = 8 or 20), then reconsume times i32,
#     prepared transaction offset i64, body length i32, body,
#     topic length (u8 in a v1 record, u16 in a v2 record), topic, properties length i16, properties
#
# H1 is 20 when sys flag has 0x10, H2 is 20 when it has 0x20. A v2 record is written only for a
# topic of more than 127 bytes. A record never crosses a segment's end; the bytes left there are a
# BLANK: u32 bytes left, u32 0xCBD43194, then anything.
#
# Example: body "hello", topic "T", no properties, IPv4 hosts: 91 + 5 + 1 = 97 bytes. Body length at
# 84, body at 88..92, topic length at 93, topic at 94, properties length (0) at 95..96.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from cext.wire.codes cimport MAGIC_V1, MAGIC_V2
from cext.wire.limits cimport RECORD_BYTES_MIN, TOPIC_BYTES_V1_MAX

cdef enum:
    # Where the fixed fields are, from the start of the record.
    AT_TOTAL_BYTES = 0
    AT_MAGIC = 4
    AT_BODY_CRC = 8
    AT_QUEUE_ID = 12
    AT_FLAG = 16
    AT_QUEUE_OFFSET = 20
    AT_PHYSICAL_OFFSET = 28
    AT_SYS_FLAG = 36
    AT_BORN_TIMESTAMP = 40
    AT_BORN_HOST = 48           # with an IPv6 born host all later fields are 12 bytes further on
    RECORD_FIXED_BYTES_MAX = 116        # a record without its three texts, with IPv6 hosts, v2
    TERMINATOR_BYTES = 8        # zeros after the last record; also the size of a BLANK's head

cdef enum:
    MAGIC_BLANK = 0xCBD43194    # of the BLANK that fills a segment to its end

cdef enum:
    RECORD_BYTES_LIMIT = 256 << 20      # no record is larger, whatever its size field says

cdef inline bint is_record_magic(uint32_t word) noexcept nogil:
    return word == <uint32_t> MAGIC_V1 or word == <uint32_t> MAGIC_V2

# Why record_parse returned CORRUPT (or what it found instead of a record).
cpdef enum RecordProblem:
    NO_PROBLEM = 0
    AT_END = 1                  # NOT_READY: total size and magic are zero: no more data here
    AT_BLANK = 2                # NOT_FOUND: go on at the next segment's start
    BAD_MAGIC = 3
    BAD_SIZE = 4                # less than the smallest record, or more than is available
    BAD_LENGTHS = 5             # the fields do not add up to the total size
    BAD_POSITION = 6            # the record belongs to another offset: stale bytes of a reused file
    BAD_BODY_CRC = 7
    BAD_RECORD_CRC = 8          # the checksum of the whole record (record_crc.pxd)

# The fields that a writer gives. Pointers are borrowed until record_start returns.
cdef struct RecordFields:
    int32_t queue_id
    int32_t flag                # the user's flag
    int64_t queue_offset        # index in its consume queue
    int64_t physical_offset     # marks.appended after reserve()
    int32_t sys_flag            # the two host bits are set here from the host lengths
    int64_t born_timestamp_ms
    const uint8_t* born_host    # ip and port, as stored
    uint32_t born_host_bytes    # 8 or 20
    int64_t store_timestamp_ms
    const uint8_t* store_host
    uint32_t store_host_bytes   # 8 or 20
    int32_t reconsume_times
    int64_t prepared_offset     # 0, except for a committed message of a transaction
    const uint8_t* body
    uint32_t body_bytes
    uint32_t body_crc           # checksum.body_crc(body)
    const uint8_t* topic
    uint32_t topic_bytes        # 1 .. TOPIC_BYTES_MAX

# The fields that a reader gets. Pointers are borrowed from the record's bytes.
cdef struct RecordView:
    uint32_t total_bytes
    int32_t problem             # RecordProblem, also when the status is not OK
    int32_t version             # 1 or 2
    uint32_t body_crc           # as stored
    int32_t queue_id
    int32_t flag
    int64_t queue_offset
    int64_t physical_offset
    int32_t sys_flag
    int64_t born_timestamp_ms
    const uint8_t* born_host
    uint32_t born_host_bytes
    int64_t store_timestamp_ms
    const uint8_t* store_host
    uint32_t store_host_bytes
    int32_t reconsume_times
    int64_t prepared_offset
    const uint8_t* body
    uint32_t body_bytes
    const uint8_t* topic
    uint32_t topic_bytes
    const uint8_t* properties
    uint32_t properties_bytes

# Any thread. The fields with which the same record would be written again; the caller changes what
# differs. The properties are not among them: they are written after record_start().
cdef inline RecordFields fields_of_record(const RecordView* view) noexcept nogil:
    cdef RecordFields fields
    fields.queue_id = view.queue_id
    fields.flag = view.flag
    fields.queue_offset = view.queue_offset
    fields.physical_offset = view.physical_offset
    fields.sys_flag = view.sys_flag
    fields.born_timestamp_ms = view.born_timestamp_ms
    fields.born_host = view.born_host
    fields.born_host_bytes = view.born_host_bytes
    fields.store_timestamp_ms = view.store_timestamp_ms
    fields.store_host = view.store_host
    fields.store_host_bytes = view.store_host_bytes
    fields.reconsume_times = view.reconsume_times
    fields.prepared_offset = view.prepared_offset
    fields.body = view.body
    fields.body_bytes = view.body_bytes
    fields.body_crc = view.body_crc
    fields.topic = view.topic
    fields.topic_bytes = view.topic_bytes
    return fields

# Any thread. The size of a record with these hosts and texts, which is what must be reserved.
cdef inline uint32_t record_bytes(uint32_t born_host_bytes, uint32_t store_host_bytes,
                                  uint32_t body_bytes, uint32_t topic_bytes,
                                  uint32_t properties_bytes) noexcept nogil:
    return (RECORD_BYTES_MIN + (born_host_bytes - 8) + (store_host_bytes - 8)
            + (1 if topic_bytes > TOPIC_BYTES_V1_MAX else 0)
            + body_bytes + topic_bytes + properties_bytes)

# Any thread. Writes everything up to and including the topic; returns the place for the two bytes
# of the properties' length. The caller writes the properties from there + 2 on. It must have
# checked all lengths, and there must be room for record_bytes() bytes.
cdef uint8_t* record_start(uint8_t* at, const RecordFields* fields) noexcept nogil

# Any thread. Fills in the properties' length and the total size; returns the record's size.
cdef uint32_t record_finish(uint8_t* at, uint8_t* properties_length_at,
                            uint32_t properties_bytes) noexcept nogil

# Any thread. Parses the record at `at`, of which `available` bytes may be read. `check_crc` checks
# the record's own checksum if it has one, else that of its body. Status:
#   OK         out is complete, every length checked
#   NOT_READY  AT_END: eight zero bytes (or fewer than eight bytes in all): no more data
#   NOT_FOUND  AT_BLANK: the rest of this segment is filler
#   CORRUPT    out.problem says why; out.total_bytes is what the record claims
# With `expected_physical_offset` < 0 the position is not checked. Never reads beyond `available`.
cdef int record_parse(const uint8_t* at, uint64_t available, int64_t expected_physical_offset,
                      bint check_crc, RecordView* out) noexcept nogil

# Whether the topic or the properties, which no checksum covers, end in zeros. If nothing valid
# follows such a record, it was still being written, unless the store says otherwise (E7 in
# log_scan.pxd).
cdef inline bint record_ends_in_zero(const RecordView* view) noexcept nogil:
    if view.properties_bytes > 0:
        return view.properties[view.properties_bytes - 1] == 0
    return view.topic_bytes == 0 or view.topic[view.topic_bytes - 1] == 0

# Any thread. Writes the head of a BLANK that fills `left` bytes up to the segment's end.
cdef void record_write_blank(uint8_t* at, uint32_t left) noexcept nogil
