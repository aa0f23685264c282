"""An offset that is committed apart from pulls. See offset_commit.pxd."""
from libc.stdint cimport int32_t

from cext.base.status cimport OK
from cext.flow.context.outcome cimport TO_CONTROL
from cext.flow.context.small_replies cimport reply_error
from cext.flow.tables.group_table cimport group_find
from cext.flow.tables.offset_table cimport offset_commit
from cext.flow.tables.queue_mapping cimport is_logical
from cext.flow.tables.topic_table cimport Topic
from cext.memory.name_map cimport name_map_find
from cext.wire.codes cimport SUCCESS
from cext.wire.offset_commit cimport OffsetCommit, read_offset_commit


cdef Outcome accept_offset_commit(Tables s, Connection* c, const Header* h, const Frame* f,
                                  bint resubmitted) noexcept nogil:
    cdef OffsetCommit r
    cdef Topic* topic
    cdef int32_t queues
    if not s.turn.tables_loaded or read_offset_commit(h, &r) != OK:
        return TO_CONTROL                        # the broker is starting
    if r.topic.escaped or r.consumer_group.escaped:
        return TO_CONTROL
    topic = <Topic*> name_map_find(&s.topics, r.topic.bytes, r.topic.length)
    if topic == NULL or group_find(&s.groups, r.consumer_group.bytes,
                                   r.consumer_group.length) == NULL:
        return TO_CONTROL
    if topic.mapping != NULL and is_logical(h):
        return TO_CONTROL
    queues = topic.write_queues if topic.write_queues > topic.read_queues else topic.read_queues
    if r.queue_id < 0 or r.queue_id >= queues or offset_commit(
            &s.offsets, topic.name, topic.name_length, r.consumer_group.bytes,
            r.consumer_group.length, r.queue_id, r.offset) != OK:
        return TO_CONTROL
    return reply_error(s.turn, c, h, SUCCESS, b"")
