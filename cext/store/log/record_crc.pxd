# Record CRC: the checksum of a whole record, as RocketMQ may append it (enabledAppendPropCRC, 5.3).
#
# bodyCRC covers the body alone. With the setting on, the properties end with one more pair, whose
# value is the CRC-32 (without its sign bit) of all the record's bytes before the pair, written as
# ten decimal digits, the least significant first:
#
#     ... 0x02  _ _ C R C 3 2 #  0x01  d0 d1 .. d9  0x02         20 bytes, always the last ones
#
# A record without the pair (setting off, older brokers) is checked by its bodyCRC. A pair whose
# name or separators have one or two flipped bits is still taken for a pair, so that no single
# flipped bit makes a record look as if it had never had a checksum.
#
# Example: a CRC of 1234 is stored as "4321000000".

from libc.stdint cimport uint8_t, uint32_t

cdef enum:
    RECORD_CRC_BYTES = 20

# Any thread. The length of properties that will be stored in a new record, without a pair at their
# end: that pair belongs to another record (of a message that is delayed, retried or copied), and
# would be taken for the new record's.
cdef uint32_t record_crc_strip(const uint8_t* properties, uint32_t length) noexcept nogil
# Any thread. Writes the pair after the `bytes` bytes of the record at `at`, which are all but its
# last 20.
cdef void record_crc_write(uint8_t* at, uint32_t bytes) noexcept nogil
# Any thread. Checks a record of `total` bytes whose properties have at least 20. OK | CORRUPT |
# NOT_FOUND (the record has no checksum of its own).
cdef int record_crc_check(const uint8_t* at, uint32_t total) noexcept nogil
