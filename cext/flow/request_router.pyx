"""Request router. See request_router.pxd."""
cimport cython
from libc.stdint cimport uint32_t
from libc.stdio cimport snprintf
from libc.string cimport memset

from cext.base.status cimport IO_ERROR, OK, TOO_LARGE
from cext.flow.auth.admission cimport admit
from cext.flow.context.outcome cimport (
    CLOSE_CONNECTION,
    DONE,
    GO_ON,
    NEEDS_RECORD,
    NOT_NOW,
    TO_CONTROL,
    TO_CONTROL_IN_ORDER,
    TURN_FULL,
)
from cext.flow.context.service cimport no_memory
from cext.flow.context.small_replies cimport hand_to_control, log_event, reply_error
from cext.flow.context.step cimport NO_WAIT, NextWait, RunStep, StepDrained
from cext.flow.fetch.parked_requests cimport (
    PARKED_RECORD_BYTES,
    ParkedRequest,
    park_request,
    parked_again,
    parked_begin,
    parked_end,
)
from cext.flow.pop.pop cimport accept_pop
from cext.flow.pop.pop_ack cimport accept_ack, accept_batch_ack, accept_change
from cext.flow.postponed_requests cimport (
    REFUSALS_MAX,
    TRIES_MAX,
    PostponedFrame,
    postpone,
    postponed_again,
    postponed_free,
    postponed_next,
    postponed_tried,
)
from cext.flow.pull.pull_admission cimport accept_pull
from cext.flow.request_reply.reply_push cimport accept_reply, is_push_answer, push_answered
from cext.flow.send.message_send cimport accept_send
from cext.flow.send.pending_topic_sends cimport pending_send_add
from cext.flow.send.recall cimport accept_recall
from cext.flow.send.send_back cimport accept_send_back
from cext.flow.tables.offset_commit cimport accept_offset_commit
from cext.flow.transaction.transaction_end cimport accept_transaction_end
from cext.memory.arena cimport Arena
from cext.wire.codes cimport (
    ACK_MESSAGE,
    BATCH_ACK_MESSAGE,
    CHANGE_MESSAGE_INVISIBLETIME,
    CONSUMER_SEND_MSG_BACK,
    END_TRANSACTION,
    FLAG_ONE_WAY,
    FLAG_RESPONSE,
    LITE_PULL_MESSAGE,
    NOTIFICATION,
    PEEK_MESSAGE,
    POLLING_INFO,
    POP_MESSAGE,
    PULL_MESSAGE,
    RECALL_MESSAGE,
    REQUEST_CODE_NOT_SUPPORTED,
    SEND_BATCH_MESSAGE,
    SEND_MESSAGE,
    SEND_MESSAGE_V2,
    SEND_REPLY_MESSAGE,
    SEND_REPLY_MESSAGE_V2,
    SYSTEM_BUSY,
    SYSTEM_ERROR,
    UPDATE_CONSUMER_OFFSET,
)
from cext.wire.frame cimport find_frame
from cext.wire.header cimport header_find, parse_header
from cext.wire.header_shapes cimport (
    header_shapes_arena_bytes,
    header_shapes_open,
    parse_header_like,
)
from cext.wire.pop_request cimport pop_code
from cext.wire.text cimport Text

cdef enum:
    HANDLERS = 18

# Searched from the top, so codes that come with every message stand first.
cdef RequestHandler[HANDLERS] handlers = [
    RequestHandler(SEND_MESSAGE_V2, 0, BY_SEND, <RunHandler> accept_send),
    RequestHandler(PULL_MESSAGE, 0, BY_PULL, <RunHandler> accept_pull),
    RequestHandler(SEND_MESSAGE, 0, BY_SEND, <RunHandler> accept_send),
    RequestHandler(SEND_BATCH_MESSAGE, 0, BY_SEND, <RunHandler> accept_send),
    RequestHandler(LITE_PULL_MESSAGE, 0, BY_PULL, <RunHandler> accept_pull),
    RequestHandler(POP_MESSAGE, AFTER_START, BY_POP, <RunHandler> accept_pop),
    RequestHandler(ACK_MESSAGE, AFTER_START, BY_POP, <RunHandler> accept_ack),
    RequestHandler(BATCH_ACK_MESSAGE, AFTER_START, BY_POP, <RunHandler> accept_batch_ack),
    RequestHandler(END_TRANSACTION, OUTLIVES_CLIENT, BY_TRANSACTION,
                   <RunHandler> accept_transaction_end),
    RequestHandler(UPDATE_CONSUMER_OFFSET, 0, BY_TABLES, <RunHandler> accept_offset_commit),
    RequestHandler(CONSUMER_SEND_MSG_BACK, 0, BY_SEND, <RunHandler> accept_send_back),
    RequestHandler(CHANGE_MESSAGE_INVISIBLETIME, AFTER_START, BY_POP, <RunHandler> accept_change),
    RequestHandler(NOTIFICATION, AFTER_START, BY_POP, <RunHandler> accept_pop),
    RequestHandler(PEEK_MESSAGE, AFTER_START, BY_POP, <RunHandler> accept_pop),
    RequestHandler(POLLING_INFO, AFTER_START, BY_POP, <RunHandler> accept_pop),
    RequestHandler(SEND_REPLY_MESSAGE, 0, BY_REPLY, <RunHandler> accept_reply),
    RequestHandler(SEND_REPLY_MESSAGE_V2, 0, BY_REPLY, <RunHandler> accept_reply),
    RequestHandler(RECALL_MESSAGE, 0, BY_SEND, <RunHandler> accept_recall),
]


