"""Pop reply. See pop_reply.pxd."""
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memset, strlen

from cext.base.clock cimport monotonic_us
from cext.flow.context.rpc_times cimport rpc_record
from cext.flow.context.small_replies cimport log_event, reply_error_to
from cext.flow.pop.held_pops cimport pop_asleep, wake_pops
from cext.flow.pop.pop_batch cimport given_bytes_max
from cext.flow.pop.pop_job cimport POP
from cext.flow.pull.held_pulls cimport free_job
from cext.flow.tables.delivery_counter cimport delivery_counter_add
from cext.net.connection cimport IN_JUMBO
from cext.wire.codes cimport SUCCESS, SYSTEM_BUSY, SYSTEM_ERROR
from cext.wire.replies cimport (
    ERROR_REPLY_BYTES_MAX,
    POP_REPLY_BYTES_MAX,
    PopReply,
    write_notification_reply,
    write_pop_reply_header,
)
from cext.wire.text cimport text_of

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)


cdef inline void time_answer(PopService s, const PopJob* job, int32_t code) noexcept nogil:
    rpc_record(&s.turn.rpc, job.pull.request_code, code, job.pull.held,
               monotonic_us() // 1000 - job.pull.arrived_ms, 1)


cdef bint write_header(PopService s, PopJob* job, Popped* p, int32_t code,
                       const char* remark) noexcept nogil:
    cdef PopReply reply
    cdef uint8_t* at = s.turn.net.reserve_reply(job.pull.connection, POP_REPLY_BYTES_MAX)
    if at == NULL:
        return False
    time_answer(s, job, code)
    memset(&reply, 0, sizeof(reply))
    reply.code = code
    reply.opaque = job.pull.opaque
    reply.serialize_type = job.pull.serialize_type
    reply.remark = text_of(<const uint8_t*> remark, <uint32_t> strlen(remark))
    reply.pop_ms = p.pop_ms
    reply.invisible_ms = job.invisible_ms
    reply.revive_queue = p.revive_queue
    reply.rest = p.rest
    if job.kind == POP:
        reply.start_offsets = text_of(<uint8_t*> p.starts.text, p.starts.length)
        reply.message_offsets = text_of(<uint8_t*> p.messages.text, p.messages.length)
        if job.order:
            reply.order_counts = text_of(<uint8_t*> p.orders.text, p.orders.length)
    reply.body_bytes = <uint32_t> p.bytes
    return s.turn.net.commit_reply(job.pull.connection, write_pop_reply_header(at, &reply))


cdef void wake_next(PopService s, PopJob* job, const Popped* p) noexcept nogil:
    """There is more: wakes the next pop that waits."""
    pop_asleep(job)
    if p.rest > 0 and job.pair.first != NULL and job.kind == POP:
        wake_pops(s.pull, job.pair, job.queue_id)


cdef void answer_found(PopService s, PopJob* job, Popped* p) noexcept nogil:
    cdef bint good = write_header(s, job, p, SUCCESS, b"FOUND")
    cdef int32_t i
    for i in range(p.borrowed):
        good = good and s.turn.net.add_borrowed(job.pull.connection, p.at[i], p.sizes[i])
    if good and p.copied > 0:
        good = s.turn.net.add_owned(job.pull.connection, p.copies, p.copied, p.copies, IN_JUMBO)
        if good:
            p.copies = NULL             # an output piece owns it now
    if not good:
        s.turn.net.close_connection(job.pull.connection)
    s.pops.popped += p.count
    s.turn.counters.messages_out += p.count
    s.turn.counters.bytes_out += p.bytes
    delivery_counter_add(job.pull.delivered, p.count, p.bytes)
    wake_next(s, job, p)
    free_job(s.pull, &job.pull)


cdef void answer_nothing(PopService s, PopJob* job, Popped* p, int32_t code) noexcept nogil:
    if not write_header(s, job, p, code, b"NO_MESSAGE_IN_QUEUE"):
        s.turn.net.close_connection(job.pull.connection)
    free_job(s.pull, &job.pull)


cdef void answer_notification(PopService s, PopJob* job, bint has_message,
                              bint full) noexcept nogil:
    cdef uint8_t* at = s.turn.net.reserve_reply(job.pull.connection, ERROR_REPLY_BYTES_MAX)
    time_answer(s, job, SUCCESS)
    if at == NULL or not s.turn.net.commit_reply(job.pull.connection, write_notification_reply(
            at, job.pull.opaque, job.pull.serialize_type, has_message, full)):
        s.turn.net.close_connection(job.pull.connection)
    free_job(s.pull, &job.pull)


cdef void refuse_pop(PopService s, PopJob* job, int32_t code, const char* remark) noexcept nogil:
    s.turn.counters.busy_replies += code == SYSTEM_BUSY
    time_answer(s, job, code)
    if not reply_error_to(s.turn, job.pull.connection, job.pull.opaque, job.pull.serialize_type,
                          code, remark):
        s.turn.net.close_connection(job.pull.connection)
    free_job(s.pull, &job.pull)


cdef void refuse_large(PopService s, PopJob* job, const Popped* p) noexcept nogil:
    cdef char remark[1024]
    snprintf(remark, sizeof(remark), b"the message at offset %lld of topic %.255s queue %d has "
             b"%lld bytes, and one that is popped %lld at most: without an ack it comes again, and "
             b"the log takes no larger one (rmqRingBytes; 16 MiB at most). Pull it, or go on "
             b"behind it: rmq group reset %.*s %.255s --queue %d --to %lld",
             <long long> p.large_offset, p.large_topic.name, p.large_queue,
             <long long> p.large_bytes, <long long> given_bytes_max(s),
             <int> job.pair.group_length, <const char*> job.pair.group,
             p.large_topic.name, p.large_queue, <long long> p.large_offset + 1)
    log_event(s.turn, job.pull.connection, remark)
    refuse_pop(s, job, SYSTEM_ERROR, remark)
