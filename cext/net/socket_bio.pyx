"""Socket BIO. See socket_bio.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from cext.net.openssl cimport (
    BIO,
    BIO_CTRL_EOF,
    BIO_CTRL_FLUSH,
    BIO_METHOD,
    BIO_TYPE_SOURCE_SINK,
    BIO_clear_retry_flags,
    BIO_get_data,
    BIO_meth_new,
    BIO_meth_set_ctrl,
    BIO_meth_set_read,
    BIO_meth_set_write,
    BIO_new,
    BIO_set_data,
    BIO_set_init,
    BIO_set_retry_read,
    BIO_set_retry_write,
)
from cext.net.socket_api cimport EAGAIN, EINTR, MSG_DONTWAIT, MSG_NOSIGNAL, errno, recv, send

cdef enum:
    HELD_BYTES = 17408              # a record of 16 KiB, its overhead, and the next record's head


cdef int fill(SocketBio* state) noexcept nogil:
    """Fills the buffer from the socket; returns what recv returned."""
    cdef ssize_t got
    if state.held == NULL:
        state.held = <uint8_t*> malloc(HELD_BYTES)
        if state.held == NULL:
            return -1
    got = recv(state.fd, state.held, HELD_BYTES, MSG_DONTWAIT)
    state.begin = 0
    state.end = <uint32_t> got if got > 0 else 0
    state.is_empty = 0 < got < HELD_BYTES
    state.has_ended |= got == 0
    return <int> got


cdef int bio_read(BIO* bio, char* at, int room) noexcept nogil:
    cdef SocketBio* state = <SocketBio*> BIO_get_data(bio)
    cdef uint32_t taken
    cdef int got
    BIO_clear_retry_flags(bio)
    if state.begin == state.end:
        if state.is_empty:
            state.is_empty = False
            BIO_set_retry_read(bio)
            return -1
        got = fill(state)
        if got <= 0:
            if got < 0 and (errno == EAGAIN or errno == EINTR):
                BIO_set_retry_read(bio)
            return got
    taken = min(<uint32_t> room, state.end - state.begin)
    memcpy(at, state.held + state.begin, taken)
    state.begin += taken
    return <int> taken


cdef int bio_write(BIO* bio, const char* at, int length) noexcept nogil:
    cdef SocketBio* state = <SocketBio*> BIO_get_data(bio)
    cdef ssize_t sent
    BIO_clear_retry_flags(bio)
    state.is_empty = False              # an answer may arrive at once
    sent = send(state.fd, at, <size_t> length, MSG_DONTWAIT | MSG_NOSIGNAL)
    if sent < 0 and (errno == EAGAIN or errno == EINTR):
        BIO_set_retry_write(bio)
    return <int> sent


cdef long bio_control(BIO* bio, int command, long number, void* at) noexcept nogil:
    if command == BIO_CTRL_EOF:
        return (<SocketBio*> BIO_get_data(bio)).has_ended
    return command == BIO_CTRL_FLUSH    # nothing is held back


cdef BIO_METHOD* new_method() except NULL:
    cdef BIO_METHOD* method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, b"the socket of a connection")
    if method == NULL:
        raise MemoryError("no memory for TLS")
    BIO_meth_set_read(method, bio_read)
    BIO_meth_set_write(method, bio_write)
    BIO_meth_set_ctrl(method, bio_control)
    return method


cdef BIO_METHOD* METHOD = new_method()      # never freed


cdef BIO* socket_bio_new(SocketBio* state) noexcept nogil:
    cdef BIO* bio = BIO_new(METHOD)
    if bio != NULL:
        BIO_set_data(bio, state)
        BIO_set_init(bio, 1)
    return bio


cdef void socket_bio_look(SocketBio* state) noexcept nogil:
    state.is_empty = False


cdef void socket_bio_rest(SocketBio* state) noexcept nogil:
    if state.begin == state.end:
        socket_bio_free(state)


cdef uint32_t socket_bio_holds(const SocketBio* state) noexcept nogil:
    return state.end - state.begin


cdef void socket_bio_free(SocketBio* state) noexcept nogil:
    free(state.held)
    state.held = NULL
    state.begin = state.end = 0
