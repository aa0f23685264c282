"""HA socket. See ha_socket.pxd."""
from cext.net.socket_api cimport close
from cext.net.tls cimport tls_offer
from cext.net.tls_stream cimport drop_ssl


cdef Connection* add_replica(HAService s, int fd, SSL* ssl, const sockaddr_storage* peer,
                             const Protocol* protocol) noexcept nogil:
    cdef Connection* c
    if ssl == NULL:
        return s.turn.net.add_connection(fd, peer, protocol, NULL)
    c = s.turn.net.add_connection(fd, peer, protocol, tls_offer(&s.offered, ssl))
    if c != NULL:
        s.turn.net.look_for_pending(c)      # more may have come with what was read already
    return c


cdef void close_replica(int fd, SSL* ssl) noexcept nogil:
    drop_ssl(ssl)
    close(fd)
