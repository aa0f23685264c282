"""Goal: stored records, properties and ids are RocketMQ's bytes.

Method: one record written down field by field, ids and hashes known from Java, round trips, damage.
Cannot prove: that Apache writes the same for every input; the store exchange tests read its files.
"""

import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq.errors import ProtocolError
from rmq.format.message import (
    Host,
    StoredMessage,
    decode_message,
    decode_message_id,
    decode_messages,
    decode_properties,
    encode_message,
    encode_message_id,
    encode_properties,
    java_hash,
    tags_code,
)

MESSAGE = StoredMessage(
    topic="TopicA",
    body=b"hello",
    properties_bytes=b"TAGS\x01a\x02",
    queue_id=3,
    flag=7,
    queue_offset=11,
    physical_offset=1 << 33,
    sys_flag=0x8,
    born_timestamp_ms=1_700_000_000_000,
    born_host=Host("10.1.2.3", 40000),
    store_timestamp_ms=1_700_000_000_001,
    store_host=Host("127.0.0.1", 10911),
    reconsume_times=2,
    prepared_offset=5,
)
GOLDEN = b"".join(
    (
        struct.pack(">iI", 91 + 6 + 5 + 7, 0xDAA320A7),
        struct.pack(">I", zlib.crc32(b"hello") & 0x7FFFFFFF),
        struct.pack(">iiqqi", 3, 7, 11, 1 << 33, 0x8),
        struct.pack(">q", 1_700_000_000_000),
        bytes([10, 1, 2, 3]),
        struct.pack(">i", 40000),
        struct.pack(">q", 1_700_000_000_001),
        bytes([127, 0, 0, 1]),
        struct.pack(">i", 10911),
        struct.pack(">iq", 2, 5),
        struct.pack(">i", 5),
        b"hello",
        b"\x06TopicA",
        b"\x00\x07TAGS\x01a\x02",
    )
)

I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
HOSTS = st.builds(
    Host,
    st.ip_addresses(v=4).map(str) | st.just("::1") | st.just("2001:db8::7"),
    st.integers(0, 65535),
)
# 64 letters of two bytes are more than the limit of version 1 (127 bytes).
TOPICS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=63) | st.just("\u00e4" * 64)
MESSAGES = st.builds(
    StoredMessage,
    topic=TOPICS,
    body=st.binary(max_size=100),
    properties_bytes=st.binary(max_size=50),
    queue_id=I32,
    flag=I32,
    queue_offset=I64,
    physical_offset=I64,
    sys_flag=st.integers(0, 15),
    born_timestamp_ms=I64,
    born_host=HOSTS,
    store_timestamp_ms=I64,
    store_host=HOSTS,
    reconsume_times=I32,
    prepared_offset=I64,
)


def test_a_record_is_these_bytes() -> None:
    assert encode_message(MESSAGE) == GOLDEN
    assert decode_message(GOLDEN) == (MESSAGE, len(GOLDEN))


def test_records_follow_each_other() -> None:
    assert list(decode_messages(GOLDEN * 3)) == [MESSAGE] * 3


def test_a_long_topic_makes_a_record_of_version_two() -> None:
    message = StoredMessage(topic="%RETRY%" + "g" * 140)
    record = encode_message(message)
    assert record[4:8] == bytes.fromhex("daa320ab")
    assert decode_message(record) == (message, len(record))
    with pytest.raises(ProtocolError, match="topic"):
        encode_message(StoredMessage(topic="x" * 256))
    with pytest.raises(ProtocolError, match="properties"):
        encode_message(StoredMessage(topic="x", properties_bytes=b"x" * 32768))


@given(MESSAGES)
def test_what_is_encoded_is_decoded(message: StoredMessage) -> None:
    record = encode_message(message)
    found, end = decode_message(b"xx" + record + b"yy", 2)
    assert end == 2 + len(record)
    found.sys_flag &= 0xF
    assert found == message


@given(MESSAGES, st.lists(st.tuples(st.integers(0, 400), st.integers(1, 255)), min_size=1))
def test_a_damaged_record_is_read_or_refused(
    message: StoredMessage, damage: list[tuple[int, int]]
) -> None:
    record = bytearray(encode_message(message))
    for at, bits in damage:
        record[at % len(record)] ^= bits
    with suppress(ProtocolError):
        list(decode_messages(record))


@given(st.integers(0, len(GOLDEN) - 1))
def test_a_cut_record_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError):
        decode_message(GOLDEN[:length])


def test_a_flipped_bit_in_the_body_is_noticed() -> None:
    record = bytearray(GOLDEN)
    record[GOLDEN.index(b"hello")] ^= 1
    with pytest.raises(ProtocolError, match="CRC"):
        decode_message(record)
    assert decode_message(record, check_crc=False)[0].body == b"iello"


def test_properties_are_read_in_both_spellings_and_checked_when_written() -> None:
    properties = {"KEYS": "a b", "TAGS": "中"}
    stored = "KEYS\x01a b\x02TAGS\x01中\x02".encode()
    assert encode_properties(properties) == stored
    assert decode_properties(stored) == decode_properties(stored[:-1]) == properties
    assert decode_properties(b"\x01v\x02novalue\x01\x02plain\x02A\x01x\x02A\x01y") == {"A": "y"}
    for bad in ({"": "v"}, {"a\x01": "v"}, {"a": "\x02"}):
        with pytest.raises(ProtocolError):
            encode_properties(bad)


def test_message_ids_hold_host_and_offset() -> None:
    assert MESSAGE.message_id == "7F00000100002A9F0000000200000000"
    assert decode_message_id(MESSAGE.message_id.lower()) == (MESSAGE.store_host, 1 << 33)
    v6 = encode_message_id(Host("2001:db8::7", 10911), 9)
    assert len(v6) == 56
    assert decode_message_id(v6) == (Host("2001:db8::7", 10911), 9)
    for bad in ("", "xyz", "00" * 15, "7F 00000100002A9F0000000200000000"):
        with pytest.raises(ProtocolError):
            decode_message_id(bad)


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0), ("a", 97), ("TagA", 2598919), ("polygenelubricants", -(2**31)), ("中\U0001f600", 0)],
)
def test_hashes_are_those_of_java(text: str, value: int) -> None:
    if text == "中\U0001f600":  # three UTF-16 units: 4E2D D83D DE00
        value = ((0x4E2D * 31 + 0xD83D) * 31 + 0xDE00 + 2**31) % 2**32 - 2**31
    assert java_hash(text) == value
    assert tags_code(text) == value
    assert tags_code(None) == 0
