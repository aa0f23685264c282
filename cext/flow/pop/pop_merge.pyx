"""Acks of single messages, gathered for the time of a turn. See pop_merge.pxd."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from cext.base.check cimport check
from cext.base.status cimport NOT_FOUND, NOT_READY, OK, POISONED, RING_FULL
from cext.flow.append.ack_queue cimport ANSWER_CODE
from cext.flow.append.append_status cimport TIMER_ILLEGAL, TIMER_OFF
from cext.flow.append.disk_alerts cimport poison_remark
from cext.flow.append.promise cimport promise, promise_room_for, promise_room_to
from cext.flow.append.turn_room cimport turn_room
from cext.flow.context.refusal cimport OTHERWISE, Refusal, refusal_of
from cext.flow.context.role cimport is_writable, refuse_remark
from cext.flow.context.rpc_times cimport rpc_record
from cext.flow.context.small_replies cimport reply_error_to
from cext.flow.context.step cimport RunStep
from cext.flow.pop.merged_ack cimport MERGED_ACKS, MERGED_NAMES_BYTES, MergedAck
from cext.flow.pop.pop_inflight cimport inflight_remove
from cext.flow.pop.pop_table cimport MERGED_PLACES
from cext.flow.pop.revive_log cimport REVIVE_RECORD_BYTES, append_ack
from cext.flow.tables.topic_table cimport Topic
from cext.memory.name_map cimport name_map_find
from cext.wire.codes cimport SERVICE_NOT_AVAILABLE, SYSTEM_BUSY, SYSTEM_ERROR
from cext.wire.text cimport Text, text_of


# ------------------------------------------------------------------- replies

cdef const char* TOO_LONG = b"the invisible time is longer than timerMaxDelaySec, or " \
                            b"timerWheelEnable=false"

cdef Refusal[4] refusals = [
    Refusal(TIMER_OFF, SYSTEM_ERROR, TOO_LONG),
    Refusal(TIMER_ILLEGAL, SYSTEM_ERROR, TOO_LONG),
    Refusal(NOT_FOUND, SYSTEM_ERROR, b"extraInfo names no queue of the revive log"),
    Refusal(OTHERWISE, SYSTEM_BUSY,
            b"[OVERLOAD]system busy, start flow control for a while: the log takes no ack at "
            b"present"),
]


cdef void refuse_record(PopService s, const AckReply* r, int status) noexcept nogil:
    cdef const Refusal* refusal = refusal_of(refusals, status)
    cdef int32_t code = refusal.code
    cdef const char* remark = refusal.text
    if not is_writable(&s.turn.role):
        code = SERVICE_NOT_AVAILABLE
        remark = refuse_remark(&s.turn.role)
    elif status == POISONED:
        code = SERVICE_NOT_AVAILABLE
        remark = poison_remark(&s.append.alerts, s.append.log)
    s.turn.counters.busy_replies += code == SYSTEM_BUSY
    if r.connection == NULL or r.connection.id != r.connection_id:
        return
    rpc_record(&s.turn.rpc, r.request_code, code, False, 0, 1)
    if not reply_error_to(s.turn, r.connection, r.opaque, r.serialize_type, code, remark):
        s.turn.net.close_connection(r.connection)


# ------------------------------------------------------------------- places

cdef void put_names(MergedAck* place, const ReviveEntry* e) noexcept nogil:
    cdef const Text* texts[3]
    cdef uint32_t at = 0
    cdef int32_t i
    texts[0] = &e.topic
    texts[1] = &e.group
    texts[2] = &e.broker_name
    for i in range(3):
        place.lengths[i] = texts[i].length
        memcpy(place.names + at, texts[i].bytes, texts[i].length)
        at += texts[i].length


cdef inline bint is_name(const MergedAck* place, uint32_t at, int32_t which,
                         const Text* name) noexcept nogil:
    return (place.lengths[which] == name.length
            and memcmp(place.names + at, name.bytes, name.length) == 0)


cdef bint is_of(const MergedAck* place, const ReviveEntry* e) noexcept nogil:
    """Whether the place is that of the entry's check point."""
    return (place.pop_ms == e.pop_ms and place.start_offset == e.start_offset
            and place.invisible_ms == e.invisible_ms and place.queue_id == e.queue_id
            and place.revive_queue == e.revive_queue
            and is_name(place, 0, 0, &e.topic)
            and is_name(place, place.lengths[0], 1, &e.group)
            and is_name(place, place.lengths[0] + place.lengths[1], 2, &e.broker_name))


