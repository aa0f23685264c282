"""Between the reactor and the control thread. See control_link.pxd."""
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from cext.base.atomics cimport load_acquire_u64
from cext.base.check cimport check
from cext.base.status cimport IO_ERROR, OK
from cext.memory.spsc_ring cimport (
    spsc_close,
    spsc_open_in,
    spsc_pop,
    spsc_put,
    spsc_arena_bytes,
    spsc_waiting,
)
from cext.net.socket_api cimport EFD_CLOEXEC, EFD_NONBLOCK, close, eventfd, write


cdef const char* ROOM = b"to control: the ring has room for what may wait in it"


cdef uint64_t link_arena_bytes(uint64_t messages, uint64_t connections) noexcept nogil:
    return spsc_arena_bytes(3 * messages + 2 * connections) + spsc_arena_bytes(messages)


cdef int link_open(ControlLink* link, Arena* arena, uint64_t messages, uint64_t bytes_max,
                   uint64_t connections) noexcept nogil:
    memset(link, 0, sizeof(ControlLink))
    link.bytes_max = bytes_max
    link.messages_max = messages
    link.control_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
    if (link.control_fd < 0
            or spsc_open_in(&link.to_control, arena, 3 * messages + 2 * connections) != OK
            or spsc_open_in(&link.to_reactor, arena, messages) != OK):
        return IO_ERROR
    return OK


cdef void link_close(ControlLink* link) noexcept nogil:
    cdef void* message
    if link.to_control.slots != NULL:
        message = spsc_pop(&link.to_control)
        while message != NULL:
            free(message)
            message = spsc_pop(&link.to_control)
        spsc_close(&link.to_control)
    if link.to_reactor.slots != NULL:
        message = spsc_pop(&link.to_reactor)
        while message != NULL:
            free(message)
            message = spsc_pop(&link.to_reactor)
        spsc_close(&link.to_reactor)
    if link.control_fd > 0:
        close(link.control_fd)
    memset(link, 0, sizeof(ControlLink))


cdef LinkMessage* link_make(int32_t kind, uint64_t connection_id, const uint8_t* data,
                            uint64_t length) noexcept nogil:
    cdef LinkMessage* message = <LinkMessage*> malloc(sizeof(LinkMessage) + length)
    if message == NULL:
        return NULL
    message.kind = kind
    message.connection_id = connection_id
    message.length = length
    message.call = NULL
    message.arguments = NULL
    if data != NULL and length > 0:
        memcpy(message.data, data, length)
    return message


cdef bint has_room(ControlLink* link, uint64_t length) noexcept nogil:
    """Whether number and bytes of what waits for control allow one more message."""
    cdef uint64_t taken = load_acquire_u64(&link.bytes_out)
    check(taken <= link.bytes_in, b"to control: no more bytes are taken than were given", taken,
          link.bytes_in)
    return (spsc_waiting(&link.to_control) < link.messages_max
            and link.bytes_in + length - taken <= link.bytes_max)


cdef LinkMessage* link_start(ControlLink* link, int32_t kind, uint64_t connection_id,
                             uint64_t length) noexcept nogil:
    cdef LinkMessage* message = NULL
    if kind == CLOSED_CONNECTION or has_room(link, length):
        message = link_make(kind, connection_id, NULL, length)
    if message == NULL:
        link.refused += 1
    return message


cdef void link_finish(ControlLink* link, LinkMessage* message) noexcept nogil:
    link.bytes_in += message.length
    link.signalled = True
    spsc_put(&link.to_control, message, ROOM)


cdef bint link_push(ControlLink* link, int32_t kind, uint64_t connection_id, const uint8_t* data,
                    uint64_t length) noexcept nogil:
    cdef LinkMessage* message
    if kind != CLOSED_CONNECTION and kind != DRAINED and not has_room(link, length):
        link.refused += 1
        return False
    message = link_make(kind, connection_id, data, length)
    if message == NULL:
        link.refused += 1
        return False
    link_finish(link, message)
    return True


cdef void link_wake_control(ControlLink* link) noexcept nogil:
    cdef uint64_t one = 1
    if link.signalled:
        link.signalled = False
        write(link.control_fd, &one, 8)
