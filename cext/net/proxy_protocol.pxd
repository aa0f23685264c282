"""PROXY protocol: who the client is that comes by a balancer.

A balancer that speaks it (HAProxy, nginx, Envoy, those of clouds) says in front of a client's first
bytes where it comes from:

    version 1    PROXY TCP4 192.0.2.7 10.0.0.5 40000 10911\r\n
    version 2    \r\n\r\n\0\r\nQUIT\n | u8 0x21 | u8 family | u16 length | addresses, ports, more

Those that are listed are believed, and nobody else. From them a connection with LOCAL or UNKNOWN is
the balancer's own, which looks whether anybody is there. What comes behind these words is TLS or
plain, as of all clients. Words that are cut, wrong or missing close the connection, as at nginx's
and HAProxy's own listeners: else whoever comes by a balancer that has forgotten them would be the
balancer. Where they may be missing (may_say_nothing) a connection without is the balancer's own.

Example: 10.0.0.5 is listed and says the line above: the client is 192.0.2.7:40000, for accounts,
limits, records and the log.
"""
from libc.stdint cimport uint8_t, uint32_t

from cext.net.address_network cimport Network
from cext.net.connection cimport Transport

cdef struct ProxyServer:
    Transport transport             # its owner is the server itself
    const Transport* behind         # of connections from then on; NULL: plain. Borrowed
    Network* balancers              # owned
    uint32_t balancer_count
    bint may_say_nothing

# OK | POOL_EMPTY. packed: Networks, one behind the other. Close whatever came of it.
cdef int proxy_server_open(ProxyServer* server, const Transport* behind, const uint8_t* packed,
                           uint32_t length) noexcept nogil
cdef void proxy_server_close(ProxyServer* server) noexcept nogil
