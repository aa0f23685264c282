"""The end of a repair. See mended.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdio cimport snprintf

from cext.base.status cimport CORRUPT, OK
from cext.flow.pull.held_pulls cimport wake_all, wake_topic
from cext.flow.replying cimport tell_event
from cext.flow.tables.topic_table cimport Topic
from cext.memory.name_map cimport name_map_find
from cext.store.consume_queue cimport Queue, UNIT_BYTES
from cext.store.queue_repair cimport Repair


cdef void tell(ShardState s, const Repair* r) noexcept nogil:
    cdef char line[1000]
    cdef int64_t per_file = s.queues.entries_per_file
    cdef int64_t file = r.offset // per_file * per_file * UNIT_BYTES
    cdef int64_t at = r.offset % per_file * UNIT_BYTES
    if r.mended > 0 and (r.status == OK or r.status == CORRUPT):
        snprintf(line, sizeof(line), b"%.500s/%s/%d/%020lld:%lld: damaged at offset %lld of the "
                 b"queue; %lld entries there have been made anew from the commit log",
                 s.queues.reader_files.directory, r.topic, r.queue_id, <long long> file,
                 <long long> at, <long long> r.offset, <long long> r.mended)
    elif r.status == OK:
        return
    elif r.status == CORRUPT:
        snprintf(line, sizeof(line), b"%.500s/%s/%d/%020lld:%lld: the commit log has no whole "
                 b"record for offset %lld of the queue, which is not served",
                 s.queues.reader_files.directory, r.topic, r.queue_id, <long long> file,
                 <long long> at, <long long> r.offset)
    else:
        snprintf(line, sizeof(line), b"%.500s/%s/%d/%020lld:%lld: damaged at offset %lld of the "
                 b"queue and could not be made anew (%d); it is tried again in a minute",
                 s.queues.reader_files.directory, r.topic, r.queue_id, <long long> file,
                 <long long> at, <long long> r.offset, r.status)
    tell_event(s, NULL, line)


cdef void mended_turn(ShardState s) noexcept nogil:
    cdef Queue* queue = NULL
    cdef Repair* r = s.queues.repair_over(&queue)
    cdef Topic* topic
    while r != NULL:
        tell(s, r)
        if queue != NULL:
            wake_all(s, queue)
            topic = <Topic*> name_map_find(&s.topics, <const uint8_t*> r.topic,
                                           <uint32_t> r.topic_length)
            if topic != NULL:
                wake_topic(s, topic, r.queue_id)
        s.queues.repair_told(r)
        r = s.queues.repair_over(&queue)
