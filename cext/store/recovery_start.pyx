"""The choice of a row, and of the queues' ends that go with it. See recovery_start.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t

import os

from cext.base.clock cimport wall_ms
from cext.base.status cimport Status
from cext.store.known_end cimport is_boot, note_clean_end
from cext.store.log.record cimport RecordView
from cext.store.queues.consume_queue cimport Queue
from cext.store.queues.queue_ends cimport EndsEntry, EndsHeader, ends_header, ends_next
from cext.store.queues.queue_files cimport QueueName, name_of
from cext.store.queues.queue_scan cimport QueueState, scan_queue
from cext.wire.codes cimport (
    TRANSACTION_PREPARED_TYPE, TRANSACTION_ROLLBACK_TYPE, TRANSACTION_TYPE_MASK,
)

REBOOTED = "the machine was started since"

cdef enum:
    CHECKPOINT_SLACK_MS = 3_000
    DAY_MS = 86_400_000


cdef object choose_start(RecoveryState r, bint clean):
    cdef bint same_boot = is_boot(r.checkpoint.boot_id, r.boot)
    cdef int64_t i, with_files = 0
    r.thorough = not same_boot
    if use_ends(r):
        if clean and not r.checkpoint.own_valid:
            note_clean_end(r.scan, r.queues)
        return None
    search_ends(r)
    for i in range(r.state_count):
        with_files += r.states[i].first_file >= 0
    if with_files == 0:
        return begin(r, "S2", r.log_min)
    if r.checkpoint.own_valid:
        r.start = max(r.log_min, r.checkpoint.persisted_offset if same_boot
                      else r.checkpoint.synced_offset)
        r.anchor = (r.checkpoint.persisted_anchor if same_boot
                    else r.checkpoint.synced_anchor)
        if not is_boundary(r, r.start, r.anchor):
            r.notes.append(f"S9: no record boundary at {r.start}")
            return start_by_time(r, "S9")
        if with_files < r.checkpoint.queue_count:
            r.notes.append(f"{with_files} queues with files, the checkpoint counted "
                           f"{r.checkpoint.queue_count}")
            r.scan_from = r.log_min
            r.row = "S3"
            return None
        return begin(r, "S4" if same_boot else "S5", r.start)
    if clean and r.highest > r.log_min:
        r.thorough = False
        begin(r, "S6", r.highest)
        r.anchor = r.highest_anchor
        if not is_boundary(r, r.highest, r.anchor):
            r.notes.append(f"S9: no record of the queues ends at {r.highest}")
            return start_by_time(r, "S9")
        r.scan.note_persisted_end(r.highest)
        r.scan_from = r.highest - 1 - (r.highest - 1) % r.log.segment_bytes
        return None
    return start_by_time(r, "")


cdef bint use_ends(RecoveryState r) except -1:
    """A1: takes the newest queueEnds that can be believed. False: there is none."""
    for suffix, row in ((b"", "S4"), (b".synced", "S5")):
        path = r.queues.writer.ends_name + suffix
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            continue
        problem = take_ends(r, data, row)
        if not problem:
            r.from_table = True
            r.anchor = r.table_anchor
            begin(r, row, r.table_start)
            return True
        if problem != REBOOTED:
            r.notes.append(f"A1 {os.fsdecode(path)}: {problem}; it is not believed")
    return False


cdef str take_ends(RecoveryState r, bytes data, str row):
    """Notes the file's entries as the queues' known ends. Returns what is wrong with the file, or
    an empty text."""
    cdef const uint8_t* bytes_of = <const uint8_t*> <const char*> data
    cdef EndsHeader header
    cdef EndsEntry entry
    cdef Queue* queue
    cdef int64_t at = 0
    if not ends_header(bytes_of, len(data), &header):
        return "it is damaged"
    if row == "S4" and not is_boot(header.boot_id, r.boot):
        return REBOOTED
    r.table_start = max(r.log_min, header.log_offset)
    r.table_anchor = header.anchor
    if not is_boundary(r, r.table_start, header.anchor):
        return f"no record ends at log offset {r.table_start}"
    while ends_next(bytes_of, len(data), &at, &entry):
        queue = r.queues.open_queue(entry.topic, entry.topic_length, entry.queue_id)
        if queue == NULL:
            continue                # no memory: the entry itself is right, as the checksum is
        if queue.index >= r.state_count:
            r.grow_states()
        r.states[queue.index].known = 1
        r.states[queue.index].ends = entry.ends
    return ""


cdef object search_ends(RecoveryState r):
    """Without queueEnds: finds where the entries of each queue seem to end."""
    cdef Queue* queue
    cdef QueueName name
    cdef int64_t i
    cdef int status
    r.highest = r.highest_anchor = -1
    for i in range(r.state_count):
        queue = r.queues.queues[i]
        name = name_of(queue)
        with nogil:
            status = scan_queue(r.queues.sync_files, &name, &r.states[i])
        r.check(status, queue, &r.states[i])
        if r.states[i].repaired:
            r.notes.append(f"Q3/Q4 last file mended: {r.name(queue)}")
        if r.states[i].damaged:
            r.note_damage(queue, &r.states[i], "Q5" if r.states[i].garbled_offset < 0
                          else "Q8")
        elif r.states[i].last_physical >= 0:
            if r.states[i].last_physical + r.states[i].last_size > r.highest:
                r.highest = r.states[i].last_physical + r.states[i].last_size
                r.highest_anchor = r.states[i].last_physical


cdef object begin(RecoveryState r, str row, int64_t start, bint everything=False):
    r.row, r.start, r.everything = row, max(start, r.log_min), everything
    r.scan_from = r.start


cdef object start_by_time(RecoveryState r, str row):
    """S7, S8: RocketMQ's rule: starts at the newest segment whose first message is old enough."""
    cdef int64_t written_ms = min(r.checkpoint.physic_ms, r.checkpoint.logics_ms)
    cdef int64_t limit_ms = 0
    cdef int64_t i
    cdef RecordView view
    r.thorough = True
    r.anchor = -1
    # A checkpoint from the future is garbled; every segment would be old enough for it.
    if 0 < written_ms <= wall_ms() + DAY_MS:
        limit_ms = written_ms - CHECKPOINT_SLACK_MS
    for i in range(r.log.segment_count() - 1, -1, -1):
        if (r.scan.peek(r.log.segment_start(i), &view) == Status.OK
                and 0 < view.store_timestamp_ms <= limit_ms):
            begin(r, row or "S7", r.log.segment_start(i))
            return
    begin(r, row or "S8", r.log_min)


