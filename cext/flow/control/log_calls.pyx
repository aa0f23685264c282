"""Log calls. See log_calls.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from cext.base.status cimport MALFORMED, NOT_FOUND, OK, RING_FULL, raise_status
from cext.flow.append.appender cimport Appender
from cext.flow.append.dispatch cimport write_and_dispatch
from cext.flow.append.message_append cimport Appended, Message, append_message, record_bytes_max
from cext.flow.append.turn_room cimport append_room
from cext.flow.context.control_link cimport CallFn
from cext.flow.context.role cimport is_writable, refuse_remark
from cext.flow.control.control_side cimport borrowed
from cext.flow.control.queue_calls cimport queue_of
from cext.flow.tables.topic_table cimport Topic
from cext.memory.name_map cimport name_map_find
from cext.store.queues.consume_queue cimport Queue
from cext.wire.limits cimport RECORD_BYTES_MIN
from cext.wire.text cimport Text

from rmq.errors import StoreError


# ---------------------------------------------------------------- append

cdef struct Append:
    Text topic
    int32_t queue_id
    Text body
    Text properties             # plain form
    int32_t flag
    int32_t sys_flag
    int64_t born_ms
    Text born_host              # 8 or 20 bytes
    int32_t reconsume_times
    int64_t prepared_offset
    int64_t tags_code
    bint own_tags_code          # use `tags_code`
    # results
    const char* refusal         # why nothing is taken at the moment (role.pxd), or NULL
    int status
    int64_t physical_offset
    int64_t queue_offset


cdef void append(Appender s, Append* x) noexcept nogil:
    """The record is written (not synced) when the call returns."""
    cdef Topic* topic = <Topic*> name_map_find(&s.tables.topics, x.topic.bytes, x.topic.length)
    cdef Queue* queue = queue_of(s, &x.topic, x.queue_id)
    cdef Message m
    cdef Appended appended
    x.refusal = refuse_remark(&s.turn.role) if not is_writable(&s.turn.role) else NULL
    if x.refusal != NULL:
        return
    x.status = NOT_FOUND
    if topic == NULL or queue == NULL:
        return
    if x.born_host.length != 8 and x.born_host.length != 20:
        x.status = MALFORMED
        return
    m.body = x.body.bytes
    m.body_bytes = x.body.length
    m.properties = x.properties
    m.flag = x.flag
    m.sys_flag = x.sys_flag
    m.born_timestamp_ms = x.born_ms
    m.reconsume_times = x.reconsume_times
    m.prepared_offset = x.prepared_offset
    m.tags_code = x.tags_code
    m.own_tags_code = x.own_tags_code
    m.born_host = x.born_host.bytes
    m.born_host_bytes = x.born_host.length
    m.plain_only = False
    m.add_properties = False
    m.stored = True
    m.spare = 0
    x.status = append_room(s, queue, record_bytes_max(&m, topic.name_length), 1)
    if x.status == RING_FULL:           # writes at once: no request is under way here
        x.status = write_and_dispatch(s)
        if x.status == OK:
            x.status = append_room(s, queue, record_bytes_max(&m, topic.name_length), 1)
    if x.status == OK:
        x.status = append_message(s, topic, queue, &m, &appended)
    if x.status == OK:
        x.status = write_and_dispatch(s)
        x.physical_offset = appended.physical_offset
        x.queue_offset = appended.queue_offset


# ---------------------------------------------------------------- is_in_memory

cdef struct IsInMemory:
    int64_t physical_offset
    # results
    bint in_memory


cdef void is_in_memory(Appender s, IsInMemory* x) noexcept nogil:
    cdef const uint8_t* at
    x.in_memory = s.log.view(x.physical_offset, RECORD_BYTES_MIN, &at) == OK


cdef class LogCalls(PopCalls):
    def append(self, bytes topic, int32_t queue_id, bytes body, bytes properties, int32_t flag,
               int32_t sys_flag, int64_t born_ms, bytes born_host, int32_t reconsume_times,
               int64_t prepared_offset, tags_code=None):
        cdef Append x
        x.topic = borrowed(topic)
        x.queue_id = queue_id
        x.body = borrowed(body)
        x.properties = borrowed(properties)
        x.flag = flag
        x.sys_flag = sys_flag
        x.born_ms = born_ms
        x.born_host = borrowed(born_host)
        x.reconsume_times = reconsume_times
        x.prepared_offset = prepared_offset
        x.tags_code = 0 if tags_code is None else tags_code
        x.own_tags_code = tags_code is not None
        self._call(<CallFn> append, <void*> self.appender, &x)
        if x.refusal != NULL:               # only this thread changes the text, or nobody does
            raise StoreError((<bytes> x.refusal).decode("utf-8", "replace"))
        raise_status(x.status, f"append to {topic!r}")
        return x.physical_offset, x.queue_offset

    def is_in_memory(self, int64_t physical_offset):
        cdef IsInMemory x
        x.physical_offset = physical_offset
        self._call(<CallFn> is_in_memory, <void*> self.appender, &x)
        return bool(x.in_memory)
