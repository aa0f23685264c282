"""HA socket: what the control thread has connected becomes a connection of the reactor, by TLS or
plain.

Example: of a socket with `ssl` the handshake is over, and what comes by it is deciphered from the
first byte on that the control thread has not read.
"""
from cext.flow.replication.ha_service cimport HAService
from cext.net.connection cimport Connection, Protocol
from cext.net.openssl cimport SSL
from cext.net.socket_api cimport sockaddr_storage

# Both are the connection's from now on. NULL: no memory, they are closed.
cdef Connection* add_replica(HAService s, int fd, SSL* ssl, const sockaddr_storage* peer,
                             const Protocol* protocol) noexcept nogil
# Of one for which there is no place.
cdef void close_replica(int fd, SSL* ssl) noexcept nogil
