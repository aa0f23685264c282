"""Message id: the two kinds of id that a sent message has, both upper-case hex.

    offset message id  store host (4 or 16 bytes) + port i32 + log offset i64
    unique key         ip (4 or 16) + pid u16 + discriminator u32 + ms of month u32 + counter u16

Both have 32 digits, 56 with an IPv6 address.

The client makes the unique key (property UNIQ_KEY); when it is missing, the broker makes it.

Example: 127.0.0.1:10911, offset 256 -> 7F00000100002A9F0000000000000100.
"""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t

cdef enum:
    MESSAGE_ID_BYTES_MAX = 56


cdef struct UniqueKeyMaker:
    uint8_t fixed[22]            # ip, pid, discriminator
    uint32_t fixed_bytes         # 10 or 22
    uint16_t counter             # of the next key; wraps
    int64_t month_start_ms       # local midnight of the month's first day
    int64_t month_end_ms         # the same for the next month


# Writes the id and returns its length. `host` is as a record stores it: 8 bytes (ip 4 + port 4), or
# 20 with an IPv6 address.
cdef uint32_t write_offset_message_id(uint8_t* out, const uint8_t* host, uint32_t host_bytes,
                                      int64_t physical_offset) noexcept nogil

# ip_bytes is 4 or 16. The discriminator tells makers apart whose process id is the same (after a
# restart, or in two shards).
cdef void unique_key_maker_open(UniqueKeyMaker* maker, const uint8_t* ip, uint32_t ip_bytes,
                                uint16_t pid, uint32_t discriminator) noexcept nogil

# Writes a fresh key and returns its length, 32 or 56. One thread per maker.
cdef uint32_t write_unique_key(UniqueKeyMaker* maker, int64_t now_ms, uint8_t* out) noexcept nogil
