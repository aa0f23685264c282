"""Line echo. See line_echo.pxd."""
cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcmp, memcpy

from cext.flow.shard_calls cimport ShardCalls
from cext.net.connection cimport (
    ON_HEAP,
    REPLY_BYTES,
    TURN_FULL,
    Connection,
    OnBytes,
    OnClosed,
    OnDrained,
    OnRefused,
)

from cext.base.status import raise_status

cdef enum:
    NUMBER_BYTES = 24               # "18446744073709551615:" and the NUL

cdef struct LineState:              # in the owner block
    uint64_t lines


cdef bint answer(LineEcho echo, Connection* c, const uint8_t* line, uint64_t length) noexcept nogil:
    """Answers a line, given with its end of line. False: no buffer."""
    cdef LineState* state = <LineState*> c.owner_block
    cdef char number[NUMBER_BYTES]
    cdef uint8_t* at
    cdef uint64_t head
    state.lines += 1
    echo.lines += 1
    c.frames_in += 1
    head = snprintf(number, NUMBER_BYTES, b"%llu:", <unsigned long long> state.lines)
    if head + length > REPLY_BYTES - 64:
        at = <uint8_t*> malloc(head + length)
        if at == NULL:
            return False
        memcpy(at, number, head)
        memcpy(at + head, line, length)
        if echo.net.add_owned(c, at, head + length, at, ON_HEAP):
            return True
        free(at)
        return False
    at = echo.net.reserve_reply(c, <uint32_t> (head + length))
    if at == NULL:
        return False
    memcpy(at, number, head)
    memcpy(at + head, line, length)
    return echo.net.commit_reply(c, <uint32_t> (head + length))


cdef int64_t take_lines(LineEcho echo, Connection* c, const uint8_t* bytes, uint64_t available,
                        uint64_t* needed) noexcept nogil:
    cdef uint64_t used = 0
    cdef uint64_t length
    cdef const uint8_t* end
    while used < available:
        end = <const uint8_t*> memchr(bytes + used, b"\n", available - used)
        if end == NULL:
            if available - used >= LINE_MAX:
                return -1
            needed[0] = available - used + 1        # the end of the line has not come
            break
        length = <uint64_t> (end + 1 - (bytes + used))
        if echo.lines_per_turn > 0:
            if echo.lines_left == 0:
                needed[0] = TURN_FULL
                break
            echo.lines_left -= 1
        if length == 5 and memcmp(bytes + used, b"quit\n", 5) == 0:
            return -1
        if not answer(echo, c, bytes + used, length):
            return -1
        used += length
    return <int64_t> used


cdef int refuse_line(LineEcho echo, Connection* c, const uint8_t* bytes, uint64_t available,
                     uint64_t needed) noexcept nogil:
    echo.refused += 1
    return -1                       # its end, and so the next line, is not known


cdef void line_closed(LineEcho echo, Connection* c) noexcept nogil:
    echo.closed += 1


cdef void line_drained(LineEcho echo, Connection* c) noexcept nogil:
    echo.drained += 1
    c.notify_drained = 0


@cython.no_gc_clear                  # its owners are freed first and may use it
cdef class LineEcho:
    def __cinit__(self, Reactor net not None):
        self.net = net
        self.protocol.owner = <void*> self
        self.protocol.on_bytes = <OnBytes> take_lines
        self.protocol.on_refused = <OnRefused> refuse_line
        self.protocol.on_closed = <OnClosed> line_closed
        self.protocol.on_drained = <OnDrained> line_drained
        self.protocol.block_bytes = sizeof(LineState)


def add_line_echo(ShardCalls core not None, int fd):
    """Adds a second port to a shard that is open and not started. The caller must keep the returned
    object until the shard has stopped."""
    cdef LineEcho echo = LineEcho(core.s.turn.net)
    raise_status(core.s.turn.net.add_listener(fd, &echo.protocol, NULL), "a second listener")
    return echo
