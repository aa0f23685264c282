"""Writes and parses one record of the commit log in place. Bytes and promises are in record.pxd.

Nothing in a record is trusted when it is parsed: the total size is checked against what is
available, each length against what is left of the total, and at the end the sum of the parts
against the total. The check of the position matters because a recycled segment still holds records
of its former use.
"""

from libc.string cimport memcpy, memset

from cext.base.byteorder cimport (
    load_i32, load_i64, load_u16, load_u32, store_i32, store_i64, store_u16, store_u32)
from cext.base.checksum cimport body_crc
from cext.base.prefetch cimport prefetch
from cext.base.status cimport Status
from cext.store.log.record_crc cimport RECORD_CRC_BYTES, record_crc_check
from cext.wire.codes cimport BORNHOST_V6_FLAG, STOREHOSTADDRESS_V6_FLAG
from cext.wire.limits cimport PROPERTIES_BYTES_MAX, TOPIC_BYTES_V1_MAX


cdef uint8_t* record_start(uint8_t* at, const RecordFields* fields) noexcept nogil:
    cdef uint8_t* to
    cdef int32_t sys_flag = fields.sys_flag & ~(BORNHOST_V6_FLAG | STOREHOSTADDRESS_V6_FLAG)
    cdef bint long_topic = fields.topic_bytes > TOPIC_BYTES_V1_MAX
    if fields.born_host_bytes == 20:
        sys_flag |= BORNHOST_V6_FLAG
    if fields.store_host_bytes == 20:
        sys_flag |= STOREHOSTADDRESS_V6_FLAG
    store_u32(at + AT_MAGIC, MAGIC_V2 if long_topic else MAGIC_V1)
    store_u32(at + AT_BODY_CRC, fields.body_crc)
    store_i32(at + AT_QUEUE_ID, fields.queue_id)
    store_i32(at + AT_FLAG, fields.flag)
    store_i64(at + AT_QUEUE_OFFSET, fields.queue_offset)
    store_i64(at + AT_PHYSICAL_OFFSET, fields.physical_offset)
    store_i32(at + AT_SYS_FLAG, sys_flag)
    store_i64(at + AT_BORN_TIMESTAMP, fields.born_timestamp_ms)
    to = at + AT_BORN_HOST
    memcpy(to, fields.born_host, fields.born_host_bytes)
    to += fields.born_host_bytes
    store_i64(to, fields.store_timestamp_ms)
    to += 8
    memcpy(to, fields.store_host, fields.store_host_bytes)
    to += fields.store_host_bytes
    store_i32(to, fields.reconsume_times)
    store_i64(to + 4, fields.prepared_offset)
    store_u32(to + 12, fields.body_bytes)
    to += 16
    if fields.body_bytes > 0:
        memcpy(to, fields.body, fields.body_bytes)
        to += fields.body_bytes
    if long_topic:
        store_u16(to, <uint16_t>fields.topic_bytes)
        to += 2
    else:
        to[0] = <uint8_t>fields.topic_bytes
        to += 1
    memcpy(to, fields.topic, fields.topic_bytes)
    return to + fields.topic_bytes


cdef uint32_t record_finish(uint8_t* at, uint8_t* properties_length_at,
                            uint32_t properties_bytes) noexcept nogil:
    cdef uint32_t total = <uint32_t>(properties_length_at - at) + 2 + properties_bytes
    store_u16(properties_length_at, <uint16_t>properties_bytes)
    store_u32(at + AT_TOTAL_BYTES, total)
    return total


cdef void record_write_blank(uint8_t* at, uint32_t left) noexcept nogil:
    store_u32(at, left)
    store_u32(at + 4, MAGIC_BLANK)


cdef inline int bad(RecordView* out, int32_t problem) noexcept nogil:
    out.problem = problem
    return Status.CORRUPT


cdef int parse_head(const uint8_t* at, uint64_t available, RecordView* out) noexcept nogil:
    """Reads size and magic: whether there is a record at all, and whether it fits."""
    cdef uint32_t magic
    if available < TERMINATOR_BYTES:
        out.problem = AT_END
        return Status.NOT_READY
    out.total_bytes = load_u32(at)
    magic = load_u32(at + AT_MAGIC)
    if out.total_bytes == 0 and magic == 0:
        out.problem = AT_END
        return Status.NOT_READY
    if magic == MAGIC_BLANK:
        out.problem = AT_BLANK
        return Status.NOT_FOUND
    if magic == MAGIC_V1:
        out.version = 1
    elif magic == MAGIC_V2:
        out.version = 2
    else:
        return bad(out, BAD_MAGIC)
    if out.total_bytes < RECORD_BYTES_MIN or out.total_bytes > available:
        return bad(out, BAD_SIZE)
    return Status.OK


