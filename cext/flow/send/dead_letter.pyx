"""Messages that came too often. See dead_letter.pxd."""
from libc.string cimport memcpy

from cext.base.status cimport OK, TOO_LARGE
from cext.flow.context.property_scratch cimport PROPERTY_SCRATCH_BYTES
from cext.flow.tables.group_table cimport group_find
from cext.memory.name_map cimport name_map_find
from cext.wire.codes cimport PERM_READ, PERM_WRITE
from cext.wire.limits cimport PROPERTIES_BYTES_MAX
from cext.wire.property_edit cimport copy_properties_without
from cext.wire.system_topics cimport DLQ_PREFIX, DLQ_PREFIX_BYTES, RETRY_PREFIX_BYTES
from cext.wire.text cimport text_copy, text_of

cdef enum:
    NAME_MAX = 256                  # bytes of a topic's name

cdef const char* LEFT_OUT[1]
LEFT_OUT[0] = "DELAY"


cdef Topic* topic_of_group(SendService s, const char* prefix, uint32_t prefix_bytes,
                           const uint8_t* group, uint32_t group_bytes) noexcept nogil:
    cdef uint8_t name[NAME_MAX]
    if prefix_bytes + group_bytes > NAME_MAX:
        return NULL
    memcpy(name, prefix, prefix_bytes)
    memcpy(name + prefix_bytes, group, group_bytes)
    return <Topic*> name_map_find(&s.tables.topics, name, prefix_bytes + group_bytes)


cdef bint find_dead_letters(SendService s, const Header* h, const SendRequest* r,
                            const Topic* retry, bint resubmitted, Topic** dead) noexcept nogil:
    cdef const uint8_t* name = retry.name + RETRY_PREFIX_BYTES
    cdef uint32_t length = retry.name_length - RETRY_PREFIX_BYTES
    cdef Group* group = group_find(&s.tables.groups, name, length)
    dead[0] = NULL
    if group == NULL or not group.retries_known:
        return False
    if (r.reconsume_times <= retries_max(group, h, r.has_max_reconsume_times,
                                         r.max_reconsume_times)
            and s.turn.now_ms >= group.locked_until_ms):
        return True
    dead[0] = topic_of_group(s, DLQ_PREFIX, DLQ_PREFIX_BYTES, name, length)
    # This permission is cut down to the broker's: control knows whether it is the topic's own.
    return dead[0] != NULL and (resubmitted or dead[0].permission & (PERM_READ | PERM_WRITE) != 0)


cdef int leave_delay_out(SendService s, Text* properties) noexcept nogil:
    cdef int32_t length
    if properties.bytes == NULL:
        return OK
    length = text_copy(properties, s.turn.scratch.before, PROPERTY_SCRATCH_BYTES)
    if length < 0:
        return length
    if length > PROPERTIES_BYTES_MAX:
        return TOO_LARGE
    properties[0] = text_of(s.turn.scratch.after, copy_properties_without(
        s.turn.scratch.before, length, LEFT_OUT, 1, s.turn.scratch.after))
    return OK
