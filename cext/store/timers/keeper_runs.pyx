"""Keeper runs. See keeper_runs.pxd."""
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from cext.base.atomics cimport load_acquire_i64
from cext.base.state cimport state_move
from cext.base.status cimport OK
from cext.store.timers.keeper_state cimport OBSOLETE_MAX, SEAL_FREE, SEAL_FULL, TimerSeal
from cext.store.timers.timer_heap cimport TIMER_NEVER, key_same, timer_sort
from cext.store.timers.timer_run cimport (
    TimerRun,
    run_close,
    run_find,
    run_open,
    run_writer_add,
    run_writer_drop,
    run_writer_finish,
    run_writer_open,
)


cdef void doom(KeeperState* k, uint64_t number) noexcept nogil:
    if k.obsolete_count < OBSOLETE_MAX:
        k.obsolete[k.obsolete_count] = number
        k.obsolete_count += 1                 # files that do not fit go at the next start
    k.stale = True


cdef void drop_run(KeeperState* k, int64_t at) noexcept nogil:
    doom(k, k.table.runs[at].number)
    run_close(&k.table.runs[at])
    k.table.run_count -= 1
    while at < k.table.run_count:
        k.table.runs[at] = k.table.runs[at + 1]
        at += 1


cdef void drop_delivered(KeeperState* k) noexcept nogil:
    cdef int64_t delivered = load_acquire_i64(&k.delivered_ms)
    cdef int64_t at = 0
    while at < k.table.run_count:
        if (k.table.runs[at].named and k.table.runs[at].cursor >= k.table.runs[at].count
                and k.table.runs[at].last_ms < delivered and not k.merge.active):
            drop_run(k, at)
        else:
            at += 1


cdef int add_run(KeeperState* k, const RunWriter* written, int64_t level, int64_t last_ms,
                 int64_t covers, int64_t log_end, const TimerKey* from_key) noexcept nogil:
    cdef TimerRun* run = &k.table.runs[k.table.run_count]
    cdef int64_t cursor
    cdef int status
    memset(run, 0, sizeof(TimerRun))
    run.number = written.number
    run.level = level
    run.count = written.count
    run.oldest = written.oldest
    run.covers = covers
    run.log_end = log_end
    run.last_ms = last_ms
    status = run_open(run, k.directory)
    if status != OK:
        return status
    cursor = run_find(run, from_key)
    if cursor < 0:
        run_close(run)
        return <int> cursor
    run.cursor = cursor
    k.table.run_count += 1
    k.stale = True
    return OK


cdef int forget_from(KeeperState* k, const TimerKey* key) noexcept nogil:
    """Makes the keeper hand entries over again from the key on, which the reactor has forgotten."""
    cdef int64_t i, cursor
    for i in range(k.table.run_count):
        if key.due_ms == TIMER_NEVER:
            continue
        cursor = run_find(&k.table.runs[i], key)
        if cursor < 0:
            return <int> cursor
        k.table.runs[i].cursor = min(k.table.runs[i].cursor, cursor)
    return OK


cdef int take_seal(KeeperState* k) noexcept nogil:
    cdef TimerSeal* seal = &k.seal
    cdef int64_t delivered = load_acquire_i64(&k.delivered_ms)
    cdef int64_t i, last = -1
    cdef RunWriter writer
    cdef int status = OK
    timer_sort(seal.entries, seal.count)
    i = 0                               # when tried again after a failure they are already sorted
    while i < seal.count and seal.entries[i].key.due_ms < delivered:
        i += 1
    if i < seal.count:
        status = run_writer_open(&writer, k.directory, k.table.next_number)
        while status == OK and i < seal.count:
            if last < 0 or not key_same(&seal.entries[i].key, &seal.entries[last].key):
                status = run_writer_add(&writer, &seal.entries[i])
            last = i
            i += 1
        if status == OK:
            status = run_writer_finish(&writer)
        else:
            run_writer_drop(&writer)
        if status == OK:
            status = add_run(k, &writer, 0, seal.entries[last].key.due_ms, seal.covers,
                             seal.log_end, &seal.bound)
        if status != OK:
            return status
        k.table.next_number += 1
    status = forget_from(k, &seal.bound)
    if status != OK:
        return status
    k.marks[k.mark_count].covers = seal.covers
    k.marks[k.mark_count].log_end = seal.log_end
    k.mark_count += 1
    k.stale = True
    k.seals_taken += 1
    k.sealed += seal.count
    seal.count = 0
    state_move(&seal.state, SEAL_FREE, 1 << SEAL_FULL, b"timers: a seal is full before it is taken")
    return OK
