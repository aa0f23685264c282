"""One connection of the client (link.pxd; fields in state.pxd).

Sending: the engine swaps `fill` and `out` when all of `out` is sent, so a frame is copied only
once, and a turn costs one system call, however many frames have gathered. Receiving: frames are
used where they lie. A frame that is longer than the rest of the buffer gets memory of its own and
is received straight into it, so pulled messages are not copied again.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove, memset

from cext.base.state cimport state_move
from cext.base.status cimport Status
from cext.client.mutex cimport condition_broadcast, lock_release, lock_take
from cext.client.state cimport LINK_CONNECTING, LINK_IDLE, LINK_OPEN, EngineState, Link
from cext.net.socket_api cimport (
    EAGAIN, EINTR, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLIN, EPOLLOUT, IPPROTO_TCP,
    MSG_NOSIGNAL, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM, TCP_NODELAY, close, epoll_ctl,
    epoll_event, errno, recv, send, setsockopt, sockaddr, sockaddr_storage, socklen_t,
)
from cext.wire.frame cimport FRAME_PREFIX_BYTES, Frame, find_frame
from cext.wire.limits cimport ANSWER_BYTES_MAX

cdef extern from "<errno.h>" nogil:
    enum: EINPROGRESS, ENOTCONN

cdef extern from "<sys/socket.h>" nogil:
    int socket(int family, int kind, int protocol)
    int connect(int fd, const sockaddr* address, socklen_t bytes)
    int getsockopt(int fd, int level, int name, void* value, socklen_t* bytes)
    enum: SOL_SOCKET, SO_ERROR

cdef enum:
    FILL_BYTES = 64 << 10            # at first; doubles as needed
    FILL_KEEP_BYTES = 4 << 20        # a larger buffer is given back when empty
    INPUT_BYTES = 256 << 10
    LARGE_BYTES_MIN = 64 << 10       # incomplete frames this long get memory of their own

cdef const char* LINK_STATES = b"the client: a link is idle, connecting, open"


cdef int link_open(Link* link, int32_t index) noexcept nogil:
    memset(link, 0, sizeof(Link))
    link.index = index
    link.fd = link.given_fd = -1
    link.fill_capacity = link.out_capacity = FILL_BYTES
    link.input_capacity = INPUT_BYTES
    link.fill = <uint8_t*>malloc(link.fill_capacity)
    link.out = <uint8_t*>malloc(link.out_capacity)
    link.input = <uint8_t*>malloc(link.input_capacity)
    if link.fill == NULL or link.out == NULL or link.input == NULL:
        return Status.POOL_EMPTY
    return Status.OK


cdef void link_free(Link* link) noexcept nogil:
    if link.fd >= 0:
        close(link.fd)
    if link.given_fd >= 0:
        close(link.given_fd)
    free(link.fill)
    free(link.out)
    free(link.input)
    free(link.large)
    free(link)


cdef uint8_t* link_room(Link* link, uint64_t bytes) noexcept nogil:
    cdef uint64_t wanted = link.fill_capacity
    cdef uint8_t* larger
    if link.fill_used + bytes > wanted:
        wanted = max(wanted, <uint64_t>FILL_BYTES)
        while wanted < link.fill_used + bytes:
            wanted *= 2
        larger = <uint8_t*>realloc(link.fill, wanted)
        if larger == NULL:
            return NULL
        link.fill = larger
        link.fill_capacity = wanted
    return link.fill + link.fill_used


cdef void link_mark(EngineState* state, Link* link) noexcept nogil:
    if not link.dirty:
        link.dirty = True
        link.next_dirty = state.dirty_first
        state.dirty_first = link


cdef int watch(EngineState* state, Link* link, int operation, uint32_t events) noexcept nogil:
    cdef epoll_event event
    event.events = events
    event.data.ptr = link
    return epoll_ctl(state.epoll_fd, operation, link.fd, &event)


cdef int link_connect(EngineState* state, Link* link, int64_t now_us, int* error) noexcept nogil:
    cdef int one = 1
    cdef bint given
    cdef sockaddr_storage address
    cdef uint32_t address_bytes
    lock_take(&state.lock)
    link.fd = link.given_fd
    link.given_fd = -1
    address = link.address
    address_bytes = link.address_bytes
    lock_release(&state.lock)
    given = link.fd >= 0
    if not given and link.only_given:
        error[0] = ENOTCONN
        return Status.IO_ERROR
    if not given:
        link.fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
        if link.fd < 0:
            error[0] = errno
            return Status.IO_ERROR
        setsockopt(link.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(int))
        if connect(link.fd, <const sockaddr*>&address, address_bytes) != 0:
            error[0] = errno
            if error[0] != EINPROGRESS:
                close(link.fd)
                link.fd = -1
                return Status.IO_ERROR
    error[0] = 0
    state_move(&link.state, LINK_CONNECTING, 1 << LINK_IDLE, LINK_STATES)
    link.connect_until_us = now_us + state.connect_timeout_us
    link.last_heard_us = now_us
    link.wants_room = True
    if watch(state, link, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT) != 0:
        error[0] = errno
        return Status.IO_ERROR
    return Status.OK


cdef int link_connected(EngineState* state, Link* link, int* error) noexcept nogil:
    cdef int failure = 0
    cdef socklen_t bytes = sizeof(int)
    if getsockopt(link.fd, SOL_SOCKET, SO_ERROR, &failure, &bytes) == 0 and failure != 0:
        error[0] = failure
        return Status.IO_ERROR
    state_move(&link.state, LINK_OPEN, 1 << LINK_CONNECTING, LINK_STATES)
    return Status.OK


cdef inline void empty_fill(EngineState* state, Link* link) noexcept nogil:
    """Lock held. Its frames have been taken over to be sent, or are lost."""
    link.fill_used = 0
    if state.room_waiters:
        condition_broadcast(&state.room_made)


cdef bint take_over(EngineState* state, Link* link) noexcept nogil:
    """Swaps the buffers. False when there is nothing to send; then the link is not dirty."""
    cdef uint8_t* spare = link.out
    cdef uint64_t capacity = link.out_capacity
    lock_take(&state.lock)
    if link.fill_used == 0:
        link.dirty = False
        if link.fill_capacity > FILL_KEEP_BYTES:
            free(link.fill)
            link.fill_capacity = FILL_BYTES
            link.fill = <uint8_t*>malloc(FILL_BYTES)
            if link.fill == NULL:
                link.fill_capacity = 0
        lock_release(&state.lock)
        return False
    link.out = link.fill
    link.out_capacity = link.fill_capacity
    link.out_start = 0
    link.out_end = link.fill_used
    link.fill = spare
    link.fill_capacity = capacity
    empty_fill(state, link)
    lock_release(&state.lock)
    return True


cdef int link_flush(EngineState* state, Link* link, int* error) noexcept nogil:
    cdef ssize_t sent
    while True:
        if link.out_start == link.out_end:
            link.out_start = link.out_end = 0
            if not take_over(state, link):
                break
        sent = send(link.fd, link.out + link.out_start, link.out_end - link.out_start, MSG_NOSIGNAL)
        if sent < 0:
            error[0] = errno
            if error[0] == EINTR:
                continue
            if error[0] != EAGAIN:
                return Status.IO_ERROR
            if not link.wants_room:
                link.wants_room = True
                watch(state, link, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT)
            return Status.NOT_READY
        link.out_start += <uint64_t>sent
    if link.wants_room:
        link.wants_room = False
        watch(state, link, EPOLL_CTL_MOD, EPOLLIN)
    return Status.OK


cdef int link_receive(Link* link, int* error) noexcept nogil:
    cdef uint8_t* to
    cdef uint64_t room
    cdef ssize_t got
    if link.large != NULL:
        to = link.large + link.large_have
        room = link.large_bytes - link.large_have
    else:
        if link.input_start == link.input_end:
            link.input_start = link.input_end = 0
        elif link.input_capacity - link.input_end < link.input_capacity // 4:
            memmove(link.input, link.input + link.input_start, link.input_end - link.input_start)
            link.input_end -= link.input_start
            link.input_start = 0
        to = link.input + link.input_end
        room = link.input_capacity - link.input_end
    got = recv(link.fd, to, room, 0)
    if got <= 0:
        error[0] = errno if got < 0 else 0
        return Status.NOT_READY if got < 0 and (error[0] == EAGAIN or error[0] == EINTR) \
            else Status.IO_ERROR
    if link.large != NULL:
        link.large_have += <uint32_t>got
    else:
        link.input_end += <uint64_t>got
    return Status.OK


cdef int set_aside(Link* link, uint32_t total) noexcept nogil:
    """A long frame that is only partly here: goes on receiving it into memory of its own."""
    cdef uint64_t have = link.input_end - link.input_start
    link.large = <uint8_t*>malloc(total)
    if link.large == NULL:
        return Status.TOO_LARGE
    memcpy(link.large, link.input + link.input_start, have)
    link.large_bytes = total
    link.large_have = <uint32_t>have
    link.input_start = link.input_end = 0
    return Status.NOT_READY


cdef int link_next_frame(Link* link, Frame* out, uint8_t** large) noexcept nogil:
    cdef uint64_t have = link.input_end - link.input_start
    cdef int status
    large[0] = NULL
    if link.large != NULL:
        if link.large_have < link.large_bytes:
            return Status.NOT_READY
        large[0] = link.large
        status = find_frame(link.large, link.large_bytes, ANSWER_BYTES_MAX, out)
        link.large = NULL
        if status != Status.OK:
            free(large[0])
            large[0] = NULL
        return status
    status = find_frame(link.input + link.input_start, have, ANSWER_BYTES_MAX, out)
    if status == Status.OK:
        link.input_start += out.total_bytes
        return Status.OK
    if status == Status.NOT_READY and out.needed > FRAME_PREFIX_BYTES:
        if out.needed >= LARGE_BYTES_MIN or out.needed > link.input_capacity:
            return set_aside(link, out.needed)
    return status


cdef int64_t link_frame_have(const Link* link) noexcept nogil:
    return link.large_have if link.large != NULL else <int64_t>(link.input_end - link.input_start)


cdef int64_t link_frame_total(const Link* link) noexcept nogil:
    return link.large_bytes if link.large != NULL else LARGE_BYTES_MIN


cdef void link_drop(EngineState* state, Link* link) noexcept nogil:
    cdef Link* each = state.dirty_first
    if link.fd >= 0:
        watch(state, link, EPOLL_CTL_DEL, 0)
        close(link.fd)
    link.fd = -1
    state_move(&link.state, LINK_IDLE, 1 << LINK_IDLE | 1 << LINK_CONNECTING | 1 << LINK_OPEN,
               LINK_STATES)
    link.wants_room = False
    empty_fill(state, link)
    link.out_start = link.out_end = 0
    link.input_start = link.input_end = 0
    free(link.large)
    link.large = NULL
    link.frame_began_us = 0
    while each != NULL and each != link:
        each = each.next_dirty
    link.dirty = each == link        # if still listed, the engine finds nothing to send
