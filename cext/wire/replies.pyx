"""Replies: response frames, written straight into a buffer in the client's serialisation.

The formats and an example are in replies.pxd. A Writer hides which of the two serialisations is
used: begin writes the fixed members, one call for each field follows, and end fills in the lengths
that were left open. All is written once, from front to back, and numbers in place as decimal
digits.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, strlen

from cext.base.byteorder cimport store_i16, store_i32, store_u16, store_u32
from cext.wire.codes cimport LANGUAGE_PYTHON, VERSION
from cext.wire.frame cimport FRAME_PREFIX_BYTES, SERIALIZE_BINARY
from cext.wire.system_topics cimport HALF_TOPIC, HALF_TOPIC_BYTES
from cext.wire.text cimport Text, text_of


cdef extern from "scan.h" nogil:
    uint32_t rmq_copy_json_plain(const uint8_t* source, uint32_t length, uint8_t* to) noexcept
    uint8_t* rmq_put(uint8_t* at, const char* constant) noexcept

cdef uint16_t digit_pairs[100]       # "00" .. "99", in memory order
for _pair in range(100):
    digit_pairs[_pair] = <uint16_t>int.from_bytes(b"%02d" % _pair, "little")


cdef struct Writer:
    uint8_t* start                   # of the frame
    uint8_t* at                      # where the next byte goes
    uint8_t* fields_length           # binary: where the fields' length is filled in at the end
    bint binary
    bint any_field


# ---- pieces ----

cdef inline uint32_t digits_of(uint64_t value) noexcept nogil:
    cdef uint32_t digits = 1
    while value >= 10000:
        value //= 10000
        digits += 4
    if value >= 1000:
        return digits + 3
    if value >= 100:
        return digits + 2
    if value >= 10:
        return digits + 1
    return digits


cdef inline uint8_t* put_number(uint8_t* at, int64_t number) noexcept nogil:
    cdef uint64_t value = <uint64_t>number
    cdef uint8_t* end
    cdef uint8_t* to
    if number < 0:
        value = 0 - value
        at[0] = c'-'
        at += 1
    end = at + digits_of(value)
    to = end
    while value >= 100:
        to -= 2
        memcpy(to, &digit_pairs[value % 100], 2)
        value //= 100
    if value >= 10:
        memcpy(at, &digit_pairs[value], 2)
    else:
        at[0] = <uint8_t>(48 + value)
    return end


cdef uint8_t* put_json_text(uint8_t* at, const Text* text) noexcept nogil:
    """Writes the text between quotes. Bytes above 0x7F are written as they are."""
    cdef const char* digits = b"0123456789abcdef"
    cdef uint32_t done = 0
    cdef uint32_t plain
    cdef uint8_t byte
    at[0] = c'"'
    at += 1
    while True:
        plain = rmq_copy_json_plain(text.bytes + done, text.length - done, at)
        done += plain
        at += plain
        if done == text.length:
            break
        byte = text.bytes[done]
        done += 1
        at[0] = c'\\'
        if byte == c'"' or byte == c'\\':
            at[1] = byte
            at += 2
        else:
            memcpy(at + 1, b"u00", 3)
            at[4] = digits[byte >> 4]
            at[5] = digits[byte & 15]
            at += 6
    at[0] = c'"'
    return at + 1


cdef Text cut(const Text* text, uint32_t length_max) noexcept nogil:
    """The text, or its first bytes up to length_max, without half a UTF-8 character at the end."""
    cdef Text short = text[0]
    if short.length > length_max:
        short.length = length_max
        while short.length > 0 and (short.bytes[short.length] & 0xC0) == 0x80:
            short.length -= 1
    return short


# ---- the writer ----

cdef inline uint8_t* put_json_end(uint8_t* at) noexcept nogil:
    """Writes the last fixed members of a header. The frame already has the serialisation's type,
    but clients in Rust want it in the header as well."""
    return rmq_put(at, b',"serializeTypeCurrentRPC":"JSON","version":479')


cdef inline void begin_binary(Writer* writer, int32_t code, int32_t opaque,
                              const Text* remark) noexcept nogil:
    cdef uint8_t* at = writer.at
    store_i16(at, <int16_t>code)
    at[2] = LANGUAGE_PYTHON
    store_i16(at + 3, VERSION)
    store_i32(at + 5, opaque)
    store_i32(at + 9, 1)                                 # a response
    store_u32(at + 13, remark.length)
    at += 17
    if remark.length > 0:
        memcpy(at, remark.bytes, remark.length)
        at += remark.length
    writer.fields_length = at
    writer.at = at + 4


cdef inline void begin_json(Writer* writer, int32_t code, int32_t opaque,
                            const Text* remark) noexcept nogil:
    cdef uint8_t* at = rmq_put(writer.at, b'{"code":')
    at = put_number(at, code)
    at = rmq_put(at, b',"flag":1,"language":"PYTHON","opaque":')
    at = put_number(at, opaque)
    if remark.bytes != NULL:
        at = rmq_put(at, b',"remark":')
        at = put_json_text(at, remark)
    writer.at = put_json_end(at)


cdef inline void begin_request(Writer* writer, uint8_t* out, const char* head,
                               int32_t opaque) noexcept nogil:
    """Begins a request in JSON, which every client reads; `head` goes as far as the opaque."""
    writer.start = out
    writer.binary = False
    writer.any_field = False
    writer.at = put_number(rmq_put(out + FRAME_PREFIX_BYTES, head), opaque)
    writer.at = put_json_end(writer.at)


cdef inline void begin(Writer* writer, uint8_t* out, uint8_t serialize_type, int32_t code,
                       int32_t opaque, const Text* remark) noexcept nogil:
    writer.start = out
    writer.at = out + FRAME_PREFIX_BYTES
    writer.binary = serialize_type == SERIALIZE_BINARY
    writer.any_field = False
    if writer.binary:
        begin_binary(writer, code, opaque, remark)
    else:
        begin_json(writer, code, opaque, remark)


cdef inline void put_key(Writer* writer, const char* key) noexcept nogil:
    """JSON: writes up to the colon. Binary: also the value's length, which is filled in later."""
    if writer.binary:
        store_u16(writer.at, <uint16_t>strlen(key))
        writer.at = rmq_put(writer.at + 2, key) + 4
        return
    if writer.any_field:
        writer.at = rmq_put(writer.at, b',"')
    else:
        writer.at = rmq_put(writer.at, b',"extFields":{"')
        writer.any_field = True
    writer.at = rmq_put(rmq_put(writer.at, key), b'":')


