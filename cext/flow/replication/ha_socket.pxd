"""HA socket: a socket that the control thread has connected becomes a connection of the reactor.

It is a connection over TLS or a plain one. Example: on a socket with `ssl` the handshake is over,
and bytes are deciphered from the first one on that the control thread has not read.
"""
from cext.flow.replication.ha_service cimport HAService
from cext.net.connection cimport Connection, Protocol
from cext.net.openssl cimport SSL
from cext.net.socket_api cimport sockaddr_storage

# `fd` and `ssl` belong to the connection from now on. NULL: no memory, and both are closed.
cdef Connection* add_replica(HAService s, int fd, SSL* ssl, const sockaddr_storage* peer,
                             const Protocol* protocol) noexcept nogil
# Closes a socket for which there is no place.
cdef void close_replica(int fd, SSL* ssl) noexcept nogil