@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class RequestRouter:
    cdef uint64_t arena_bytes(self, dict given) except? 0:
        return header_shapes_arena_bytes()

    cdef int open(self, Arena* arena, dict given) except -1:
        if header_shapes_open(&self.shapes, arena) != OK:
            no_memory("the header shapes")
        return 0

    cdef void close(self) noexcept:
        postponed_free(&self.postponed)

    cdef dict stats(self):
        return {"postponed": self.postponed.count, "postponed_dropped": self.postponed.dropped}


cdef inline const RequestHandler* handler_of(const Header* h) noexcept nogil:
    """NULL: there is no handler here, the code is served by control."""
    cdef int32_t code = pop_code(h)
    cdef int i
    for i in range(HANDLERS):
        if handlers[i].code == code:
            return &handlers[i]
    return NULL


# ------------------------------------------------------------------- outcomes

cdef Outcome conclude(RequestRouter s, Connection* c, const Header* h, const Frame* f,
                      bint resubmitted, int32_t traits, Outcome outcome) noexcept nogil:
    """Does what an outcome asks for. DONE, TURN_FULL or CLOSE_CONNECTION. A connection id of 0
    stands for a client that has left: its request does not go to control, which would answer it."""
    cdef const char* busy = NULL
    if outcome == NEEDS_RECORD:
        if park_request(&s.fetch.parked, s.fetch.pool, c.id, f, resubmitted):
            return DONE
        busy = b"[OVERLOAD]system busy, start flow control for a while: too many requests wait " \
               b"for messages from the disk"
    elif outcome == TO_CONTROL or outcome == TO_CONTROL_IN_ORDER:
        if c.id == 0:
            return DONE
        if hand_to_control(s.turn, c, f):
            if outcome == TO_CONTROL_IN_ORDER:
                pending_send_add(s.send, c)
            return DONE
        busy = b"[OVERLOAD]system busy, start flow control for a while: more requests wait for " \
               b"the control thread than it may hold"
    if busy != NULL:
        if h.flag & FLAG_RESPONSE:
            s.turn.counters.busy_replies += 1
            return DONE                         # nobody answers an answer
        outcome = reply_error(s.turn, c, h, SYSTEM_BUSY, busy)
        if h.flag & FLAG_ONE_WAY:
            outcome = NOT_NOW
    if outcome == NOT_NOW:
        if traits & OUTLIVES_CLIENT:
            postpone(&s.postponed, s.turn.net, c, f, resubmitted)
        return DONE
    if outcome == TURN_FULL:
        c.frames_in -= 1                        # it comes again
    return outcome


cdef Outcome refuse_unsupported(RequestRouter s, Connection* c, const Header* h) noexcept nogil:
    """Control has given back a request that only control could serve. Handing it over again would
    never end."""
    cdef char text[64]
    snprintf(text, sizeof(text), b" request type %d not supported", h.code)
    return reply_error(s.turn, c, h, REQUEST_CODE_NOT_SUPPORTED, text)


cdef Outcome route_frame(RequestRouter s, Connection* c, const Frame* f,
                         bint resubmitted) noexcept nogil:
    cdef Header header
    cdef const RequestHandler* handler
    cdef Outcome outcome
    cdef int status = parse_header_like(&s.shapes, f.header, f.header_bytes, f.serialize_type,
                                        &header)
    if status == TOO_LARGE and resubmitted:
        return reply_error(s.turn, c, &header, SYSTEM_ERROR,
                           b"the request has more header fields than sends and pulls may have")
    if status == TOO_LARGE:
        return conclude(s, c, &header, f, resubmitted, 0, TO_CONTROL)
    if status != OK:
        s.turn.counters.malformed_frames += 1
        log_event(s.turn, c, b"closed: malformed command header")
        return CLOSE_CONNECTION
    c.frames_in += 1
    if header.flag & FLAG_RESPONSE:
        if is_push_answer(&header):
            return conclude(s, c, &header, f, resubmitted, 0, push_answered(s.reply, c, &header))
        return conclude(s, c, &header, f, resubmitted, 0, TO_CONTROL)
    handler = handler_of(&header)
    if handler == NULL and resubmitted:
        return refuse_unsupported(s, c, &header)
    if handler == NULL or (handler.traits & AFTER_START and not s.turn.tables_loaded
                           and not resubmitted):
        return conclude(s, c, &header, f, resubmitted, 0, TO_CONTROL)
    s.turn.is_bound = False
    if s.auth.authenticates:
        outcome = admit(s.auth, c, &header, f, resubmitted)
        if outcome != GO_ON:
            return conclude(s, c, &header, f, resubmitted, 0, outcome)
    outcome = handler.run(s.services[handler.service], c, &header, f, resubmitted)
    if outcome == DONE:
        return DONE
    return conclude(s, c, &header, f, resubmitted, handler.traits, outcome)


