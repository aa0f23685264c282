"""Long polling. See held_pulls.pxd."""
from libc.stdint cimport int32_t, int64_t

from cext.flow.look cimport news_passes
from cext.flow.pull_job cimport JOB_DEFERRED, JOB_FREE, JOB_HELD, JOB_READY, NO_POP, NOTIFY
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


cdef void join_wheel(ShardState s, PullJob* job) noexcept nogil:
    # The first tick at which the deadline has passed, counted from the last tick that was run.
    cdef int64_t ticks = (job.deadline_ms + TIMER_TICK_MS - 1) // TIMER_TICK_MS - s.timer_tick
    job.state = JOB_HELD
    job.held = True
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


cdef void hold(ShardState s, PullJob* job, Queue* queue) noexcept nogil:
    job.may_hold = False                    # a woken pull is answered, whatever it finds
    join_queue(job, queue)
    join_wheel(s, job)
    s.counters.pulls_held += 1


cdef void hold_pop(ShardState s, PullJob* job) noexcept nogil:
    cdef PopPair* pair = job.pop.pair
    asleep(job)
    job.next = NULL
    job.previous = pair.last
    if pair.last != NULL:
        pair.last.next = job
    else:
        pair.first = job
    pair.last = job
    pair.waiting += 1
    pair.special += is_special(job)
    join_wheel(s, job)


cdef inline void asleep(PullJob* job) noexcept nogil:
    if job.pop.woken:
        job.pop.woken = False
        job.pop.pair.awake -= 1


cdef void leave_pair(PullJob* job) noexcept nogil:
    cdef PopPair* pair = job.pop.pair
    if job.previous != NULL:
        job.previous.next = job.next
    else:
        pair.first = job.next
    if job.next != NULL:
        job.next.previous = job.previous
    else:
        pair.last = job.previous
    pair.waiting -= 1
    pair.special -= is_special(job)


cdef void release(ShardState s, PullJob* job) noexcept nogil:
    """Takes a held pull out of its three lists."""
    if job.pop.kind != NO_POP:
        leave_pair(job)
    else:
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


cdef void pass_on(ShardState s, PullJob* job) noexcept nogil:
    """A pop that was woken does not look now: the next that waits does."""
    if job.pop.kind != NO_POP and job.pop.woken:
        asleep(job)
        wake_pops(s, job.pop.pair, -1)


cdef void defer(ShardState s, PullJob* job) noexcept nogil:
    pass_on(s, job)
    job.state = JOB_DEFERRED
    join_connection(job)


cdef void free_job(ShardState s, PullJob* job) noexcept nogil:
    job.state = JOB_FREE
    pass_on(s, job)
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


cdef inline bint is_special(const PullJob* job) noexcept nogil:
    return job.pop.kind == NOTIFY or job.pop.queue_id >= 0


cdef void wake_pops(ShardState s, PopPair* pair, int32_t queue_id) noexcept nogil:
    cdef PullJob* job = pair.first
    cdef PullJob* following
    cdef bint enough = pair.awake > 0, enough_of_queue = False
    while job != NULL and not (enough and pair.special == 0):
        following = job.next
        if not is_special(job):
            if not enough:
                release(s, job)
                job.pop.woken = True
                pair.awake += 1
                enough = True
                make_ready(s, job)
        elif job.pop.queue_id < 0 or queue_id < 0 or job.pop.queue_id == queue_id:
            if job.pop.kind == NOTIFY or not enough_of_queue:
                enough_of_queue = enough_of_queue or job.pop.kind != NOTIFY
                release(s, job)
                make_ready(s, job)
        job = following


cdef void wake_topic(ShardState s, Topic* topic, int32_t queue_id) noexcept nogil:
    cdef PopPair* pair = <PopPair*> topic.pop_waiting
    while pair != NULL:
        if pair.first != NULL:
            wake_pops(s, pair, queue_id)
        pair = pair.next_of_topic
    pair = <PopPair*> topic.pop_retry_of
    if pair != NULL and pair.first != NULL:
        wake_pops(s, pair, -1)


cdef void wake_all_pops(ShardState s, Topic* topic) noexcept nogil:
    cdef PopPair* pair = <PopPair*> topic.pop_waiting
    cdef PullJob* job
    while pair != NULL:
        while pair.first != NULL:
            job = pair.first
            release(s, job)
            make_ready(s, job)
        pair = pair.next_of_topic


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
