"""Toy transport. See toy_transport.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memmove

from cext.net.connection cimport TRANSPORT_FAILED, WANT_READ, WANT_WRITE, Connection
from cext.net.socket_api cimport EAGAIN, MSG_DONTWAIT, MSG_NOSIGNAL, errno, iovec, recv, send

cdef enum:
    HEAD_BYTES = 3
    BUFFER_BYTES = 65536
    RECORD_BYTES = 1024             # most bytes of a piece in a record
    HANDED_BYTES = 7                # most bytes that one receive gives
    ASK_BYTES = 1000                # sent between two ASKs
    KEY = 0x5A

cdef struct ToyState:
    uint8_t raw[BUFFER_BYTES]       # received, not decoded yet
    uint32_t raw_bytes
    uint8_t plain[BUFFER_BYTES]     # decoded, not handed out yet
    uint32_t plain_bytes
    uint8_t out[RECORD_BYTES + 16]  # a record that the socket has taken only partly
    uint32_t out_bytes
    uint32_t out_taken              # bytes of the pieces in that record
    uint32_t sent                   # bytes since the last ASK
    bint ended                      # the other side has ended the connection
    bint greeted                    # HELLO has come
    bint waited                     # WANT_WRITE was returned for unsent bytes
    bint owes_pong
    bint asked

cdef Transport TOY
cdef uint32_t opened = 0
cdef uint32_t closed = 0


cdef inline ToyState* state_of(Connection* c) noexcept nogil:
    return <ToyState*> c.transport_state


cdef void put_record(ToyState* s, int kind, const uint8_t* bytes, uint32_t length) noexcept nogil:
    cdef uint8_t* at = s.out + s.out_bytes
    cdef uint32_t i
    at[0] = <uint8_t> kind
    at[1] = <uint8_t> (length >> 8)
    at[2] = <uint8_t> length
    for i in range(length):
        at[HEAD_BYTES + i] = bytes[i] ^ KEY
    s.out_bytes += HEAD_BYTES + length


cdef int reply_space_commit(Connection* c) noexcept nogil:
    """0: all of `out` has gone to the socket."""
    cdef ToyState* s = state_of(c)
    cdef ssize_t sent
    while s.out_bytes > 0:
        sent = send(c.fd, s.out, s.out_bytes, MSG_DONTWAIT | MSG_NOSIGNAL)
        if sent < 0:
            return WANT_WRITE if errno == EAGAIN else TRANSPORT_FAILED
        s.out_bytes -= <uint32_t> sent
        memmove(s.out, s.out + sent, s.out_bytes)
    return 0


cdef int take_apart(ToyState* s) noexcept nogil:
    """Decodes records in `raw` up to a PING without an answer; TRANSPORT_FAILED: a bad record."""
    cdef uint32_t at = 0, length, i
    while not s.owes_pong and s.raw_bytes - at >= HEAD_BYTES:
        length = (<uint32_t> s.raw[at + 1] << 8) | s.raw[at + 2]
        if s.raw_bytes - at < HEAD_BYTES + length or s.plain_bytes + length > BUFFER_BYTES:
            break
        if s.raw[at] == DATA and s.greeted:
            for i in range(length):
                s.plain[s.plain_bytes + i] = s.raw[at + HEAD_BYTES + i] ^ KEY
            s.plain_bytes += length
        elif s.raw[at] == HELLO and not s.greeted:
            s.greeted = True
        elif s.raw[at] == ANSWER and s.asked:
            s.asked = False
        elif s.raw[at] == PING and s.greeted:
            s.owes_pong = True
        else:
            return TRANSPORT_FAILED
        at += HEAD_BYTES + length
    s.raw_bytes -= at
    memmove(s.raw, s.raw + at, s.raw_bytes)
    return 0


cdef int hear(Connection* c) noexcept nogil:
    """Receives what the socket has. 0: bytes have come, or the end."""
    cdef ToyState* s = state_of(c)
    cdef ssize_t got = recv(c.fd, s.raw + s.raw_bytes, BUFFER_BYTES - s.raw_bytes, MSG_DONTWAIT)
    if got < 0:
        return WANT_READ if errno == EAGAIN else TRANSPORT_FAILED
    s.ended = s.ended or got == 0
    s.raw_bytes += <uint32_t> got
    return take_apart(s)


cdef bint toy_open(void* owner, Connection* c) noexcept nogil:
    global opened
    c.transport_state = calloc(1, sizeof(ToyState))
    opened += c.transport_state != NULL
    return c.transport_state != NULL


cdef int toy_handshake(Connection* c) noexcept nogil:
    cdef ToyState* s = state_of(c)
    cdef int result
    if not s.greeted:
        result = hear(c)
        if result < 0:
            return result
        if not s.greeted:
            return TRANSPORT_FAILED if s.ended else WANT_READ
    if not s.waited:
        s.waited = True
        put_record(s, WELCOME, NULL, 0)
        return WANT_WRITE
    result = reply_space_commit(c)
    if result == 0:
        s.waited = False
    return result


cdef ssize_t toy_receive(Connection* c, void* at, size_t room) noexcept nogil:
    cdef ToyState* s = state_of(c)
    cdef uint32_t count
    cdef int result
    while s.plain_bytes == 0:
        if s.owes_pong:
            if not s.waited:
                s.waited = True
                put_record(s, PONG, NULL, 0)
                return WANT_WRITE
            result = reply_space_commit(c)
            if result < 0:
                return result
            s.owes_pong = s.waited = False
            result = take_apart(s)
        elif s.ended:
            return 0
        else:
            result = hear(c)
        if result < 0:
            return result
    count = min(min(s.plain_bytes, <uint32_t> HANDED_BYTES), <uint32_t> room)
    memcpy(at, s.plain, count)
    s.plain_bytes -= count
    memmove(s.plain, s.plain + count, s.plain_bytes)
    return count if take_apart(s) == 0 else TRANSPORT_FAILED


cdef ssize_t toy_send(Connection* c, const iovec* pieces, int count) noexcept nogil:
    cdef ToyState* s = state_of(c)
    cdef ssize_t taken = 0
    cdef uint32_t at = 0
    cdef int i = 0, result
    while i < count:
        if s.out_taken == 0:
            if s.asked:
                result = hear(c)
                if s.asked and taken == 0 and result >= 0:
                    result = TRANSPORT_FAILED if s.ended else WANT_READ
                if s.asked:
                    return taken if taken > 0 else result
            s.out_taken = <uint32_t> min(pieces[i].iov_len - at, <size_t> RECORD_BYTES)
            put_record(s, DATA, <const uint8_t*> pieces[i].iov_base + at, s.out_taken)
            s.sent += s.out_taken
            if s.sent >= ASK_BYTES:
                s.sent = 0
                s.asked = True
                put_record(s, ASK, NULL, 0)
        result = reply_space_commit(c)
        if result < 0:
            return taken if taken > 0 and result == WANT_WRITE else result
        taken += s.out_taken
        at += s.out_taken
        s.out_taken = 0
        if at == pieces[i].iov_len:
            at = 0
            i += 1
    return taken


cdef size_t toy_pending(Connection* c) noexcept nogil:
    return state_of(c).plain_bytes + state_of(c).owes_pong


cdef const uint8_t* toy_proved(Connection* c, uint32_t* length) noexcept nogil:
    return NULL


cdef void toy_close(Connection* c) noexcept nogil:
    global closed
    cdef ToyState* s = state_of(c)
    if s.out_bytes == 0:
        put_record(s, BYE, NULL, 0)
        reply_space_commit(c)
    free(s)
    c.transport_state = NULL
    closed += 1


cdef const Transport* toy_transport() noexcept nogil:
    return &TOY


def states():
    """How many connections have a state now."""
    return opened - closed


TOY.owner = NULL
TOY.open = toy_open
TOY.handshake = toy_handshake
TOY.receive = toy_receive
TOY.send = toy_send
TOY.pending = toy_pending
TOY.close = toy_close
TOY.proved = toy_proved
