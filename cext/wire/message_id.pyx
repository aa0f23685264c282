"""Message ids: the two kinds of id that a sent message has, both upper-case hex.

Layouts and an example are in message_id.pxd. The time in a unique key counts from local midnight of
the month's first day, because tools turn it back into a date that way. That midnight is computed
again only when the month is over (or the clock was set back to before its start).
"""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset
from libc.time cimport localtime_r, mktime, time_t, tm

from cext.base.byteorder cimport store_i64, store_u16, store_u32

cdef uint16_t hex_pairs[256]     # the two digits of each byte, in memory order
for _byte in range(256):
    hex_pairs[_byte] = <uint16_t>int.from_bytes(b"%02X" % _byte, "little")


cdef inline void write_hex(uint8_t* out, const uint8_t* bytes, uint32_t length) noexcept nogil:
    cdef uint32_t i
    for i in range(length):
        memcpy(out + 2 * i, &hex_pairs[bytes[i]], 2)


cdef uint32_t write_offset_message_id(uint8_t* out, const uint8_t* host, uint32_t host_bytes,
                                      int64_t physical_offset) noexcept nogil:
    cdef uint8_t offset[8]
    store_i64(offset, physical_offset)
    write_hex(out, host, host_bytes)
    write_hex(out + 2 * host_bytes, offset, 8)
    return 2 * host_bytes + 16


cdef void find_month(UniqueKeyMaker* maker, int64_t now_ms) noexcept nogil:
    cdef time_t seconds = <time_t>(now_ms // 1000)
    cdef tm parts
    memset(&parts, 0, sizeof(parts))
    localtime_r(&seconds, &parts)
    parts.tm_mday = 1
    parts.tm_hour = 0
    parts.tm_min = 0
    parts.tm_sec = 0
    parts.tm_isdst = -1
    maker.month_start_ms = <int64_t>mktime(&parts) * 1000
    parts.tm_mon += 1
    parts.tm_mday = 1
    parts.tm_hour = 0
    parts.tm_isdst = -1
    maker.month_end_ms = <int64_t>mktime(&parts) * 1000


cdef void unique_key_maker_open(UniqueKeyMaker* maker, const uint8_t* ip, uint32_t ip_bytes,
                                uint16_t pid, uint32_t discriminator) noexcept nogil:
    memset(maker, 0, sizeof(UniqueKeyMaker))
    memcpy(maker.fixed, ip, ip_bytes)
    store_u16(maker.fixed + ip_bytes, pid)
    store_u32(maker.fixed + ip_bytes + 2, discriminator)
    maker.fixed_bytes = ip_bytes + 6


cdef uint32_t write_unique_key(UniqueKeyMaker* maker, int64_t now_ms, uint8_t* out) noexcept nogil:
    cdef uint8_t moving[6]
    if not maker.month_start_ms <= now_ms < maker.month_end_ms:
        find_month(maker, now_ms)
    store_u32(moving, <uint32_t>(now_ms - maker.month_start_ms))     # 31 days fit in 32 bits
    store_u16(moving + 4, maker.counter)
    maker.counter += 1
    write_hex(out, maker.fixed, maker.fixed_bytes)
    write_hex(out + 2 * maker.fixed_bytes, moving, 6)
    return 2 * maker.fixed_bytes + 12
