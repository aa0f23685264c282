"""Small replies. See small_replies.pxd."""
from libc.stdio cimport snprintf
from libc.string cimport memcpy, strlen

from cext.base.clock cimport monotonic_us
from cext.flow.context.client_state cimport UNREAD_SHARE, ClientState, client_state
from cext.flow.context.control_link cimport (
    EVENT,
    OPENED_CONNECTION,
    REFUSED,
    REQUEST,
    link_push,
    link_wake_control,
)
from cext.flow.context.outcome cimport CLOSE_CONNECTION, DONE
from cext.flow.context.rpc_times cimport rpc_record
from cext.flow.context.step cimport NO_WAIT, NextWait, RunStep
from cext.memory.spsc_ring cimport spsc_is_empty
from cext.net.connection cimport PROVED_BYTES_MAX, SLOW_RECEIVE_BYTES
from cext.net.transport cimport transport_proved
from cext.wire.codes cimport FLAG_ONE_WAY, SYSTEM_BUSY
from cext.wire.replies cimport ERROR_REPLY_BYTES_MAX, write_error_reply
from cext.wire.text cimport Text, text_of

cdef extern from "<arpa/inet.h>" nogil:
    const char* inet_ntop(int family, const void* source, char* out, uint32_t size)
    enum: AF_INET, AF_INET6

cdef enum:
    SHARE_POLL_MS = 2           # how often to look whether control has caught up


cdef bint reply_error_to(TurnContext s, Connection* c, int32_t opaque, uint8_t serialize_type,
                         int32_t code, const char* remark) noexcept nogil:
    cdef Text text = text_of(<const uint8_t*> remark, <uint32_t> strlen(remark))
    cdef uint8_t* at = s.net.reserve_reply(c, ERROR_REPLY_BYTES_MAX)
    cdef uint32_t length
    if at == NULL:
        return False
    length = write_error_reply(at, opaque, serialize_type, code, &text)
    return s.net.commit_reply(c, length)


