"""Address network: a block of addresses, and whether an address is in it.

    u8 bits that count, then the 16 bytes of the address, most significant first; of IPv4 as
    ::ffff:a.b.c.d, whose blocks have 96 bits more

Example: 10.0.0.0/8 is 104 and 00.. ff ff 0a 00 00 00.
"""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from cext.net.connection cimport Connection

cdef extern from *:
    """
    static const unsigned char address_mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    """
    const uint8_t* MAPPED "address_mapped"      # what an IPv4 address follows, as an IPv6 one

cdef enum:
    ADDRESS_BYTES = 16
    MAPPED_BYTES = 12

cdef struct Network:                # as it is packed
    uint8_t bits                    # 128 at most
    uint8_t address[ADDRESS_BYTES]


# The client's; of IPv4 as ::ffff:a.b.c.d.
cdef inline void source_of(const Connection* c, uint8_t* out) noexcept nogil:
    if c.address_bytes == ADDRESS_BYTES + 4:
        memcpy(out, c.address, ADDRESS_BYTES)
        return
    memset(out, 0, 10)
    out[10] = out[11] = 0xFF
    memcpy(out + 12, c.address, 4)


cdef inline bint in_network(const Network* network, const uint8_t* address) noexcept nogil:
    cdef uint32_t whole = network.bits // 8
    cdef uint32_t rest = network.bits % 8
    if network.bits < 8 * MAPPED_BYTES and memcmp(address, MAPPED, MAPPED_BYTES) == 0:
        return False                    # IPv4 is no part of ::/0
    if memcmp(network.address, address, whole) != 0:
        return False
    return rest == 0 or (network.address[whole] ^ address[whole]) >> (8 - rest) == 0


cdef inline bint in_networks(const Network* networks, uint32_t count,
                             const uint8_t* address) noexcept nogil:
    cdef uint32_t i
    for i in range(count):
        if in_network(&networks[i], address):
            return True
    return False
