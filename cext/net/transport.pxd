"""Transport: how a connection's bytes pass its socket, unchanged or changed on the way (TLS).

The connections of a listener without a Transport are plain: recv and send, inlined here. A listener
with a Transport (connection.pxd) gives each client a state of its own:

    accept -> open -> handshake until it is done -> receive and send -> close
                      (its expensive steps elsewhere: handshake_thread.pxd)

With a transport, epoll must at times wait for the opposite of what the connection wants: a send
that must first read something waits until the socket is readable, and a receive that must first
write something waits until it is writable (TransportWant). A handshake waits for either. During a
handshake epoll reports a socket once (EPOLLONESHOT), and watch() arms it again after each step.
Received bytes may also lie inside the transport while the socket is empty: such connections are in
a list, and the next poll does not sleep.

Example: TLS receives a record of 16 KiB, and the first receive has room for 10 KiB: the other 6 KiB
are pending and are received in the next turn.
"""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memset

from cext.net.connection cimport (
    HANDSHAKE_WRITES,
    RECEIVE_WRITES,
    SEND_READS,
    TRANSPORT_FAILED,
    UNREAD_UNSENT,
    WANT_READ,
    WANT_WRITE,
    WANTS_HANDSHAKE,
    Connection,
)
from cext.net.socket_api cimport (
    EAGAIN,
    EINTR,
    EPOLLIN,
    EPOLLONESHOT,
    EPOLLOUT,
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    errno,
    iovec,
    msghdr,
    recv,
    send,
    sendmsg,
)


# The name that the other side has proved; NULL, and a length of 0: none.
cdef inline const uint8_t* transport_proved(Connection* c, uint32_t* length) noexcept nogil:
    length[0] = 0
    if c.transport == NULL:
        return NULL
    return c.transport.proved(c, length)


# Bytes received; 0: the other side has closed; or a TransportResult.
cdef inline ssize_t transport_receive(Connection* c, void* at, size_t room) noexcept nogil:
    cdef ssize_t got
    if c.transport != NULL:
        return c.transport.receive(c, at, room)
    got = recv(c.fd, at, room, MSG_DONTWAIT)
    if got < 0:
        return WANT_READ if errno == EAGAIN or errno == EINTR else TRANSPORT_FAILED
    return got


# Bytes sent, or a TransportResult.
cdef inline ssize_t transport_send(Connection* c, iovec* pieces, int count) noexcept nogil:
    cdef msghdr message
    cdef ssize_t sent
    if c.transport != NULL:
        if c.transport_wants & WANTS_HANDSHAKE:
            return WANT_WRITE
        return c.transport.send(c, pieces, count)
    while True:
        if count == 1:
            sent = send(c.fd, pieces[0].iov_base, pieces[0].iov_len, MSG_NOSIGNAL | MSG_DONTWAIT)
        else:
            memset(&message, 0, sizeof(message))
            message.msg_iov = pieces
            message.msg_iovlen = count
            sent = sendmsg(c.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT)
        if sent >= 0:
            return sent
        if errno != EINTR:
            return WANT_WRITE if errno == EAGAIN else TRANSPORT_FAILED


# The events that epoll must wait for.
cdef inline uint32_t transport_events(const Connection* c) noexcept nogil:
    cdef uint32_t events = EPOLLOUT if c.unread & UNREAD_UNSENT else (0 if c.unread else EPOLLIN)
    if c.transport_wants == 0:
        return events
    if c.transport_wants & WANTS_HANDSHAKE:
        return EPOLLONESHOT | (EPOLLOUT if c.transport_wants & HANDSHAKE_WRITES else EPOLLIN)
    if c.unread & UNREAD_UNSENT and c.transport_wants & SEND_READS:
        events = EPOLLIN
    if c.unread == 0 and c.transport_wants & RECEIVE_WRITES:
        events = EPOLLIN | EPOLLOUT
    return events
