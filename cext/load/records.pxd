# Records: those of a pull's reply: stored messages back to back, with nothing between them.
#
# Example: 32 records of 464 bytes = 14,848 bytes of body; the walk ends exactly at the last byte
# and the queue offsets rise from one record to the next.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    UNIQUE_BITS = 48             # of a generator's number in a UNIQ_KEY


cdef struct Walk:
    uint32_t count               # whole records seen
    uint64_t body_bytes          # sum of their message bodies
    int64_t last_offset          # queue offset of the last record
    const uint8_t* properties    # of the last record, inside the range
    uint32_t properties_bytes


# OK: the records fill the range exactly; each has a known magic, fields within its size, and a
# queue offset above that of the one before (the first: >= expected); with check_crc the body's
# checksum is right, too. CORRUPT otherwise.
cdef int walk_records(const uint8_t* bytes, uint32_t length, int64_t expected_offset,
                      bint check_crc, Walk* out) noexcept nogil
# The number that this load generator wrote as the last twelve hex digits of the UNIQ_KEY
# (producer.pxd) of a walk's last record; -1: it has no such key.
cdef int64_t unique_number(const Walk* walk) noexcept nogil
# How many ns ago the moment was whose low bits are this number, if that is at most 39 hours ago;
# negative: it is yet to come.
cdef inline int64_t since_number(int64_t number, int64_t now_ns) noexcept nogil:
    cdef uint64_t passed = <uint64_t>now_ns - <uint64_t>number
    return <int64_t>(passed << (64 - UNIQUE_BITS)) >> (64 - UNIQUE_BITS)
# The same walk for records of several queues (of a pop), whose offsets are in any order.
cdef int walk_popped(const uint8_t* bytes, uint32_t length, Walk* out) noexcept nogil
