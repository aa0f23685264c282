"""Long polling. See held_pulls.pxd."""
from libc.stdint cimport int32_t, int64_t

from cext.flow.context.client_state cimport client_state
from cext.flow.context.step cimport NO_WAIT, NextWait, RunStep
from cext.flow.pull.pull_job cimport (
    JOB_DEFERRED,
    JOB_FREE,
    JOB_HELD,
    JOB_NEW,
    JOB_READING,
    JOB_READY,
    NO_POP,
    NOTIFY,
    job_move,
    job_use_end,
)
from cext.flow.pull.pull_service cimport TIMER_SLOTS, TIMER_TICK_MS
from cext.flow.pull.queue_entry_scan cimport news_passes
from cext.flow.tables.sql_filter cimport sql_filter_drop
from cext.memory.buffer_pool cimport buffer_pool_release
from cext.memory.chain cimport ChainEntry, chain_join, chain_leave


cdef inline ChainEntry** peers(const PullJob* job) noexcept nogil:
    """The list of the job's connection."""
    return <ChainEntry**> &client_state(job.connection).held_first


cdef inline ChainEntry** line_of(const PullJob* job) noexcept nogil:
    """Where a held job waits: on its group's pair or on its queue."""
    if job.pop.kind != NO_POP:
        return &job.pop.pair.first
    return <ChainEntry**> &job.queue.waiters


cdef void join_wheel(PullService s, PullJob* job) noexcept nogil:
    cdef int64_t ticks
    if s.held_count == 0:
        s.timer_tick = s.turn.now_ms // TIMER_TICK_MS       # an empty wheel stands still
    # The first tick at which the deadline has passed, counted from the last tick that was run.
    ticks = (job.deadline_ms + TIMER_TICK_MS - 1) // TIMER_TICK_MS - s.timer_tick
    job_move(job, JOB_HELD, 1 << JOB_READY | 1 << JOB_READING)
    job.held = True
    if ticks < 1:
        ticks = 1
    elif ticks >= TIMER_SLOTS:
        ticks = TIMER_SLOTS - 1
    job.timer_slot = <int32_t> ((s.timer_tick + ticks) % TIMER_SLOTS)
    chain_join(&s.timer_slots[job.timer_slot], &job.timer, job)
    chain_join(peers(job), &job.peer, job)
    s.held_count += 1


cdef void hold(PullService s, PullJob* job, Queue* queue) noexcept nogil:
    drop_fetch(s, job)                      # nobody waits with a buffer of the disk readers
    job.may_hold = False                    # a woken pull is answered, whatever it finds
    job.queue = queue
    chain_join(line_of(job), &job.line, job)
    join_wheel(s, job)
    s.turn.counters.pulls_held += 1


cdef void hold_pop(PullService s, PullJob* job) noexcept nogil:
    cdef PopPair* pair = job.pop.pair
    asleep(job)
    chain_join(line_of(job), &job.line, job)
    pair.waiting += 1
    pair.special += is_special(job)
    join_wheel(s, job)


cdef inline void asleep(PullJob* job) noexcept nogil:
    if job.pop.woken:
        job.pop.woken = False
        job.pop.pair.awake -= 1


cdef void release(PullService s, PullJob* job) noexcept nogil:
    """Takes a held pull out of its three lists."""
    chain_leave(line_of(job), &job.line)
    if job.pop.kind != NO_POP:
        job.pop.pair.waiting -= 1
        job.pop.pair.special -= is_special(job)
    chain_leave(&s.timer_slots[job.timer_slot], &job.timer)
    chain_leave(peers(job), &job.peer)
    s.held_count -= 1


cdef void wake(PullService s, PullJob* job) noexcept nogil:
    """Whatever it waited for: it is answered at the end of the turn."""
    if job.state == JOB_HELD:
        release(s, job)
    else:
        chain_leave(peers(job), &job.peer)
    make_ready(s, job)


cdef void make_ready(PullService s, PullJob* job) noexcept nogil:
    job_move(job, JOB_READY, 1 << JOB_NEW | 1 << JOB_READY | 1 << JOB_HELD | 1 << JOB_READING
             | 1 << JOB_DEFERRED)
    chain_join(&s.ready, &job.line, job)


cdef void pass_on(PullService s, PullJob* job) noexcept nogil:
    """A pop that was woken does not look now: the next that waits does."""
    if job.pop.kind != NO_POP and job.pop.woken:
        asleep(job)
        wake_pops(s, job.pop.pair, -1)


cdef void defer(PullService s, PullJob* job) noexcept nogil:
    pass_on(s, job)
    job_move(job, JOB_DEFERRED, 1 << JOB_READY | 1 << JOB_READING)
    chain_join(peers(job), &job.peer, job)


cdef void drop_fetch(PullService s, PullJob* job) noexcept nogil:
    if job.fetch != NULL:
        s.fetch.pool.release(job.fetch)
        job.fetch = NULL


