"""The middle of a turn. See dispatch.pxd."""
from libc.stdint cimport int32_t, uint64_t

from cext.base.clock cimport monotonic_us
from cext.base.latency cimport latency_record
from cext.base.status cimport OK, POISONED
from cext.flow.acknowledge cimport refuse_all, settle
from cext.flow.held_pulls cimport wake_waiters
from cext.flow.replying cimport tell_event
from cext.flow.shard_state cimport Dispatch
from cext.store.log_link cimport OPERATION_WRITE, log_poison


cdef int write_and_dispatch(ShardState s) noexcept nogil:
    cdef Dispatch* d
    cdef int32_t i
    if s.log.marks.appended > s.log.marks.written:
        s.counters.write_outs += 1
        if s.log.write_out() != OK:
            s.dispatch_count = 0
            handle_poison(s)
            return POISONED
        latency_record(&s.append_latency, monotonic_us() - s.net.now_us,
                       <uint64_t> s.dispatch_count)
    for i in range(s.dispatch_count):
        d = &s.dispatches[i]
        if s.queues.append(d.queue, d.physical_offset, d.size, d.tags_code) != OK:
            log_poison(&s.log.link, OPERATION_WRITE, <int> s.queues.counts.last_errno,
                       d.physical_offset, b"consumequeue")
            s.dispatch_count = 0        # what stands before it in the list must not go in twice
            handle_poison(s)
            return POISONED
        if d.queue.waiters != NULL:
            wake_waiters(s, d.queue, d.tags_code)
    s.dispatch_count = 0
    s.log.marks.dispatched = s.log.marks.written
    settle(s, &s.await_written, s.log.marks.written)
    return OK


cdef void handle_poison(ShardState s) noexcept nogil:
    cdef const char* remark = b"the log is poisoned by a failed write or sync: " \
                              b"nothing is acked until the broker is restarted"
    if not s.poison_told:
        s.poison_told = True
        tell_event(s, NULL, remark)
    refuse_all(s, &s.await_written, remark)
    refuse_all(s, &s.await_durable, remark)
