"""Address network: a block of addresses, and whether an address is in it.

    u8 bits that count, then the 16 bytes of the address, most significant first. IPv4 addresses
    are written as ::ffff:a.b.c.d, so their blocks have 96 bits more

Many networks are sorted, those of IPv4 first, and none lies within another. Then only the last
network that begins at an address or before it can contain the address (rmq/base/networks.py:
NetworkSet).

Example: 10.0.0.0/8 is 104 and 00.. ff ff 0a 00 00 00.
"""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from cext.net.connection cimport Connection

cdef extern from *:
    """
    static const unsigned char address_mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    """
    const uint8_t* MAPPED "address_mapped"      # ::ffff:, in front of an IPv4 address

cdef enum:
    ADDRESS_BYTES = 16
    MAPPED_BYTES = 12

cdef struct Network:                # the packed form
    uint8_t bits                    # 128 at most
    uint8_t address[ADDRESS_BYTES]


# Copies the client's address, an IPv4 address as ::ffff:a.b.c.d.
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
        return False                    # IPv4 is not part of ::/0
    if memcmp(network.address, address, whole) != 0:
        return False
    return rest == 0 or (network.address[whole] ^ address[whole]) >> (8 - rest) == 0


cdef inline bint is_v4(const Network* network) noexcept nogil:
    return (network.bits >= 8 * MAPPED_BYTES
            and memcmp(network.address, MAPPED, MAPPED_BYTES) == 0)


cdef inline uint32_t networks_of_v4(const Network* networks, uint32_t count) noexcept nogil:
    """How many of these sorted networks are of IPv4."""
    cdef uint32_t found = 0
    while found < count and is_v4(&networks[found]):
        found += 1
    return found


cdef inline bint networks_sorted(const Network* networks, uint32_t count) noexcept nogil:
    cdef uint32_t i
    cdef bint before, now
    for i in range(1, count):
        before, now = is_v4(&networks[i - 1]), is_v4(&networks[i])
        if before < now or (before == now and memcmp(networks[i - 1].address, networks[i].address,
                                                     ADDRESS_BYTES) >= 0):
            return False
    return True


cdef inline bint in_sorted_networks(const Network* networks, uint32_t v4_count, uint32_t count,
                                    const uint8_t* address) noexcept nogil:
    cdef bint from_v4 = memcmp(address, MAPPED, MAPPED_BYTES) == 0
    cdef uint32_t first = 0 if from_v4 else v4_count
    cdef uint32_t end = v4_count if from_v4 else count
    cdef uint32_t middle, low = first
    while low < end:
        middle = low + (end - low) // 2
        if memcmp(networks[middle].address, address, ADDRESS_BYTES) <= 0:
            low = middle + 1
        else:
            end = middle
    return low > first and in_network(&networks[low - 1], address)


cdef inline bint in_networks(const Network* networks, uint32_t count,
                             const uint8_t* address) noexcept nogil:
    cdef uint32_t i
    for i in range(count):
        if in_network(&networks[i], address):
            return True
    return False
