"""Long polling. See held_pulls.pxd."""
from libc.stdint cimport int32_t, int64_t

from cext.flow.look cimport news_passes
from cext.flow.pull_job cimport JOB_DEFERRED, JOB_FREE, JOB_HELD, JOB_READY
from cext.flow.shard_state cimport TIMER_SLOTS, TIMER_TICK_MS
from cext.flow.sql_filter cimport sql_filter_drop
from cext.memory.buffer_pool cimport buffer_pool_release


# Both lists are first in, first out. The first entry's way back leads to the last one, whose way on
# ends: so a list is one pointer.

cdef void join_connection(PullJob* job) noexcept nogil:
    cdef PullJob* first = <PullJob*> job.connection.held_first
    job.peer_next = NULL
    if first == NULL:
        job.peer_previous = job
        job.connection.held_first = job
        return
    job.peer_previous = first.peer_previous
    first.peer_previous.peer_next = job
    first.peer_previous = job


cdef void leave_connection(PullJob* job) noexcept nogil:
    cdef PullJob* first = <PullJob*> job.connection.held_first
    if job == first:
        job.connection.held_first = job.peer_next
    else:
        job.peer_previous.peer_next = job.peer_next
    if job.peer_next != NULL:
        job.peer_next.peer_previous = job.peer_previous
    elif job != first:
        first.peer_previous = job.peer_previous


cdef void join_queue(PullJob* job, Queue* queue) noexcept nogil:
    cdef PullJob* first = <PullJob*> queue.waiters
    job.queue = queue
    job.next = NULL
    if first == NULL:
        job.previous = job
        queue.waiters = job
        return
    job.previous = first.previous
    first.previous.next = job
    first.previous = job


cdef void leave_queue(PullJob* job) noexcept nogil:
    cdef PullJob* first = <PullJob*> job.queue.waiters
    if job == first:
        job.queue.waiters = job.next
    else:
        job.previous.next = job.next
    if job.next != NULL:
        job.next.previous = job.previous
    elif job != first:
        first.previous = job.previous


cdef void hold(ShardState s, PullJob* job, Queue* queue) noexcept nogil:
    # The first tick at which the deadline has passed, counted from the last tick that was run.
    cdef int64_t ticks = (job.deadline_ms + TIMER_TICK_MS - 1) // TIMER_TICK_MS - s.timer_tick
    job.state = JOB_HELD
    job.may_hold = False                    # a woken pull is answered, whatever it finds
    job.held = True
    join_queue(job, queue)
    if ticks < 1:
        ticks = 1
    elif ticks >= TIMER_SLOTS:
        ticks = TIMER_SLOTS - 1
    job.timer_slot = <int32_t> ((s.timer_tick + ticks) % TIMER_SLOTS)
    job.timer_previous = NULL
    job.timer_next = s.timer_slots[job.timer_slot]
    if job.timer_next != NULL:
        job.timer_next.timer_previous = job
    s.timer_slots[job.timer_slot] = job
    join_connection(job)
    s.held_count += 1
    s.counters.pulls_held += 1


cdef void release(ShardState s, PullJob* job) noexcept nogil:
    """Takes a held pull out of its three lists."""
    leave_queue(job)
    if job.timer_previous != NULL:
        job.timer_previous.timer_next = job.timer_next
    else:
        s.timer_slots[job.timer_slot] = job.timer_next
    if job.timer_next != NULL:
        job.timer_next.timer_previous = job.timer_previous
    leave_connection(job)
    s.held_count -= 1


cdef void wake(ShardState s, PullJob* job) noexcept nogil:
    """Whatever it waited for: it is answered at the end of the turn."""
    if job.state == JOB_HELD:
        release(s, job)
    else:
        leave_connection(job)
    make_ready(s, job)


cdef void make_ready(ShardState s, PullJob* job) noexcept nogil:
    job.state = JOB_READY
    job.next = NULL
    if s.ready_last != NULL:
        s.ready_last.next = job
    else:
        s.ready_first = job
    s.ready_last = job


cdef void defer(ShardState s, PullJob* job) noexcept nogil:
    job.state = JOB_DEFERRED
    join_connection(job)


cdef void free_job(ShardState s, PullJob* job) noexcept nogil:
    job.state = JOB_FREE
    sql_filter_drop(job.sql)
    job.sql = NULL
    if job.read_buffer != NULL:
        buffer_pool_release(&s.net.jumbo_pool, job.read_buffer)
        job.read_buffer = NULL
    buffer_pool_release(&s.job_pool, job)


cdef void wake_waiters(ShardState s, Queue* queue, int64_t tags_code, int64_t physical_offset,
                       int32_t size) noexcept nogil:
    cdef PullJob* job = <PullJob*> queue.waiters
    cdef PullJob* following
    while job != NULL:
        following = job.next
        if news_passes(s, job, tags_code, physical_offset, size):
            wake(s, job)
        elif job.offset == queue.max_offset - 1:
            job.offset += 1
        job = following


cdef void wake_all(ShardState s, Queue* queue) noexcept nogil:
    while queue.waiters != NULL:
        wake(s, <PullJob*> queue.waiters)


cdef void wake_expired(ShardState s) noexcept nogil:
    cdef int64_t tick = s.now_ms // TIMER_TICK_MS
    cdef PullJob* job
    cdef PullJob* following
    if tick - s.timer_tick > TIMER_SLOTS:
        s.timer_tick = tick - TIMER_SLOTS
    while s.timer_tick < tick:
        s.timer_tick += 1
        job = s.timer_slots[s.timer_tick % TIMER_SLOTS]
        while job != NULL:
            following = job.timer_next
            if job.deadline_ms <= s.now_ms:
                wake(s, job)
            job = following


cdef void resume_deferred(ShardState s, Connection* c) noexcept nogil:
    cdef PullJob* job = <PullJob*> c.held_first
    cdef PullJob* following
    while job != NULL:
        following = job.peer_next
        if job.state == JOB_DEFERRED:
            wake(s, job)
        job = following


cdef void forget_connection(ShardState s, Connection* c) noexcept nogil:
    """The client is gone: what it waits for goes too. Jobs with a disk reader notice by the id."""
    cdef PullJob* job = <PullJob*> c.held_first
    cdef PullJob* following
    while job != NULL:
        following = job.peer_next
        if job.state == JOB_HELD:
            release(s, job)
        else:
            leave_connection(job)
        free_job(s, job)
        job = following
