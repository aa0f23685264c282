"""The revive log's topic. See revive_log.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memset, strlen

from cext.base.status cimport NOT_FOUND
from cext.flow.append.dispatch cimport write_and_dispatch
from cext.flow.append.message_append cimport Appended, Message
from cext.flow.context.step cimport RunStep
from cext.flow.pop.pop_table cimport REVIVE_QUEUES_MAX
from cext.flow.tables.topic_table cimport topic_queue
from cext.flow.transaction.redirect cimport TIMED_ADDS_MAX, append_timed
from cext.memory.name_map cimport name_map_find
from cext.store.queues.consume_queue cimport Queue
from cext.wire.properties cimport append_number, append_property, find_property, tags_code
from cext.wire.revive_entry cimport CHECK_POINT_BYTES_MAX, write_ack, write_check_point
from cext.wire.text cimport Text

cdef enum:
    OWN_BYTES_MAX = 128         # TAGS, TIMER_DELIVER_MS and one more

cdef const char* REVIVED = "POP_REVIVED"


cdef Topic* revive_topic(PopService s) noexcept nogil:
    return <Topic*> name_map_find(&s.tables.topics, s.pops.revive_name, s.pops.revive_name_bytes)


cdef int32_t next_revive_queue(PopService s) noexcept nogil:
    cdef Topic* topic = revive_topic(s)
    cdef int32_t count
    if topic == NULL:
        return -1
    count = topic.write_queues
    if count > s.pops.revive_queues:
        count = s.pops.revive_queues
    if count < 1:
        return -1
    s.pops.turn_around += 1
    return <int32_t> (s.pops.turn_around % <uint32_t> count)


cdef int append_entry(PopService s, const uint8_t* body, uint32_t length, const char* tag,
                      int32_t revive_queue, int64_t due_ms, const char* mark,
                      int64_t marked) noexcept nogil:
    """`mark`: the name of an additional property, or NULL."""
    cdef Topic* topic = revive_topic(s)
    cdef Queue* queue = NULL
    cdef uint8_t properties[OWN_BYTES_MAX + TIMED_ADDS_MAX]
    cdef uint32_t bytes, tag_bytes = <uint32_t> strlen(tag)
    cdef Message m
    cdef Appended appended
    if topic != NULL and 0 <= revive_queue < REVIVE_QUEUES_MAX:
        queue = topic_queue(topic, s.append.queues, revive_queue)
    if queue == NULL:
        return NOT_FOUND
    bytes = append_property(properties, b"TAGS", <const uint8_t*> tag, tag_bytes)
    bytes += append_number(properties + bytes, b"TIMER_DELIVER_MS", due_ms)
    if mark != NULL:
        bytes += append_number(properties + bytes, mark, marked)
    memset(&m, 0, sizeof(m))
    m.body = body
    m.body_bytes = length
    m.own_tags_code = True
    m.tags_code = tags_code(<const uint8_t*> tag, tag_bytes)
    m.born_timestamp_ms = s.turn.wall_ms
    m.born_host = s.turn.options.store_host
    m.born_host_bytes = s.turn.options.store_host_bytes
    return append_timed(s.transaction, topic, queue, &m, properties, bytes, due_ms, &appended)


cdef int append_check_point(PopService s, const ReviveEntry* e, int32_t revive_queue,
                            int64_t next_offset) noexcept nogil:
    cdef uint8_t body[CHECK_POINT_BYTES_MAX]
    cdef const char* mark = NULL
    if next_offset >= 0:
        mark = b"POP_NEXT"
    s.pops.check_points += 1
    s.pops.appended = True
    s.turn.holds_output = True
    return append_entry(s, body, write_check_point(body, e), b"ck", revive_queue,
                        e.pop_ms + e.invisible_ms - CHECK_POINT_LEAD_MS, mark, next_offset)


cdef int append_ack(PopService s, const ReviveEntry* e, int32_t revive_queue,
                    int64_t due_ms) noexcept nogil:
    cdef uint8_t body[CHECK_POINT_BYTES_MAX]
    return append_entry(s, body, write_ack(body, e), b"bAck" if e.listed > 0 else b"ack",
                        revive_queue, due_ms, NULL, 0)


cdef int append_revived(PopService s, const ReviveEntry* e, int32_t revive_queue) noexcept nogil:
    cdef uint8_t body[CHECK_POINT_BYTES_MAX]
    return append_entry(s, body, write_ack(body, e), b"bAck", revive_queue, 0, REVIVED, 1)


cdef bint is_of_revived(const RecordView* view) noexcept nogil:
    cdef Text mark
    return find_property(view.properties, view.properties_bytes, REVIVED, &mark)


cdef void write_check_points(PopService s) noexcept nogil:
    if s.pops.appended:
        s.pops.appended = False
        write_and_dispatch(s.append)
    s.turn.holds_output = False


cdef Step check_points_step(PopService s) noexcept:
    return Step(b"check points", <void*> s, <RunStep> write_check_points, NULL, NULL)