# ------------------------------------------------------------------- what comes again

cdef Outcome route_without_client(RequestRouter s, const Frame* f, bint resubmitted) noexcept nogil:
    """Routes a request whose client has left; some requests are done all the same. DONE or
    TURN_FULL.

    There is no second admission: the request passed admission before, or control has judged the
    message that it is about. The certificate and address needed for one have gone with the
    client."""
    cdef Connection nobody
    cdef Header header
    cdef const RequestHandler* handler
    cdef const Text* topic
    if parse_header(f.header, f.header_bytes, f.serialize_type, &header) != OK:
        return DONE
    handler = handler_of(&header)
    if handler == NULL or not handler.traits & OUTLIVES_CLIENT or header.flag & FLAG_RESPONSE:
        return DONE
    memset(&nobody, 0, sizeof(nobody))
    header.flag |= FLAG_ONE_WAY
    # A request without a topic was let in for any topic, or control found that its user may end
    # this transaction.
    topic = header_find(&header, b"topic")
    s.turn.is_bound = s.auth.authorizes and topic != NULL and topic.length > 0
    return conclude(s, &nobody, &header, f, resubmitted, handler.traits,
                    handler.run(s.services[handler.service], &nobody, &header, f, True))


cdef bint route_again(RequestRouter s, uint64_t connection_id, const uint8_t* bytes,
                      uint64_t length, bint resubmitted) noexcept nogil:
    cdef Connection* c = s.turn.net.find(connection_id)
    cdef Frame frame
    cdef Outcome outcome
    if find_frame(bytes, length, <uint32_t> s.turn.options.frame_max_bytes, &frame) != OK:
        outcome = CLOSE_CONNECTION
    elif c == NULL:
        outcome = route_without_client(s, &frame, resubmitted)
    else:
        outcome = route_frame(s, c, &frame, resubmitted)
    if outcome == CLOSE_CONNECTION and c != NULL:
        s.turn.net.close_connection(c)
    return outcome != TURN_FULL


cdef void route_fetched(RequestRouter s) noexcept nogil:
    cdef ParkedRequest* request = parked_begin(&s.fetch.parked, s.fetch.pool)
    while request != NULL:
        if request.fetch.read.status == IO_ERROR:
            log_event(s.turn, NULL,
                      b"a record that a request speaks of cannot be read from the disk")
        if not route_again(s, request.connection_id, request.data + PARKED_RECORD_BYTES,
                           request.frame_bytes, request.resubmitted):
            parked_again(&s.fetch.parked, request)
            return
        parked_end(&s.fetch.parked, s.fetch.pool, request)
        request = parked_begin(&s.fetch.parked, s.fetch.pool)


cdef void route_postponed(RequestRouter s) noexcept nogil:
    cdef PostponedFrame* frame
    cdef int refusals = 0, tries = 0
    while tries < TRIES_MAX and refusals < REFUSALS_MAX:
        frame = postponed_next(&s.postponed)
        if frame == NULL:
            return
        if not route_again(s, frame.connection_id, frame.data, frame.frame_bytes,
                           frame.resubmitted):
            postponed_again(&s.postponed)
            return
        refusals += postponed_tried(&s.postponed, s.turn.net)
        tries += 1


# ------------------------------------------------------------------- the turn

cdef int32_t fetched_wait(RequestRouter s) noexcept nogil:
    return 0 if s.fetch.parked.read_count > 0 else NO_WAIT


cdef bint none_parked(RequestRouter s) noexcept nogil:
    return s.fetch.parked.count == 0


cdef int32_t postponed_wait(RequestRouter s) noexcept nogil:
    return 1 if s.postponed.first != NULL else NO_WAIT


cdef bint none_postponed(RequestRouter s) noexcept nogil:
    return s.postponed.first == NULL


cdef Step fetched_step(RequestRouter s) noexcept:
    return Step(b"fetched", <void*> s, <RunStep> route_fetched, <NextWait> fetched_wait,
                <StepDrained> none_parked)


cdef Step postponed_step(RequestRouter s) noexcept:
    return Step(b"postponed", <void*> s, <RunStep> route_postponed, <NextWait> postponed_wait,
                <StepDrained> none_postponed)
