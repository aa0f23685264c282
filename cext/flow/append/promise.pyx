"""What an answer promises. See promise.pxd."""
from libc.string cimport memset

from cext.base.check cimport check
from cext.base.status cimport NOT_READY, OK, POISONED
from cext.flow.append.ack_queue cimport (
    MARK_WRITTEN,
    AckQueue,
    PendingAck,
    ack_queue_has_room,
    ack_queue_push,
    ack_queue_reserve,
)
from cext.flow.append.turn_room cimport no_room


cdef int promise_room_for(Appender s, int32_t count) noexcept nogil:
    if s.log.poisoned():
        return POISONED
    if not ack_queue_has_room(&s.acks.waiting[<int> MARK_WRITTEN], count):
        return no_room(s, 0)            # this turn answers all that waits for `written`
    if not ack_queue_has_room(&s.acks.waiting[promise_mark(s, True)], count):
        return NOT_READY
    return OK


cdef PendingAck* promise(Appender s, const AckReply* to, int32_t answer) noexcept nogil:
    return promise_at(s, to, answer, promise_mark(s, True))


cdef PendingAck* promise_at(Appender s, const AckReply* to, int32_t answer,
                            int32_t mark) noexcept nogil:
    cdef AckQueue* queue = &s.acks.waiting[mark]
    cdef PendingAck* ack
    if to.connection == NULL:
        return NULL
    ack = ack_queue_reserve(queue)
    check(ack != NULL, b"an answer: its room is asked for before anything is appended",
          to.request_code, s.log.marks.appended)
    memset(ack, 0, sizeof(PendingAck))
    ack.to = to[0]
    ack.arrived_ms = s.turn.now_ms
    ack.answer = answer
    ack.end = s.log.marks.appended
    ack_queue_push(queue)
    return ack
