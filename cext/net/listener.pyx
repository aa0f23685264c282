"""Listener. See listener.pxd."""
from cext.base.status cimport IO_ERROR, OK
from cext.net.connection cimport Connection
from cext.net.socket_api cimport (
    EMFILE,
    ENFILE,
    ENOBUFS,
    ENOMEM,
    EPOLL_CTL_ADD,
    EPOLL_CTL_DEL,
    EPOLLIN,
    SOCK_CLOEXEC,
    SOCK_NONBLOCK,
    accept4,
    close,
    epoll_ctl,
    epoll_event,
    errno,
    sockaddr,
    sockaddr_storage,
    socklen_t,
)

cdef enum:
    ACCEPTS_PER_TURN = 64


cdef int listener_watch(Listener* listener, ConnectionTable table) noexcept nogil:
    cdef epoll_event event
    event.events = EPOLLIN
    event.data.ptr = listener
    return OK if epoll_ctl(table.epoll_fd, EPOLL_CTL_ADD, listener.fd, &event) == 0 else IO_ERROR


cdef void pause(Listener* listener, ConnectionTable table) noexcept nogil:
    table.counters.accept_failures += 1
    epoll_ctl(table.epoll_fd, EPOLL_CTL_DEL, listener.fd, NULL)
    listener.paused = True


cdef void listener_resume(Listener* listener, ConnectionTable table) noexcept nogil:
    if listener.paused:
        listener.paused = listener_watch(listener, table) != OK


cdef void listener_stop(Listener* listener, ConnectionTable table) noexcept nogil:
    if listener.fd >= 0 and not listener.paused:
        epoll_ctl(table.epoll_fd, EPOLL_CTL_DEL, listener.fd, NULL)
    listener.fd = -1
    listener.paused = False


cdef void listener_accept(Listener* listener, ConnectionTable table) noexcept nogil:
    cdef sockaddr_storage address
    cdef socklen_t length
    cdef Connection* c
    cdef int fd, _i
    cdef bint full = False
    if listener.fd < 0:
        return                          # stopped earlier in this turn
    for _i in range(ACCEPTS_PER_TURN):
        if table.is_full() and not full:
            full = True
            if _i > 0 or table.displace(NULL, False):
                return                  # its slot is free in the next turn
        length = sizeof(address)
        fd = accept4(listener.fd, <sockaddr*> &address, &length, SOCK_NONBLOCK | SOCK_CLOEXEC)
        if fd < 0:
            if (errno == EMFILE or errno == ENFILE or errno == ENOMEM or errno == ENOBUFS) \
                    and not table.displace(NULL, False):
                pause(listener, table)
            return
        if table.is_full():
            table.counters.refused_full += 1
            close(fd)
            continue
        c = table.add_connection(fd, &address, &listener.protocol, listener.transport)
        if c != NULL:
            table.count_address(c)
