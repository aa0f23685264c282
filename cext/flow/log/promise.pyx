"""What an answer promises. See promise.pxd."""
from libc.string cimport memset

from cext.base.check cimport check
from cext.base.status cimport NOT_READY, OK, POISONED
from cext.flow.log.ack_queue cimport ack_queue_push, ack_queue_reserve
from cext.flow.log.dispatch cimport write_and_dispatch


cdef inline bint has_room(ShardState s) noexcept nogil:
    return ack_queue_reserve(promise_queue(s, False)) != NULL \
        and ack_queue_reserve(promise_queue(s, True)) != NULL


cdef int promise_room(ShardState s) noexcept nogil:
    cdef int status
    if s.log.poisoned():
        return POISONED
    if has_room(s):
        return OK
    status = write_and_dispatch(s)
    if status != OK:
        return status
    return OK if has_room(s) else NOT_READY


cdef PendingAck* promise(ShardState s, const AckReply* to, int32_t answer) noexcept nogil:
    cdef AckQueue* queue = promise_queue(s, True)
    cdef PendingAck* ack
    if to.connection == NULL:
        return NULL
    ack = ack_queue_reserve(queue)
    check(ack != NULL, b"an answer: its room is asked for before anything is appended",
          to.request_code, s.log.marks.appended)
    memset(ack, 0, sizeof(PendingAck))
    ack.to = to[0]
    ack.deadline_ms = s.now_ms + s.options.sync_flush_timeout_ms
    ack.answer = answer
    ack.end = s.log.marks.appended
    ack_queue_push(queue)
    return ack