cdef bint is_boundary(RecoveryState r, int64_t offset, int64_t anchor):
    """Whether a record or a segment starts at `offset`, or the record at `anchor` ends there."""
    cdef RecordView view
    if offset == r.log_min or (offset % r.log.segment_bytes == 0
                               and r.log_min <= offset <= r.log_limit):
        return True
    if not r.log_min < offset < r.log_limit:
        return False
    if (r.log_min <= anchor < offset and r.scan.peek(anchor, &view) == Status.OK
            and anchor + <int64_t> view.total_bytes == offset):
        return True
    # The record at the anchor may be damaged; a record at the offset is proof as well.
    return r.scan.peek(offset, &view) == Status.OK


cdef object read_ends(RecoveryState r):
    cdef int status
    r.notes.append(f"A3 the log is read from {r.log_min} to {r.start} to see what the "
                   f"queue files must hold")
    with nogil:
        status = read_log(r)
    r.check_scan(status)
    r.scan = r.scan.anew()


cdef int read_log(RecoveryState r) noexcept nogil:
    cdef RecordView view
    cdef int status
    cdef int kind
    r.scan.seek(r.log_min)
    r.progress.begin(r.log_min, r.start)
    while r.scan.position < r.start:
        if r.scan.position >= r.progress.look_at:
            r.progress.look(r.scan.position)
        status = r.scan.next(&view)
        if status != Status.OK:
            return <int> Status.OK if status == Status.NOT_READY else status
        kind = view.sys_flag & TRANSACTION_TYPE_MASK
        if kind != TRANSACTION_PREPARED_TYPE and kind != TRANSACTION_ROLLBACK_TYPE \
                and view.queue_offset >= 0 \
                and not r.deleted.has(&view) \
                and view.physical_offset + view.total_bytes <= r.start:
            status = note_record(r, &view)
            if status != Status.OK:
                return status
    return Status.OK


cdef int note_record(RecoveryState r, const RecordView* view) noexcept nogil:
    cdef Queue* queue = r.queues.find_queue(
        <const char*> view.topic, <int32_t> view.topic_bytes, view.queue_id)
    cdef QueueState* state
    if queue == NULL:
        # The queue has no directory: it was deleted with its topic, or it was lost, and then all is
        # dispatched by S3.
        return Status.OK
    state = &r.states[queue.index]
    if not state.known or view.queue_offset < state.ends.end_offset:
        state.known = 1                 # a lower offset: the topic was made anew (Q6)
        state.ends.min_offset = view.queue_offset
        state.ends.first_physical = view.physical_offset
    state.ends.end_offset = view.queue_offset + 1
    state.ends.last_physical = view.physical_offset
    state.ends.last_size = <int32_t> view.total_bytes
    return Status.OK
