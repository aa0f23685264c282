"""The course of a recovery: it dispatches what the queues lack and opens the log. See recovery.pxd.
"""
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

import os

from cext.base.clock cimport monotonic_us
from cext.base.status cimport Status, raise_status
from cext.store.known_end cimport keep_known_end
from cext.store.log.checkpoint cimport CheckpointFields, checkpoint_write
from cext.store.log.commit_log cimport CommitLog
from cext.store.log.record cimport RecordView
from cext.store.queues.consume_queue cimport Queue, queue_release
from cext.store.queues.queue_store cimport QueueStore
from cext.store.queues.tags_code cimport tags_code_of
from cext.store.recovery_queues cimport (
    cut_at, truncate_beyond, fill_gap, keep_offsets, prepare_queues)
from cext.store.recovery_start cimport begin, choose_start, read_ends
from cext.store.recovery_state cimport RecoveryState
from cext.wire.codes cimport (
    TRANSACTION_PREPARED_TYPE, TRANSACTION_ROLLBACK_TYPE, TRANSACTION_TYPE_MASK,
)

# 1s 5s 10s 30s 1m .. 10m 20m 30m 1h 2h: RocketMQ's messageDelayLevel.
DELAY_LEVELS_MS = (1_000, 5_000, 10_000, 30_000, *(m * 60_000 for m in range(1, 11)), 1_200_000,
                   1_800_000, 3_600_000, 7_200_000)

cdef int GAP = -1000                # dispatch: the queue ends below the record's queue offset
cdef int MISFIT = -1001             # dispatch: a record begins below the start and ends above it


cdef int dispatch_all(RecoveryState r) noexcept nogil:
    """Dispatches from scan_from to the end of the log. OK, GAP, MISFIT or a failure."""
    cdef RecordView view
    cdef int status
    r.scan.seek(r.scan_from)
    r.progress.begin(r.scan_from, r.log_limit)
    while True:
        if r.scan.position >= r.progress.look_at:
            r.progress.look(r.scan.position)
        status = r.scan.next(&view)
        if status == Status.NOT_READY:
            return Status.OK
        if status != Status.OK:
            return status
        r.last_store_ms = max(r.last_store_ms, view.store_timestamp_ms)
        if view.physical_offset < r.start < view.physical_offset + view.total_bytes:
            return MISFIT
        status = dispatch(r, &view)
        if status != Status.OK:
            return status


cdef int dispatch(RecoveryState r, const RecordView* view) noexcept nogil:
    cdef Queue* queue
    cdef int kind = view.sys_flag & TRANSACTION_TYPE_MASK
    cdef int status
    if (kind == TRANSACTION_PREPARED_TYPE or kind == TRANSACTION_ROLLBACK_TYPE
            or r.deleted.has(view)):
        return Status.OK
    queue = r.queues.find_queue(<const char*> view.topic, <int32_t> view.topic_bytes,
                                view.queue_id)
    if queue == NULL and r.from_table and view.physical_offset < r.start:
        return Status.OK                    # its topic was deleted
    if queue == NULL:
        queue = r.queues.open_queue(<const char*> view.topic, <int32_t> view.topic_bytes,
                                    view.queue_id)
    if queue == NULL or view.queue_offset < 0:
        r.unqueued += 1
        return Status.OK
    if view.physical_offset < queue.rebuilt_from:
        return Status.OK
    if view.queue_offset < queue.max_offset:
        status = cut_at(r, queue, view.queue_offset)          # Q6
        if queue.index < r.state_count:
            r.states[queue.index].known = 0
        if status != Status.OK:
            return status
    elif view.queue_offset > queue.max_offset:
        if queue.min_offset < queue.max_offset:
            if not r.everything and r.scan.damage_count == 0:
                return GAP                                      # S10
            status = fill_gap(r, queue, view.queue_offset)
            if status != Status.OK:
                return status
        else:
            r.queues.set_range(queue, view.queue_offset, view.queue_offset,
                               queue.has_file)
            queue_release(queue, &r.queues.pool, 0)
    r.dispatched += 1
    return r.queues.append(queue, view.physical_offset, <int32_t> view.total_bytes,
                           tags_code_of(view, &r.levels))


