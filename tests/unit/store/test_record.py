"""Goal: records have RocketMQ's bytes, are read back as they were written, and bad bytes are named.

Method: a byte layout written out by hand as the judge, round trips over all shapes, and hypothesis,
which damages and cuts records (the buffer ends where the record ends, so ASan sees a read too far).
Cannot prove: that Apache RocketMQ reads them; tests/compat does.
"""

import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cext.base.status import Status
from cext.store.log.record import RecordProblem
from cext.testing.record_probe import record_encode, record_parse

V4 = bytes([10, 0, 0, 7, 0, 0, 0x2A, 0x9F])
V6 = bytes(range(16)) + bytes([0, 0, 0x2A, 0x9F])


def by_hand(topic, body, properties, born_host, store_host, sys_flag, magic):
    crc = zlib.crc32(body) & 0x7FFFFFFF if body else 0
    topic_length = struct.pack(">B" if magic == 0xDAA320A7 else ">H", len(topic))
    rest = (
        struct.pack(">IIiiqqiq", magic, crc, 3, 77, 12345, 1 << 40, sys_flag, 1700000000001)
        + born_host
        + struct.pack(">q", 1700000000002)
        + store_host
        + struct.pack(">iqi", 2, 99, len(body))
        + body
        + topic_length
        + topic
        + struct.pack(">H", len(properties))
        + properties
    )
    return struct.pack(">I", len(rest) + 4) + rest


def encode(topic=b"TopicTest", body=b"hello", properties=b"KEYS\x01a\x02", born=V4, store=V4):
    return record_encode(
        topic=topic, body=body, properties=properties, queue_id=3, flag=77, queue_offset=12345,
        physical_offset=1 << 40, sys_flag=1, born_timestamp_ms=1700000000001, born_host=born,
        store_timestamp_ms=1700000000002, store_host=store, reconsume_times=2, prepared_offset=99,
    )  # fmt: skip


@pytest.mark.parametrize(("born", "born_bit"), [(V4, 0), (V6, 0x10)])
@pytest.mark.parametrize(("store", "store_bit"), [(V4, 0), (V6, 0x20)])
@pytest.mark.parametrize(
    ("topic", "magic"),
    [
        (b"T", 0xDAA320A7),
        (b"t" * 127, 0xDAA320A7),
        (b"t" * 128, 0xDAA320AB),
        (b"t" * 255, 0xDAA320AB),
    ],
)
def test_every_shape_has_the_bytes_of_the_format(born, born_bit, store, store_bit, topic, magic):
    flag = 1 | born_bit | store_bit
    data = encode(topic=topic, born=born, store=store)
    assert data == by_hand(topic, b"hello", b"KEYS\x01a\x02", born, store, flag, magic)
    view = record_parse(data, 1 << 40)
    assert view["status"] == Status.OK
    assert view["topic"] == topic
    assert (view["born_host"], view["store_host"], view["sys_flag"]) == (born, store, flag)
    assert view["version"] == (1 if len(topic) < 128 else 2)


def test_the_smallest_record_is_91_bytes_and_its_body_crc_is_zero():
    data = record_encode(topic=b"")
    assert len(data) == 91
    assert record_parse(data)["body_crc"] == 0


@given(
    body=st.binary(max_size=300),
    topic=st.binary(min_size=1, max_size=255),
    properties=st.binary(max_size=300),
    queue_offset=st.integers(0, 2**63 - 1),
    born=st.sampled_from([V4, V6]),
    store=st.sampled_from([V4, V6]),
)
@settings(max_examples=200, deadline=None)
def test_what_was_written_is_read_back(body, topic, properties, queue_offset, born, store):
    data = record_encode(
        topic=topic, body=body, properties=properties, queue_offset=queue_offset,
        physical_offset=5, born_host=born, store_host=store, queue_id=-1,
    )  # fmt: skip
    view = record_parse(data, 5)
    assert view["status"] == Status.OK
    assert (view["body"], view["topic"], view["properties"]) == (body, topic, properties)
    assert (view["queue_offset"], view["queue_id"], view["total_bytes"]) == (
        queue_offset,
        -1,
        len(data),
    )


def test_eight_zero_bytes_and_less_than_eight_bytes_are_the_end():
    for data in (bytes(8), bytes(200), b"", b"\x01\x02\x03\x04\x05\x06\x07"):
        view = record_parse(data)
        assert (view["status"], view["problem"]) == (Status.NOT_READY, RecordProblem.AT_END)


def test_a_blank_says_go_on_in_the_next_segment():
    view = record_parse(struct.pack(">II", 1000, 0xCBD43194))
    assert (view["status"], view["problem"]) == (Status.NOT_FOUND, RecordProblem.AT_BLANK)


def test_a_record_that_belongs_elsewhere_is_not_taken():
    view = record_parse(encode(), (1 << 40) + 1)
    assert (view["status"], view["problem"]) == (Status.CORRUPT, RecordProblem.BAD_POSITION)


def test_a_flipped_bit_in_the_body_is_found_by_the_crc_unless_it_is_not_asked_for():
    data = bytearray(encode(body=b"x" * 50))
    data[100] ^= 4
    view = record_parse(bytes(data), 1 << 40)
    assert (view["status"], view["problem"]) == (Status.CORRUPT, RecordProblem.BAD_BODY_CRC)
    assert record_parse(bytes(data), 1 << 40, False)["status"] == Status.OK


def test_a_body_of_one_byte_is_checked_as_well():
    data = bytearray(encode(body=b"x"))
    assert record_parse(bytes(data), 1 << 40)["status"] == Status.OK
    data[data.index(b"x", 80)] ^= 4
    view = record_parse(bytes(data), 1 << 40)
    assert (view["status"], view["problem"]) == (Status.CORRUPT, RecordProblem.BAD_BODY_CRC)


def test_a_wrong_magic_is_named():
    data = b"\x00\x00\x00\x64" + b"\xab" * 96
    assert record_parse(data)["problem"] == RecordProblem.BAD_MAGIC


@pytest.mark.parametrize("size", [0, 1, 90, 2**32 - 1, 2**31])
def test_an_impossible_total_size_is_named(size):
    data = struct.pack(">I", size) + encode()[4:]
    assert record_parse(data)["problem"] == RecordProblem.BAD_SIZE


@pytest.mark.parametrize("length", [-1, 2**31 - 1, 4, 6])
def test_a_body_length_that_does_not_add_up_is_named(length):
    data = bytearray(encode())
    struct.pack_into(">i", data, 84, length)
    assert record_parse(bytes(data))["problem"] == RecordProblem.BAD_LENGTHS


def test_a_record_cut_anywhere_is_never_taken():
    data = encode(topic=b"t" * 130, born=V6, store=V6)
    for length in range(len(data)):
        assert record_parse(data[:length])["status"] != Status.OK


@given(st.binary(min_size=1, max_size=200), st.integers(0, 400))
@settings(max_examples=300, deadline=None)
def test_damaged_bytes_never_give_lengths_beyond_the_record(noise, at):
    data = bytearray(encode(body=b"b" * 200, topic=b"t" * 20))
    data[at : at + len(noise)] = noise
    view = record_parse(bytes(data), -1, False)
    if view["status"] == Status.OK:
        hosts = len(view["born_host"]) + len(view["store_host"]) - 16
        parts = len(view["body"]) + len(view["topic"]) + len(view["properties"])
        assert 90 + view["version"] + hosts + parts == view["total_bytes"] <= len(data)
