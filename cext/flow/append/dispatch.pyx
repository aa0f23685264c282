"""The middle of a turn. See dispatch.pxd."""
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memmove

from cext.base.check cimport check
from cext.base.clock cimport monotonic_us
from cext.base.latency cimport latency_record
from cext.base.status cimport OK, POISONED
from cext.flow.append.ack_queue cimport MARK_WRITTEN
from cext.flow.append.acknowledgement cimport refuse_all, settle
from cext.flow.append.appender cimport Dispatch
from cext.flow.append.disk_alerts cimport log_poison_event, poison_remark
from cext.flow.append.log_marks cimport dispatched_move
from cext.flow.append.replay cimport dispatch_entry, dispatch_limit, replay, replay_waits
from cext.flow.context.step cimport NO_WAIT, NextWait, RunStep, StepDrained

cdef enum:
    QUEUE_RETRY_MS = 10         # wait while a queue has no room for its entries


cdef int write_and_dispatch(Appender s) noexcept nogil:
    cdef int64_t began, now
    cdef bint news = s.turn.counters.messages_in != s.appends_seen
    if s.log.marks.appended > s.log.marks.written:
        s.turn.counters.tail_high = max(s.turn.counters.tail_high,
                                        s.log.marks.appended - s.log.marks.written)
        s.turn.counters.write_outs += news
        began = monotonic_us()
        if s.log.write_out() != OK:
            return give_up(s)
        now = monotonic_us()
        if now - began > s.write_us:
            s.write_us = now - began
        if news:
            latency_record(&s.append_latency, now - s.turn.net.now_us,
                           s.turn.counters.messages_in - s.appends_seen)
            s.appends_seen = s.turn.counters.messages_in
    dispatch(s)
    settle(s, MARK_WRITTEN)
    return OK


cdef void dispatch(Appender s) noexcept nogil:
    """Dispatches from marks.dispatched on, as far as the list reaches and queues have room."""
    cdef Dispatch* d
    cdef int64_t end = dispatch_limit(s)
    cdef int64_t following
    cdef int32_t i = s.dispatch_first
    cdef int status
    s.queue_status = OK
    while i < s.dispatch_count:
        d = &s.dispatches[i]
        following = d.physical_offset + d.size
        if following > end:
            break                       # still in the store pool, or not visible
        # Between marks.dispatched and it are records in no list, or the rest of a segment.
        if d.physical_offset != s.log.marks.dispatched and replay(s, d.physical_offset) != OK:
            break
        if d.queue != NULL:             # NULL: its topic was removed in between
            status = dispatch_entry(s, d)
            if status != OK:
                s.queue_status = status
                break
        dispatched_move(s, following)
        i += 1
    keep_rest(s, i)
    check(s.log.marks.dispatched <= s.log.marks.written,
          b"dispatch: what has its queue entries is written", s.log.marks.dispatched,
          s.log.marks.written)
    if replay_waits(s):
        replay(s, end)


cdef void keep_rest(Appender s, int32_t done) noexcept nogil:
    """Drops the entries before `done`, which are dispatched. The rest moves to the list's front
    when they were more than half of its places."""
    check(s.dispatch_first <= done <= s.dispatch_count,
          b"dispatch: the list is done with from its first entry on", done, s.dispatch_count)
    s.dispatch_first = done
    if done == s.dispatch_count:
        s.dispatch_first = s.dispatch_count = 0
    elif done > s.dispatch_max // 2:
        memmove(s.dispatches, s.dispatches + done, (s.dispatch_count - done) * sizeof(Dispatch))
        s.dispatch_count -= done
        s.dispatch_first = 0


cdef int give_up(Appender s) noexcept nogil:
    s.dispatch_first = s.dispatch_count = 0     # no record may be written twice
    s.queue_status = OK
    handle_poison(s)
    return POISONED


cdef void handle_poison(Appender s) noexcept nogil:
    cdef const char* remark = poison_remark(&s.alerts, s.log)
    if not s.alerts.poison_logged:
        s.alerts.poison_logged = True
        log_poison_event(s.turn, s.log)
    refuse_all(s, remark)


# ------------------------------------------------------------------- the turn

cdef void write_turn(Appender s) noexcept nogil:
    write_and_dispatch(s)


cdef int32_t write_wait(Appender s) noexcept nogil:
    if s.write_us // 1000 >= s.turn.options.send_wait_ms:
        return 0                        # finds what came during the write only (stalled_ms)
    if s.queue_status != OK:
        return QUEUE_RETRY_MS
    return 1 if replay_waits(s) else NO_WAIT


cdef bint is_written(Appender s) noexcept nogil:
    return s.log.poisoned() or (s.log.marks.written == s.log.marks.appended
                                and s.queue_status == OK)


cdef void poison_turn(Appender s) noexcept nogil:
    if s.log.poisoned() and not s.alerts.poison_logged:
        handle_poison(s)


cdef Step write_step(Appender s) noexcept:
    return Step(b"write", <void*> s, <RunStep> write_turn, <NextWait> write_wait,
                <StepDrained> is_written)


cdef Step poison_step(Appender s) noexcept:
    return Step(b"poison", <void*> s, <RunStep> poison_turn, NULL, NULL)
