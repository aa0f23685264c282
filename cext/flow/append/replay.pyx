"""Replay: records are dispatched from their bytes in the log. See replay.pxd."""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc

from cext.base.byteorder cimport load_u32
from cext.base.check cimport check
from cext.base.status cimport ABSENT, CORRUPT, NOT_READY, OK, POOL_EMPTY
from cext.flow.append.dispatch_hook cimport dispatch_queue_removed, dispatch_replayed
from cext.flow.append.log_marks cimport dispatched_move
from cext.flow.context.small_replies cimport log_event
from cext.flow.tables.topic_table cimport Topic, topic_queue
from cext.memory.name_map cimport name_map_find
from cext.store.log.commit_log cimport segment_end
from cext.store.log.record cimport (
    AT_MAGIC,
    MAGIC_BLANK,
    RECORD_BYTES_MIN,
    RecordView,
    is_record_magic,
    record_parse,
)
from cext.store.queues.consume_queue cimport (
    BLANK_SIZE,
    QUEUE_ENTRY_BYTES,
    Queue,
    queue_entry_store,
    queue_release,
)
from cext.store.queues.queue_store cimport queue_room
from cext.wire.codes cimport (
    TRANSACTION_PREPARED_TYPE,
    TRANSACTION_ROLLBACK_TYPE,
    TRANSACTION_TYPE_MASK,
)

cdef enum:
    HEAD_BYTES = 8                  # size and magic
    GAP_BLANKS_MAX = 1_000_000      # as recovery at a start allows
    SEARCH_BYTES = 65536            # of the log, searched at a time for the next record


cdef int replay(Appender s, int64_t end) noexcept nogil:
    cdef int64_t pinned = s.log.pinned_low
    cdef int64_t stop = min(end, s.log.marks.dispatched + REPLAY_BYTES_MAX)
    cdef int status = OK
    while status == OK and s.log.marks.dispatched < stop:
        status = replay_next(s, end)
        if status == CORRUPT:
            status = pass_damage(s, end)
    s.log.unpin(pinned)
    return OK if s.log.marks.dispatched >= end else NOT_READY


cdef int replay_next(Appender s, int64_t end) noexcept nogil:
    """Dispatches the record or BLANK at marks.dispatched. OK: the mark has moved behind it."""
    cdef int64_t at = s.log.marks.dispatched
    cdef const uint8_t* bytes
    cdef uint8_t head[HEAD_BYTES]
    cdef uint32_t size
    cdef int status
    if at < s.log.min_offset():
        # The log's files up to min_offset are gone. The list's next record may lie below that: at
        # `end`, where dispatch then goes on with the list.
        dispatched_move(s, min(s.log.min_offset(), end))
        return OK
    status = s.log.view(at, HEAD_BYTES, &bytes)
    if status == ABSENT:
        if s.log.read_log(at, head, HEAD_BYTES) != HEAD_BYTES:
            return NOT_READY
        bytes = head
    elif status != OK:
        return status
    size = load_u32(bytes)
    if load_u32(bytes + AT_MAGIC) == MAGIC_BLANK:
        at = segment_end(s.log, at)
        if at > end:
            return NOT_READY
        dispatched_move(s, at)
        return OK
    if (size < RECORD_BYTES_MIN or size > s.log.max_record_bytes
            or not is_record_magic(load_u32(bytes + AT_MAGIC))):
        return CORRUPT
    if at + size > end:
        return NOT_READY
    status = s.log.view(at, size, &bytes)
    if status == ABSENT:
        return replay_cold(s, at, size)
    return replay_bytes(s, at, size, bytes, False) if status == OK else status


cdef int replay_cold(Appender s, int64_t at, uint32_t size) noexcept nogil:
    cdef uint8_t* bytes = <uint8_t*> malloc(size)
    cdef int status = POOL_EMPTY
    if bytes == NULL:
        return status
    status = NOT_READY
    if s.log.read_log(at, bytes, size) == <int64_t> size:
        status = replay_bytes(s, at, size, bytes, True)
    free(bytes)
    return status


cdef int replay_bytes(Appender s, int64_t at, uint32_t size, const uint8_t* bytes,
                      bint check_crc) noexcept nogil:
    cdef RecordView view
    cdef int status
    if record_parse(bytes, size, at, check_crc, &view) != OK:
        return CORRUPT
    status = replay_record(s, &view)
    if status == OK:
        dispatched_move(s, at + size)
    return status


cdef int pass_damage(Appender s, int64_t end) noexcept nogil:
    """The bytes at marks.dispatched are no record: goes on at the next record that lies at its own
    offset, or at the end of the segment, as recovery does, and logs a line."""
    cdef int64_t begin = s.log.marks.dispatched
    cdef int64_t stop = min(end, segment_end(s.log, begin))
    cdef int64_t following
    cdef char line[200]
    cdef uint8_t* bytes = <uint8_t*> malloc(SEARCH_BYTES)
    if bytes == NULL:
        return POOL_EMPTY
    following = next_record(s, begin + 1, stop, bytes)
    free(bytes)
    if following < 0:
        return NOT_READY                    # the log cannot be read just now
    s.turn.counters.corrupt_records += 1
    dispatched_move(s, following)
    snprintf(line, sizeof(line), b"the commit log is damaged at offset %lld: %lld bytes are no "
             b"record and are passed over; consumers do not get what was stored there",
             <long long> begin, <long long> (following - begin))
    log_event(s.turn, NULL, line)
    return OK


