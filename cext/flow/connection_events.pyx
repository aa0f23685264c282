"""Connection events. See connection_events.pxd."""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.base.status cimport NOT_READY, OK, TOO_LARGE
from cext.flow.auth.auth_service cimport AuthService
from cext.flow.context.client_state cimport ClientState, client_state
from cext.flow.context.control_link cimport CLOSED_CONNECTION, DRAINED, link_push
from cext.flow.context.outcome cimport CLOSE_CONNECTION, TURN_FULL, Outcome
from cext.flow.context.small_replies cimport log_event, reply_error
from cext.flow.context.step cimport NO_WAIT, NextWait, RunStep, StepDrained
from cext.flow.pull.held_pulls cimport forget_connection, resume_deferred
from cext.flow.request_reply.reply_push cimport push_forget
from cext.flow.request_router cimport route_frame
from cext.net.client_hello cimport HELLO_RECORD
from cext.net.connection cimport TURN_FULL as LEFT_UNREAD
from cext.net.connection cimport Connection, OnBytes, OnClosed, OnDrained, OnRefused, Protocol
from cext.wire.codes cimport FLAG_RESPONSE, SYSTEM_BUSY
from cext.wire.frame cimport Frame, find_frame
from cext.wire.header cimport Header, parse_header

from rmq.errors import not_copied

cdef enum:
    UNSENT_MS = 200             # at a stop: no wait for a client that takes nothing for so long


@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class ConnectionEvents:
    def __reduce__(self):
        raise not_copied(self, "it is of one shard")


cdef int64_t take_bytes(ConnectionEvents s, Connection* c, const uint8_t* bytes, uint64_t available,
                        uint64_t* needed) noexcept nogil:
    """Returns how many bytes of whole frames were taken; -1: close the connection, here and in
    refuse_frame() (reactor.pxd)."""
    cdef Frame frame
    cdef uint64_t used = 0
    cdef uint64_t id = c.id
    cdef Outcome outcome
    cdef int status
    while used < available and c.id == id:      # a reply without a buffer closes it at once
        status = find_frame(bytes + used, available - used,
                            <uint32_t> s.turn.options.frame_max_bytes,
                            &frame)
        if status == NOT_READY:
            needed[0] = frame.needed
            break
        if status != OK:
            s.turn.counters.malformed_frames += 1
            if available - used > 0 and bytes[used] == HELLO_RECORD:
                log_event(s.turn, c, b"closed: the client speaks TLS, this port does not")
            elif status == TOO_LARGE:
                log_event(s.turn, c, b"closed: frame longer than the limit")
            else:
                log_event(s.turn, c, b"closed: malformed frame")
            return -1
        outcome = route_frame(s.router, c, &frame, False)
        if outcome == CLOSE_CONNECTION:
            return -1
        if outcome == TURN_FULL:
            needed[0] = LEFT_UNREAD
            break
        used += frame.total_bytes
    return used


cdef int refuse_frame(ConnectionEvents s, Connection* c, const uint8_t* bytes, uint64_t available,
                      uint64_t needed) noexcept nogil:
    """There is no buffer for a large frame: answers SYSTEM_BUSY by its header, drops its bytes."""
    cdef Header header
    cdef uint32_t header_bytes = 0
    cdef int status
    if available >= 8:
        header_bytes = (<uint32_t> bytes[5] << 16) | (<uint32_t> bytes[6] << 8) | bytes[7]
    if available < 8 + <uint64_t> header_bytes:
        s.turn.counters.busy_replies += 1
        log_event(s.turn, c, b"closed: no buffer for a large request whose header has not come yet")
        return -1
    status = parse_header(bytes + 8, header_bytes, bytes[4], &header)
    if status != OK and status != TOO_LARGE:    # too many fields alone does no harm here
        s.turn.counters.malformed_frames += 1
        log_event(s.turn, c, b"closed: malformed command header")
        return -1
    if header.flag & FLAG_RESPONSE:
        return 0
    if reply_error(s.turn, c, &header, SYSTEM_BUSY,
                   b"[REJECTREQUEST]system busy, start flow control "
                   b"for a while: no buffer for another large request") == CLOSE_CONNECTION:
        return -1
    return 0


cdef void connection_closed(ConnectionEvents s, Connection* c) noexcept nogil:
    forget_connection(s.pull, c)
    push_forget(s.reply, c)
    if client_state(c).introduced:
        link_push(&s.turn.link, CLOSED_CONNECTION, c.id, NULL, 0)


cdef void output_drained(ConnectionEvents s, Connection* c) noexcept nogil:
    resume_deferred(s.pull, c)
    if c.notify_drained:
        c.notify_drained = not link_push(&s.turn.link, DRAINED, c.id, NULL, 0)
        if c.notify_drained:
            s.turn.net.mark_dirty(c)         # no memory: control is told in the next turn


cdef int serve(ConnectionEvents s, int listen_fd, AuthService auth) noexcept nogil:
    # The owner is passed through the network half as a pointer; each callback's first argument is
    # that same object, so the casts change the type of a pointer and nothing else.
    cdef Protocol remoting
    remoting.owner = <void*> s
    remoting.on_bytes = <OnBytes> take_bytes
    remoting.on_refused = <OnRefused> refuse_frame
    remoting.on_closed = <OnClosed> connection_closed
    remoting.on_drained = <OnDrained> output_drained
    remoting.block_bytes = sizeof(ClientState)
    return s.turn.net.add_listener(listen_fd, &remoting, auth.transport)


# ------------------------------------------------------------------- the turn

cdef void receive(ConnectionEvents s) noexcept nogil:
    s.turn.net.receive_ready()


cdef void flush(ConnectionEvents s) noexcept nogil:
    s.turn.net.flush()


cdef int32_t flush_wait(ConnectionEvents s) noexcept nogil:
    return NO_WAIT if s.turn.net.dirty_first == NULL else 0


cdef bint is_flushed(ConnectionEvents s) noexcept nogil:
    """Unsent output is waited for as long as its client goes on taking some of it."""
    cdef const Connection* last = s.turn.net.stalled.last
    return s.turn.net.dirty_first == NULL and (
        last == NULL or s.turn.now_ms - last.active_ms >= UNSENT_MS)


cdef Step receive_step(ConnectionEvents s) noexcept:
    return Step(b"receive", <void*> s, <RunStep> receive, NULL, NULL)


cdef Step flush_step(ConnectionEvents s) noexcept:
    return Step(b"flush", <void*> s, <RunStep> flush, <NextWait> flush_wait,
                <StepDrained> is_flushed)
