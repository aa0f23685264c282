"""Send request: the fields of a send, in either of the two spellings that headers use.

Both spellings and an example are in send_request.pxd. Both are first brought into the same list of
slots, where slot i is for the letter 'a' + i. For letters the header's letter table gives the
slots; for long names one pass over the fields does. Then one function reads the slots.
"""
from libc.stdint cimport int32_t

from cext.base.status cimport Status
from cext.wire.codes cimport SEND_MESSAGE, SEND_REPLY_MESSAGE
from cext.wire.field_slots cimport sort_into_slots
from cext.wire.header cimport Header, header_letter
from cext.wire.name_table cimport NameTable, name_table_add
from cext.wire.text cimport Text, text_i32, text_i64, text_is_true, text_of

cdef enum:
    SLOTS_OF_SEND = 13          # a .. m

cdef NameTable long_names
name_table_add(&long_names, b"producerGroup")           # a
name_table_add(&long_names, b"topic")                   # b
name_table_add(&long_names, b"defaultTopic")            # c
name_table_add(&long_names, b"defaultTopicQueueNums")   # d
name_table_add(&long_names, b"queueId")                 # e
name_table_add(&long_names, b"sysFlag")                 # f
name_table_add(&long_names, b"bornTimestamp")           # g
name_table_add(&long_names, b"flag")                    # h
name_table_add(&long_names, b"properties")              # i
name_table_add(&long_names, b"reconsumeTimes")          # j
name_table_add(&long_names, b"unitMode")                # k
name_table_add(&long_names, b"maxReconsumeTimes")       # l
name_table_add(&long_names, b"batch")                   # m

cdef const char* letter_names[SLOTS_OF_SEND]
letter_names[:] = [
    b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"i", b"j", b"k", b"l", b"m",
]


cdef inline bint spells_names_out(int32_t code) noexcept nogil:
    return code == SEND_MESSAGE or code == SEND_REPLY_MESSAGE


cdef inline void slots_by_letter(const Header* header, const Text** slots) noexcept nogil:
    cdef int slot
    for slot in range(SLOTS_OF_SEND):
        slots[slot] = header_letter(header, c'a' + slot)


cdef inline const char* field_name(const Header* header, int slot) noexcept nogil:
    return long_names.names[slot] if spells_names_out(header.code) else letter_names[slot]


cdef int first_missing(const Text** slots) noexcept nogil:
    """The first required slot that is empty, or -1."""
    cdef int slot
    for slot in range(8):               # a .. h
        if slots[slot] == NULL:
            return slot
    return -1


cdef int first_malformed(const Text** slots, SendRequest* out) noexcept nogil:
    """Reads the numbers. The first slot that is not a number, or -1."""
    if text_i32(slots[3], &out.default_topic_queue_nums) != Status.OK:
        return 3
    if text_i32(slots[4], &out.queue_id) != Status.OK:
        return 4
    if text_i32(slots[5], &out.sys_flag) != Status.OK:
        return 5
    if text_i64(slots[6], &out.born_timestamp_ms) != Status.OK:
        return 6
    if text_i32(slots[7], &out.flag) != Status.OK:
        return 7
    if slots[9] != NULL and text_i32(slots[9], &out.reconsume_times) != Status.OK:
        return 9
    if slots[11] != NULL and text_i32(slots[11], &out.max_reconsume_times) != Status.OK:
        return 11
    return -1


cdef int read_send_request(const Header* header, SendRequest* out) noexcept nogil:
    cdef const Text* slots[SLOTS_OF_SEND]
    cdef int bad
    out.reconsume_times = 0
    out.max_reconsume_times = 0
    if spells_names_out(header.code):
        sort_into_slots(&long_names, header, slots, SLOTS_OF_SEND)
    else:
        slots_by_letter(header, slots)
    bad = first_missing(slots)
    if bad >= 0:
        out.bad_field = field_name(header, bad)
        return Status.MISSING_FIELD
    bad = first_malformed(slots, out)
    if bad >= 0:
        out.bad_field = field_name(header, bad)
        return Status.MALFORMED
    out.producer_group = slots[0][0]
    out.topic = slots[1][0]
    out.default_topic = slots[2][0]
    out.properties = slots[8][0] if slots[8] != NULL else text_of(NULL, 0)
    out.has_max_reconsume_times = slots[11] != NULL
    out.unit_mode = slots[10] != NULL and text_is_true(slots[10])
    out.batch = slots[12] != NULL and text_is_true(slots[12])
    return Status.OK