cdef int into_log(PopService s, MergedAck* place) noexcept nogil:
    """OK: the place is free; its requests are answered when safe, or refused. RING_FULL: nothing
    was done."""
    cdef ReviveEntry e
    cdef int32_t i, room
    cdef int status
    if (turn_room(s.append, REVIVE_RECORD_BYTES, 1) == RING_FULL
            or promise_room_for(s.append, place.count) == RING_FULL):
        return RING_FULL
    memset(&e, 0, sizeof(ReviveEntry))
    e.topic = text_of(place.names, place.lengths[0])
    e.group = text_of(place.names + place.lengths[0], place.lengths[1])
    e.broker_name = text_of(place.names + place.lengths[0] + place.lengths[1], place.lengths[2])
    e.start_offset = place.start_offset
    e.pop_ms = place.pop_ms
    e.queue_id = place.queue_id
    e.ack_offset = place.offsets[0]
    if place.count > 1:
        e.ack_offset = -1
        e.listed = place.count
        memcpy(e.list, place.offsets, place.count * sizeof(int64_t))
    status = append_ack(s, &e, place.revive_queue, place.pop_ms + place.invisible_ms) \
        if is_writable(&s.turn.role) else NOT_READY
    if status == OK:
        s.pops.acks += place.count
        if s.pops.inflight_max >= 0:
            inflight_remove(s, <Topic*> name_map_find(&s.tables.topics, e.topic.bytes,
                                                      e.topic.length),
                            e.group.bytes, e.group.length, e.queue_id, e.pop_ms, place.count)
    for i in range(place.count):
        room = status if status != OK else promise_room_to(s.append, &place.replies[i])
        if room == OK:
            promise(s.append, &place.replies[i], ANSWER_CODE)
        else:
            refuse_record(s, &place.replies[i], room)
    place.count = 0
    return OK


cdef int merge_ack(PopService s, const ReviveEntry* e, const AckReply* r) noexcept nogil:
    cdef uint64_t number = (<uint64_t> e.pop_ms * 31 + <uint64_t> e.start_offset) * 31 \
        + <uint64_t> e.queue_id
    cdef MergedAck* place = &s.pops.merged[(number ^ number >> 7) & (MERGED_PLACES - 1)]
    check(e.topic.length + e.group.length + e.broker_name.length <= MERGED_NAMES_BYTES,
          b"an ack: names as long as look_up() lets through", e.group.length,
          e.broker_name.length)
    if place.count > 0 and (place.count == MERGED_ACKS or not is_of(place, e)):
        if into_log(s, place) != OK:
            return RING_FULL
    if place.count == 0:
        put_names(place, e)
        place.start_offset = e.start_offset
        place.pop_ms = e.pop_ms
        place.invisible_ms = e.invisible_ms
        place.queue_id = e.queue_id
        place.revive_queue = e.revive_queue
        s.pops.merging += 1
    place.offsets[place.count] = e.ack_offset
    place.replies[place.count] = r[0]
    place.count += 1
    return OK


cdef void merge_turn(PopService s) noexcept nogil:
    cdef int32_t i
    if s.pops.merging == 0:
        return
    s.pops.merging = 0
    for i in range(MERGED_PLACES):
        if s.pops.merged[i].count > 0 and into_log(s, &s.pops.merged[i]) != OK:
            s.pops.merging = 1


cdef Step merge_step(PopService s) noexcept:
    return Step(b"merge", <void*> s, <RunStep> merge_turn, NULL, NULL)