cdef void free_job(PullService s, PullJob* job) noexcept nogil:
    job_move(job, JOB_FREE, 1 << JOB_NEW | 1 << JOB_READY | 1 << JOB_HELD | 1 << JOB_READING
             | 1 << JOB_DEFERRED)
    pass_on(s, job)
    job_use_end(job)
    sql_filter_drop(job.sql)
    job.sql = NULL
    drop_fetch(s, job)
    buffer_pool_release(&s.job_pool, job)


cdef void wake_waiters(PullService s, Queue* queue, int64_t tags_code, int64_t physical_offset,
                       int32_t size) noexcept nogil:
    cdef ChainEntry* entry = <ChainEntry*> queue.waiters
    cdef PullJob* job
    while entry != NULL:
        job = <PullJob*> entry.owner
        entry = entry.next
        if news_passes(s, job, tags_code, physical_offset, size):
            wake(s, job)
        elif job.offset == queue.max_offset - 1:
            job.offset += 1


cdef inline bint is_special(const PullJob* job) noexcept nogil:
    return job.pop.kind == NOTIFY or job.pop.queue_id >= 0


cdef void wake_pops(PullService s, PopPair* pair, int32_t queue_id) noexcept nogil:
    cdef ChainEntry* entry = pair.first
    cdef PullJob* job
    cdef bint enough = pair.awake > 0, enough_of_queue = False
    while entry != NULL and not (enough and pair.special == 0):
        job = <PullJob*> entry.owner
        entry = entry.next
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


cdef void wake_topic(PullService s, Topic* topic, int32_t queue_id) noexcept nogil:
    cdef PopPair* pair = <PopPair*> topic.pop_waiting
    while pair != NULL:
        if pair.first != NULL:
            wake_pops(s, pair, queue_id)
        pair = pair.next_of_topic
    pair = <PopPair*> topic.pop_retry_of
    if pair != NULL and pair.first != NULL:
        wake_pops(s, pair, -1)


cdef void wake_by_news(PullService s, const Dispatch* d) noexcept nogil:
    if d.queue.waiters != NULL:
        wake_waiters(s, d.queue, d.tags_code, d.physical_offset, d.size)
    if d.topic != NULL and (d.topic.pop_waiting != NULL or d.topic.pop_retry_of != NULL):
        wake_topic(s, d.topic, d.queue.queue_id)


cdef void wake_all_pops(PullService s, PopPair* pair) noexcept nogil:
    cdef PullJob* job
    while pair.first != NULL:
        job = <PullJob*> pair.first.owner
        release(s, job)
        make_ready(s, job)


cdef void wake_all(PullService s, Queue* queue) noexcept nogil:
    while queue.waiters != NULL:
        wake(s, <PullJob*> (<ChainEntry*> queue.waiters).owner)


cdef void wake_expired(PullService s) noexcept nogil:
    cdef int64_t tick = s.turn.now_ms // TIMER_TICK_MS
    cdef ChainEntry* entry
    cdef PullJob* job
    if s.held_count == 0:
        return
    if tick - s.timer_tick > TIMER_SLOTS:
        s.timer_tick = tick - TIMER_SLOTS
    while s.timer_tick < tick:
        s.timer_tick += 1
        entry = s.timer_slots[s.timer_tick % TIMER_SLOTS]
        while entry != NULL:
            job = <PullJob*> entry.owner
            entry = entry.next
            if job.deadline_ms <= s.turn.now_ms:
                wake(s, job)


cdef bint is_outdated(PullService s, const PullJob* job) noexcept nogil:
    return job.accounts_version != s.turn.accounts_version


cdef void resume_deferred(PullService s, Connection* c) noexcept nogil:
    cdef ChainEntry* entry = <ChainEntry*> client_state(c).held_first
    cdef PullJob* job
    while entry != NULL:
        job = <PullJob*> entry.owner
        entry = entry.next
        if job.state == JOB_DEFERRED:
            wake(s, job)


cdef void forget_connection(PullService s, Connection* c) noexcept nogil:
    """The client is gone: what it waits for goes too. Jobs with a disk reader notice by the id."""
    cdef ChainEntry* entry = <ChainEntry*> client_state(c).held_first
    cdef PullJob* job
    while entry != NULL:
        job = <PullJob*> entry.owner
        entry = entry.next
        if job.state == JOB_HELD:
            release(s, job)
        else:
            chain_leave(peers(job), &job.peer)
        free_job(s, job)


cdef int32_t expiry_wait(PullService s) noexcept nogil:
    return TIMER_TICK_MS // 2 if s.held_count > 0 else NO_WAIT


cdef Step expiry_step(PullService s) noexcept:
    return Step(b"expiry", <void*> s, <RunStep> wake_expired, <NextWait> expiry_wait, NULL)