cdef inline void put_text_field(Writer* writer, const char* key, const Text* value) noexcept nogil:
    put_key(writer, key)
    if writer.binary:
        store_u32(writer.at - 4, value.length)
        memcpy(writer.at, value.bytes, value.length)
        writer.at += value.length
    else:
        writer.at = put_json_text(writer.at, value)


cdef inline void put_bool_field(Writer* writer, const char* key, bint value) noexcept nogil:
    cdef uint8_t* at
    put_key(writer, key)
    at = writer.at
    if writer.binary:
        store_u32(at - 4, 4 if value else 5)
        writer.at = rmq_put(at, b"true") if value else rmq_put(at, b"false")
    else:
        writer.at = rmq_put(at, b'"true"') if value else rmq_put(at, b'"false"')


cdef inline void put_number_field(Writer* writer, const char* key, int64_t value) noexcept nogil:
    cdef uint8_t* digits
    put_key(writer, key)
    digits = writer.at
    if writer.binary:
        writer.at = put_number(digits, value)
        store_u32(digits - 4, <uint32_t>(writer.at - digits))
    else:
        digits[0] = c'"'
        writer.at = put_number(digits + 1, value)
        writer.at[0] = c'"'
        writer.at += 1


cdef inline uint32_t end(Writer* writer, uint32_t body_bytes) noexcept nogil:
    """Closes the header, fills in the lengths, and returns the bytes written."""
    cdef uint32_t header_bytes
    cdef uint32_t mark = 0
    if writer.binary:
        store_u32(writer.fields_length, <uint32_t>(writer.at - writer.fields_length - 4))
        mark = <uint32_t>SERIALIZE_BINARY << 24
    else:
        writer.at = rmq_put(writer.at, b'}}' if writer.any_field else b'}')
    header_bytes = <uint32_t>(writer.at - writer.start) - FRAME_PREFIX_BYTES
    store_u32(writer.start, 4 + header_bytes + body_bytes)
    store_u32(writer.start + 4, mark | header_bytes)
    return header_bytes + FRAME_PREFIX_BYTES


