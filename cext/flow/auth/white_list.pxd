"""White list: addresses from where ACL 1.0 lets all in. rmq/auth/white_list.py says what it means.

It is kept as it comes packed, one pattern behind the other, integers big-endian:

    u8 parts of an address: 4 of IPv4, 8 of IPv6, 0 for every address, without what follows
    of each part: u16 ranges, and of each range u16 its lowest and u16 its highest number

Example: 10.10.103.* is 4, four parts of one range each: 10..10, 10..10, 103..103, 0..255.
"""
from libc.stdint cimport uint8_t, uint32_t

cdef struct WhiteList:              # zeros: nobody
    uint8_t* packed                 # owned
    uint32_t length

# Takes another one. OK | POOL_EMPTY | MALFORMED: it is not as above. Then nothing has changed.
cdef int white_list_set(WhiteList* list, const uint8_t* packed, uint32_t length) noexcept nogil
cdef void white_list_close(WhiteList* list) noexcept nogil
# address: 16 bytes; of IPv4 as ::ffff:a.b.c.d
cdef bint white_list_covers(const WhiteList* list, const uint8_t* address) noexcept nogil
