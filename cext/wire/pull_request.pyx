"""Pull request: the fields of codes 11 (pull) and 361 (lite pull).

The fields, their meaning and an example are in pull_request.pxd. One pass over the header's fields
sorts the values into slots by name; a later field of the same name replaces an earlier one.
"""
from libc.string cimport memset

from cext.base.status cimport Status
from cext.wire.field_slots cimport sort_into_slots
from cext.wire.header cimport Header
from cext.wire.name_table cimport NameTable, name_table_add
from cext.wire.text cimport Text, text_i32, text_i64

cdef enum:                          # the order in which the names are added below
    CONSUMER_GROUP
    TOPIC
    QUEUE_ID
    QUEUE_OFFSET
    MAX_MSG_NUMS
    SYS_FLAG
    COMMIT_OFFSET
    SUSPEND_TIMEOUT
    SUB_VERSION                     # the last required one
    SUBSCRIPTION
    EXPRESSION_TYPE
    MAX_MSG_BYTES
    REQUEST_SOURCE
    PROXY_CLIENT_ID
    SLOT_COUNT

cdef NameTable names
name_table_add(&names, b"consumerGroup")
name_table_add(&names, b"topic")
name_table_add(&names, b"queueId")
name_table_add(&names, b"queueOffset")
name_table_add(&names, b"maxMsgNums")
name_table_add(&names, b"sysFlag")
name_table_add(&names, b"commitOffset")
name_table_add(&names, b"suspendTimeoutMillis")
name_table_add(&names, b"subVersion")
name_table_add(&names, b"subscription")
name_table_add(&names, b"expressionType")
name_table_add(&names, b"maxMsgBytes")
name_table_add(&names, b"requestSource")
name_table_add(&names, b"proxyFrowardClientId")


cdef int first_malformed(const Text** slots, PullRequest* out) noexcept nogil:
    """Reads the numbers. The first slot that is not a number, or -1."""
    if text_i32(slots[QUEUE_ID], &out.queue_id) != Status.OK:
        return QUEUE_ID
    if text_i64(slots[QUEUE_OFFSET], &out.queue_offset) != Status.OK:
        return QUEUE_OFFSET
    if text_i32(slots[MAX_MSG_NUMS], &out.max_messages) != Status.OK:
        return MAX_MSG_NUMS
    if text_i32(slots[SYS_FLAG], &out.sys_flag) != Status.OK:
        return SYS_FLAG
    if text_i64(slots[COMMIT_OFFSET], &out.commit_offset) != Status.OK:
        return COMMIT_OFFSET
    if text_i64(slots[SUSPEND_TIMEOUT], &out.suspend_timeout_ms) != Status.OK:
        return SUSPEND_TIMEOUT
    if text_i64(slots[SUB_VERSION], &out.sub_version) != Status.OK:
        return SUB_VERSION
    if (slots[MAX_MSG_BYTES] != NULL
            and text_i32(slots[MAX_MSG_BYTES], &out.max_message_bytes) != Status.OK):
        return MAX_MSG_BYTES
    if (slots[REQUEST_SOURCE] != NULL
            and text_i32(slots[REQUEST_SOURCE], &out.request_source) != Status.OK):
        return REQUEST_SOURCE
    return -1


cdef int read_pull_request(const Header* header, PullRequest* out) noexcept nogil:
    cdef const Text* slots[SLOT_COUNT]
    cdef int slot
    memset(out, 0, sizeof(PullRequest))
    out.max_message_bytes = -1
    out.request_source = -1
    sort_into_slots(&names, header, slots, SLOT_COUNT)
    for slot in range(SUB_VERSION + 1):
        if slots[slot] == NULL:
            out.bad_field = names.names[slot]
            return Status.MISSING_FIELD
    slot = first_malformed(slots, out)
    if slot >= 0:
        out.bad_field = names.names[slot]
        return Status.MALFORMED
    out.consumer_group = slots[CONSUMER_GROUP][0]
    out.topic = slots[TOPIC][0]
    if slots[SUBSCRIPTION] != NULL:
        out.subscription = slots[SUBSCRIPTION][0]
    if slots[EXPRESSION_TYPE] != NULL:
        out.expression_type = slots[EXPRESSION_TYPE][0]
    if slots[PROXY_CLIENT_ID] != NULL:
        out.proxy_client_id = slots[PROXY_CLIENT_ID][0]
    return Status.OK