# ---- the replies ----

cdef uint32_t write_send_reply(uint8_t* out, const SendReply* reply) noexcept nogil:
    cdef Writer writer
    begin(&writer, out, reply.serialize_type, reply.code, reply.opaque, &reply.remark)
    put_text_field(&writer, b"msgId", &reply.message_ids)
    put_number_field(&writer, b"queueId", reply.queue_id)
    put_number_field(&writer, b"queueOffset", reply.queue_offset)
    if reply.transaction_id.bytes != NULL:
        put_text_field(&writer, b"transactionId", &reply.transaction_id)
    if reply.region.bytes != NULL:
        put_text_field(&writer, b"MSG_REGION", &reply.region)
    put_bool_field(&writer, b"TRACE_ON", reply.trace_on)
    if reply.recall_handle.bytes != NULL:
        put_text_field(&writer, b"recallHandle", &reply.recall_handle)
    return end(&writer, 0)


cdef uint32_t write_recall_reply(uint8_t* out, int32_t opaque, uint8_t serialize_type,
                                 const Text* key, const Text* region) noexcept nogil:
    cdef Writer writer
    cdef Text remark = text_of(NULL, 0)
    begin(&writer, out, serialize_type, 0, opaque, &remark)
    put_text_field(&writer, b"msgId", key)
    put_text_field(&writer, b"MSG_REGION", region)
    return end(&writer, 0)


cdef uint32_t write_pull_reply_header(uint8_t* out, const PullReply* reply) noexcept nogil:
    cdef Writer writer
    cdef Text remark = cut(&reply.remark, PULL_REMARK_BYTES_MAX)
    begin(&writer, out, reply.serialize_type, reply.code, reply.opaque, &remark)
    put_number_field(&writer, b"suggestWhichBrokerId", reply.suggested_broker_id)
    put_number_field(&writer, b"nextBeginOffset", reply.next_begin_offset)
    put_number_field(&writer, b"minOffset", reply.min_offset)
    put_number_field(&writer, b"maxOffset", reply.max_offset)
    if reply.has_offset_delta:
        put_number_field(&writer, b"offsetDelta", reply.offset_delta)
    return end(&writer, reply.body_bytes)


cdef uint32_t write_pop_reply_header(uint8_t* out, const PopReply* reply) noexcept nogil:
    cdef Writer writer
    cdef Text remark = cut(&reply.remark, PULL_REMARK_BYTES_MAX)
    begin(&writer, out, reply.serialize_type, reply.code, reply.opaque, &remark)
    put_number_field(&writer, b"popTime", reply.pop_ms)
    put_number_field(&writer, b"invisibleTime", reply.invisible_ms)
    put_number_field(&writer, b"reviveQid", reply.revive_queue)
    if reply.rest >= 0:
        put_number_field(&writer, b"restNum", reply.rest)
    if reply.start_offsets.bytes != NULL:
        put_text_field(&writer, b"startOffsetInfo", &reply.start_offsets)
    if reply.message_offsets.bytes != NULL:
        put_text_field(&writer, b"msgOffsetInfo", &reply.message_offsets)
    if reply.order_counts.bytes != NULL:
        put_text_field(&writer, b"orderCountInfo", &reply.order_counts)
    return end(&writer, reply.body_bytes)


