"""Long polling. See held_pulls.pxd."""
from libc.stdint cimport int32_t, int64_t

from cext.base.check cimport check, debug_check
from cext.flow.context.client_state cimport client_state
from cext.flow.context.step cimport NO_WAIT, NextWait, RunStep
from cext.flow.pull.pull_job cimport (
    JOB_DEFERRED,
    JOB_ENDS,
    JOB_FREE,
    JOB_HELD,
    JOB_LEFT,
    JOB_NEW,
    JOB_PUT_OFF,
    JOB_READING,
    JOB_READY,
    JobEvent,
    job_move,
    job_use_end,
)
from cext.flow.pull.pull_service cimport TIMER_SLOTS, TIMER_TICK_MS
from cext.flow.pull.queue_entry_scan cimport arrival_passes
from cext.flow.tables.sql_filter cimport sql_filter_drop
from cext.memory.buffer_pool cimport buffer_pool_release
from cext.memory.chain cimport chain_join, chain_leave


cdef inline ChainEntry** peers(const PullJob* job) noexcept nogil:
    """The list of the job's connection."""
    return <ChainEntry**> &client_state(job.connection).held_first


cdef bint is_wheel_empty(PullService s) noexcept nogil:
    cdef int i
    for i in range(TIMER_SLOTS):
        if s.timer_slots[i] != NULL:
            return False
    return True


cdef void join_wheel(PullService s, PullJob* job) noexcept nogil:
    cdef int64_t ticks
    if s.held_count == 0:
        debug_check(is_wheel_empty(s), b"pulls: none is held that is not counted", s.held_count,
                    job.deadline_ms)
        s.timer_tick = s.turn.now_ms // TIMER_TICK_MS       # an empty wheel stands still
    # The first tick at or after the deadline, counted from the last tick that was run.
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
    drop_fetch(s, job)                      # no held job keeps a buffer of the disk readers
    job.may_hold = False                    # once woken it is answered, whatever it finds
    hold_in(s, job, <ChainEntry**> &queue.waiters)
    s.turn.counters.pulls_held += 1


cdef void hold_in(PullService s, PullJob* job, ChainEntry** line) noexcept nogil:
    job.waits_in = line
    chain_join(line, &job.line, job)
    join_wheel(s, job)


cdef inline void tell(PullJob* job, JobEvent event) noexcept nogil:
    if job.on_event != NULL:
        job.on_event(job.service, job, event)


cdef void release(PullService s, PullJob* job) noexcept nogil:
    check(s.held_count > 0, b"pulls: no more are released than are held", s.held_count, job.state)
    chain_leave(job.waits_in, &job.line)
    tell(job, JOB_LEFT)
    chain_leave(&s.timer_slots[job.timer_slot], &job.timer)
    chain_leave(peers(job), &job.peer)
    s.held_count -= 1


cdef void wake(PullService s, PullJob* job) noexcept nogil:
    """Takes the job out of whatever it waits in; it is answered at the end of the turn."""
    if job.state == JOB_HELD:
        release(s, job)
    else:
        chain_leave(peers(job), &job.peer)
    make_ready(s, job)


cdef void make_ready(PullService s, PullJob* job) noexcept nogil:
    job_move(job, JOB_READY, 1 << JOB_NEW | 1 << JOB_READY | 1 << JOB_HELD | 1 << JOB_READING
             | 1 << JOB_DEFERRED)
    chain_join(&s.ready, &job.line, job)


cdef void defer(PullService s, PullJob* job) noexcept nogil:
    tell(job, JOB_PUT_OFF)
    job_move(job, JOB_DEFERRED, 1 << JOB_READY | 1 << JOB_READING)
    chain_join(peers(job), &job.peer, job)


cdef void drop_fetch(PullService s, PullJob* job) noexcept nogil:
    if job.fetch != NULL:
        s.fetch.pool.release(job.fetch)
        job.fetch = NULL


cdef void free_job(PullService s, PullJob* job) noexcept nogil:
    job_move(job, JOB_FREE, 1 << JOB_NEW | 1 << JOB_READY | 1 << JOB_HELD | 1 << JOB_READING
             | 1 << JOB_DEFERRED)
    tell(job, JOB_ENDS)
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
        if arrival_passes(s, job, tags_code, physical_offset, size):
            wake(s, job)
        elif job.offset == queue.max_offset - 1:
            job.offset += 1


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
    """The client has left: drops what it waits for. Jobs with a disk reader notice by the id."""
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