cdef void parse_fixed(const uint8_t* at, RecordView* out) noexcept nogil:
    """Reads the fields up to the born host, which are always inside the 91 bytes that every record
    has."""
    out.body_crc = load_u32(at + AT_BODY_CRC)
    out.queue_id = load_i32(at + AT_QUEUE_ID)
    out.flag = load_i32(at + AT_FLAG)
    out.queue_offset = load_i64(at + AT_QUEUE_OFFSET)
    out.physical_offset = load_i64(at + AT_PHYSICAL_OFFSET)
    out.sys_flag = load_i32(at + AT_SYS_FLAG)
    out.born_timestamp_ms = load_i64(at + AT_BORN_TIMESTAMP)
    out.born_host = at + AT_BORN_HOST
    out.born_host_bytes = 20 if out.sys_flag & BORNHOST_V6_FLAG else 8
    out.store_host_bytes = 20 if out.sys_flag & STOREHOSTADDRESS_V6_FLAG else 8


cdef int parse_rest(const uint8_t* at, RecordView* out) noexcept nogil:
    """Reads everything from the born host on. `left` is the part of the total size not read yet."""
    cdef uint64_t left = out.total_bytes
    cdef uint64_t head = AT_BORN_HOST + out.born_host_bytes + 8 + out.store_host_bytes + 16
    cdef const uint8_t* to
    if left < head:
        return bad(out, BAD_LENGTHS)
    to = out.born_host + out.born_host_bytes
    out.store_timestamp_ms = load_i64(to)
    out.store_host = to + 8
    to += 8 + out.store_host_bytes
    out.reconsume_times = load_i32(to)
    out.prepared_offset = load_i64(to + 4)
    out.body_bytes = load_u32(to + 12)
    out.body = to + 16
    left -= head
    if left < out.body_bytes:
        return bad(out, BAD_LENGTHS)
    left -= out.body_bytes
    to = out.body + out.body_bytes
    if left < <uint64_t>out.version:
        return bad(out, BAD_LENGTHS)
    out.topic_bytes = to[0] if out.version == 1 else load_u16(to)
    out.topic = to + out.version
    left -= <uint64_t>out.version
    if left < <uint64_t>out.topic_bytes + 2:
        return bad(out, BAD_LENGTHS)
    left -= <uint64_t>out.topic_bytes + 2
    to = out.topic + out.topic_bytes
    out.properties_bytes = load_u16(to)
    out.properties = to + 2
    if left != out.properties_bytes or out.properties_bytes > PROPERTIES_BYTES_MAX:
        return bad(out, BAD_LENGTHS)
    return Status.OK


cdef int record_parse(const uint8_t* at, uint64_t available, int64_t expected_physical_offset,
                      bint check_crc, RecordView* out) noexcept nogil:
    cdef int status
    memset(out, 0, sizeof(RecordView))
    status = parse_head(at, available, out)
    if status != Status.OK:
        return status
    parse_fixed(at, out)
    # Before the lengths: a stale record is reported as stale, whatever else is wrong with it.
    if expected_physical_offset >= 0 and out.physical_offset != expected_physical_offset:
        return bad(out, BAD_POSITION)
    status = parse_rest(at, out)
    if status != Status.OK:
        return status
    if not check_crc:
        return Status.OK
    if out.total_bytes < available:     # the next record is about as long
        prefetch(at + out.total_bytes, out.total_bytes)
    if out.properties_bytes >= RECORD_CRC_BYTES:
        status = record_crc_check(at, out.total_bytes)
        if status != Status.NOT_FOUND:
            return Status.OK if status == Status.OK else bad(out, BAD_RECORD_CRC)
    if out.body_bytes > 0 and body_crc(out.body, out.body_bytes) != out.body_crc:
        return bad(out, BAD_BODY_CRC)
    return Status.OK