cdef dict run(RecoveryState r, bint clean):
    cdef int status
    cdef int64_t began = monotonic_us()
    r.find_queues()
    if r.log.segment_count() == 0:
        begin(r, "S1", 0, True)
    else:
        if not clean and r.checkpoint.own_valid:
            r.log.forget_pages(r.checkpoint.synced_offset)
        choose_start(r, clean)
        if not r.from_table and r.start > r.log_min:
            read_ends(r)
    prepare_queues(r)
    with nogil:
        status = dispatch_all(r)
    if status == GAP or status == MISFIT:
        status = start_over(r, "a queue lacks entries below it" if status == GAP
                            else "no record starts")
    r.check_scan(status)
    if truncate_beyond(r):
        r.check_scan(start_over(r, "it ends, and a queue is damaged there"))
    keep_offsets(r)
    dispatch_from = r.start
    if r.scan.position < r.known_end:
        keep_known_end(r.root, r.known_end)
    finish(r, clean)
    return report(r, clean, dispatch_from, (monotonic_us() - began) // 1000)


cdef int start_over(RecoveryState r, str why) except 1:
    cdef int status
    r.notes.append(f"S10: at log offset {r.scan.position} {why}")
    drop_memory(r)
    begin(r, "S10", r.log_min, True)
    r.scan = r.scan.anew()
    r.dispatched = r.unqueued = r.cut = r.rebuilt = 0
    r.find_queues()
    prepare_queues(r)
    with nogil:
        status = dispatch_all(r)
    return status


cdef object drop_memory(RecoveryState r):
    """Forgets every entry in memory: the queues are empty again."""
    cdef int64_t i
    cdef Queue* queue
    for i in range(r.queues.queue_top):
        queue = r.queues.queues[i]
        if queue != NULL:
            queue.persisted_offset = queue.handed_offset = queue.max_offset
            queue_release(queue, &r.queues.pool, 0)
            queue.dirty = 0
            r.queues.set_range(queue, 0, 0, False)
            r.queues.writer.files.forget(queue.serial)
    r.queues.dirty_count = 0


cdef object finish(RecoveryState r, bint clean):
    """Opens the log at its end and writes the checkpoint as it is now true."""
    cdef QueueStore queues = r.queues
    cdef int64_t end = r.scan.position
    cdef int64_t i
    cdef bint sound = clean and r.row in ("S4", "S6") and r.scan.end_problem <= 1
    for i in range(queues.queue_top):
        if queues.queues[i] != NULL:
            queues.queues[i].next_offset = queues.queues[i].max_offset
    r.log.set_end(end, zero_rest=not (sound and end == r.start))
    with nogil:
        queues.writer.read_file_ends(queues.sync_files)
    # The searches are over, and their open files are not needed while serving.
    queues.sync_files.close_all()
    queues.log_end = end
    queues.last_physical = (r.scan.last_record if r.scan.last_record >= 0
                            else r.anchor)
    if r.rebuilt > 0 or r.row == "S3" or r.start > end:
        # Entries made anew below the start are in memory only: after a crash they are made again.
        r.start, r.anchor = min(r.log_min, end), -1
    queues.persisted_mark.log_offset = queues.persisted_log_offset = r.start
    queues.persisted_mark.anchor = r.anchor
    queues.last_run_log_end = r.start
    queues.synced_mark = queues.persisted_mark
    if r.row == "S4" and r.checkpoint.synced_offset < r.start:
        queues.synced_mark.log_offset = r.checkpoint.synced_offset
        queues.synced_mark.anchor = r.checkpoint.synced_anchor
    queues.synced_log_offset = queues.synced_mark.log_offset
    if r.row in ("S4", "S5", "S6", "S7") and r.start > r.log_min:
        queues.synced_mark.stamp_ms = min(r.checkpoint.physic_ms, r.checkpoint.logics_ms)
    queues.want_run = queues.want_ends = True
    memcpy(queues.checkpoint.boot_id, <const char*> r.boot, 16)
    if queues.checkpoint_fd >= 0:
        write_checkpoint(r)


cdef object write_checkpoint(RecoveryState r):
    """Writes the checkpoint at once: until then the file may describe a log that no longer exists.
    """
    cdef CheckpointFields fields = r.queues.checkpoint
    fields.physic_ms = fields.logics_ms = r.queues.synced_mark.stamp_ms
    fields.persisted_offset = r.queues.persisted_log_offset
    fields.persisted_anchor = r.queues.persisted_mark.anchor
    fields.synced_offset = r.queues.synced_log_offset
    fields.synced_anchor = r.queues.synced_mark.anchor
    fields.queue_count = 0 if r.dispatched else r.queues.file_count
    raise_status(checkpoint_write(r.queues.checkpoint_fd, &fields), "checkpoint")


cdef dict report(RecoveryState r, bint clean, int64_t dispatch_from, int64_t milliseconds):
    return {
        "row": r.row, "own_checkpoint": bool(r.checkpoint.own_valid),
        "clean": bool(clean), "log_min": r.log_min, "log_end": r.scan.position,
        "known_end": r.known_end, "end_problem": r.scan.end_cause(),
        "scan_from": r.scan_from, "dispatch_from": dispatch_from,
        "records_scanned": r.scan.records, "records_dispatched": r.dispatched,
        "records_without_queue": r.unqueued, "entries_cut": r.cut, "gaps": r.gaps,
        "queues": r.queues.queue_count, "queues_rebuilt": r.rebuilt,
        "last_store_ms": r.last_store_ms, "damage_count": r.scan.damage_count,
        "damages": r.scan.damage_rows(), "notes": r.notes, "milliseconds": milliseconds,
    }


def recover(CommitLog log, QueueStore queues, root, bint clean,
            delay_levels_ms=DELAY_LEVELS_MS, bint check_crc=True, deleted=None) -> dict:
    """Makes log and queues consistent and opens the log for writing; returns a report.

    Before: call log.load(), make a QueueStore that is not started, and hold the store's lock.
    `root` is the store directory: the checkpoint there is read, and written from now on. `clean`:
    there is no abort file. `deleted`: topic -> (log offset, ms): the topic's records below that
    offset that are not newer are passed over.
    After: call queues.start(); all entries dispatched here are in memory or files, and readable.
    """
    if queues.checkpoint_fd < 0:
        queues.use_checkpoint(os.path.join(os.fspath(root), "checkpoint"))
    return run(RecoveryState(log, queues, delay_levels_ms, check_crc, deleted or {},
                             os.fspath(root)), clean)
