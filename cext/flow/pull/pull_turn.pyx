"""Jobs in a turn of the reactor. See pull_turn.pxd."""
from libc.stdint cimport int32_t, uint64_t

from cext.flow.context.step cimport NO_WAIT, NextWait, RunStep, StepDrained
from cext.flow.context.unsent cimport PULL_UNSENT_MAX
from cext.flow.pull.held_pulls cimport defer, free_job, make_ready
from cext.flow.pull.pull_answer cimport refuse_busy
from cext.flow.pull.pull_job cimport PullJob
from cext.flow.pull.queue_entry_scan cimport SCAN_COST_OF_TURN
from cext.memory.chain cimport ChainEntry
from cext.net.connection cimport UNREAD_UNSENT, Connection

cdef enum:
    TURN_BYTES = 8388608            # of answers in one turn; further jobs wait for the next


cdef void put_in_front(ChainEntry** chain, ChainEntry* first, ChainEntry* last) noexcept nogil:
    """Puts the rest of a list, from `first` to `last`, before what is in the chain already."""
    cdef ChainEntry* behind = chain[0]
    first.previous = last
    if behind != NULL:
        first.previous = behind.previous
        last.next = behind
        behind.previous = last
    chain[0] = first


cdef void answer(PullService s, PullJob* job) noexcept nogil:
    cdef Connection* c = job.connection
    cdef uint64_t id = job.connection_id
    job.answer(job.service, job)
    if not s.turn.holds_output:
        s.turn.net.spare_buffer(c, id)      # in one turn, as many may wake as wait


cdef void answer_pulls(PullService s) noexcept nogil:
    cdef ChainEntry* entry = s.ready
    cdef ChainEntry* last = entry.previous if entry != NULL else NULL
    cdef uint64_t bytes_end = s.turn.counters.bytes_out + TURN_BYTES
    cdef PullJob* job
    # While buffers are short, no client gets one answer queued behind another.
    cdef uint64_t unsent_max = 0 if s.turn.net.is_short() else PULL_UNSENT_MAX
    s.ready = NULL
    s.scan_cost_left = SCAN_COST_OF_TURN
    while entry != NULL:
        if s.turn.counters.bytes_out >= bytes_end:
            put_in_front(&s.ready, entry, last)
            return
        job = <PullJob*> entry.owner
        entry = entry.next
        if job.connection.id != job.connection_id:
            free_job(s, job)
        elif (s.turn.counters.bytes_out + TURN_BYTES // 2 >= bytes_end
              and job.connection.unsent_bytes > 0):
            make_ready(s, job)              # with so much asked for, connections take turns
        elif s.turn.holds_output and job.connection.unsent_bytes > unsent_max:
            make_ready(s, job)              # after the end of the turn, which sends
        elif (job.connection.unread & UNREAD_UNSENT
              or job.connection.unsent_bytes > unsent_max):
            if not job.connection.unread & UNREAD_UNSENT:
                s.turn.net.flush_connection(job.connection)      # may find the socket full
            if job.connection.id != job.connection_id:
                free_job(s, job)
            elif job.connection.unread & UNREAD_UNSENT:
                if s.job_pool.in_use > s.job_pool.count - s.job_pool.count // 4:
                    refuse_busy(s, job, b"[OVERLOAD]system busy, start flow control for a while: "
                                b"too many pulls wait for clients that do not read")
                else:
                    defer(s, job)
            else:
                answer(s, job)
        else:
            answer(s, job)


cdef int32_t pulls_wait(PullService s) noexcept nogil:
    return NO_WAIT if s.ready == NULL else 0


cdef bint are_answered(PullService s) noexcept nogil:
    return s.ready == NULL


cdef Step pulls_step(PullService s) noexcept:
    return Step(b"pulls", <void*> s, <RunStep> answer_pulls, <NextWait> pulls_wait,
                <StepDrained> are_answered)
