"""Walk over the records of a pull reply (layout: total 4, magic 4, bodyCRC 4, queueId 4, flag 4,
queueOffset 8, physicalOffset 8, sysFlag 4, bornTimestamp 8, bornHost 8 or 20, storeTimestamp 8,
storeHost 8 or 20, reconsumeTimes 4, preparedTransactionOffset 8, body 4 + n, topic 1 or 2 + n,
properties 2 + n).

A consumer that only counted bytes would not notice a broker that answers fast and wrong. This walk
notices, and costs some ten loads a record.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from cext.base.byteorder cimport load_i64, load_u16, load_u32
from cext.base.checksum cimport body_crc
from cext.base.status cimport Status
from cext.wire.codes cimport BORNHOST_V6_FLAG, MAGIC_V1, MAGIC_V2, STOREHOSTADDRESS_V6_FLAG
from cext.wire.limits cimport RECORD_BYTES_MIN

cdef extern from *:
    """
    #include <stddef.h>
    extern void *memmem(const void *, size_t, const void *, size_t);
    """
    void* memmem(const void* where, size_t length, const void* what, size_t size) nogil

cdef enum:
    UNIQUE_NAME_BYTES = 9            # UNIQ_KEY\x01
    UNIQUE_KEY_BYTES = 32
    UNIQUE_FIXED_BYTES = 20          # of the key; the number follows them


cdef int walk_one(const uint8_t* at, uint32_t total, bint check_crc, Walk* out) noexcept nogil:
    cdef uint32_t magic = load_u32(at + 4), flags = load_u32(at + 36)
    cdef uint64_t body_at = 88, rest, body_bytes, topic_bytes, topic_length_bytes
    if magic != <uint32_t>MAGIC_V1 and magic != <uint32_t>MAGIC_V2:
        return Status.CORRUPT
    topic_length_bytes = 1 if magic == <uint32_t>MAGIC_V1 else 2
    if flags & BORNHOST_V6_FLAG:
        body_at += 12
    if flags & STOREHOSTADDRESS_V6_FLAG:
        body_at += 12
    if total < body_at + topic_length_bytes + 2:
        return Status.CORRUPT
    body_bytes = load_u32(at + body_at - 4)
    if body_bytes > total - body_at - topic_length_bytes - 2:
        return Status.CORRUPT
    rest = body_at + body_bytes
    topic_bytes = at[rest] if topic_length_bytes == 1 else load_u16(at + rest)
    rest += topic_length_bytes + topic_bytes
    if rest + 2 > total or rest + 2 + load_u16(at + rest) != total:
        return Status.CORRUPT
    if check_crc and body_crc(at + body_at, body_bytes) != load_u32(at + 8):
        return Status.CORRUPT
    out.body_bytes += body_bytes
    out.properties = at + rest + 2
    out.properties_bytes = <uint32_t>(total - rest - 2)
    return Status.OK


cdef int walk_all(const uint8_t* bytes, uint32_t length, int64_t expected_offset, bint in_order,
                  bint check_crc, Walk* out) noexcept nogil:
    cdef uint32_t at = 0, total
    cdef int64_t offset
    out.count = 0
    out.body_bytes = 0
    out.last_offset = expected_offset - 1
    out.properties = bytes
    out.properties_bytes = 0
    while at < length:
        if length - at < RECORD_BYTES_MIN:
            return Status.CORRUPT
        total = load_u32(bytes + at)
        if total < RECORD_BYTES_MIN or total > length - at:
            return Status.CORRUPT
        offset = load_i64(bytes + at + 20)
        if in_order and offset <= out.last_offset:
            return Status.CORRUPT
        if walk_one(bytes + at, total, check_crc, out) != Status.OK:
            return Status.CORRUPT
        out.last_offset = offset
        out.count += 1
        at += total
    return Status.OK


cdef int walk_records(const uint8_t* bytes, uint32_t length, int64_t expected_offset,
                      bint check_crc, Walk* out) noexcept nogil:
    return walk_all(bytes, length, expected_offset, True, check_crc, out)


cdef int walk_popped(const uint8_t* bytes, uint32_t length, Walk* out) noexcept nogil:
    return walk_all(bytes, length, 0, False, False, out)


cdef int64_t unique_number(const Walk* walk) noexcept nogil:
    cdef const uint8_t* key = <const uint8_t*>memmem(walk.properties, walk.properties_bytes,
                                                     b"UNIQ_KEY\x01", UNIQUE_NAME_BYTES)
    cdef const uint8_t* end = walk.properties + walk.properties_bytes
    cdef uint64_t number = 0
    cdef uint32_t i
    cdef uint8_t digit
    if key == NULL or end - key < UNIQUE_NAME_BYTES + UNIQUE_KEY_BYTES:
        return -1
    for i in range(UNIQUE_NAME_BYTES + UNIQUE_FIXED_BYTES, UNIQUE_NAME_BYTES + UNIQUE_KEY_BYTES):
        digit = key[i]
        if 48 <= digit <= 57:
            digit -= 48
        elif 65 <= digit <= 70:
            digit -= 55
        else:
            return -1
        number = number << 4 | digit
    return <int64_t>number
