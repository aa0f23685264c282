"""Answers are understood in every spelling and broken ones are refused.

Method: frames made by the pure-Python codec, whole, cut at every byte, and damaged.
"""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cext.load.reply import read_reply_of, reply_number_of
from rmq.format import remoting


def answer(serialize_type=remoting.JSON, **changes):
    values = {
        "code": 0,
        "flag": 1,
        "opaque": 10_000_007,
        "fields": {"queueId": "3", "nextBeginOffset": "123456789012", "minOffset": "-1"},
        "body": b"body",
        "serialize_type": serialize_type,
    }
    return remoting.encode(remoting.Command(**{**values, **changes}))


def raw(header: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


@pytest.mark.parametrize("serialize_type", [remoting.JSON, remoting.ROCKETMQ])
def test_code_opaque_and_body_are_found(serialize_type):
    frame = answer(serialize_type, code=19, remark='"opaque":5 "code":6 \\')
    assert read_reply_of(frame + b"next") == {
        "total": len(frame), "code": 19, "opaque": 10_000_007, "response": True, "body": b"body",
    }  # fmt: skip


@pytest.mark.parametrize("serialize_type", [remoting.JSON, remoting.ROCKETMQ])
def test_numeric_fields_are_found_by_name(serialize_type):
    frame = answer(serialize_type)
    assert reply_number_of(frame, b"nextBeginOffset") == 123_456_789_012
    assert reply_number_of(frame, b"minOffset") == -1
    assert reply_number_of(frame, b"maxOffset") is None


def test_members_in_any_order_with_blanks_and_deceiving_fields():
    header = (
        b'{"version":1,"opaque": 42,"extFields":{"opaque":"7","code":"8","flag":"0",'
        b'"x":"\\"opaque\\":9"},"flag": 1,"remark":null,"code": 2}'
    )
    reply = read_reply_of(raw(header))
    assert (reply["code"], reply["opaque"], reply["response"]) == (2, 42, True)


@pytest.mark.parametrize("serialize_type", [remoting.JSON, remoting.ROCKETMQ])
def test_a_cut_frame_is_waited_for(serialize_type):
    frame = answer(serialize_type)
    assert [read_reply_of(frame[:cut]) for cut in range(len(frame))] == [None] * len(frame)


@pytest.mark.parametrize(
    "frame",
    [
        raw(b"{}"),
        raw(b'{"code":x,"opaque":1,"flag":1}'),
        raw(b'{"code":1,"opaque":99999999999999999999,"flag":1}'),
        struct.pack(">II", 10, 11) + b"0" * 20,  # header longer than the frame
        struct.pack(">II", 3, 0) + b"0" * 20,  # frame shorter than its header word
        struct.pack(">II", 100, 2 << 24) + b"0" * 100,  # unknown serialize type
        struct.pack(">II", 14, 10 | 1 << 24) + b"0" * 10,  # binary header too short
        struct.pack(">II", 1 << 30, 10),  # longer than any frame
    ],
)
def test_a_broken_answer_is_refused(frame):
    with pytest.raises(ValueError):
        read_reply_of(frame)


def test_a_binary_field_that_leaves_the_header_is_refused():
    frame = bytearray(answer(remoting.ROCKETMQ))
    at = frame.index(b"nextBeginOffset") - 2
    frame[at : at + 2] = b"\x7f\xff"
    with pytest.raises(ValueError):
        reply_number_of(bytes(frame), b"maxOffset")


@given(st.binary(max_size=200), st.booleans())
def test_arbitrary_bytes_never_do_harm(noise, as_frame):
    frame = struct.pack(">I", len(noise)) + noise if as_frame else noise
    for read in (read_reply_of, lambda data: reply_number_of(data, b"offset")):
        with contextlib.suppress(ValueError):
            read(frame)
