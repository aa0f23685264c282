"""Recovery queues. See recovery_queues.pxd."""
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcmp

from cext.base.status cimport Status
from cext.store.deleted_topics cimport Deleted
from cext.store.log.record cimport RecordView
from cext.store.queues.consume_queue cimport (
    BLANK_SIZE, QUEUE_ENTRY_BYTES, QueueEnds, queue_entry_store, queue_release)
from cext.store.queues.queue_files cimport QueueName, name_of
from cext.store.queues.queue_scan cimport (
    QueueState, check_queue, truncate_queue, first_entry, scan_queue, trim_files,
)

cdef enum:
    GAP_BLANKS_MAX = 1_000_000


cdef object prepare_queues(RecoveryState r):
    cdef Queue* queue
    cdef QueueState* state
    cdef QueueName name
    cdef int64_t i, end, low
    cdef int status = Status.OK
    for i in range(r.state_count):
        queue = r.queues.queues[i]
        state = &r.states[i]
        if is_gone(r, queue, state):
            remove(r, queue, state)
            continue
        if state.damaged or r.everything or r.row == "S2":
            rebuild(r, queue, state)
            continue
        if state.known:
            compare(r, queue, state)
            continue
        name = name_of(queue)
        if r.from_table:
            # All entries of this queue must be above the start, since queueEnds does not know it.
            with nogil:
                status = scan_queue(r.queues.sync_files, &name, state)
            r.check(status, queue, state)
        elif state.last_physical >= r.start and not r.thorough and not is_own(r, queue, state):
            state.garbled_offset = state.end_offset - 1
            r.note_damage(queue, state, "Q8")
            rebuild(r, queue, state)
            continue
        end = state.end_offset
        with nogil:
            status = truncate_queue(r.queues.sync_files, &name, state, r.start,
                                    r.thorough or r.from_table)
        r.check(status, queue, state)
        if state.damaged or (r.from_table and state.end_offset > 0):
            r.note_damage(queue, state, "Q8")
            rebuild(r, queue, state)
            continue
        r.cut += end - state.end_offset
        with nogil:
            low = lowest(r, &name, state)
        if low == Status.CORRUPT or low == Status.NOT_FOUND:
            state.garbled_offset = state.first_file * r.queues.entries_per_file
            r.note_damage(queue, state, "Q8")
            rebuild(r, queue, state)
            continue
        r.check(<int> min(low, <int64_t> 0), queue, state)
        r.queues.set_range(queue, low, state.end_offset, state.first_file >= 0)
        # A queue without a file has no entries below the start either: all are dispatched.
        queue.rebuilt_from = r.start if state.first_file >= 0 else 0


cdef int compare(RecoveryState r, Queue* queue, QueueState* state) except -1:
    """Sets the queue's range by its known ends if the files agree with them; else rebuilds it."""
    cdef QueueName name = name_of(queue)
    cdef QueueEnds ends = state.ends
    cdef int64_t searched = state.end_offset
    cdef int status
    with nogil:
        status = check_queue(r.queues.sync_files, &name, r.log_min, state)
    r.check(status, queue, state)
    if state.damaged:
        r.note_damage(queue, state, "Q9")
        rebuild(r, queue, state)
        return 0
    if state.repaired:
        r.notes.append(f"Q3/Q4 file of a wrong length mended: {r.path(queue, -1)}")
    r.cut += max(searched - ends.end_offset, <int64_t> 0)
    r.queues.set_range(queue, state.min_offset, ends.end_offset, state.first_file >= 0)
    if state.min_offset == ends.min_offset:
        r.queues.writer.set_file_ends(queue, &ends)
    # The known ends may include records at or above the start.
    queue.rebuilt_from = max(r.start, ends.last_physical + 1)
    return 0


cdef bint is_gone(RecoveryState r, const Queue* queue, QueueState* state) noexcept nogil:
    """Q11: whether all records of the queue below the start are those of a deleted topic. An entry
    of queueEnds may be older than the deletion."""
    cdef Deleted* d = r.deleted.of_queue(queue)
    cdef RecordView view
    if d == NULL:
        return False
    if state.known:
        if state.ends.last_physical >= d.below or state.ends.last_physical < 0 \
                or r.scan.peek(state.ends.last_physical, &view) != Status.OK \
                or view.queue_id != queue.queue_id \
                or view.topic_bytes != <uint32_t> queue.topic_length \
                or memcmp(view.topic, queue.topic, view.topic_bytes) != 0 \
                or not r.deleted.has(&view):
            return False
        state.known = 0
    # Records stored since are above the start, or the log has been read and none was found.
    return not r.from_table or d.below >= r.start


cdef bint is_own(RecoveryState r, Queue* queue, const QueueState* state) noexcept nogil:
    """Whether the last entry's record is the one that the entry names. On the same boot the log has
    every record that any queue names. So an entry beyond the start that names no record is garbled,
    and cutting it would lose the record for which it stood."""
    cdef RecordView view
    return (r.scan.peek(state.last_physical, &view) == Status.OK
            and view.queue_offset == state.end_offset - 1 and view.queue_id == queue.queue_id
            and view.topic_bytes == <uint32_t> queue.topic_length
            and memcmp(view.topic, queue.topic, view.topic_bytes) == 0)


