"""Slave replay: a core whose log is a copy of another core's. See slave_replay.pxd."""
cimport cython
from libc.stdint cimport int32_t, uint32_t

from cext.base.status cimport OK
from cext.flow.delay.timer_feed cimport timer_due
from cext.flow.pop.pop_journal cimport pop_of_record
from cext.flow.tables.offset_table cimport offset_commit, offset_query
from cext.flow.transaction.open_halves cimport half_begin, half_end_told
from cext.store.queues.consume_queue cimport Queue
from cext.store.queues.tags_code cimport DelayLevels, tags_code_of
from cext.wire.properties cimport SendProperties, scan_properties
from cext.wire.revive_entry cimport ReviveEntry
from cext.wire.system_topics cimport (
    HALF_TOPIC,
    HALF_TOPIC_BYTES,
    OP_HALF_TOPIC,
    OP_HALF_TOPIC_BYTES,
    SCHEDULE_TOPIC,
    SCHEDULE_TOPIC_BYTES,
    TIMER_TOPIC,
    TIMER_TOPIC_BYTES,
    is_named,
)

from rmq.errors import not_copied

cdef enum:
    DIGITS_MAX = 18             # of an offset in an op message


@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class SlaveReplay:
    def __reduce__(self):
        raise not_copied(self, "it is of one shard")


cdef void end_halves(SlaveReplay s, const RecordView* op) noexcept nogil:
    """Ends the half messages that an op message names, as in "17,18,"."""
    cdef int64_t offset = 0
    cdef uint32_t i, digits = 0
    for i in range(op.body_bytes + 1):
        if i < op.body_bytes and 48 <= op.body[i] <= 57:
            if digits < DIGITS_MAX:
                offset = offset * 10 + (op.body[i] - 48)
            digits += 1
            continue
        if 0 < digits <= DIGITS_MAX:
            half_end_told(&s.transaction.halves, offset)
        offset = digits = 0


cdef void begin_halves(SlaveReplay s, const RecordView* half) noexcept nogil:
    """Begins at this half message: when the log begins in the middle, older ones are not in it."""
    cdef const Queue* queue = s.transaction.append.queues.find_queue(
        <const char*> half.topic, <int32_t> half.topic_bytes, half.queue_id)
    if queue != NULL:
        half_begin(&s.transaction.halves, queue.min_offset)


cdef void note_pop(SlaveReplay s, const RecordView* view) noexcept nogil:
    """Moves a group on: its check point, where the pop wrote it, says to which offset."""
    cdef ReviveEntry e
    cdef int64_t following = 0
    if (pop_of_record(view, s.pop.pops.revive_name, s.pop.pops.revive_name_bytes, &e, &following)
            and following > offset_query(&s.tables.offsets, e.topic.bytes, e.topic.length,
                                         e.group.bytes,
                                         e.group.length, e.queue_id)):
        offset_commit(&s.tables.offsets, e.topic.bytes, e.topic.length, e.group.bytes,
                      e.group.length,
                      e.queue_id, following)


cdef int64_t slave_replayed(SlaveReplay s, const RecordView* view) noexcept nogil:
    cdef SendProperties found
    cdef DelayLevels levels
    cdef int64_t due_ms = 0
    cdef bint relative = False
    cdef int32_t i
    levels.count = 0
    if is_named(view.topic, view.topic_bytes, SCHEDULE_TOPIC, SCHEDULE_TOPIC_BYTES):
        levels.count = s.delay.schedule.count
        for i in range(levels.count):
            levels.milliseconds[i] = s.delay.schedule.levels[i].delay_ms
    elif is_named(view.topic, view.topic_bytes, OP_HALF_TOPIC, OP_HALF_TOPIC_BYTES):
        end_halves(s, view)
    elif is_named(view.topic, view.topic_bytes, HALF_TOPIC, HALF_TOPIC_BYTES):
        begin_halves(s, view)
    elif is_named(view.topic, view.topic_bytes, TIMER_TOPIC, TIMER_TOPIC_BYTES):
        note_pop(s, view)
        if (scan_properties(view.properties, view.properties_bytes, &found) == OK
                and found.timer_out_ms.bytes != NULL
                and timer_due(view, &found, 0, &due_ms, &relative)):
            return due_ms
    elif is_named(view.topic, view.topic_bytes, <const char*> s.pop.pops.revive_name,
                  s.pop.pops.revive_name_bytes):
        note_pop(s, view)
    return tags_code_of(view, &levels)
