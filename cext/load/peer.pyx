"""One connection of the load generator (see peer.pxd for how requests and answers are matched).

A turn of a loop costs a peer one recv and one send, however many requests they carry. Buffers are
taken at the start; pages that are never used are never touched.
"""
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memmove, memset

from cext.base.status cimport Status
from cext.load.epoll cimport (
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLIN, EPOLLOUT, epoll_ctl, epoll_event,
)

cdef extern from "<sys/socket.h>" nogil:
    ssize_t recv(int fd, void* to, size_t bytes, int flags)
    ssize_t send(int fd, const void* data, size_t bytes, int flags)
    enum:
        MSG_NOSIGNAL

cdef enum:
    OPAQUE_BASE = 10_000_000
    OPAQUE_SPAN = 90_000_000
    RECV_BYTES_MAX = 1 << 20     # per turn: keeps the buffer in the cache and the turns short


cdef int peer_open(Peer* peer, int fd, int epoll_fd, uint64_t input_capacity,
                   uint64_t output_capacity, uint32_t slot_count, bint in_order) noexcept nogil:
    cdef uint32_t i
    cdef epoll_event event
    memset(peer, 0, sizeof(Peer))
    peer.fd = fd
    peer.epoll_fd = epoll_fd
    peer.in_order = in_order
    peer.input_capacity = input_capacity
    peer.output_capacity = output_capacity
    peer.slot_count = slot_count
    peer.order_first = peer.order_last = -1
    peer.input = <uint8_t*>malloc(input_capacity)
    peer.output = <uint8_t*>malloc(output_capacity)
    peer.slots = <Slot*>calloc(slot_count, sizeof(Slot))
    if peer.input == NULL or peer.output == NULL or peer.slots == NULL:
        return Status.POOL_EMPTY
    for i in range(slot_count):
        peer.slots[i].next_free = <int32_t>i + 1 if i + 1 < slot_count else -1
    event.events = EPOLLIN
    event.data.ptr = peer
    if epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0:
        return Status.IO_ERROR
    return Status.OK


cdef void peer_release(Peer* peer) noexcept nogil:
    free(peer.input)
    free(peer.output)
    free(peer.slots)
    peer.input = peer.output = NULL
    peer.slots = NULL


cdef void peer_break(Peer* peer) noexcept nogil:
    cdef epoll_event event
    if peer.fd >= 0:
        epoll_ctl(peer.epoll_fd, EPOLL_CTL_DEL, peer.fd, &event)
    peer.fd = -1


cdef int peer_receive(Peer* peer) noexcept nogil:
    cdef uint64_t room
    cdef ssize_t got
    cdef int error
    if peer.input_start == peer.input_end:
        peer.input_start = peer.input_end = 0
    elif peer.input_capacity - peer.input_end < RECV_BYTES_MAX and peer.input_start > 0:
        memmove(peer.input, peer.input + peer.input_start, peer.input_end - peer.input_start)
        peer.input_end -= peer.input_start
        peer.input_start = 0
    room = min(peer.input_capacity - peer.input_end, <uint64_t>RECV_BYTES_MAX)
    got = recv(peer.fd, peer.input + peer.input_end, room, 0)
    if got < 0:
        error = errno
        return Status.NOT_READY if error == EAGAIN or error == EINTR else Status.CLOSED
    if got == 0:
        return Status.CLOSED
    peer.input_end += <uint64_t>got
    return Status.OK


cdef void ask_for_room(Peer* peer, bint wanted) noexcept nogil:
    cdef epoll_event event
    if peer.wants_room == wanted:
        return
    peer.wants_room = wanted
    event.events = EPOLLIN | EPOLLOUT if wanted else EPOLLIN
    event.data.ptr = peer
    epoll_ctl(peer.epoll_fd, EPOLL_CTL_MOD, peer.fd, &event)


cdef int peer_flush(Peer* peer) noexcept nogil:
    cdef ssize_t sent
    cdef int error
    peer.dirty = False
    if peer.output_start < peer.output_end:
        sent = send(peer.fd, peer.output + peer.output_start, peer.output_end - peer.output_start,
                    MSG_NOSIGNAL)
        if sent < 0:
            error = errno
            if error != EAGAIN and error != EINTR:
                return Status.CLOSED
            sent = 0
        peer.output_start += <uint64_t>sent
    if peer.output_start < peer.output_end:
        ask_for_room(peer, True)
        return Status.NOT_READY
    peer.output_start = peer.output_end = 0
    ask_for_room(peer, False)
    return Status.OK


cdef uint8_t* peer_room(Peer* peer, uint64_t bytes) noexcept nogil:
    if peer.output_capacity - peer.output_end < bytes and peer.output_start > 0:
        memmove(peer.output, peer.output + peer.output_start, peer.output_end - peer.output_start)
        peer.output_end -= peer.output_start
        peer.output_start = 0
    if peer.output_capacity - peer.output_end < bytes:
        return NULL
    return peer.output + peer.output_end


cdef void peer_take_slot(Peer* peer, int32_t slot, int64_t started_ns) noexcept nogil:
    cdef uint32_t generations = <uint32_t>OPAQUE_SPAN // peer.slot_count
    peer.slots[slot].opaque = <int32_t>(
        <uint32_t>OPAQUE_BASE + <uint32_t>slot + peer.slot_count * (peer.generation % generations))
    peer.slots[slot].started_ns = started_ns
    peer.generation += 1
    peer.open_count += 1


cdef int32_t peer_take(Peer* peer, int64_t started_ns) noexcept nogil:
    cdef int32_t slot = peer.free_first
    if slot < 0:
        return -1
    peer.free_first = peer.slots[slot].next_free
    peer_take_slot(peer, slot, started_ns)
    if peer.in_order:
        peer.slots[slot].next_free = -1
        if peer.order_last >= 0:
            peer.slots[peer.order_last].next_free = slot
        else:
            peer.order_first = slot
        peer.order_last = slot
    return slot


cdef int32_t peer_match(Peer* peer, int32_t opaque, bint keep) noexcept nogil:
    cdef int32_t slot
    if peer.in_order:
        slot = peer.order_first
        if slot < 0:
            return -1
        peer.order_first = peer.slots[slot].next_free
        if peer.order_first < 0:
            peer.order_last = -1
    else:
        if opaque < OPAQUE_BASE or opaque >= OPAQUE_BASE + OPAQUE_SPAN:
            return -1
        slot = <int32_t>((<uint32_t>opaque - <uint32_t>OPAQUE_BASE) % peer.slot_count)
        if peer.slots[slot].opaque != opaque:
            return -1
    peer.slots[slot].opaque = 0
    peer.open_count -= 1
    if not keep:
        peer.slots[slot].next_free = peer.free_first
        peer.free_first = slot
    return slot
