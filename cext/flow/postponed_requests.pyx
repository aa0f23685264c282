"""Postponed requests. See postponed_requests.pxd."""
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from cext.flow.context.client_state cimport UNREAD_POSTPONED, client_state
from cext.memory.list_ends cimport list_ends_check


cdef void put_last(Postponed* p, PostponedFrame* frame) noexcept nogil:
    frame.next = NULL
    if p.last != NULL:
        p.last.next = frame
    else:
        p.first = frame
    p.last = frame
    list_ends_check(p.first, p.last)
    p.bytes += frame.frame_bytes


cdef void postpone(Postponed* p, Reactor net, Connection* c, const Frame* f,
                   bint resubmitted) noexcept nogil:
    cdef PostponedFrame* frame = NULL
    p.refused = True
    if p.current != NULL:
        return
    if net.now_ms >= p.keep_ms and p.bytes + f.total_bytes <= POSTPONED_BYTES:
        frame = <PostponedFrame*> malloc(sizeof(PostponedFrame) + f.total_bytes)
    if frame == NULL:
        p.dropped += 1
        return
    frame.connection_id = c.id
    frame.deadline_ms = net.now_ms + POSTPONED_MS
    frame.resubmitted = resubmitted
    frame.frame_bytes = f.total_bytes
    memcpy(frame.data, f.header - 8, f.total_bytes)     # from the four length bytes on
    put_last(p, frame)
    p.count += 1
    if c.id != 0:
        client_state(c).postponed += 1
        net.stop_reading(c, UNREAD_POSTPONED)


cdef PostponedFrame* postponed_next(Postponed* p) noexcept nogil:
    cdef PostponedFrame* frame = p.first
    if frame == NULL:
        return NULL
    p.first = frame.next
    if p.first == NULL:
        p.last = NULL
    list_ends_check(p.first, p.last)
    p.bytes -= frame.frame_bytes
    p.current = frame
    p.refused = False
    return frame


cdef bint postponed_tried(Postponed* p, Reactor net) noexcept nogil:
    cdef PostponedFrame* frame = p.current
    cdef Connection* c
    p.current = NULL
    if p.refused and net.now_ms < frame.deadline_ms:
        put_last(p, frame)
        return True
    if p.refused:
        p.dropped += 1
        p.keep_ms = net.now_ms + GIVEN_UP_MS
    c = net.find(frame.connection_id)
    if c != NULL and client_state(c).postponed > 0:
        client_state(c).postponed -= 1
        if client_state(c).postponed == 0:
            net.go_on_reading(c, UNREAD_POSTPONED)
    free(frame)
    return p.refused


cdef void postponed_again(Postponed* p) noexcept nogil:
    cdef PostponedFrame* frame = p.current
    p.current = NULL
    frame.next = p.first
    p.first = frame
    if p.last == NULL:
        p.last = frame
    p.bytes += frame.frame_bytes


cdef void postponed_free(Postponed* p) noexcept nogil:
    cdef PostponedFrame* frame = p.first
    while frame != NULL:
        p.first = frame.next
        free(frame)
        frame = p.first
    p.last = NULL
    p.bytes = 0
