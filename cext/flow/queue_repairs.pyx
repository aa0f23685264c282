"""Queue repairs. See queue_repairs.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdio cimport snprintf

from cext.base.status cimport CORRUPT, OK
from cext.flow.context.small_replies cimport log_event
from cext.flow.context.step cimport RunStep
from cext.flow.pop.held_pops cimport wake_topic
from cext.flow.pull.held_pulls cimport wake_all
from cext.flow.tables.topic_table cimport Topic
from cext.memory.name_map cimport name_map_find
from cext.store.queues.consume_queue cimport Queue
from cext.store.queues.queue_files cimport QUEUE_PATH_BYTES, QueueName
from cext.store.queues.queue_repair cimport Repair


cdef void tell(PullService s, Repair* r) noexcept nogil:
    cdef char line[1000]
    cdef char path[QUEUE_PATH_BYTES]
    cdef QueueName name
    cdef int64_t at
    name.topic = r.topic
    name.queue_id = r.queue_id
    name.serial = r.serial
    at = s.append.queues.reader_files.entry_place(&name, r.offset, path)
    if r.repaired > 0 and (r.status == OK or r.status == CORRUPT):
        snprintf(line, sizeof(line), b"%.800s:%lld: damaged at offset %lld of the "
                 b"queue; %lld entries there have been made anew from the commit log",
                 path, <long long> at, <long long> r.offset, <long long> r.repaired)
    elif r.status == OK:
        return
    elif r.status == CORRUPT:
        snprintf(line, sizeof(line), b"%.800s:%lld: the commit log has no whole "
                 b"record for offset %lld of the queue, which is not served",
                 path, <long long> at, <long long> r.offset)
    else:
        snprintf(line, sizeof(line), b"%.800s:%lld: damaged at offset %lld of the "
                 b"queue and could not be made anew (%d); it is tried again in a minute",
                 path, <long long> at, <long long> r.offset, r.status)
    log_event(s.turn, NULL, line)


cdef void queue_repairs_turn(PullService s) noexcept nogil:
    cdef Queue* queue = NULL
    cdef Repair* r = s.append.queues.repair_over(&queue)
    cdef Topic* topic
    while r != NULL:
        tell(s, r)
        if queue != NULL:
            wake_all(s, queue)
            topic = <Topic*> name_map_find(&s.tables.topics, <const uint8_t*> r.topic,
                                           <uint32_t> r.topic_length)
            if topic != NULL:
                wake_topic(s, topic, r.queue_id)
        s.append.queues.repair_logged(r)
        r = s.append.queues.repair_over(&queue)


cdef Step queue_repairs_step(PullService s) noexcept:
    return Step(b"queue repairs", <void*> s, <RunStep> queue_repairs_turn, NULL, NULL)