cdef int rebuild(RecoveryState r, Queue* queue, QueueState* state) except -1:
    """Q5, Q8: removes the queue's files; its records are dispatched from the log's start on."""
    remove(r, queue, state)
    if not r.everything and r.start > r.log_min:
        r.scan_from = r.log_min
    r.rebuilt += 1
    return 0


cdef int remove(RecoveryState r, Queue* queue, QueueState* state) except -1:
    cdef QueueName name = name_of(queue)
    cdef int status
    with nogil:
        status = r.queues.sync_files.remove_queue(&name)
    r.check(status, queue, state)
    state.damaged = state.repaired = 0
    state.end_offset = state.min_offset = 0
    state.first_file = state.last_file = state.last_physical = state.garbled_offset = -1
    r.queues.set_range(queue, 0, 0, False)
    queue.rebuilt_from = 0
    return 0


cdef int64_t lowest(RecoveryState r, const QueueName* name, QueueState* state) noexcept nogil:
    """The first queue offset whose record is still in the log. Removes older files."""
    cdef int64_t low = state.end_offset
    cdef int64_t high
    cdef int status
    if state.first_file < 0:
        return low
    if state.first_file < state.last_file:
        status = trim_files(r.queues.sync_files, name, r.log_min, state.end_offset, &low)
        return status if status < 0 else low
    high = state.end_offset - state.first_file * r.queues.entries_per_file
    low = first_entry(r.queues.sync_files, name, state.first_file, 0, high, r.log_min)
    return low if low < 0 else low + state.first_file * r.queues.entries_per_file


cdef bint truncate_beyond(RecoveryState r) except -1:
    cdef int64_t i
    cdef Queue* queue
    cdef QueueName name
    cdef int64_t end
    cdef bint is_short = r.scan.position < r.start
    cdef int status
    if is_short:
        r.start = r.scan.position
        r.anchor = r.scan.last_record
    for i in range(r.state_count):
        if not is_short and not (r.states[i].known and
                                 r.states[i].ends.last_physical >= r.scan.position):
            continue
        queue = r.queues.queues[i]
        name = name_of(queue)
        r.queues.writer.files.forget(queue.serial)
        end = r.states[i].end_offset
        with nogil:
            status = truncate_queue(r.queues.sync_files, &name, &r.states[i],
                                    r.scan.position, False)
        r.check(status, queue, &r.states[i])
        if r.states[i].damaged:
            r.note_damage(queue, &r.states[i], "Q8")
            return True
        if r.states[i].end_offset != end:
            r.cut += end - r.states[i].end_offset
            r.queues.set_range(queue, min(queue.min_offset, r.states[i].end_offset),
                               r.states[i].end_offset, r.states[i].first_file >= 0)
    return False


cdef object keep_offsets(RecoveryState r):
    cdef int64_t i
    cdef Queue* queue
    cdef int64_t end
    cdef int status = Status.OK
    for i in range(r.state_count):
        queue = r.queues.queues[i]
        end = r.states[i].ends.end_offset
        if not r.states[i].known or queue.max_offset >= end or not r.from_table:
            continue
        r.notes.append(f"Q10 {r.path(queue, -1)}: ends at offset {queue.max_offset}, but "
                       f"messages up to offset {end} were stored; none of these offsets is "
                       f"given again")
        if queue.min_offset == queue.max_offset:
            r.queues.set_range(queue, end, end, queue.has_file)
            queue_release(queue, &r.queues.pool, 0)
        else:
            status = fill_gap(r, queue, end)
        r.check_scan(status)


cdef int fill_gap(RecoveryState r, Queue* queue, int64_t offset) noexcept nogil:
    cdef int status
    r.gaps += 1
    if offset - queue.max_offset > GAP_BLANKS_MAX:
        return cut_at(r, queue, offset)
    while queue.max_offset < offset:
        status = r.queues.make_room(queue)
        if status != Status.OK:
            return status
        queue_entry_store(queue.write_at, 0, BLANK_SIZE, 0)
        queue.write_at += QUEUE_ENTRY_BYTES
        queue.max_offset += 1
    if not queue.dirty:
        r.queues.mark_dirty(queue)
    return Status.OK


cdef int cut_at(RecoveryState r, Queue* queue, int64_t offset) noexcept nogil:
    cdef QueueName name = name_of(queue)
    cdef int64_t per_file = r.queues.entries_per_file
    cdef int64_t file
    cdef int status = r.queues._persist_here(queue)
    if status != Status.OK:
        return status
    queue_release(queue, &r.queues.pool, 0)
    # The writer or reader must not keep descriptors of files that are removed.
    r.queues.writer.files.forget(queue.serial)
    r.queues.reader_files.forget(queue.serial)
    if offset <= queue.min_offset or offset > queue.max_offset:
        status = r.queues.sync_files.remove_queue(&name)
        r.queues.set_range(queue, offset, offset, False)
        return status
    for file in range((queue.max_offset - 1) // per_file, offset // per_file - 1, -1):
        if file * per_file >= offset:
            status = r.queues.sync_files.remove_file(&name, file)
        else:
            status = r.queues.sync_files.clear_from(&name, offset)
        if status != Status.OK and status != Status.NOT_FOUND:
            return status
    r.queues.set_range(queue, queue.min_offset, offset, True)
    return Status.OK
