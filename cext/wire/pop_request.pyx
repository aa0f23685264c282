"""Requests of consumers that pop. See pop_request.pxd."""
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memchr, memset

from cext.base.status cimport MALFORMED, MISSING_FIELD, OK
from cext.wire.codes cimport (
    ACK_MESSAGE, CHANGE_MESSAGE_INVISIBLETIME, NOTIFICATION, PEEK_MESSAGE, POP_MESSAGE,
)
from cext.wire.field_slots cimport sort_into_slots
from cext.wire.header cimport Header
from cext.wire.name_table cimport NameTable, name_table_add
from cext.wire.text cimport text_i32, text_i64, text_is_true, text_of

cdef enum:
    BROKER_NAME_BYTES_MAX = 256

cdef enum:                          # the order in which the names are added below
    CONSUMER_GROUP
    TOPIC
    QUEUE_ID
    MAX_MSG_NUMS
    INVISIBLE_TIME
    POLL_TIME
    INIT_MODE
    EXTRA_INFO
    OFFSET                          # the last one that any code requires
    BORN_TIME
    EXP_TYPE
    EXP
    ORDER
    ATTEMPT_ID
    SLOT_COUNT

cdef NameTable names
name_table_add(&names, b"consumerGroup")
name_table_add(&names, b"topic")
name_table_add(&names, b"queueId")
name_table_add(&names, b"maxMsgNums")
name_table_add(&names, b"invisibleTime")
name_table_add(&names, b"pollTime")
name_table_add(&names, b"initMode")
name_table_add(&names, b"extraInfo")
name_table_add(&names, b"offset")
name_table_add(&names, b"bornTime")
name_table_add(&names, b"expType")
name_table_add(&names, b"exp")
name_table_add(&names, b"order")
name_table_add(&names, b"attemptId")


cdef uint32_t required(int32_t code) noexcept nogil:
    """A bit for each slot that must be there."""
    cdef uint32_t always = 1 << CONSUMER_GROUP | 1 << TOPIC | 1 << QUEUE_ID
    if code == POP_MESSAGE:
        return always | 1 << MAX_MSG_NUMS | 1 << INVISIBLE_TIME | 1 << POLL_TIME | 1 << INIT_MODE
    if code == ACK_MESSAGE:
        return always | 1 << EXTRA_INFO | 1 << OFFSET
    if code == PEEK_MESSAGE:
        return always | 1 << MAX_MSG_NUMS
    if code == CHANGE_MESSAGE_INVISIBLETIME:
        return always | 1 << EXTRA_INFO | 1 << OFFSET | 1 << INVISIBLE_TIME
    if code == NOTIFICATION:
        return always | 1 << POLL_TIME
    return always


cdef int first_malformed(const Text** slots, PopRequest* out) noexcept nogil:
    """Reads the numbers that are there. The first slot that is not a number, or -1."""
    if text_i32(slots[QUEUE_ID], &out.queue_id) != OK:
        return QUEUE_ID
    if slots[MAX_MSG_NUMS] != NULL and text_i32(slots[MAX_MSG_NUMS], &out.max_messages) != OK:
        return MAX_MSG_NUMS
    if slots[INIT_MODE] != NULL and text_i32(slots[INIT_MODE], &out.init_mode) != OK:
        return INIT_MODE
    if slots[INVISIBLE_TIME] != NULL and text_i64(slots[INVISIBLE_TIME], &out.invisible_ms) != OK:
        return INVISIBLE_TIME
    if slots[POLL_TIME] != NULL and text_i64(slots[POLL_TIME], &out.poll_ms) != OK:
        return POLL_TIME
    if slots[BORN_TIME] != NULL and text_i64(slots[BORN_TIME], &out.born_ms) != OK:
        return BORN_TIME
    if slots[OFFSET] != NULL and text_i64(slots[OFFSET], &out.offset) != OK:
        return OFFSET
    return -1


cdef inline void take_text(const Text* slot, Text* out) noexcept nogil:
    if slot != NULL:
        out[0] = slot[0]


cdef int read_pop_request(const Header* header, int32_t code, PopRequest* out) noexcept nogil:
    cdef const Text* slots[SLOT_COUNT]
    cdef uint32_t wanted = required(code)
    cdef int slot
    memset(out, 0, sizeof(PopRequest))
    sort_into_slots(&names, header, slots, SLOT_COUNT)
    for slot in range(OFFSET + 1):
        if wanted >> slot & 1 and slots[slot] == NULL:
            out.bad_field = names.names[slot]
            return MISSING_FIELD
    slot = first_malformed(slots, out)
    if slot >= 0:
        out.bad_field = names.names[slot]
        return MALFORMED
    out.consumer_group = slots[CONSUMER_GROUP][0]
    out.topic = slots[TOPIC][0]
    out.order = slots[ORDER] != NULL and text_is_true(slots[ORDER])
    take_text(slots[EXP_TYPE], &out.expression_type)
    take_text(slots[EXP], &out.expression)
    take_text(slots[ATTEMPT_ID], &out.attempt_id)
    take_text(slots[EXTRA_INFO], &out.extra_info)
    return OK


cdef bint next_word(Text* rest, Text* word) noexcept nogil:
    """Cuts the first word off; False when nothing is left."""
    cdef const uint8_t* blank
    if rest.length == 0:
        return False
    blank = <const uint8_t*> memchr(rest.bytes, 32, rest.length)
    if blank == NULL:
        word[0] = rest[0]
        rest[0] = text_of(rest.bytes + rest.length, 0)
        return True
    word[0] = text_of(rest.bytes, <uint32_t> (blank - rest.bytes))
    rest[0] = text_of(blank + 1, rest.length - word.length - 1)
    return True


cdef int read_extra_info(const Text* text, ExtraInfo* out) noexcept nogil:
    cdef Text rest = text[0]
    cdef Text word
    if text.bytes == NULL or text.escaped:
        return MALFORMED
    if (not next_word(&rest, &word) or text_i64(&word, &out.start_offset) != OK
            or not next_word(&rest, &word) or text_i64(&word, &out.pop_ms) != OK
            or not next_word(&rest, &word) or text_i64(&word, &out.invisible_ms) != OK
            or not next_word(&rest, &word) or text_i32(&word, &out.revive_queue) != OK
            or not next_word(&rest, &word) or not next_word(&rest, &out.broker_name)):
        return MALFORMED
    # Later code adds these numbers: they must be far from the ends of an int64.
    if (out.start_offset < 0 or out.pop_ms < 0 or out.invisible_ms < 0 or out.revive_queue < 0
            or out.pop_ms >> 60 or out.invisible_ms >> 60
            or out.broker_name.length > BROKER_NAME_BYTES_MAX):
        return MALFORMED
    return OK
