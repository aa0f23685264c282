"""One turn of the reactor, and the loop of turns. See turn.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from cext.base.atomics cimport load_acquire_i32
from cext.base.check cimport check
from cext.base.clock cimport wall_ms
from cext.base.status cimport NOT_READY, OK, TOO_LARGE
from cext.flow.client_state cimport (
    UNREAD_CONTROL, UNREAD_ROOM, UNREAD_SHARE, ClientState, client_state,
)
from cext.flow.log.acknowledge cimport expire, settle
from cext.flow.fetch.parked_requests cimport park_request, parked_begin, parked_end
from cext.flow.fetch.parked_state cimport PARKED_RECORD_BYTES, ParkedRequest
from cext.flow.fetch.log_view cimport NEED_RECORD
from cext.flow.control.control_link cimport (
    CALL,
    CLOSE,
    CLOSED_CONNECTION,
    DRAINED,
    HOLD,
    RELEASE,
    RESUBMIT,
    SEND_DONE,
    SEND_FRAME,
    TELL_DRAINED,
    LinkMessage,
    link_tell,
    link_wake_control,
    sem_post,
)
from cext.flow.housekeeping cimport keep_house
from cext.flow.log.dispatch cimport handle_poison, write_and_dispatch
from cext.flow.pull.mended cimport mended_turn
from cext.flow.pull.held_pulls cimport forget_connection, resume_deferred, wake_expired
from cext.flow.pop.pop cimport accept_pop
from cext.flow.pop.pop_ack cimport accept_ack, accept_batch_ack, accept_change
from cext.flow.pop.pop_merge cimport merge_turn
from cext.flow.send.postponed cimport (
    REFUSALS_MAX,
    TRIES_MAX,
    PostponedFrame,
    postpone,
    postponed_next,
    postponed_tried,
)
from cext.flow.send.produce cimport produce
from cext.flow.pull.pull cimport accept_pull, answer_pulls, collect_reads
from cext.flow.send.reply_push cimport (
    is_push_answer,
    push_answered,
    push_forget,
    push_reply,
)
from cext.flow.replying cimport (
    FLAG_ONE_WAY,
    FLAG_RESPONSE,
    SYSTEM_BUSY,
    SYSTEM_ERROR,
    hand_to_control,
    reply_error,
    tell_event,
)
from cext.flow.pop.revive cimport revive_turn, revive_wait
from cext.flow.tables.progress cimport commit_progress
from cext.flow.delay.recall cimport recall
from cext.flow.delay.schedule cimport deliver_due, schedule_clock, schedule_wait
from cext.flow.send.room_wait cimport room_turn
from cext.flow.send.send_back cimport send_back
from cext.flow.send.sends_away cimport give_send_away, send_is_back
from cext.flow.delay.timer_turn cimport timer_deliver, timer_wait, timer_written
from cext.flow.send.transaction cimport end_transaction, write_ops
from cext.memory.spsc_ring cimport spsc_is_empty, spsc_pop
from cext.net.connection cimport ON_HEAP, OWNER_BLOCK_WORDS, Connection
from cext.net.reactor cimport OnBytes, OnClosed, OnDrained, OnRefused
from cext.wire.frame cimport Frame, find_frame
from cext.wire.header cimport Header, parse_header
from cext.wire.header_shapes cimport parse_header_like
from cext.wire.pop_request cimport (
    ACK_MESSAGE,
    BATCH_ACK_MESSAGE,
    NOTIFICATION,
    PEEK_MESSAGE,
    POLLING_INFO,
    POP_MESSAGE,
    pop_code,
)

cdef enum:
    SEND_MESSAGE = 10
    SEND_MESSAGE_V2 = 310
    SEND_BATCH_MESSAGE = 320
    PULL_MESSAGE = 11
    UPDATE_CONSUMER_OFFSET = 15
    LITE_PULL_MESSAGE = 361
    END_TRANSACTION = 37
    CONSUMER_SEND_MSG_BACK = 36
    SEND_REPLY_MESSAGE = 324
    SEND_REPLY_MESSAGE_V2 = 325
    RECALL_MESSAGE = 370
    DRAIN_MS = 1500             # at stop: how long replies that wait for a sync may take
    GATHER_PASSES_MAX = 64      # before a sync
    CATCH_UP_MS = 2             # how often the control thread is looked at that clients wait for
    NOT_NOW = 2                 # what end_transaction() says


cdef int handle_pop(ShardState s, Connection* c, const Header* h, const Frame* f,
                    bint resubmitted) noexcept nogil:
    """As handle_frame(); 1 also for what is no request of a consumer that pops."""
    cdef int32_t code = pop_code(h)
    if code != BATCH_ACK_MESSAGE and not POP_MESSAGE <= code <= POLLING_INFO:
        return 1
    if s.schedule.count == 0 and not resubmitted:
        return 1                        # topics, groups and offsets are not loaded yet
    if code == POP_MESSAGE or code == PEEK_MESSAGE or NOTIFICATION <= code <= POLLING_INFO:
        return accept_pop(s, c, h, f, resubmitted)
    if code == ACK_MESSAGE:
        return accept_ack(s, c, h)
    if code == BATCH_ACK_MESSAGE:
        return accept_batch_ack(s, c, h, f)
    return accept_change(s, c, h)


cdef int ask_or_refuse(ShardState s, Connection* c, const Header* h, const Frame* f,
                       bint resubmitted) noexcept nogil:
    """After NEED_RECORD: the request comes again with the record."""
    if park_request(s, c, f, resubmitted):
        return 0
    if h.flag & FLAG_ONE_WAY:
        return NOT_NOW
    s.counters.busy_replies += 1
    return reply_error(s, c, h, SYSTEM_BUSY, b"[OVERLOAD]system busy, start flow control for a "
                       b"while: too many requests wait for messages from the disk")


cdef int handle_end(ShardState s, Connection* c, const Header* h, const Frame* f,
                    bint resubmitted) noexcept nogil:
    cdef uint64_t before = s.counters.control_requests
    cdef int result = end_transaction(s, c, h, resubmitted)
    if result == 1:
        result = hand_to_control(s, c, h, f)
        if result == 0 and h.flag & FLAG_ONE_WAY and s.counters.control_requests == before:
            result = NOT_NOW
    elif result == NEED_RECORD:
        result = ask_or_refuse(s, c, h, f, resubmitted)
    if result == NOT_NOW:
        postpone(&s.postponed, s.net, c, f, resubmitted)
        return 0
    return result


cdef int handle_frame(ShardState s, Connection* c, const Frame* f, bint resubmitted) noexcept nogil:
    """One request (or a client's answer to ours); -1 closes the connection."""
    cdef Header header
    cdef int result = 1
    cdef int status = parse_header_like(&s.shapes, f.header, f.header_bytes, f.serialize_type,
                                        &header)
    if status == TOO_LARGE:
        if not resubmitted:
            return hand_to_control(s, c, &header, f)
        return reply_error(s, c, &header, SYSTEM_ERROR,
                           b"the request has more header fields than sends and pulls may have")
    if status != OK:
        s.counters.malformed_frames += 1
        tell_event(s, c, b"closed: malformed command header")
        return -1
    c.frames_in += 1
    if header.flag & FLAG_RESPONSE:
        if is_push_answer(&header):
            push_answered(s, c, &header)
            return 0
        return hand_to_control(s, c, &header, f)
    if (header.code == SEND_MESSAGE_V2 or header.code == SEND_MESSAGE
            or header.code == SEND_BATCH_MESSAGE):
        result = produce(s, c, &header, f, resubmitted)
        if result == 1 and not resubmitted:
            return give_send_away(s, c, &header, f)
    elif header.code == PULL_MESSAGE or header.code == LITE_PULL_MESSAGE:
        result = accept_pull(s, c, &header, f, resubmitted)
    elif header.code == UPDATE_CONSUMER_OFFSET:
        result = commit_progress(s, c, &header)
    elif header.code == END_TRANSACTION:
        return handle_end(s, c, &header, f, resubmitted)
    elif header.code == CONSUMER_SEND_MSG_BACK:
        result = send_back(s, c, &header, resubmitted)
        if result == NEED_RECORD:
            result = min(ask_or_refuse(s, c, &header, f, resubmitted), 0)
    elif header.code == SEND_REPLY_MESSAGE or header.code == SEND_REPLY_MESSAGE_V2:
        result = push_reply(s, c, &header, f)
    elif header.code == RECALL_MESSAGE:
        result = recall(s, c, &header, resubmitted)
    else:
        result = handle_pop(s, c, &header, f, resubmitted)
    if result == 1:
        return hand_to_control(s, c, &header, f)
    return result


cdef int64_t take_bytes(ShardState s, Connection* c, const uint8_t* bytes, uint64_t available,
                        uint64_t* needed) noexcept nogil:
    cdef Frame frame
    cdef uint64_t used = 0
    cdef uint64_t id = c.id
    cdef int status
    while used < available and c.id == id:      # a reply that found no buffer closes at once
        status = find_frame(bytes + used, available - used, <uint32_t> s.options.frame_max_bytes,
                            &frame)
        if status == NOT_READY:
            needed[0] = frame.needed
            break
        if status != OK:
            s.counters.malformed_frames += 1
            if available - used > 0 and bytes[used] == 0x16:
                tell_event(s, c, b"closed: the client speaks TLS, this port does not")
            elif status == TOO_LARGE:
                tell_event(s, c, b"closed: frame longer than the limit of 16 MiB")
            else:
                tell_event(s, c, b"closed: malformed frame")
            return -1
        if handle_frame(s, c, &frame, False) < 0:
            return -1
        used += frame.total_bytes
    return used


cdef int refuse_frame(ShardState s, Connection* c, const uint8_t* bytes, uint64_t available,
                      uint64_t needed) noexcept nogil:
    """No buffer for a large frame: answer SYSTEM_BUSY from its header, drop its bytes."""
    cdef Header header
    cdef uint32_t header_bytes = 0
    if available >= 8:
        header_bytes = (<uint32_t> bytes[5] << 16) | (<uint32_t> bytes[6] << 8) | bytes[7]
    if available < 8 + <uint64_t> header_bytes:
        s.counters.busy_replies += 1
        tell_event(s, c, b"closed: no buffer for a large request whose header has not come yet")
        return -1
    if parse_header(bytes + 8, header_bytes, bytes[4], &header) != OK:
        s.counters.malformed_frames += 1
        tell_event(s, c, b"closed: malformed command header")
        return -1
    if header.flag & FLAG_RESPONSE:
        return 0
    s.counters.busy_replies += 1
    return reply_error(s, c, &header, SYSTEM_BUSY, b"[REJECTREQUEST]system busy, start flow "
                       b"control for a while: no buffer for another large request")


cdef void connection_closed(ShardState s, Connection* c) noexcept nogil:
    forget_connection(s, c)
    push_forget(s, c)
    if client_state(c).introduced:
        link_tell(&s.link, CLOSED_CONNECTION, c.id, NULL, 0)


cdef void output_drained(ShardState s, Connection* c) noexcept nogil:
    resume_deferred(s, c)
    if c.notify_drained:
        c.notify_drained = not link_tell(&s.link, DRAINED, c.id, NULL, 0)
        if c.notify_drained:
            s.net.mark_dirty(c)         # no memory: told in the next turn


cdef void connect_callbacks(ShardState s) noexcept nogil:
    # The owner is passed through the network half as a pointer; each callback's first argument is
    # that same object, so the casts change the type of a pointer and nothing else.
    check(sizeof(ClientState) <= 8 * OWNER_BLOCK_WORDS, b"a client's state fits its connection",
          sizeof(ClientState), 8 * OWNER_BLOCK_WORDS)
    s.net.set_callbacks(<void*> s, <OnBytes> take_bytes, <OnRefused> refuse_frame,
                        <OnClosed> connection_closed, <OnDrained> output_drained)


# ------------------------------------------------------------------- from the control thread

cdef void end_of_nobody(ShardState s, const Frame* f) noexcept nogil:
    """Its client is gone, the end of its transaction counts all the same."""
    cdef Connection nobody
    cdef Header header
    cdef int result
    memset(&nobody, 0, sizeof(nobody))
    if (parse_header(f.header, f.header_bytes, f.serialize_type, &header) == OK
            and header.code == END_TRANSACTION and not header.flag & FLAG_RESPONSE):
        header.flag |= FLAG_ONE_WAY
        result = end_transaction(s, &nobody, &header, True)
        if result == NEED_RECORD:
            result = ask_or_refuse(s, &nobody, &header, f, True)
        if result == NOT_NOW:
            postpone(&s.postponed, s.net, &nobody, f, True)


cdef void take_again(ShardState s, uint64_t connection_id, const uint8_t* bytes, uint64_t length,
                     bint resubmitted) noexcept nogil:
    """A whole frame with its length."""
    cdef Connection* c = s.net.find(connection_id)
    cdef Frame frame
    if find_frame(bytes, length, <uint32_t> s.options.frame_max_bytes, &frame) != OK:
        if c != NULL:
            s.net.close_connection(c)
        return
    if c == NULL:
        end_of_nobody(s, &frame)
    elif handle_frame(s, c, &frame, resubmitted) < 0:
        s.net.close_connection(c)


cdef void take_parked(ShardState s) noexcept nogil:
    """Requests whose record has come from the disk."""
    cdef ParkedRequest* frame = parked_begin(s)
    while frame != NULL:
        take_again(s, frame.connection_id, frame.data + PARKED_RECORD_BYTES, frame.frame_bytes,
                   frame.resubmitted)
        parked_end(s, frame)
        frame = parked_begin(s)


cdef void try_postponed(ShardState s) noexcept nogil:
    cdef PostponedFrame* frame
    cdef int refusals = 0, tries = 0
    while tries < TRIES_MAX and refusals < REFUSALS_MAX:
        frame = postponed_next(&s.postponed)
        if frame == NULL:
            return
        take_again(s, frame.connection_id, frame.data, frame.frame_bytes, frame.resubmitted)
        refusals += postponed_tried(&s.postponed, s.net)
        tries += 1


cdef void run_control(ShardState s) noexcept nogil:
    cdef LinkMessage* message = <LinkMessage*> spsc_pop(&s.link.to_reactor)
    cdef Connection* c
    while message != NULL:
        if message.kind == CALL:
            message.call(<void*> s, message.arguments)
            sem_post(&message.done)         # the message is on the caller's stack: gone from here
        elif message.kind == RESUBMIT:
            take_again(s, message.connection_id, message.data, message.length, True)
            free(message)
        else:
            c = s.net.find(message.connection_id)
            if c != NULL and message.kind == SEND_FRAME:
                if s.net.add_owned(c, message.data, message.length, message, ON_HEAP):
                    message = NULL          # the output piece owns it now
                else:
                    s.net.close_connection(c)
            elif c != NULL and message.kind == SEND_DONE:
                send_is_back(s, c)
            elif c != NULL and message.kind == HOLD:
                s.net.stop_reading(c, UNREAD_CONTROL)
            elif c != NULL and message.kind == RELEASE:
                s.net.go_on_reading(c, UNREAD_CONTROL)
            elif c != NULL and message.kind == TELL_DRAINED:
                c.notify_drained = 1
                s.net.mark_dirty(c)
            elif c != NULL and message.kind == CLOSE:
                c.closing = True
                s.net.mark_dirty(c)
            free(message)
        message = <LinkMessage*> spsc_pop(&s.link.to_reactor)


# ------------------------------------------------------------------- the turn

cdef int32_t next_timeout(ShardState s) noexcept nogil:
    """How long poll may sleep: until the next tick when something waits for time, else 1 s."""
    if s.ready != NULL or s.net.dirty_first != NULL or s.parked.read_count > 0:
        return 0
    if s.postponed.first != NULL or s.net.unread_count(UNREAD_ROOM) > 0:
        return 1
    if s.net.unread_count(UNREAD_SHARE) > 0:
        return timer_wait(s, schedule_wait(s, CATCH_UP_MS))
    if s.held_count > 0 or s.await_durable.head != s.await_durable.tail or s.stopping:
        return revive_wait(s, timer_wait(s, schedule_wait(s, 50)))
    return revive_wait(s, timer_wait(s, schedule_wait(s, 500)))


cdef bint gather(ShardState s) noexcept nogil:
    """Before a sync in this thread: takes all that has arrived. Whether the loop was woken."""
    cdef bint woken = s.net.woken
    cdef int _pass
    if not s.options.sync_flush or s.await_durable.head == s.await_durable.tail \
            or not s.flusher.syncs_here():
        return woken
    for _pass in range(GATHER_PASSES_MAX):
        s.net.poll(0)
        if s.net.event_count <= 0:
            break
        s.net.receive_ready()
        woken = woken or s.net.woken
    return woken


cdef void sync_turn(ShardState s) noexcept nogil:
    """Has what the turn wrote synced: here when that is quick, or by the flusher."""
    if not s.log.holds_flusher or s.log.marks.written == s.log.durable():
        return
    if s.await_durable.head != s.await_durable.tail and s.flusher.syncs_here():
        if s.net.dirty_first != NULL:
            s.net.flush()                   # what does not wait for the disk leaves before
        if s.flusher.sync_here() != NOT_READY:
            return
    s.log.wake_flusher()


cdef void run_turn(ShardState s) noexcept nogil:
    cdef int64_t wall
    cdef bint woken
    cdef int32_t timeout = next_timeout(s)
    s.stalled_ms = s.write_us // 1000
    if s.stalled_ms >= s.options.send_wait_ms:
        timeout = 0                         # what came meanwhile, and nothing later
    s.log.reactor_sleeps()                  # before the last look: who moves on from here signals
    if s.log.durable() != s.durable_seen or s.log.commit_moved():
        timeout = 0
    s.net.poll(timeout)
    s.log.reactor_wakes()
    s.now_ms = s.net.now_ms
    wall = wall_ms()
    if wall > s.wall_ms:
        s.wall_ms = wall                    # stored times never go back (wire.md 4.2)
    schedule_clock(s, wall)
    s.log.new_turn()
    s.counters.turns += 1
    s.write_us = 0
    s.log.holds_flusher = s.options.sync_flush
    room_turn(s)
    s.net.receive_ready()
    woken = gather(s)
    if woken or not spsc_is_empty(&s.link.to_reactor):
        run_control(s)
    take_parked(s)
    if s.postponed.first != NULL:
        try_postponed(s)                    # behind it: they may wait for its places
    if s.net.unread_count(UNREAD_SHARE) > 0 and spsc_is_empty(&s.link.to_control):
        s.net.go_on_reading_all(UNREAD_SHARE)
    merge_turn(s)
    deliver_due(s)
    timer_deliver(s)
    write_ops(s)
    write_and_dispatch(s)
    timer_written(s)
    revive_turn(s)
    wake_expired(s)
    collect_reads(s)
    answer_pulls(s)
    write_pops(s)
    sync_turn(s)
    # Looked at once, so that a move between two looks is not missed before the next sleep.
    s.durable_seen = s.log.durable()
    if s.await_durable.head != s.await_durable.tail:
        settle(s, &s.await_durable, s.durable_seen)
        expire(s, &s.await_durable)
    if s.log.poisoned() and not s.poison_told:
        handle_poison(s)
    s.queues.turn(s.wall_ms, s.durable_seen)
    mended_turn(s)
    if s.now_ms // 1000 != s.last_second:
        s.last_second = s.now_ms // 1000
        keep_house(s)
    s.net.flush()
    link_wake_control(&s.link)


cdef inline void write_pops(ShardState s) noexcept nogil:
    """What pops and revived messages brought into the log is in its file before replies leave."""
    if s.pops.appended:
        s.pops.appended = False
        write_and_dispatch(s)


cdef bint is_drained(ShardState s) noexcept nogil:
    return (s.postponed.first == NULL and s.await_durable.head == s.await_durable.tail
            and s.reading_count == 0 and s.parked.count == 0 and s.ready == NULL
            and s.net.dirty_first == NULL
            and (s.log.marks.written == s.log.marks.appended or s.log.poisoned()))


cdef void run_turns(ShardState s) noexcept nogil:
    cdef int64_t stop_at = 0
    s.timer_tick = s.net.now_ms // 100
    while True:
        run_turn(s)
        if load_acquire_i32(&s.stopping):
            if stop_at == 0:
                stop_at = s.now_ms + DRAIN_MS
                s.net.stop_accepting()
            elif is_drained(s) or s.now_ms > stop_at:
                return
