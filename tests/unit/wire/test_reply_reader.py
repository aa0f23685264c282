"""Answers are understood in every spelling, and broken ones are refused.

Method: frames made by the pure-Python codec, whole, cut at every byte, damaged, and in streams. A
reader that remembers shapes must give what a reader without a memory gives. Fields are compared
with the pure-Python codec. The sanitizer's run would catch a reader that looks behind its input.
"""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cext.testing.frame_probe import replies_read
from rmq.format import remoting

OK, NOT_READY, MALFORMED, MISSING_FIELD = 0, -1, -10, -11
EITHER = pytest.mark.parametrize("serialize_type", [remoting.JSON, remoting.ROCKETMQ])


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


def raw(header: bytes, body: bytes = b"", serialize_type: int = 0) -> bytes:
    lengths = struct.pack(">II", 4 + len(header) + len(body), len(header) | serialize_type << 24)
    return lengths + header + body


def number_of(frame, name, **how):
    [reply], _ = replies_read(frame, number=name, **how)
    return reply["status"], reply["number"]


@EITHER
def test_code_opaque_and_body_are_found(serialize_type):
    frame = answer(serialize_type, code=19, remark='"opaque":5 "code":6 \\')
    [reply], status = replies_read(frame + frame[:20])
    assert reply == {
        "total": len(frame), "code": 19, "opaque": 10_000_007, "response": True, "body": b"body",
    }  # fmt: skip
    assert status == NOT_READY


@EITHER
def test_numeric_fields_are_found_by_name(serialize_type):
    frame = answer(serialize_type)
    assert number_of(frame, b"nextBeginOffset") == (OK, 123_456_789_012)
    assert number_of(frame, b"minOffset") == (OK, -1)
    assert number_of(frame, b"maxOffset") == (MISSING_FIELD, 0)
    assert number_of(frame, b"Offset") == (MISSING_FIELD, 0), "the end of another name"


@EITHER
@pytest.mark.parametrize("text", ["1x", "9" * 20, "-", "0x7", "1 "])
def test_a_field_that_is_no_number_is_malformed(serialize_type, text):
    frame = answer(serialize_type, fields={"minOffset": text})
    assert number_of(frame, b"minOffset") == (MALFORMED, 0)


def test_a_remark_that_looks_like_a_field_is_none():
    frame = answer(remark='"minOffset":"77"', fields={"queueId": "3"})
    assert number_of(frame, b"minOffset") == (MISSING_FIELD, 0)


def test_the_bytes_of_a_field_are_given_unless_they_are_escaped():
    [plain], _ = replies_read(answer(fields={"a": "0 3 100"}), number=b"a")
    [escaped], _ = replies_read(answer(fields={"a": '0 "3'}), number=b"a")
    assert plain["bytes"] == b"0 3 100"
    assert "bytes" not in escaped


def test_members_in_any_order_with_blanks_and_deceiving_fields():
    header = (
        b'{"version":1,"opaque": 42,"extFields":{"opaque":"7","code":"8","flag":"0",'
        b'"x":"\\"opaque\\":9"},"flag": 1,"remark":null,"code": 2}'
    )
    [reply], _ = replies_read(raw(header))
    assert (reply["code"], reply["opaque"], reply["response"]) == (2, 42, True)


@EITHER
def test_a_request_of_the_broker_is_no_response(serialize_type):
    [reply], _ = replies_read(answer(serialize_type, flag=2))
    assert not reply["response"]


@EITHER
def test_a_cut_frame_is_waited_for(serialize_type):
    frame = answer(serialize_type)
    for cut in range(len(frame)):
        assert replies_read(frame[:cut]) == ([], NOT_READY)


@EITHER
def test_a_head_is_read_before_its_body(serialize_type):
    frame = answer(serialize_type, body=b"0123456789")
    for missing in range(len(frame)):
        replies, status = replies_read(frame[: len(frame) - missing], heads=True)
        if missing <= 10:
            assert replies[0]["total"] == len(frame)
            assert replies[0]["body"] == b"0123456789"[: 10 - missing]
        else:
            assert (replies, status) == ([], NOT_READY)