cdef int64_t next_record(Appender s, int64_t begin, int64_t stop, uint8_t* bytes) noexcept nogil:
    """Where the first record in [begin, stop) starts; `stop`: none does; or a Status below 0."""
    cdef int64_t at = begin
    cdef int64_t count, i
    while at + HEAD_BYTES <= stop:
        count = s.log.read_log(at, bytes, <uint64_t> min(<int64_t> SEARCH_BYTES, stop - at))
        if count < HEAD_BYTES:
            return min(count, <int64_t> NOT_READY)
        for i in range(count - HEAD_BYTES + 1):
            if (is_record_magic(load_u32(bytes + i + AT_MAGIC))
                    and is_record(s, at + i, load_u32(bytes + i), stop)):
                return at + i
        at += count - HEAD_BYTES + 1
    return stop


cdef bint is_record(Appender s, int64_t at, uint32_t size, int64_t stop) noexcept nogil:
    cdef RecordView view
    cdef uint8_t* bytes
    cdef bint found
    if size < RECORD_BYTES_MIN or size > s.log.max_record_bytes or at + size > stop:
        return False
    bytes = <uint8_t*> malloc(size)
    found = (bytes != NULL and s.log.read_log(at, bytes, size) == <int64_t> size
             and record_parse(bytes, size, at, True, &view) == OK)
    free(bytes)
    return found


cdef int replay_record(Appender s, const RecordView* view) noexcept nogil:
    cdef int32_t kind = view.sys_flag & TRANSACTION_TYPE_MASK
    cdef Dispatch d
    cdef int status
    if (view.queue_offset < 0 or kind == TRANSACTION_PREPARED_TYPE
            or kind == TRANSACTION_ROLLBACK_TYPE):
        return OK
    d.topic = <Topic*> name_map_find(&s.tables.topics, view.topic, view.topic_bytes)
    d.queue = queue_of_record(s, d.topic, view)
    if d.queue == NULL:
        return OK
    if view.queue_offset < d.queue.max_offset:
        drop_older(s, d.topic, d.queue)
        d.queue = queue_of_record(s, d.topic, view)
        if d.queue == NULL:
            return POOL_EMPTY
    if d.queue.max_offset == 0:
        d.queue.begun_at = view.physical_offset
    status = bridge_gap(s, d.queue, view.queue_offset)
    if status == OK:
        status = queue_room(s.queues, d.queue)
    if status != OK:
        return status                       # no room: tried again in the next turn
    d.physical_offset = view.physical_offset
    d.size = <int32_t> view.total_bytes
    d.tags_code = dispatch_replayed(s, view)
    d.queue.next_offset = max(d.queue.next_offset, view.queue_offset + 1)
    return dispatch_entry(s, &d)


cdef Queue* queue_of_record(Appender s, Topic* topic, const RecordView* view) noexcept nogil:
    """The record's queue; made when it does not exist, even for an unknown topic. NULL: it cannot
    be made."""
    cdef Queue* queue = NULL
    if topic != NULL:
        queue = topic_queue(topic, s.queues, view.queue_id)
    if queue == NULL:
        queue = s.queues.open_queue(<const char*> view.topic, <int32_t> view.topic_bytes,
                                    view.queue_id)
    return queue


cdef void drop_older(Appender s, Topic* topic, Queue* queue) noexcept nogil:
    """The log gives an offset of the queue a second time: at the master, its topic was deleted and
    made anew, which this core's tables learn later, or never. The queue is removed, as at a
    start."""
    check(s.dispatch_first == s.dispatch_count,
          b"replay: nothing that this core appended waits for a queue that begins anew",
          s.dispatch_first, s.dispatch_count)
    drop_queue(s, topic, queue)


cdef void drop_queue(Appender s, Topic* topic, Queue* queue) noexcept nogil:
    dispatch_queue_removed(s, queue)
    if topic != NULL and queue.queue_id < topic.queue_slots:
        topic.queues[queue.queue_id] = NULL
    s.queues.delete_queue(queue)


cdef int bridge_gap(Appender s, Queue* queue, int64_t offset) noexcept nogil:
    """Makes the queue end at `offset`, if it ended below."""
    cdef int status = OK
    if offset == queue.max_offset:
        return OK
    if queue.min_offset == queue.max_offset and not queue.has_file:
        s.queues.set_range(queue, offset, offset, False)
        queue_release(queue, &s.queues.pool, 0)
        return OK
    if offset - queue.max_offset > GAP_BLANKS_MAX:
        return CORRUPT
    while queue.max_offset < offset and status == OK:
        status = queue_room(s.queues, queue)
        if status == OK:
            queue_entry_store(queue.write_at, 0, BLANK_SIZE, 0)
            queue.write_at += QUEUE_ENTRY_BYTES
            queue.max_offset += 1
            if not queue.dirty:
                s.queues.mark_dirty(queue)
    return status