cdef uint32_t write_notification_reply(uint8_t* out, int32_t opaque, uint8_t serialize_type,
                                       bint has_message, bint polling_full) noexcept nogil:
    cdef Writer writer
    cdef Text remark = text_of(NULL, 0)
    begin(&writer, out, serialize_type, 0, opaque, &remark)
    put_bool_field(&writer, b"hasMsg", has_message)
    put_bool_field(&writer, b"pollingFull", polling_full)
    return end(&writer, 0)


cdef uint32_t write_polling_reply(uint8_t* out, int32_t opaque, uint8_t serialize_type,
                                  int64_t waiting) noexcept nogil:
    cdef Writer writer
    cdef Text remark = text_of(NULL, 0)
    begin(&writer, out, serialize_type, 0, opaque, &remark)
    put_number_field(&writer, b"pollingNum", waiting)
    return end(&writer, 0)


cdef uint32_t write_pushed_reply_header(uint8_t* out,
                                        const PushedReplyFields* fields) noexcept nogil:
    cdef Writer writer
    cdef Text yes = text_of(<const uint8_t*>b"true", 4)
    cdef Text no = text_of(<const uint8_t*>b"false", 5)
    begin_request(&writer, out, b'{"code":326,"flag":0,"language":"PYTHON","opaque":',
                  fields.opaque)
    put_text_field(&writer, b"producerGroup", &fields.producer_group)
    put_text_field(&writer, b"topic", &fields.topic)
    put_text_field(&writer, b"defaultTopic", &fields.default_topic)
    put_number_field(&writer, b"defaultTopicQueueNums", fields.default_topic_queue_nums)
    put_number_field(&writer, b"queueId", fields.queue_id)
    put_number_field(&writer, b"sysFlag", fields.sys_flag)
    put_number_field(&writer, b"bornTimestamp", fields.born_timestamp_ms)
    put_number_field(&writer, b"flag", fields.flag)
    put_text_field(&writer, b"properties", &fields.properties)
    put_number_field(&writer, b"reconsumeTimes", fields.reconsume_times)
    put_text_field(&writer, b"unitMode", &yes if fields.unit_mode else &no)
    put_text_field(&writer, b"bornHost", &fields.born_host)
    put_text_field(&writer, b"storeHost", &fields.store_host)
    put_number_field(&writer, b"storeTimestamp", fields.store_timestamp_ms)
    return end(&writer, fields.body_bytes)


cdef uint32_t write_check_header(uint8_t* out, const CheckFields* fields) noexcept nogil:
    cdef Writer writer
    cdef Text half_topic = text_of(<const uint8_t*>HALF_TOPIC, HALF_TOPIC_BYTES)
    cdef Text key = fields.unique_key
    if key.bytes == NULL:
        key = text_of(<const uint8_t*>b"", 0)
    begin_request(&writer, out, b'{"code":39,"flag":2,"language":"PYTHON","opaque":',
                  fields.opaque)
    put_text_field(&writer, b"topic", &half_topic)
    put_number_field(&writer, b"tranStateTableOffset", fields.queue_offset)
    put_number_field(&writer, b"commitLogOffset", fields.log_offset)
    put_text_field(&writer, b"msgId", &key)
    put_text_field(&writer, b"transactionId", &key)
    put_text_field(&writer, b"offsetMsgId", &fields.offset_message_id)
    put_text_field(&writer, b"bname", &fields.broker_name)
    return end(&writer, fields.body_bytes)


cdef uint32_t write_error_reply(uint8_t* out, int32_t opaque, uint8_t serialize_type, int32_t code,
                                const Text* remark) noexcept nogil:
    cdef Writer writer
    cdef Text short = cut(remark, ERROR_REMARK_BYTES_MAX)
    begin(&writer, out, serialize_type, code, opaque, &short)
    return end(&writer, 0)
