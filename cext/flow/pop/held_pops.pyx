"""Long polling of pops. See held_pops.pxd."""
from libc.stdint cimport int32_t

from cext.base.check cimport check
from cext.flow.pop.pop_job cimport NOTIFY
from cext.flow.pull.held_pulls cimport hold_in, make_ready, release, wake_waiters
from cext.flow.pull.pull_job cimport JOB_ENDS, JOB_LEFT, JOB_PUT_OFF
from cext.memory.chain cimport ChainEntry
from cext.memory.use_count cimport use_end


cdef inline bint is_special(const PopJob* job) noexcept nogil:
    return job.kind == NOTIFY or job.queue_id >= 0


cdef void pop_asleep(PopJob* job) noexcept nogil:
    if job.woken:
        check(job.pair.awake > 0, b"pops: no more fall asleep than were woken", job.pair.awake,
              job.pair.waiting)
        job.woken = False
        job.pair.awake -= 1


cdef inline void check_counts(const PopPair* pair) noexcept nogil:
    check(0 <= pair.special <= pair.waiting, b"pops: no more are special than wait at their pair",
          pair.special, pair.waiting)
    check((pair.waiting == 0) == (pair.first == NULL),
          b"pops: some wait at a pair while its list has some", pair.waiting, pair.first != NULL)


cdef void hold_pop(PullService s, PopJob* job) noexcept nogil:
    pop_asleep(job)
    job.pair.waiting += 1
    job.pair.special += is_special(job)
    hold_in(s, &job.pull, &job.pair.first)
    check_counts(job.pair)


cdef void pass_on(PopService s, PopJob* job) noexcept nogil:
    """A pop that was woken does not look now: wakes the next one instead."""
    if job.woken:
        pop_asleep(job)
        wake_pops(s.pull, job.pair, -1)


cdef void pop_on_event(PopService s, PullJob* pull, int32_t event) noexcept nogil:
    cdef PopJob* job = <PopJob*> pull
    if event == JOB_LEFT:
        job.pair.waiting -= 1
        job.pair.special -= is_special(job)
        check_counts(job.pair)
    elif event == JOB_PUT_OFF:
        pass_on(s, job)
    elif event == JOB_ENDS:
        pass_on(s, job)
        use_end(&job.pair.use)


cdef void wake_pops(PullService s, PopPair* pair, int32_t queue_id) noexcept nogil:
    cdef ChainEntry* entry = pair.first
    cdef PopJob* job
    cdef bint enough = pair.awake > 0, enough_of_queue = False
    while entry != NULL and not (enough and pair.special == 0):
        job = <PopJob*> entry.owner
        entry = entry.next
        if not is_special(job):
            if not enough:
                release(s, &job.pull)
                job.woken = True
                pair.awake += 1
                enough = True
                make_ready(s, &job.pull)
        elif job.queue_id < 0 or queue_id < 0 or job.queue_id == queue_id:
            if job.kind == NOTIFY or not enough_of_queue:
                enough_of_queue = enough_of_queue or job.kind != NOTIFY
                release(s, &job.pull)
                make_ready(s, &job.pull)


cdef void wake_topic(PullService s, Topic* topic, int32_t queue_id) noexcept nogil:
    cdef PopPair* pair = <PopPair*> topic.pop_waiting
    while pair != NULL:
        if pair.first != NULL:
            wake_pops(s, pair, queue_id)
        pair = pair.next_of_topic
    pair = <PopPair*> topic.pop_retry_of
    if pair != NULL and pair.first != NULL:
        wake_pops(s, pair, -1)


cdef void wake_by_arrival(PullService s, const Dispatch* d) noexcept nogil:
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
