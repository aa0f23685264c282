"""Replies: response frames, written straight into a buffer in the client's serialisation.

    JSON    {"code":0,"flag":1,"language":"PYTHON","opaque":7,
             "serializeTypeCurrentRPC":"JSON","version":479,"extFields":{"msgId":"..",..}}
    binary  the fields of header.pxd with language 3 (PYTHON) and version 479 (V5_3_3)

Values of extFields are always strings (the Go client fails on anything else). An absent remark is
not written. No function checks for room: the caller provides as many bytes as the constants and the
..._bytes_max functions say. Texts must be unescaped (a backslash in them means a backslash).

Example: write_error_reply(out, 7, SERIALIZE_JSON, 17, "no topic") -> a frame of 126 bytes, 118
of them header.

Any thread, no state.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.wire.text cimport Text

cdef enum:
    SEND_REPLY_FIXED_BYTES = 512    # a send reply without its texts
    PUSHED_REPLY_FIXED_BYTES = 768  # prefix and header of a pushed reply without its texts
    CHECK_FIXED_BYTES = 512         # the same for a check back
    PULL_REMARK_BYTES_MAX = 64      # longer ones are cut
    PULL_REPLY_BYTES_MAX = 896      # prefix and header of a pull reply
    POP_TEXT_BYTES_MAX = 2560       # each of the three texts of a pop reply
    POP_REPLY_BYTES_MAX = 8448      # prefix and header of a pop reply
    ERROR_REMARK_BYTES_MAX = 1024   # longer ones are cut
    ERROR_REPLY_BYTES_MAX = 6400    # a whole error reply


cdef struct SendReply:
    int32_t code                    # 0; or 10, 11, 12: stored, but not as safely as configured
    int32_t opaque                  # of the request
    int32_t queue_id
    uint8_t serialize_type          # of the request
    bint trace_on                   # TRACE_ON
    int64_t queue_offset            # of the first message
    Text remark                     # bytes NULL: none
    Text message_ids                # offset message ids, joined by commas in a batch; required
    Text transaction_id             # the message's UNIQ_KEY; bytes NULL: not written
    Text region                     # MSG_REGION; bytes NULL: not written
    Text recall_handle              # recallHandle of a timed message; bytes NULL: not written


cdef struct PullReply:
    int32_t code
    int32_t opaque                  # of the request
    uint8_t serialize_type          # of the request
    Text remark                     # name of the store's status; bytes NULL: none
    int64_t next_begin_offset
    int64_t min_offset
    int64_t max_offset
    int64_t suggested_broker_id     # suggestWhichBrokerId
    bint has_offset_delta           # offsetDelta is written, because the queue is a logical one:
    int64_t offset_delta            # the difference of its offsets from those in the records
    uint32_t body_bytes             # counted in the frame's length; the caller sends the body


cdef struct PopReply:
    int32_t code
    int32_t opaque                  # of the request
    uint8_t serialize_type          # of the request
    Text remark                     # bytes NULL: none
    int64_t pop_ms
    int64_t invisible_ms
    int32_t revive_queue
    int64_t rest                    # restNum; -1: not written
    Text start_offsets              # startOffsetInfo; bytes NULL: not written (so the next two)
    Text message_offsets            # msgOffsetInfo
    Text order_counts               # orderCountInfo
    uint32_t body_bytes             # counted in the frame's length; the caller sends the body


cdef struct PushedReplyFields:      # 326 PUSH_REPLY_MESSAGE_TO_CLIENT, a request in JSON
    int32_t opaque
    int32_t default_topic_queue_nums
    int32_t queue_id
    int32_t sys_flag
    int32_t flag
    int32_t reconsume_times
    bint unit_mode
    int64_t born_timestamp_ms
    int64_t store_timestamp_ms
    Text producer_group
    Text topic
    Text default_topic
    Text properties
    Text born_host                  # address:port
    Text store_host
    uint32_t body_bytes             # counted in the frame's length; the caller adds the body


cdef struct CheckFields:            # 39 CHECK_TRANSACTION_STATE, a one-way request in JSON
    int32_t opaque
    int64_t queue_offset            # of the half message
    int64_t log_offset
    Text unique_key                 # bytes NULL: none
    Text offset_message_id
    Text broker_name
    uint32_t body_bytes             # counted in the frame's length; the caller adds the body


# Each function returns the number of bytes written.
cdef uint32_t write_check_header(uint8_t* out, const CheckFields* fields) noexcept nogil
cdef uint32_t write_pushed_reply_header(uint8_t* out,
                                        const PushedReplyFields* fields) noexcept nogil
cdef uint32_t write_pop_reply_header(uint8_t* out, const PopReply* reply) noexcept nogil
# The answer to a notification (200054).
cdef uint32_t write_notification_reply(uint8_t* out, int32_t opaque, uint8_t serialize_type,
                                       bint has_message, bint polling_full) noexcept nogil
# The answer to polling info (200055).
cdef uint32_t write_polling_reply(uint8_t* out, int32_t opaque, uint8_t serialize_type,
                                  int64_t waiting) noexcept nogil
cdef uint32_t write_send_reply(uint8_t* out, const SendReply* reply) noexcept nogil
# The answer to a recall (370): the key of the recalled message.
cdef uint32_t write_recall_reply(uint8_t* out, int32_t opaque, uint8_t serialize_type,
                                 const Text* key, const Text* region) noexcept nogil
cdef uint32_t write_pull_reply_header(uint8_t* out, const PullReply* reply) noexcept nogil

# Also writes a plain success without fields: code 0, and a remark whose bytes are NULL.
cdef uint32_t write_error_reply(uint8_t* out, int32_t opaque, uint8_t serialize_type, int32_t code,
                                const Text* remark) noexcept nogil


cdef inline uint64_t send_reply_bytes_max(const SendReply* reply) noexcept nogil:
    """Room that write_send_reply may need: JSON may escape a character with six bytes."""
    return SEND_REPLY_FIXED_BYTES + 6 * (
        <uint64_t>reply.remark.length + reply.message_ids.length
        + reply.transaction_id.length + reply.region.length + reply.recall_handle.length)


cdef inline uint32_t recall_reply_bytes_max(const Text* key, const Text* region) noexcept nogil:
    """The same for write_recall_reply."""
    return SEND_REPLY_FIXED_BYTES + 6 * (key.length + region.length)


cdef inline uint64_t pushed_reply_bytes_max(const PushedReplyFields* fields) noexcept nogil:
    """The same for write_pushed_reply_header, without the body."""
    return PUSHED_REPLY_FIXED_BYTES + 6 * (
        <uint64_t>fields.producer_group.length + fields.topic.length + fields.default_topic.length
        + fields.properties.length + fields.born_host.length + fields.store_host.length)


cdef inline uint64_t check_bytes_max(const CheckFields* fields) noexcept nogil:
    """The same for write_check_header, without the body."""
    return CHECK_FIXED_BYTES + 6 * (<uint64_t>2 * fields.unique_key.length
                                    + fields.offset_message_id.length + fields.broker_name.length)
