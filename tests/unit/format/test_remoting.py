"""Goal: the Python codec of remoting frames writes and reads RocketMQ's bytes.

Method: bytes written down by hand from the protocol's layout, round trips of generated commands,
and generated garbage, which must end in ProtocolError and nothing else.
Cannot prove: that official clients agree; tests/compat does.
"""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq.codes import LANGUAGES, VERSION
from rmq.errors import ProtocolError
from rmq.format.remoting import JSON, ROCKETMQ, Command, decode, encode

JAVA_HEADER = (
    b'{"code":105,"extFields":{"topic":"T","acceptStandardJsonOnly":"true"},"flag":0,'
    b'"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":401}'
)
GO_HEADER = (
    b'{"code":105,"language":"GO","version":317,"opaque":-3,"flag":2,"remark":"",'
    b'"extFields":{"topic":"T"}}'
)
BINARY_HEADER = bytes.fromhex(
    "0069" "03" "01df" "00000007" "00000000"  # 105, PYTHON, 479, opaque 7, flag 0
    "00000002" "6869"  # remark "hi"
    "0000000c" "0005746f706963" "00000001" "54"  # topic = T
)  # fmt: skip

I32 = st.integers(-(2**31), 2**31 - 1)
I16 = st.integers(-(2**15), 2**15 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
FIELDS = st.dictionaries(TEXT, TEXT, max_size=6)


def frame(header: bytes, body: bytes = b"", serialize_type: int = JSON) -> bytes:
    return bytes([serialize_type]) + len(header).to_bytes(3, "big") + header + body


def test_a_java_header_is_read() -> None:
    command = decode(frame(JAVA_HEADER, b"body"))
    assert (command.code, command.opaque, command.version) == (105, 7, 401)
    assert command.language == "JAVA"
    assert command.fields == {"topic": "T", "acceptStandardJsonOnly": "true"}
    assert command.body == b"body"
    assert command.remark is None
    assert not command.is_response and not command.is_oneway


def test_a_go_header_is_read() -> None:
    command = decode(memoryview(frame(GO_HEADER)))
    assert (command.code, command.opaque, command.language) == (105, -3, "GO")
    assert command.is_oneway
    assert command.remark == ""


def test_json_numbers_may_be_text_and_fields_may_be_anything() -> None:
    header = (
        b'{"code":"10","opaque":"5","extra":[{"a":{}}],'
        b'"extFields":{"n":5,"b":true,"nothing":null,"d":1.5,"s":"x"}}'
    )
    command = decode(frame(header))
    assert (command.code, command.opaque) == (10, 5)
    assert command.fields == {"n": "5", "b": "true", "d": "1.5", "s": "x"}
    assert command.language == "OTHER"


def test_a_json_request_is_these_bytes() -> None:
    command = Command(code=105, opaque=7, fields={"topic": "T"}, body=b"\x01\x02")
    header = (
        b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"PYTHON","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":479}'
    )
    assert encode(command) == (
        (4 + len(header) + 2).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + b"\1\2"
    )


def test_a_binary_request_is_these_bytes() -> None:
    command = Command(
        code=105, opaque=7, remark="hi", fields={"topic": "T"}, body=b"x", serialize_type=ROCKETMQ
    )
    length = len(BINARY_HEADER).to_bytes(3, "big")
    assert encode(command) == (
        (4 + len(BINARY_HEADER) + 1).to_bytes(4, "big") + b"\x01" + length + BINARY_HEADER + b"x"
    )
    assert decode(encode(command)[4:]) == command


def test_a_binary_header_cuts_pop_codes_to_sixteen_bits_as_java_does() -> None:
    assert decode(encode(Command(code=200050, serialize_type=ROCKETMQ))[4:]).code == 3442


def test_a_reply_has_the_opaque_and_the_serialisation_of_its_request() -> None:
    request = Command(code=322, opaque=-9, serialize_type=ROCKETMQ)
    reply = decode(encode(request.reply(0, fields={"changed": True, "none": None, "n": 3}))[4:])
    assert reply.is_response
    assert (reply.opaque, reply.serialize_type, reply.version) == (-9, ROCKETMQ, VERSION)
    assert reply.fields == {"changed": "true", "n": "3"}


def test_field_errors_name_the_field() -> None:
    command = Command(code=10, fields={"n": "12", "bad": "1_2", "big": "99999999999999999999"})
    assert command.int_field("n") == 12
    assert command.int_field("absent", 4) == 4
    assert command.bool_field("absent", False) is False
    for read in (
        lambda: command.require("topic"),
        lambda: command.int_field("topic"),
        lambda: command.bool_field("topic"),
    ):
        with pytest.raises(ProtocolError, match="topic"):
            read()
    for name in ("bad", "big"):
        with pytest.raises(ProtocolError, match=name):
            command.int_field(name)
    with pytest.raises(ProtocolError, match="outside"):
        command.int_field("n", minimum=13)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0",
        b"\0\0\0\x05{}",
        b"\x02\0\0\0",
        frame(b"[]"),
        frame(b"{}"),
        frame(b'{"code":1e400}'),
        frame(b'{"code":4294967296}'),
        frame(b'{"code":1} x'),
        frame(b"{" * 5000),
        frame(BINARY_HEADER[:20], b"", ROCKETMQ),
        frame(BINARY_HEADER[:-1], b"", ROCKETMQ),
        frame(BINARY_HEADER[:13] + b"\xff\xff\xff\xff" + BINARY_HEADER[17:], b"", ROCKETMQ),
        frame(BINARY_HEADER[:13] + b"\x7f\xff\xff\xff" + BINARY_HEADER[17:], b"", ROCKETMQ),
    ],
)
def test_a_frame_that_cannot_be_right_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(data)


@given(
    code=I16,
    flag=I32,
    opaque=I32,
    version=I16,
    language=st.sampled_from(LANGUAGES),
    remark=st.none() | TEXT.filter(bool),
    fields=FIELDS,
    body=st.binary(max_size=50),
    serialize_type=st.sampled_from([JSON, ROCKETMQ]),
)
def test_what_is_encoded_is_decoded(**parts: object) -> None:
    command = Command(**parts)  # type: ignore[arg-type]
    whole = encode(command)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    assert decode(whole[4:]) == command


@given(st.binary(max_size=200))
def test_garbage_ends_in_protocol_error(data: bytes) -> None:
    for head in (b"", b"\0\0\0" + bytes([min(len(data), 255)]), b"\1\0\0" + bytes([len(data)])):
        with suppress(ProtocolError):
            decode(head + data)


@given(
    st.sampled_from([frame(JAVA_HEADER), frame(GO_HEADER), frame(BINARY_HEADER, b"", ROCKETMQ)]),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_a_damaged_frame_is_read_or_refused(data: bytes, damage: list[tuple[int, int]]) -> None:
    damaged = bytearray(data)
    for at, byte in damage:
        damaged[at % len(damaged)] = byte
    with suppress(ProtocolError):
        decode(damaged)
