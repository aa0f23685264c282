"""The client's thread (see loop.pxd; the structs, and which thread may touch what: state.pxd).

A turn: batches that are due are sealed; links with something to send send it; requests whose time
is over are ended as late; mailboxes are filled and their threads woken. Then the thread sleeps
until a socket, a caller or the clock has something for it. However many messages move in a turn, a
link costs one send and one recv, and a mailbox one wake-up.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from cext.base.atomics cimport load_acquire_i32
from cext.base.byteorder cimport store_u32
from cext.base.clock cimport machine_us, monotonic_us, monotonic_us_at, sleep_ms, wall_ms
from cext.base.native_thread cimport native_thread_start
from cext.base.status cimport Status
from cext.base.sysio cimport event_drain
from cext.client.claim cimport STOOD_US
from cext.client.link cimport (
    link_connect, link_connected, link_drop, link_flush, link_frame_have, link_frame_total,
    link_mark, link_next_frame, link_receive, link_room,
)
from cext.client.mutex cimport lock_release, lock_take
from cext.client.reply cimport keep_send_answer
from cext.client.slots cimport post_staged, slot_of, slot_on_heap, slot_stage
from cext.client.state cimport (
    ANSWERED, ASKED, BORN_DIGITS, DROPPED, KEEP_SEND, LATE, LINK_CONNECTING, LINK_IDLE, LOST,
    OPAQUE_AT, SLOTS, STOPPED, Batch, EngineState, Link, Slot,
)
from cext.net.socket_api cimport (
    EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, epoll_event, epoll_wait,
)
from cext.wire.codes cimport FLAG_RESPONSE
from cext.wire.frame cimport Frame
from cext.wire.header cimport Header
from cext.wire.reply_reader cimport read_reply_header

cdef extern from "<errno.h>" nogil:
    enum:
        errors_ENOMEM "ENOMEM"
        errors_EPROTO "EPROTO"
        errors_ETIMEDOUT "ETIMEDOUT"

cdef enum:
    EVENTS = 64
    WAIT_MS_MAX = 1000
    SILENCE_US = 1_000_000           # of a link; a shorter request's silence proves nothing
    FRAME_TIME_US = 5_000_000        # after this time it counts how much of a frame is here
    FRAME_TIME_MAX_US = 60_000_000   # at its present rate, all of a frame must come within this
    SILENT_LINKS = 16                # broken in one turn at most


cdef void break_link(EngineState* state, Link* link, int32_t error) noexcept nogil:
    """Requests that wait for an answer from it are lost; the next frame connects anew."""
    cdef Slot* slot
    cdef int32_t i
    lock_take(&state.lock)
    link_drop(state, link)
    for i in range(SLOTS):
        slot = &state.slots[i]
        if slot.opaque != 0 and slot.framed and slot.link == link.index:
            slot_stage(state, slot, LOST, error)
    lock_release(&state.lock)
    slot = slot_on_heap(DROPPED, link.index)
    if slot != NULL:
        slot.mailbox = state.notices
        slot_stage(state, slot, DROPPED, error)


cdef void send_out(EngineState* state, Link* link, int64_t now_us) noexcept nogil:
    cdef int error = 0
    cdef int status = Status.OK
    if link.state == LINK_IDLE:
        status = link_connect(state, link, now_us, &error)
    elif link.state != LINK_CONNECTING:
        status = link_flush(state, link, &error)
    if status == Status.IO_ERROR:
        break_link(state, link, error)


cdef bint keep_frame(Slot* slot, const Frame* frame, uint8_t** large) noexcept nogil:
    """Keeps the whole frame for the slot: takes over memory of its own, or copies it."""
    if large[0] != NULL:
        slot.frame = large[0]
        large[0] = NULL
    else:
        slot.frame = <uint8_t*>malloc(frame.total_bytes)
        if slot.frame == NULL:
            return False
        memcpy(slot.frame, frame.header - 8, frame.total_bytes)
    slot.frame_bytes = frame.total_bytes
    return True


cdef int take_frame(EngineState* state, Link* link, const Frame* frame,
                    uint8_t** large) noexcept nogil:
    """MALFORMED when it cannot be a frame: then the bytes that come are no longer understood."""
    cdef Header header
    cdef Slot* slot
    state.frames_received += 1
    link.has_answered = True
    if read_reply_header(frame, &header) != Status.OK:
        return Status.MALFORMED
    if header.flag & FLAG_RESPONSE == 0:
        slot = slot_on_heap(ASKED, link.index)
        if slot != NULL:
            slot.mailbox = state.notices
            keep_frame(slot, frame, large)
            slot_stage(state, slot, ASKED, 0)
        return Status.OK
    slot = slot_of(state, header.opaque)
    if slot == NULL or slot.link != link.index:
        state.stale_answers += 1
        return Status.OK
    if slot.keep == KEEP_SEND and keep_send_answer(slot, &header):
        slot_stage(state, slot, ANSWERED, header.code)
    elif keep_frame(slot, frame, large):
        slot_stage(state, slot, ANSWERED, header.code)
    else:
        slot_stage(state, slot, LOST, errors_ENOMEM)
    return Status.OK


cdef void receive(EngineState* state, Link* link, int64_t now_us) noexcept nogil:
    cdef Frame frame
    cdef uint8_t* large
    cdef int error = 0
    cdef int status = link_receive(link, &error)
    if status == Status.IO_ERROR:
        break_link(state, link, error)
    if status != Status.OK:
        return
    link.last_heard_us = now_us
    if link.frame_began_us == 0:
        link.frame_began_us = now_us
    while True:
        status = link_next_frame(link, &frame, &large)
        if status != Status.OK:
            break
        link.frame_began_us = now_us     # when the next frame began
        status = take_frame(state, link, &frame, &large)
        free(large)
        if status != Status.OK:
            break
    if status != Status.NOT_READY:
        break_link(state, link, errors_EPROTO)
    elif link.large == NULL and link.input_start == link.input_end:
        link.frame_began_us = 0          # no frame has begun


cdef void serve(EngineState* state, Link* link, uint32_t events, int64_t now_us) noexcept nogil:
    cdef int error = 0
    if link.fd < 0:
        return
    if link.state == LINK_CONNECTING:
        if link_connected(state, link, &error) != Status.OK:
            break_link(state, link, error)
            return
        events |= EPOLLOUT
    if events & EPOLLOUT:
        send_out(state, link, now_us)
    if link.fd >= 0 and events & (EPOLLIN | EPOLLHUP | EPOLLERR):
        receive(state, link, now_us)


cdef void unlink_batch(EngineState* state, Batch* batch) noexcept nogil:
    cdef Batch** at = &state.open_first
    while at[0] != NULL:
        if at[0] == batch:
            at[0] = batch.next
            return
        at = &at[0].next


cdef int seal_batch(EngineState* state, Batch* batch, int64_t now_us) noexcept nogil:
    cdef Slot* slot = batch.slot
    cdef Link* link = state.links[slot.link]
    cdef uint32_t total = batch.head_bytes + batch.used
    cdef uint8_t* out = link_room(link, total)
    cdef int64_t born = wall_ms()
    cdef int i
    unlink_batch(state, batch)
    batch.sealed = True
    if out == NULL:
        slot.framed = True
        slot.deadline_us = 0         # the engine's next turn ends it as late
        state.next_deadline_us = 0
        return Status.POOL_EMPTY
    memcpy(out, batch.head, batch.head_bytes)
    store_u32(out, total - 4)
    store_u32(out + OPAQUE_AT, <uint32_t>slot.opaque)
    for i in range(BORN_DIGITS - 1, -1, -1):
        out[batch.born_at + i] = <uint8_t>(48 + born % 10)
        born //= 10
    memcpy(out + batch.head_bytes, batch.bytes, batch.used)
    link.fill_used += total
    free(batch.bytes)
    batch.bytes = NULL
    slot.framed = True
    slot.started_us = now_us
    slot.deadline_us = now_us + <int64_t>batch.timeout_ms * 1000
    state.next_deadline_us = min(state.next_deadline_us, slot.deadline_us)
    state.frames_sent += 1
    slot.number = state.frames_sent
    link_mark(state, link)
    return Status.OK


cdef void send_dirty(EngineState* state, int64_t now_us) noexcept nogil:
    cdef Batch* batch
    cdef Batch* following
    cdef Link* link
    cdef Link* next_link
    lock_take(&state.lock)
    batch = state.open_first
    while batch != NULL:
        following = batch.next
        if batch.due_us <= now_us:
            seal_batch(state, batch, now_us)
        batch = following
    link = state.dirty_first
    state.dirty_first = NULL
    lock_release(&state.lock)
    while link != NULL:
        next_link = link.next_dirty
        send_out(state, link, now_us)
        link = next_link


cdef bint is_dead(const Link* link, const Slot* slot, int64_t now_us) noexcept nogil:
    """Whether a late request's link must be broken: it is half open (nothing came in all that time)
    or misread (a damaged length turns all that comes into parts of a frame without end). A slow
    line is neither: the rate at which bytes come says when the frame will be complete."""
    cdef int64_t frame_time = now_us - link.frame_began_us
    if now_us - slot.started_us < SILENCE_US:
        return False
    if link.last_heard_us < slot.started_us:
        return True
    if link.frame_began_us == 0 or frame_time < FRAME_TIME_US:
        return False
    return frame_time * link_frame_total(link) > FRAME_TIME_MAX_US * link_frame_have(link)


cdef void tell_late(EngineState* state, int64_t now_us) noexcept nogil:
    """Ends requests whose time is over. Breaks dead links, so that the next frame connects anew."""
    cdef int64_t nearest = FOREVER_US
    cdef int32_t silent[SILENT_LINKS]
    cdef Slot* slot
    cdef Link* link
    cdef int32_t i
    cdef int silent_count = 0
    lock_take(&state.lock)
    if state.next_deadline_us <= now_us:
        for i in range(SLOTS):
            slot = &state.slots[i]
            if slot.opaque == 0 or not slot.framed:
                continue
            if slot.deadline_us <= now_us:
                slot_stage(state, slot, LATE, 0)
                link = state.links[slot.link]
                if silent_count < SILENT_LINKS and is_dead(link, slot, now_us):
                    silent[silent_count] = slot.link
                    silent_count += 1
            else:
                nearest = min(nearest, slot.deadline_us)
        state.next_deadline_us = nearest
    lock_release(&state.lock)
    for i in range(silent_count):
        if state.links[silent[i]].fd >= 0:
            break_link(state, state.links[silent[i]], errors_ETIMEDOUT)
    for i in range(load_acquire_i32(&state.link_count)):
        link = state.links[i]
        if link.state == LINK_CONNECTING and link.connect_until_us <= now_us:
            break_link(state, link, errors_ETIMEDOUT)


cdef int patience(EngineState* state) noexcept nogil:
    """How many ms to sleep; 0 when there is something to send already."""
    cdef int64_t until
    cdef int64_t now_us = monotonic_us()
    cdef Batch* batch
    cdef int32_t i
    lock_take(&state.lock)
    until = state.next_deadline_us
    batch = state.open_first
    while batch != NULL:
        until = min(until, batch.due_us)
        batch = batch.next
    for i in range(state.link_count):
        if state.links[i].state == LINK_CONNECTING:
            until = min(until, state.links[i].connect_until_us)
    if state.dirty_first != NULL:
        until = now_us
    state.sleeping = until > now_us
    state.sleep_until_us = until
    lock_release(&state.lock)
    if until <= now_us:
        return 0
    return <int>min((until - now_us + 999) // 1000, <int64_t>WAIT_MS_MAX)


cdef void forgive(EngineState* state, int64_t turn_us) noexcept nogil:
    """The process stood still (stopped, swapped out, its machine paused) in a turn of this length.
    No answer in the socket could be taken meanwhile, so the turn's time does not count. Nor does
    the sleep that was meant: the process may have stood still from its beginning."""
    cdef Slot* slot
    cdef Link* link
    cdef int32_t i
    lock_take(&state.lock)
    for i in range(SLOTS):
        slot = &state.slots[i]
        if slot.opaque != 0 and slot.framed:
            slot.started_us += turn_us
            slot.deadline_us += turn_us
    if state.next_deadline_us != FOREVER_US:
        state.next_deadline_us += turn_us
    for i in range(state.link_count):
        link = state.links[i]
        link.connect_until_us += turn_us
        link.last_heard_us += turn_us
        if link.frame_began_us != 0:
            link.frame_began_us += turn_us
    lock_release(&state.lock)


cdef void stop_all(EngineState* state) noexcept nogil:
    cdef int32_t i
    lock_take(&state.lock)
    state.closed = True
    state.open_first = NULL
    for i in range(SLOTS):
        if state.slots[i].opaque != 0:
            slot_stage(state, &state.slots[i], STOPPED, 0)
    for i in range(state.link_count):
        link_drop(state, state.links[i])
    state.dirty_first = NULL
    lock_release(&state.lock)
    post_staged(state)


cdef void body(void* argument) noexcept nogil:
    cdef EngineState* state = <EngineState*>argument
    cdef epoll_event events[EVENTS]
    cdef int64_t now_us, looked_us, began_us = machine_us()
    cdef int count, i, wait_ms = 0
    while not load_acquire_i32(&state.stopping):
        looked_us = machine_us()         # of the machine: a test's jump of the clock does not count
        if looked_us - began_us - 1000 * <int64_t>wait_ms > STOOD_US:
            forgive(state, looked_us - began_us)
        began_us = looked_us
        now_us = monotonic_us_at(looked_us)
        send_dirty(state, now_us)
        tell_late(state, now_us)
        post_staged(state)
        wait_ms = sleep_ms(patience(state))
        count = epoll_wait(state.epoll_fd, events, EVENTS, wait_ms)
        lock_take(&state.lock)
        state.sleeping = False
        lock_release(&state.lock)
        now_us = monotonic_us()
        for i in range(max(count, 0)):
            if events[i].data.ptr == NULL:
                event_drain(state.wake_fd)
            else:
                serve(state, <Link*>events[i].data.ptr, events[i].events, now_us)
        post_staged(state)
    stop_all(state)


cdef int loop_start(EngineState* state, int* error) noexcept nogil:
    return native_thread_start(&state.thread, &body, state, b"rmq-client", error)
