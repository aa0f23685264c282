"""Peer address: the other end of a connection, in the form of a record's bornHost.

    4 or 16 bytes of the address, 4 of the port, most significant first

Example: 127.0.0.1 port 258 is 7f 00 00 01 00 00 01 02.
"""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy

from cext.net.connection cimport Connection
from cext.net.socket_api cimport AF_INET6, ntohs, sockaddr_in, sockaddr_in6, sockaddr_storage


# `peer` is what accept4 has filled in.
cdef inline void set_address(Connection* c, const sockaddr_storage* peer) noexcept nogil:
    cdef const sockaddr_in* v4 = <const sockaddr_in*> peer
    cdef const sockaddr_in6* v6 = <const sockaddr_in6*> peer
    cdef uint32_t port
    if peer.ss_family == AF_INET6:
        memcpy(c.address, v6.sin6_addr.s6_addr, 16)
        c.address_bytes = 20
        port = ntohs(v6.sin6_port)
    else:
        memcpy(c.address, &v4.sin_addr.s_addr, 4)
        c.address_bytes = 8
        port = ntohs(v4.sin_port)
    c.address[c.address_bytes - 4] = 0
    c.address[c.address_bytes - 3] = 0
    c.address[c.address_bytes - 2] = <uint8_t> (port >> 8)
    c.address[c.address_bytes - 1] = <uint8_t> port
