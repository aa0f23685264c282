"""Record probe: one record of the commit log written, parsed and checked; its keys and tags code.

    data = record_encode(topic=b"T", body=b"hello", physical_offset=4096)
    len(data), record_parse(data, 4096)["body"]         (97, b"hello")
    text = bytearray(b"some record" + bytes(20)); record_crc_write(text)
    text[11:20]                                         b"__CRC32#\\x01"
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from cext.base.checksum cimport body_crc
from cext.base.status cimport Status
from cext.store.index.index_key cimport (
    hash_on, positive_hash, record_has_key as has_key)
from cext.store.log.record cimport (
    RecordFields, RecordView, record_bytes, record_finish, record_parse as parse, record_start)
from cext.store.log.record_crc cimport (
    RECORD_CRC_BYTES, record_crc_check as crc_check, record_crc_write as crc_write)
from cext.store.queues.tags_code cimport java_hash
from cext.wire.limits cimport PROPERTIES_BYTES_MAX, TOPIC_BYTES_MAX


def record_encode(*, bytes topic, bytes body=b"", bytes properties=b"", int queue_id=0,
                  int flag=0, int64_t queue_offset=0, int64_t physical_offset=0,
                  int sys_flag=0, int64_t born_timestamp_ms=0, bytes born_host=bytes(8),
                  int64_t store_timestamp_ms=0, bytes store_host=bytes(8),
                  int reconsume_times=0, int64_t prepared_offset=0) -> bytes:
    """One record's bytes; checks that record_bytes() announced their number."""
    if len(born_host) not in (8, 20) or len(store_host) not in (8, 20):
        raise ValueError("a host is 8 or 20 bytes")
    if len(topic) > TOPIC_BYTES_MAX or len(properties) > PROPERTIES_BYTES_MAX:
        raise ValueError("topic or properties too long")
    cdef RecordFields fields
    fields.queue_id = queue_id
    fields.flag = flag
    fields.queue_offset = queue_offset
    fields.physical_offset = physical_offset
    fields.sys_flag = sys_flag
    fields.born_timestamp_ms = born_timestamp_ms
    fields.born_host = born_host
    fields.born_host_bytes = len(born_host)
    fields.store_timestamp_ms = store_timestamp_ms
    fields.store_host = store_host
    fields.store_host_bytes = len(store_host)
    fields.reconsume_times = reconsume_times
    fields.prepared_offset = prepared_offset
    fields.body = body
    fields.body_bytes = len(body)
    fields.body_crc = body_crc(body, len(body))
    fields.topic = topic
    fields.topic_bytes = len(topic)
    cdef uint32_t size = record_bytes(
        fields.born_host_bytes, fields.store_host_bytes, len(body), len(topic), len(properties))
    cdef bytearray out = bytearray(size)
    cdef uint8_t* at = out
    cdef uint8_t* length_at = record_start(at, &fields)
    memcpy(length_at + 2, <const uint8_t*>properties, len(properties))
    if record_finish(at, length_at, len(properties)) != size:
        raise AssertionError("record_bytes() announced another size")
    return bytes(out)


def record_parse(bytes data, int64_t expected_physical_offset=-1, bint check_crc=True) -> dict:
    """All fields, with `status` and `problem`; without the fields unless status is OK."""
    cdef RecordView view
    cdef int status = parse(data, len(data), expected_physical_offset, check_crc,
                            &view)
    result = {"status": status, "problem": view.problem, "total_bytes": view.total_bytes}
    if status == Status.OK:
        result.update(
            version=view.version, body_crc=view.body_crc, queue_id=view.queue_id, flag=view.flag,
            queue_offset=view.queue_offset, physical_offset=view.physical_offset,
            sys_flag=view.sys_flag, born_timestamp_ms=view.born_timestamp_ms,
            born_host=view.born_host[:view.born_host_bytes],
            store_timestamp_ms=view.store_timestamp_ms,
            store_host=view.store_host[:view.store_host_bytes],
            reconsume_times=view.reconsume_times, prepared_offset=view.prepared_offset,
            body=view.body[:view.body_bytes], topic=view.topic[:view.topic_bytes],
            properties=view.properties[:view.properties_bytes],
        )
    return result


# ------------------------------------------------------------------- checksum of a record

def record_crc_write(bytearray data not None) -> None:
    """Fills the record's last 20 bytes."""
    if len(data) < RECORD_CRC_BYTES:
        raise ValueError("no room for the pair")
    crc_write(<uint8_t*> <char*> data, <uint32_t> (len(data) - RECORD_CRC_BYTES))


def record_crc_check(bytes data not None) -> int:
    """Status of the check; the record must have at least 20 bytes."""
    if len(data) < RECORD_CRC_BYTES:
        raise ValueError("no room for the pair")
    return crc_check(<const uint8_t*> <char*> data, <uint32_t> len(data))


# ------------------------------------------------------------------- keys and tags

def index_hash(bytes text) -> int:
    """What the index stores for the text topic#key."""
    return positive_hash(hash_on(0, text, <uint32_t> len(text)))


def record_has_key(bytes data, int kind, bytes topic, bytes key) -> bool:
    cdef RecordView view
    if parse(data, len(data), -1, True, &view) != Status.OK:
        raise ValueError("no record")
    return has_key(&view, kind, topic, <uint32_t> len(topic), key, <uint32_t> len(key))


def tags_hash(bytes text) -> int:
    """Java's String.hashCode, which is the tags code."""
    return java_hash(text, <uint32_t> len(text))
