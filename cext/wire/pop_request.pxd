"""Pop request: the fields of codes 200050 .. 200055.

    pop 200050            consumerGroup! topic! queueId! maxMsgNums! invisibleTime! pollTime!
                          bornTime initMode! expType exp order attemptId
    ack 200051            consumerGroup! topic! queueId! extraInfo! offset!
    peek 200052           consumerGroup! topic! queueId! maxMsgNums!
    invisible 200053      consumerGroup! topic! queueId! extraInfo! offset! invisibleTime!
    notification 200054   consumerGroup! topic! queueId! pollTime! bornTime order attemptId
    polling info 200055   consumerGroup! topic! queueId!

`!` is required. A queueId of -1 means all queues. A binary header has 16 bits for the code, so the
codes above arrive as 3442 .. 3447: see pop_code().

extraInfo comes with a popped message and is sent back in its ack. It has these parts, with blanks
between them:

    first offset of the check point, pop time, invisible time, queue of the revive log (999: popped
    in order), topic (0: its own, 1: retry topic, 2: retry topic v2), broker, queue id, the
    message's own offset

Example: "100 1700000000000 60000 3 0 broker-a 1 102".
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from cext.wire.codes cimport BATCH_ACK_MESSAGE, POLLING_INFO, POP_MESSAGE
from cext.wire.header cimport Header
from cext.wire.text cimport Text

cdef enum:
    REVIVE_IN_ORDER = 999           # the revive queue of messages that were popped in order

cdef struct PopRequest:
    Text consumer_group             # all texts borrow from the frame and may be escaped
    Text topic
    Text expression_type            # expType; bytes NULL when absent, which means TAG
    Text expression                 # exp; bytes NULL when absent
    Text attempt_id                 # bytes NULL when absent
    Text extra_info
    int32_t queue_id                # -1: all
    int32_t max_messages
    int32_t init_mode               # 0: a new group begins at the queue's start, 1: at its end
    bint order
    int64_t invisible_ms
    int64_t poll_ms
    int64_t born_ms                 # by the client's clock; 0 when absent
    int64_t offset
    const char* bad_field           # with any status but OK: the field's name

cdef struct ExtraInfo:
    int64_t start_offset
    int64_t pop_ms
    int64_t invisible_ms
    int32_t revive_queue
    Text broker_name

# The request's code, with the truncated codes of binary headers made whole again.
cdef inline int32_t pop_code(const Header* header) noexcept nogil:
    if header.serialize_type == 1:
        if POP_MESSAGE & 0xFFFF <= header.code <= POLLING_INFO & 0xFFFF:
            return header.code - (POP_MESSAGE & 0xFFFF) + POP_MESSAGE
        if header.code == BATCH_ACK_MESSAGE & 0xFFFF:
            return BATCH_ACK_MESSAGE
    return header.code

# `code` says which fields are required. OK | MISSING_FIELD | MALFORMED (not a number). Any thread.
cdef int read_pop_request(const Header* header, int32_t code, PopRequest* out) noexcept nogil
# OK | MALFORMED
cdef int read_extra_info(const Text* text, ExtraInfo* out) noexcept nogil
