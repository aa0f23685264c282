"""Frames come out of a stream as they went in, in whatever pieces it comes; a bad stream is
refused."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq.errors import ProtocolError
from rmq.format.frame_reader import FrameReader
from rmq.format.remoting import JSON, ROCKETMQ, Command, encode

COMMANDS = [
    Command(code=10, opaque=1, fields={"topic": "T"}, body=b"b" * 300),
    Command(code=0, opaque=2, flag=1, remark="fine", serialize_type=ROCKETMQ),
    Command(code=34, opaque=3, serialize_type=JSON),
]
STREAM = b"".join(encode(command) for command in COMMANDS)


def taken(reader: FrameReader) -> list[Command]:
    return list(iter(reader.next, None))


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_commands_come_whole_however_the_stream_is_cut(cuts: list[int]) -> None:
    reader, found = FrameReader(), []
    places = [0, *sorted(cuts), len(STREAM)]
    for begin, end in itertools.pairwise(places):
        reader.feed(STREAM[begin:end])
        found += taken(reader)
        assert reader.buffered == end - sum(len(encode(command)) for command in found)
    assert [(each.code, each.opaque, each.fields, each.body) for each in found] == [
        (each.code, each.opaque, each.fields, each.body) for each in COMMANDS
    ]


def test_each_byte_by_itself() -> None:
    reader, found = FrameReader(), []
    for at in range(len(STREAM)):
        reader.feed(STREAM[at : at + 1])
        found += taken(reader)
    assert [each.opaque for each in found] == [1, 2, 3]


@pytest.mark.parametrize("length", [-1, 0, 3, (16 << 20) - 3, 2**31 - 1, -(2**31)])
def test_a_length_that_cannot_be_is_refused_before_its_bytes_come(length: int) -> None:
    reader = FrameReader()
    reader.feed(length.to_bytes(4, "big", signed=True))
    with pytest.raises(ProtocolError, match=f"a frame of {length} bytes: 4 to 16777212"):
        reader.next()


def test_the_longest_frame_is_taken() -> None:
    command = Command(code=10, opaque=1)
    command.body = b"x" * ((16 << 20) - len(encode(command)))
    reader = FrameReader()
    reader.feed(encode(command))
    found = reader.next()
    assert found is not None
    assert len(found.body) == len(command.body)


def test_a_header_that_is_none_is_refused() -> None:
    reader = FrameReader()
    reader.feed(b"\0\0\0\x06" + b"\x07\0\0\x02{}")
    with pytest.raises(ProtocolError, match="serialize type 7"):
        reader.next()


def test_what_is_cleared_is_forgotten() -> None:
    reader = FrameReader()
    reader.feed(STREAM[: len(encode(COMMANDS[0])) - 1])
    assert reader.next() is None
    reader.clear()
    assert reader.buffered == 0
    reader.feed(STREAM)
    assert [each.opaque for each in taken(reader)] == [1, 2, 3]


def test_who_trusts_the_other_side_takes_more() -> None:
    large = encode(Command(code=0, body=bytes(17 << 20)))
    with pytest.raises(ProtocolError, match="are allowed"):
        reader = FrameReader()
        reader.feed(large)
        reader.next()
    reader = FrameReader(follow_bytes_max=18 << 20)
    reader.feed(large)
    (found,) = taken(reader)
    assert len(found.body) == 17 << 20
