"""PROXY protocol: a transport that reads the client's address from the balancer in front of it.

A balancer that speaks the protocol (HAProxy, nginx, Envoy, those of clouds) sends the address of a
client before the client's first bytes:

    version 1    PROXY TCP4 192.0.2.7 10.0.0.5 40000 10911\r\n
    version 2    \r\n\r\n\0\r\nQUIT\n | u8 0x21 | u8 family | u16 length | addresses, ports, more

Only listed balancers are believed. Of these, a connection with LOCAL or UNKNOWN is the balancer's
own, for example a health check. The bytes after this header are TLS or plain, as from any client. A
header that is incomplete, wrong or missing closes the connection, as nginx's and HAProxy's own
listeners do: otherwise every client of a balancer that does not send the header would be taken for
the balancer. If it may be missing (may_say_nothing), a connection without one is the balancer's
own.

Example: 10.0.0.5 is listed and sends the line above: the client is 192.0.2.7:40000 for accounts,
limits, records and the log.
"""
from libc.stdint cimport uint8_t, uint32_t

from cext.net.address_network cimport Network
from cext.net.connection cimport Transport

cdef struct ProxyServer:
    Transport transport             # its owner is the server itself
    const Transport* behind         # of connections after the header; borrowed; NULL: plain
    Network* balancers              # owned; only they are believed
    uint32_t balancer_count
    bint may_say_nothing            # a balancer's connection may come without a header

# OK | POOL_EMPTY. packed: the balancers' Networks, one after the other. Close it in any case.
cdef int proxy_server_open(ProxyServer* server, const Transport* behind, const uint8_t* packed,
                           uint32_t length) noexcept nogil
cdef void proxy_server_close(ProxyServer* server) noexcept nogil
