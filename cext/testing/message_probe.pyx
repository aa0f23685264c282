"""Message probe: what travels with a message, or is stored about it, read and written by cext/wire.

    properties_scanned(b"TAGS\\x01a\\x02")["values"]       {"TAGS": b"a"}
    unique_keys(ip, pid, discriminator, [now_ms])       as a client makes them
    revive_read(body)                                   a check point or an ack of a pop
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memset

from cext.base.status cimport NOT_FOUND, OK, Status
from cext.wire.message_id cimport (
    MESSAGE_ID_BYTES_MAX,
    UniqueKeyMaker,
    unique_key_maker_open,
    write_offset_message_id,
    write_unique_key,
)
from cext.wire.properties cimport (
    SendProperties,
    append_named,
    find_property,
    property_bytes,
    scan_batched,
    scan_properties,
    tags_code,
)
from cext.wire.property_edit cimport copy_properties_without
from cext.wire.revive_entry cimport (
    CHECK_POINT_BYTES_MAX,
    ReviveEntry,
    next_batch_ack,
    read_bits,
    read_revive_entry,
    write_ack,
    write_check_point,
)
from cext.wire.sql_program cimport (
    SQL_FAILED,
    SQL_NULL,
    SQL_TRUE,
    sql_program_check,
    sql_program_run,
)
from cext.wire.text cimport Text, text_copy, text_of


# ------------------------------------------------------------------- properties

cdef object value_of(const Text* text):
    return (<const char*>text.bytes)[:text.length] if text.bytes != NULL else None


cdef dict values_of(const SendProperties* found):
    """The properties that are there, by name."""
    values = {
        "TAGS": value_of(&found.tags),
        "KEYS": value_of(&found.keys),
        "UNIQ_KEY": value_of(&found.uniq_key),
        "WAIT": value_of(&found.wait),
        "DELAY": value_of(&found.delay),
        "TRAN_MSG": value_of(&found.transaction),
        "PGROUP": value_of(&found.producer_group),
        "RETRY_TOPIC": value_of(&found.retry_topic),
        "REAL_TOPIC": value_of(&found.real_topic),
        "REAL_QID": value_of(&found.real_queue_id),
        "ORIGIN_MESSAGE_ID": value_of(&found.origin_message_id),
        "TIMER_DELAY_SEC": value_of(&found.timer_delay_sec),
        "TIMER_DELAY_MS": value_of(&found.timer_delay_ms),
        "TIMER_DELIVER_MS": value_of(&found.timer_deliver_ms),
        "TIMER_DEL_UNIQKEY": value_of(&found.timer_delete_key),
        "MSG_REGION": value_of(&found.msg_region),
        "TRACE_ON": value_of(&found.trace_on),
        "CLUSTER": value_of(&found.cluster),
        "POP_CK": value_of(&found.pop_check_point),
        "INNER_MULTI_DISPATCH": value_of(&found.multi_dispatch),
        "INNER_NUM": value_of(&found.inner_count),
        "__BORNHOST": value_of(&found.born_host),
        "MSG_TYPE": value_of(&found.message_type),
        "TIMER_OUT_MS": value_of(&found.timer_out_ms),
        "TIMER_ROLL_TIMES": value_of(&found.timer_roll_times),
        "__SHARDINGKEY": value_of(&found.sharding_key),
    }
    return {name: value for name, value in values.items() if value is not None}


def properties_scanned(bytes data not None) -> dict[str, object]:
    """`status`, `values` by property name, and what follows from them."""
    cdef SendProperties found
    cdef int status = scan_properties(<const uint8_t*>data, <uint32_t>len(data), &found)
    if status != Status.OK:
        return {"status": status}
    return {
        "status": status,
        "values": values_of(&found),
        "delay_level": found.delay_level,
        "has_delay": bool(found.has_delay),
        "has_transaction": bool(found.has_transaction),
        "has_timer": bool(found.has_timer),
        "wait_store_ok": bool(found.wait_store_ok),
        "terminated": bool(found.terminated),
    }


def batched_properties(bytes data not None) -> tuple[int, object, bool, bool]:
    """(status, TAGS, special, reserved)"""
    cdef Text tags
    cdef bint special, reserved = False
    cdef int status = scan_batched(<const uint8_t*>data, <uint32_t>len(data), &tags, &special,
                                   &reserved)
    return status, value_of(&tags), special, reserved


def found_property(bytes data not None, bytes name not None) -> bytes | None:
    cdef Text value
    if find_property(<const uint8_t*>data, <uint32_t>len(data), name, &value):
        return value_of(&value)
    return None


def code_of_tag(bytes tag not None) -> int:
    return tags_code(<const uint8_t*>tag, <uint32_t>len(tag))


def property_appended(bytes name not None, bytes value not None) -> bytes:
    out = bytearray(property_bytes(<uint32_t>len(name), <uint32_t>len(value)))
    cdef uint32_t written = append_named(<uint8_t*><char*>out, name, <uint32_t>len(name),
                                         <const uint8_t*>value, <uint32_t>len(value))
    return bytes(out[:written])


def properties_without(bytes data not None, list names not None) -> bytes:
    cdef const char* wanted[8]
    cdef int i
    if len(names) > 8:
        raise ValueError("at most 8 names")
    for i, name in enumerate(names):
        wanted[i] = <const char*> <bytes> name
    out = bytearray(len(data) + 1)
    cdef uint32_t written = copy_properties_without(
        <const uint8_t*> <char*> data, <uint32_t> len(data), wanted, len(names),
        <uint8_t*> <char*> out)
    return bytes(out[:written])


# ------------------------------------------------------------------- ids

def offset_message_id(bytes host not None, int64_t physical_offset) -> bytes:
    cdef uint8_t out[MESSAGE_ID_BYTES_MAX]
    if len(host) not in (8, 20):
        raise ValueError("host is ip and port: 8 or 20 bytes")
    return (<const char*>out)[:write_offset_message_id(out, <const uint8_t*>host,
                                                       <uint32_t>len(host), physical_offset)]


def unique_keys(bytes ip not None, uint16_t pid, uint32_t discriminator,
                list times_ms not None) -> list[bytes]:
    """One key for each of the times, all from one maker."""
    cdef uint8_t out[MESSAGE_ID_BYTES_MAX]
    cdef UniqueKeyMaker maker
    cdef uint32_t length
    if len(ip) not in (4, 16):
        raise ValueError("ip is 4 or 16 bytes")
    unique_key_maker_open(&maker, <const uint8_t*>ip, <uint32_t>len(ip), pid, discriminator)
    keys = []
    for now_ms in times_ms:
        length = write_unique_key(&maker, now_ms, out)
        keys.append((<const char*>out)[:length])
    return keys


# ------------------------------------------------------------------- check points and acks of pops

cdef object plain_text(const Text* text):
    cdef uint8_t out[2048]
    cdef int32_t length
    if text.bytes == NULL:
        return None
    length = text_copy(text, out, sizeof(out))
    return (<char*> out)[:length].decode() if length >= 0 else None


cdef dict entry_as_python(const ReviveEntry* e):
    return {
        "topic": plain_text(&e.topic), "group": plain_text(&e.group),
        "broker_name": plain_text(&e.broker_name), "retry": plain_text(&e.retry),
        "bits": plain_text(&e.bits), "start_offset": e.start_offset, "ack_offset": e.ack_offset,
        "pop_ms": e.pop_ms, "invisible_ms": e.invisible_ms, "queue_id": e.queue_id,
        "revive_queue": e.revive_queue, "count": e.count, "done": e.done, "tries": e.tries,
        "list": [e.list[i] for i in range(e.listed)],
    }


def revive_read(bytes body not None) -> "dict[str, object] | int":
    """The entry, or the status that says why it is not one."""
    cdef ReviveEntry e
    cdef uint32_t used = 0
    cdef int status = read_revive_entry(<const uint8_t*> <char*> body, <uint32_t> len(body), &e,
                                        &used)
    return entry_as_python(&e) if status == OK else status


def revive_acks(bytes body not None) -> "list[dict[str, object]] | int":
    """All acks of a request 200151, or a status."""
    cdef ReviveEntry e
    cdef uint32_t at = 0
    cdef int status
    found = []
    while True:
        status = next_batch_ack(<const uint8_t*> <char*> body, <uint32_t> len(body), &at, &e)
        if status == NOT_FOUND:
            return found
        if status != OK:
            return status
        found.append(entry_as_python(&e))


def revive_bits(bytes text not None) -> "list[int] | int":
    cdef int32_t out[256]
    cdef Text given = text_of(<const uint8_t*> <char*> text, <uint32_t> len(text))
    cdef int32_t count
    given.escaped = b"\\" in text
    count = read_bits(&given, out, 256)
    return [out[i] for i in range(count)] if count >= 0 else count


def revive_write(str kind not None, *, bytes topic not None, bytes group not None,
                 bytes broker_name not None, int64_t start_offset, int64_t pop_ms,
                 int64_t invisible_ms, int32_t queue_id, list offsets not None,
                 int64_t ack_offset=-1) -> bytes:
    cdef uint8_t out[CHECK_POINT_BYTES_MAX]
    cdef ReviveEntry e
    memset(&e, 0, sizeof(e))
    e.topic = text_of(<const uint8_t*> <char*> topic, <uint32_t> len(topic))
    e.group = text_of(<const uint8_t*> <char*> group, <uint32_t> len(group))
    e.broker_name = text_of(<const uint8_t*> <char*> broker_name, <uint32_t> len(broker_name))
    e.start_offset = start_offset
    e.ack_offset = ack_offset
    e.pop_ms = pop_ms
    e.invisible_ms = invisible_ms
    e.queue_id = queue_id
    e.count = e.listed = <int32_t> len(offsets)
    for i, offset in enumerate(offsets):
        e.list[i] = offset
    return (<char*> out)[:(write_check_point(out, &e) if kind == "ck" else write_ack(out, &e))]


# ------------------------------------------------------------------- filters

cdef class Program:
    """A checked program."""
    cdef bytes program

    def __init__(self, bytes program not None):
        if sql_program_check(<const uint8_t*> <char*> program, len(program)) != Status.OK:
            raise ValueError("these bytes are no program")
        self.program = program

    def __reduce__(self):
        return type(self), (self.program,)

    def result(self, bytes properties not None):
        """True, False, None (null) or "failed"."""
        cdef int got = sql_program_run(<const uint8_t*> <char*> self.program,
                                       <const uint8_t*> <char*> properties,
                                       <uint32_t> len(properties))
        if got == SQL_FAILED:
            return "failed"
        return None if got == SQL_NULL else got == SQL_TRUE

    def matches(self, bytes properties not None):
        return self.result(properties) is True
