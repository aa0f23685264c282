"""Pulls whose filter is a function. See function_pull.pxd.

    data    opaque i32, serialize type i32, function i32, queue id i32, next offset i64,
            min offset i64, max offset i64, offset delta i64, whether it counts i64,
            bytes of the topic i64, topic, records

in the machine's byte order, without gaps.
"""
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

from cext.flow.context.control_link cimport FUNCTION_PULL, LinkMessage, link_finish, link_start
from cext.flow.context.small_replies cimport introduce
from cext.flow.tables.queue_mapping cimport LogicPlace, logic_offset_of
from cext.flow.tables.topic_table cimport topic_queue
from cext.store.queues.consume_queue cimport Queue

cdef struct FunctionPull:
    int32_t opaque
    int32_t serialize_type
    int32_t function
    int32_t queue_id
    int64_t next_offset
    int64_t min_offset
    int64_t max_offset
    int64_t offset_delta
    int64_t has_offset_delta
    int64_t topic_bytes


cdef void set_logical(FunctionPull* head, const LogicPlace* place) noexcept nogil:
    head.next_offset = logic_offset_of(place, head.next_offset)
    head.min_offset = logic_offset_of(place, head.min_offset)
    head.max_offset = max(logic_offset_of(place, head.max_offset), place.known_end)
    head.has_offset_delta = True
    head.offset_delta = place.base - place.start


cdef bint hand_to_function(PullService s, PullJob* job, int64_t next_offset,
                           const uint8_t** records, const uint32_t* sizes,
                           int32_t count) noexcept nogil:
    cdef Queue* queue = topic_queue(job.topic, s.append.queues, job.queue_id)
    cdef LinkMessage* message
    cdef FunctionPull head
    cdef uint64_t bytes = sizeof(FunctionPull) + job.topic.name_length
    cdef uint8_t* at
    cdef int32_t i
    for i in range(count):
        bytes += sizes[i]
    if not introduce(s.turn, job.connection):
        return False
    message = link_start(&s.turn.link, FUNCTION_PULL, job.connection.id, bytes)
    if message == NULL:
        return False
    head.opaque = job.opaque
    head.serialize_type = job.serialize_type
    head.function = job.sql.function
    head.queue_id = job.queue_id
    head.next_offset = next_offset
    head.min_offset = queue.min_offset if queue != NULL else 0
    head.max_offset = queue.max_offset if queue != NULL else 0
    head.offset_delta = head.has_offset_delta = 0
    if job.logic.mapped:
        set_logical(&head, &job.logic)
    head.topic_bytes = job.topic.name_length
    at = message.data
    memcpy(at, &head, sizeof(FunctionPull))
    at += sizeof(FunctionPull)
    memcpy(at, job.topic.name, job.topic.name_length)
    at += job.topic.name_length
    for i in range(count):
        memcpy(at, records[i], sizes[i])
        at += sizes[i]
    link_finish(&s.turn.link, message)
    return True
