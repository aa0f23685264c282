"""White list: addresses from which ACL 1.0 lets everybody in; see rmq/auth/white_list.py.

It is kept as it comes, packed, one pattern behind the other, integers big-endian:

    u8 parts of an address: 4 of IPv4, 8 of IPv6; 0 for every address, and nothing follows
    for each part: u16 number of ranges; for each range: u16 lowest number, u16 highest number

Example: 10.10.103.* is 4, four parts of one range each: 10..10, 10..10, 103..103, 0..255.
"""
from libc.stdint cimport uint8_t, uint32_t

cdef struct WhiteList:              # all zero: covers no address
    uint8_t* packed                 # owned
    uint32_t length

# Replaces the list. OK | POOL_EMPTY | MALFORMED: not as above. Unless OK, nothing has changed.
cdef int white_list_set(WhiteList* list, const uint8_t* packed, uint32_t length) noexcept nogil
cdef void white_list_close(WhiteList* list) noexcept nogil
# Whether an address is in the list. `address`: 16 bytes; IPv4 as ::ffff:a.b.c.d
cdef bint white_list_covers(const WhiteList* list, const uint8_t* address) noexcept nogil