cdef Outcome reply_error(TurnContext s, Connection* c, const Header* h, int32_t code,
                         const char* remark) noexcept nogil:
    s.counters.busy_replies += code == SYSTEM_BUSY
    if h.flag & FLAG_ONE_WAY:
        return DONE
    rpc_record(&s.rpc, h.code, code, False, (monotonic_us() - s.net.now_us) // 1000, 1)
    if reply_error_to(s, c, h.opaque, h.serialize_type, code, remark):
        return DONE
    return CLOSE_CONNECTION


cdef int32_t address_text(const Connection* c, char* out, int32_t capacity) noexcept nogil:
    return host_text(c.address, c.address_bytes, out, capacity)


cdef int32_t host_text(const uint8_t* host, uint32_t bytes, char* out,
                       int32_t capacity) noexcept nogil:
    """Writes "1.2.3.4:5678" or "[::1]:5678"; returns its length, 0 for a client that is gone."""
    cdef char text[64]
    cdef uint32_t at, port
    if bytes < 8:
        out[0] = 0
        return 0
    at = bytes - 4
    port = (<uint32_t> host[at + 2] << 8) | host[at + 3]
    if inet_ntop(AF_INET6 if at == 16 else AF_INET, host, text, sizeof(text)) == NULL:
        text[0] = 0
    if at == 16:
        return snprintf(out, capacity, b"[%s]:%u", text, port)
    return snprintf(out, capacity, b"%s:%u", text, port)


cdef inline bint may_log(TurnContext s) noexcept nogil:
    if s.events_this_second >= 64:
        s.events_dropped += 1
        return False
    s.events_this_second += 1
    return True


cdef void log_refusal(TurnContext s, const Connection* c, int32_t code, const char* user,
                      bint known, const char* cause) noexcept nogil:
    cdef char lines[1024]
    cdef char peer[96]
    cdef int length
    if not may_log(s):
        return
    peer[0] = 0
    address_text(c, peer, sizeof(peer))
    length = snprintf(lines, sizeof(lines), b"%s\n%d\n%d\n%s\n%s", peer, code, known, user,
                      cause)
    link_push(&s.link, REFUSED, c.id, <uint8_t*> lines, min(length, <int> sizeof(lines) - 1))


cdef void log_event(TurnContext s, Connection* c, const char* text) noexcept nogil:
    cdef char line[1024]
    cdef char peer[96]
    cdef int length
    peer[0] = 0
    if not may_log(s):
        return
    if c != NULL:
        address_text(c, peer, sizeof(peer))
        length = snprintf(line, sizeof(line), b"%s: %s", peer, text)
    else:
        length = snprintf(line, sizeof(line), b"%s", text)
    if length > <int> sizeof(line) - 1:
        length = sizeof(line) - 1
    link_push(&s.link, EVENT, 0 if c == NULL else c.id, <uint8_t*> line, length)


cdef bint takes_too_much(TurnContext s, Connection* c, uint64_t bytes) noexcept nogil:
    """Whether this request exceeds the connection's share: it may fill a quarter of what the
    control thread can hold; the rest is for others. Long before that, the connection is not read
    until the control thread has caught up, which ends a round. What one receive brings in addition,
    even if all frames are of the smallest size, still fits then, unless others have filled the
    link."""
    cdef ClientState* client = client_state(c)
    cdef bint too_much
    if spsc_is_empty(&s.link.to_control):
        s.link.round += 1
    if client.control_round != s.link.round:
        client.control_round = s.link.round
        client.control_requests = 0
        client.control_bytes = 0
    client.control_requests += 1
    client.control_bytes += bytes
    too_much = client.control_requests > 1 and (client.control_requests > s.link.messages_max // 4
                                                or client.control_bytes > s.link.bytes_max // 4)
    if (client.control_requests > s.link.messages_max // 256
            or client.control_bytes > s.link.bytes_max // 8):
        s.net.stop_reading(c, UNREAD_SHARE)
    return too_much


cdef bint introduce(TurnContext s, Connection* c) noexcept nogil:
    cdef ClientState* client = client_state(c)
    cdef char text[96 + 1 + PROVED_BYTES_MAX]
    cdef const uint8_t* name
    cdef uint32_t name_length = 0
    cdef int32_t length
    if not client.introduced:
        length = address_text(c, text, 96)
        name = transport_proved(c, &name_length)
        if name != NULL:
            text[length] = c'\n'
            memcpy(text + length + 1, name, name_length)
            length += 1 + <int32_t> name_length
        client.introduced = link_push(&s.link, OPENED_CONNECTION, c.id, <uint8_t*> text, length)
    return client.introduced


cdef bint hand_to_control(TurnContext s, Connection* c, const Frame* f) noexcept nogil:
    cdef bint passed = not takes_too_much(s, c, f.total_bytes) and introduce(s, c)
    c.receive_bytes = SLOW_RECEIVE_BYTES
    # Without the frame's four length bytes, which lie 8 bytes before the header.
    passed = passed and link_push(&s.link, REQUEST, c.id, f.header - 4, f.total_bytes - 4)
    s.counters.control_requests += passed
    return passed


# ------------------------------------------------------------------- the turn

cdef void read_on(TurnContext s) noexcept nogil:
    if s.net.unread_count(UNREAD_SHARE) > 0 and spsc_is_empty(&s.link.to_control):
        s.net.go_on_reading_all(UNREAD_SHARE)


cdef int32_t share_wait(TurnContext s) noexcept nogil:
    return SHARE_POLL_MS if s.net.unread_count(UNREAD_SHARE) > 0 else NO_WAIT


cdef void wake_control(TurnContext s) noexcept nogil:
    link_wake_control(&s.link)


cdef Step share_step(TurnContext s) noexcept:
    return Step(b"share", <void*> s, <RunStep> read_on, <NextWait> share_wait, NULL)


cdef Step wake_control_step(TurnContext s) noexcept:
    return Step(b"wake control", <void*> s, <RunStep> wake_control, NULL, NULL)