@pytest.mark.parametrize("heads", [False, True])
@pytest.mark.parametrize(
    "frame",
    [
        raw(b"{}"),  # an answer to nobody's request
        raw(b'{"code":x,"opaque":1,"flag":1}'),
        raw(b'{"code":1,"opaque":99999999999999999999,"flag":1}'),
        raw(b'{"code":1,"opaque":1,"flag":1'),
        struct.pack(">II", 10, 11) + b"0" * 20,  # header longer than the frame
        struct.pack(">II", 3, 0) + b"0" * 20,  # frame shorter than its header word
        struct.pack(">II", 100, 2 << 24) + b"0" * 100,  # unknown serialize type
        struct.pack(">II", 14, 10 | 1 << 24) + b"0" * 10,  # binary header too short
        struct.pack(">II", 1 << 30, 10),  # longer than any frame
    ],
)
def test_a_broken_answer_is_refused(frame, heads):
    replies, status = replies_read(frame, heads=heads)
    assert replies == []
    assert status not in (OK, NOT_READY)


@pytest.mark.parametrize("name", [b"nextBeginOffset", b"queueId", b"maxOffset"])
def test_a_binary_field_that_leaves_the_header_is_malformed_whichever_is_asked_for(name):
    frame = bytearray(answer(remoting.ROCKETMQ))
    at = frame.index(b"nextBeginOffset") - 2
    frame[at : at + 2] = b"\x7f\xff"
    assert number_of(bytes(frame), name) == (MALFORMED, 0)


# ---- a reader of many answers ----

texts = st.text(max_size=12)
fields = st.dictionaries(
    st.one_of(st.sampled_from(["offset", "minOffset", "queueId"]), texts.filter(bool)),
    st.one_of(st.integers(-(2**63), 2**63 - 1).map(str), texts),
    max_size=6,
)
frames = st.builds(
    answer,
    st.sampled_from([remoting.JSON, remoting.ROCKETMQ]),
    code=st.integers(0, 32767),
    flag=st.integers(0, 3),
    opaque=st.integers(-(2**31), 2**31 - 1),
    fields=fields,
    remark=st.none() | texts,
    body=st.binary(max_size=20),
)


def expected_number(text: str | None) -> int:
    """The status with which a field must be read as a number."""
    if text is None:
        return MISSING_FIELD
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()):
        return MALFORMED
    return OK if -(2**63) <= int(text) < 2**63 else MALFORMED


@given(st.lists(frames, max_size=6), st.integers(1, 3))
def test_a_stream_is_read_as_the_codec_reads_it(stream, times):
    # the same answers several times, so that later ones have the shape of earlier ones
    stream = stream * times
    replies, status = replies_read(b"".join(stream), number=b"offset")
    assert status == NOT_READY
    assert len(replies) == len(stream)
    for frame, reply in zip(stream, replies, strict=True):
        command = remoting.decode(frame[4:])
        assert reply["total"] == len(frame)
        assert (reply["code"], reply["opaque"]) == (command.code, command.opaque)
        assert reply["response"] == bool(command.flag & 1)
        assert reply["body"] == command.body
        text = (command.fields or {}).get("offset")
        if text == "" and command.serialize_type == remoting.ROCKETMQ:
            text = None  # binary headers spell null as a value of length 0
        assert reply["status"] == expected_number(text)
        if reply["status"] == OK:
            assert reply["number"] == int(command.fields["offset"])


@given(st.lists(frames, min_size=1, max_size=3), st.data())
def test_damage_is_the_same_with_shapes_and_without(stream, data):
    """Whole answers are followed by damaged ones of the same form: no harm, and both readers
    agree."""
    whole = b"".join(stream)
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    both = whole + bytes(damaged[:cut])
    for heads in (False, True):
        with_shapes = replies_read(both, heads=heads, number=b"offset")
        without = replies_read(both, heads=heads, number=b"offset", shapes=False)
        assert with_shapes == without


@given(st.binary(max_size=200), st.sampled_from([None, 0, 1]), st.booleans(), st.integers(0, 1))
def test_arbitrary_bytes_never_do_harm(noise, as_frame, heads, shapes):
    frame = noise if as_frame is None else raw(noise, serialize_type=as_frame)
    replies, _ = replies_read(frame, heads=heads, shapes=bool(shapes), number=b"offset")
    for reply in replies:
        assert len(reply["body"]) <= len(frame) - 8


@EITHER
@given(st.integers(8, 400))
def test_a_frame_beyond_the_limit_is_refused_at_its_length(serialize_type, limit):
    frame = answer(serialize_type)
    replies, status = replies_read(frame[:8], frame_max_bytes=limit)
    assert replies == []
    assert (status == NOT_READY) == (len(frame) <= limit)
