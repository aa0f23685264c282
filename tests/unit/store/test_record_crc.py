"""The checksum of a whole record: written as RocketMQ writes it, and no flipped bit passes.

The pure-Python twin in rmq/format/message.py is written from the format's description alone.
"""

import zlib

import pytest
from support.stored_records import V2, record

from cext.base.status import Status
from cext.testing.record_probe import record_crc_check, record_crc_write, record_parse
from rmq.errors import ProtocolError
from rmq.format.message import decode_message, record_crc_pair

ROOM = bytes(20)


def checked_record(**fields) -> bytes:
    data = bytearray(record(4096, properties=b"TAGS\x01a\x02" + ROOM, **fields))
    record_crc_write(data)
    return bytes(data)


def test_the_pair_is_the_crc_of_all_before_it_with_the_last_digit_first() -> None:
    data = bytearray(b"123456789" + ROOM)
    record_crc_write(data)
    assert (data[9:18], data[28:]) == (b"__CRC32#\x01", b"\x02")
    assert int(data[18:28][::-1]) == zlib.crc32(b"123456789") & 0x7FFFFFFF
    assert data[9:] == record_crc_pair(b"123456789")


@pytest.mark.parametrize("fields", [{}, {"magic": V2}, {"flags": 0x30}, {"body": b""}])
def test_a_whole_record_passes_and_both_twins_find_every_flipped_bit(fields) -> None:
    data = checked_record(**fields)
    assert record_parse(data, 4096)["status"] == Status.OK
    decode_message(data)
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert record_parse(bytes(flipped), 4096)["status"] != Status.OK, f"bit {bit}"
        with pytest.raises(ProtocolError):
            decode_message(bytes(flipped))


def test_a_record_without_the_pair_is_checked_by_its_body_alone() -> None:
    data = bytearray(record(4096))
    assert record_crc_check(bytes(data)) == Status.NOT_FOUND
    data[40] ^= 1  # a bit of the born time, which nothing covers
    assert record_parse(bytes(data), 4096)["status"] == Status.OK


def test_a_pair_of_a_user_that_only_looks_similar_is_no_checksum() -> None:
    data = record(4096, properties=b"__CRC33$\x011234567890\x02")
    assert record_parse(data, 4096)["status"] == Status.OK
    assert decode_message(data)[0].properties == {"__CRC33$": "1234567890"}
