"""Pops: from a job to its reply. See pop_answer.pxd."""
from libc.stdint cimport int32_t, int64_t

from cext.base.status cimport OK, RING_FULL
from cext.flow.append.turn_room cimport turn_room
from cext.flow.context.role cimport is_slave, is_writable, read_refusal, refuse_remark
from cext.flow.fetch.disk_fetch cimport (
    DiskFetch,
    FetchDone,
    FetchPool,
    fetch_add,
    fetch_begin,
    fetch_entries,
)
from cext.flow.pop.held_pops cimport hold_pop
from cext.flow.pop.pop_job cimport NOTIFY, PEEK, POP
from cext.flow.pop.pop_queues cimport pop_all
from cext.flow.pop.pop_reply cimport (
    answer_found,
    answer_nothing,
    answer_notification,
    refuse_large,
    refuse_pop,
)
from cext.flow.pop.popped_messages cimport MESSAGES_MAX, Popped, popped_begin
from cext.flow.pop.revive_log cimport REVIVE_RECORD_BYTES, next_revive_queue
from cext.flow.pull.held_pulls cimport drop_fetch, free_job, is_outdated, make_ready
from cext.flow.pull.pull_job cimport JOB_READING, JOB_READY, job_move
from cext.flow.tables.topic_table cimport topic_queue
from cext.memory.buffer_pool cimport buffer_pool_release
from cext.store.queues.consume_queue cimport Queue, QueueEntry
from cext.wire.codes cimport (
    POLLING_FULL,
    POLLING_TIMEOUT,
    PULL_NOT_FOUND,
    SERVICE_NOT_AVAILABLE,
    SUBSCRIPTION_GROUP_NOT_EXIST,
    SYSTEM_BUSY,
    TOPIC_NOT_EXIST,
)
from cext.wire.pop_request cimport REVIVE_IN_ORDER

cdef enum:
    ENTRIES_AT_ONCE = 32
    READS_MAX = 8               # reads from disk, then the pop is told to come again


cdef bint read_absent(PopService s, PopJob* job, Popped* p) noexcept nogil:
    """Has a disk reader bring what comes next into the page cache; then the pop looks again."""
    cdef Queue* queue = topic_queue(p.absent_topic, s.append.queues, p.absent_queue)
    cdef QueueEntry entries[ENTRIES_AT_ONCE]
    cdef int count, i
    job.pull.entry_reads += 1
    if queue == NULL or job.pull.entry_reads > READS_MAX:
        return False
    job.pull.fetch = s.fetch.pool.take(<FetchDone> read_done, <void*> s, job)
    if job.pull.fetch == NULL:
        return False
    count = s.append.queues.read(queue, p.absent_offset, ENTRIES_AT_ONCE, entries)
    fetch_begin(job.pull.fetch, False)
    for i in range(count if count > 0 else 0):
        if entries[i].size <= 0 or entries[i].physical_offset < s.append.log.min_offset():
            continue
        if not fetch_add(job.pull.fetch, entries[i].physical_offset, entries[i].size,
                         p.absent_offset + i):
            break
    if job.pull.fetch.read.count == 0:
        fetch_entries(job.pull.fetch, s.append.queues.reader_files, queue, p.absent_offset,
                      2 * ENTRIES_AT_ONCE)
    if s.fetch.pool.submit(job.pull.fetch) != OK:
        return False
    job_move(&job.pull, JOB_READING, 1 << JOB_READY | 1 << JOB_READING)
    s.turn.counters.pulls_from_disk += 1
    return True


cdef void read_done(PopService s, FetchPool pool, DiskFetch* fetch) noexcept nogil:
    cdef PopJob* job = <PopJob*> fetch.owner
    if job.pull.connection.id != job.pull.connection_id:
        free_job(s.pull, &job.pull)
        return
    drop_fetch(s.pull, &job.pull)
    make_ready(s.pull, &job.pull)


cdef void nothing_there(PopService s, PopJob* job, Popped* p) noexcept nogil:
    """Holds the pop, or answers that there is nothing."""
    cdef bint full = job.pair.waiting > s.pops.waiting_max
    cdef int64_t until = job.poll_end_ms
    if job.pull.may_hold and not s.turn.stopping and s.turn.now_ms < until and not full:
        if p.visible_ms > 0 and s.turn.now_ms + (p.visible_ms - s.turn.wall_ms) < until:
            until = s.turn.now_ms + max(<int64_t> 0, p.visible_ms - s.turn.wall_ms)
        job.pull.deadline_ms = until
        hold_pop(s.pull, job)
    elif job.kind == NOTIFY:
        answer_notification(s, job, False, full and job.pull.may_hold)
    elif job.kind == PEEK:
        answer_nothing(s, job, p, PULL_NOT_FOUND)
    else:
        answer_nothing(s, job, p, POLLING_FULL if full and job.pull.may_hold else POLLING_TIMEOUT)


cdef void answer_pop(PopService s, PopJob* job) noexcept nogil:
    cdef Popped p
    cdef const char* refusal
    cdef int32_t most
    if job.topic.use.removed:
        refuse_pop(s, job, TOPIC_NOT_EXIST, b"the topic was deleted")
        return
    if job.pair.use.removed:
        refuse_pop(s, job, SUBSCRIPTION_GROUP_NOT_EXIST, b"the group was deleted")
        return
    if is_slave(&s.turn.role) and job.kind == POP:
        refuse_pop(s, job, SERVICE_NOT_AVAILABLE, refuse_remark(&s.turn.role))
        return
    refusal = read_refusal(&s.turn.role, s.turn.options.slave_read)
    if refusal != NULL:
        refuse_pop(s, job, SYSTEM_BUSY, refusal)
        return
    # There may be a check point for each queue that gives something.
    most = min(job.max_messages, <int32_t> MESSAGES_MAX)
    if job.kind == POP and not job.order and turn_room(
            s.append, most * REVIVE_RECORD_BYTES, most) == RING_FULL:
        make_ready(s.pull, &job.pull)       # in the next turn, before the pops that come then
        return
    popped_begin(&p, s.turn.wall_ms)
    p.revive_queue = REVIVE_IN_ORDER if job.order else next_revive_queue(s)
    if is_outdated(s.pull, &job.pull):
        job.pull.may_hold = False
        nothing_there(s, job, &p)
        return
    p.failed = p.revive_queue < 0 or (job.kind == POP and not is_writable(&s.turn.role)
                                      and not job.order)
    pop_all(s, job, &p)
    if job.kind == NOTIFY and p.rest > 0:
        answer_notification(s, job, True, False)
    elif p.count > 0:
        answer_found(s, job, &p)
    elif p.failed:
        refuse_pop(s, job, SYSTEM_BUSY, b"[OVERLOAD]system busy, start flow control for a while: "
                   b"the log takes no check point at present")
    elif p.absent:
        if not read_absent(s, job, &p):
            refuse_pop(s, job, SYSTEM_BUSY, b"[OVERLOAD]system busy, start flow control for a "
                       b"while: the disk readers are behind")
    elif p.unfinished:
        make_ready(s.pull, &job.pull)       # in the next turn
    elif p.large_topic != NULL:
        refuse_large(s, job, &p)
    else:
        nothing_there(s, job, &p)
    if p.copies != NULL:
        buffer_pool_release(&s.turn.net.jumbo_pool, p.copies)
