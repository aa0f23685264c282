"""Keeper merge. See keeper_merge.pxd."""
from libc.stdint cimport int64_t, uint64_t

from cext.base.atomics cimport load_acquire_i64
from cext.base.status cimport NOT_FOUND, OK
from cext.store.timers.keeper_runs cimport add_run, doom, drop_run
from cext.store.timers.keeper_state cimport MERGE_RUNS, RunMerge, key_of
from cext.store.timers.timer_heap cimport (
    TIMER_NEVER,
    TimerEntry,
    TimerKey,
    key_before,
    key_same,
)
from cext.store.timers.timer_run cimport (
    TimerRun,
    run_close,
    run_find,
    run_open,
    run_peek,
    run_writer_add,
    run_writer_drop,
    run_writer_finish,
    run_writer_open,
)

cdef enum:
    MERGE_STEP = 16384          # entries merged before the keeper looks at its other work


cdef int64_t crowded_level(KeeperState* k) noexcept nogil:
    """A level that has MERGE_RUNS runs which the checkpoint names; -1: none."""
    cdef int64_t level, i, runs
    for level in range(16):
        runs = 0
        for i in range(k.table.run_count):
            runs += k.table.runs[i].level == level and k.table.runs[i].named
        if runs >= MERGE_RUNS:
            return level
    return -1


cdef void merge_end(KeeperState* k) noexcept nogil:
    cdef int64_t i
    for i in range(k.merge.input_count):
        run_close(&k.merge.inputs[i])
    run_writer_drop(&k.merge.writer)
    k.merge.active = False


cdef int merge_begin(KeeperState* k, int64_t level) noexcept nogil:
    cdef RunMerge* merge = &k.merge
    cdef TimerKey delivered = key_of(load_acquire_i64(&k.delivered_ms), 0)
    cdef int64_t i, cursor
    cdef int status = run_writer_open(&merge.writer, k.directory, k.table.next_number)
    merge.level = level
    merge.input_count = 0
    merge.any = False
    for i in range(k.table.run_count):
        if (status != OK or merge.input_count == MERGE_RUNS or k.table.runs[i].level != level
                or not k.table.runs[i].named):
            continue
        merge.inputs[merge.input_count] = k.table.runs[i]
        status = run_open(&merge.inputs[merge.input_count], k.directory)
        if status != OK:
            break
        merge.input_count += 1
        cursor = run_find(&merge.inputs[merge.input_count - 1], &delivered)
        if cursor < 0:
            status = <int> cursor
        else:
            merge.inputs[merge.input_count - 1].cursor = cursor
    if status != OK:
        merge_end(k)
        return status
    k.table.next_number += 1
    merge.active = True
    return OK


cdef bint is_input(const RunMerge* merge, uint64_t number) noexcept nogil:
    cdef int64_t i
    for i in range(merge.input_count):
        if merge.inputs[i].number == number:
            return True
    return False


cdef int merge_swap(KeeperState* k) noexcept nogil:
    """Replaces the old runs by the new one, which is written."""
    cdef RunMerge* merge = &k.merge
    cdef TimerKey next_key = key_of(TIMER_NEVER, 0)
    cdef TimerEntry* entry = NULL
    cdef int64_t covers = 0, log_end = 0, at
    cdef int status = run_writer_finish(&merge.writer)
    if status != OK:
        return status
    for at in range(k.table.run_count):
        if not is_input(merge, k.table.runs[at].number):
            continue
        if run_peek(&k.table.runs[at], &entry) == OK and key_before(&entry.key, &next_key):
            next_key = entry.key
        covers = max(covers, k.table.runs[at].covers)
        log_end = max(log_end, k.table.runs[at].log_end)
    if merge.writer.count == 0:
        doom(k, merge.writer.number)
    else:
        status = add_run(k, &merge.writer, merge.level + 1, merge.last.due_ms, covers, log_end,
                         &next_key)
    at = 0
    while status == OK and at < k.table.run_count:
        if is_input(merge, k.table.runs[at].number):
            drop_run(k, at)
        else:
            at += 1
    return status


cdef int merge_step(KeeperState* k) noexcept nogil:
    """Merges some entries. OK, or a status that says why the merge was given up."""
    cdef RunMerge* merge = &k.merge
    cdef TimerRun* run
    cdef TimerEntry* one = NULL
    cdef TimerEntry* entry = NULL
    cdef int64_t i, _entry
    cdef int status = OK
    for _entry in range(MERGE_STEP):
        run = NULL
        for i in range(merge.input_count):
            status = run_peek(&merge.inputs[i], &one)
            if status == NOT_FOUND:
                continue
            if status != OK:
                return status
            if run == NULL or key_before(&one.key, &entry.key):
                run = &merge.inputs[i]
                entry = one
        if run == NULL:
            status = merge_swap(k)
            merge_end(k)
            return status
        if not merge.any or not key_same(&entry.key, &merge.last):
            status = run_writer_add(&merge.writer, entry)
            if status != OK:
                return status
            k.merged += 1
        merge.last = entry.key
        merge.any = True
        run.cursor += 1
    return OK


cdef int merge_some(KeeperState* k) noexcept nogil:
    cdef int64_t level
    cdef int status
    if not k.merge.active:
        level = crowded_level(k)
        if level < 0:
            return 0
        status = merge_begin(k, level)
        return 1 if status == OK else status
    status = merge_step(k)
    if status != OK:
        if k.merge.active:
            merge_end(k)
        return status
    return 1
