"""Goal: the compiled wire layer and the pure-Python formats read and write the same bytes alike.

Method: generated commands, headers, property strings and tags go through both; Python's json,
struct and zlib stand in as a third judge where the format is theirs.
Known differences, on purpose: the compiled reader gives an empty value of a binary field as absent
(as Java reads it), takes a JSON header without a code for code 0, and does not look at escapes or
UTF-8 of texts nobody copies.
"""

import json
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.case import case
from support.volume import volume
from support.wire_frames import BINARY, JSON, OK, TOO_LARGE

from cext.testing.base_probe import body_crc_of
from cext.testing.frame_probe import frame_found, header_parsed, pull_reply_header, send_reply
from cext.testing.message_probe import (
    code_of_tag,
    found_property,
    offset_message_id,
    properties_scanned,
    property_appended,
)
from rmq.codes import LANGUAGES
from rmq.errors import ProtocolError
from rmq.format import fastjson, remoting
from rmq.format import message as message_format

I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=60)
NAMES = st.one_of(st.sampled_from([*"abcdeijm", "topic", "queueId", "code"]), TEXT)
FIELDS = st.dictionaries(NAMES, TEXT, max_size=20)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT | st.floats(-1e300, 1e300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def fields_of(parsed: dict[str, object]) -> dict[str, str]:
    return {
        key.decode(): value.decode() for key, value in parsed["fields"] if value is not None
    }  # fmt: skip


@given(
    code=I32, flag=I32, opaque=I32, version=I32, language=st.sampled_from(LANGUAGES),
    remark=st.none() | TEXT, fields=FIELDS, extra=st.dictionaries(TEXT, JSON_VALUES, max_size=3),
    order=st.randoms(use_true_random=False), ascii_only=st.booleans(),
    indent=st.sampled_from([None, 1]), compact=st.booleans(),
)  # fmt: skip
@settings(max_examples=volume(100, 300))
def test_json_headers_are_read_as_json_reads_them(
    code, flag, opaque, version, language, remark, fields, extra, order, ascii_only, indent, compact
) -> None:
    members = {
        **extra, "code": code, "flag": flag, "opaque": opaque, "version": version,
        "language": language, "remark": remark, "extFields": fields,
    }  # fmt: skip
    items = list(members.items())
    order.shuffle(items)
    data = json.dumps(
        dict(items), ensure_ascii=ascii_only, indent=indent,
        separators=(",", ":") if compact else None,
    ).encode()  # fmt: skip
    parsed = header_parsed(data, JSON)
    assert parsed["status"] == OK
    assert (parsed["code"], parsed["flag"], parsed["opaque"]) == (code, flag, opaque)
    assert (parsed["version"], LANGUAGES[parsed["language"]]) == (version, language)
    assert parsed["remark"] == (None if remark is None else remark.encode())
    assert fields_of(parsed) == fields
    for letter, index in parsed["letters"].items():
        assert parsed["fields"][index] == (letter.encode(), fields[letter].encode())


COMMANDS = st.builds(
    remoting.Command,
    code=st.integers(-(2**15), 2**15 - 1),
    flag=I32,
    opaque=I32,
    version=st.integers(0, 2**15 - 1),
    language=st.sampled_from(LANGUAGES),
    remark=st.none() | st.text(min_size=1, max_size=40),
    fields=st.dictionaries(
        st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=60), max_size=20
    ),
    body=st.binary(max_size=50),
    serialize_type=st.sampled_from([JSON, BINARY]),
)


@given(COMMANDS)
def test_what_the_python_twin_writes_is_read_the_same(command: remoting.Command) -> None:
    data = remoting.encode(command)
    parts = frame_found(data, 16 * 1024 * 1024)
    assert (parts["status"], parts["body"]) == (OK, command.body)
    assert parts["serialize_type"] == command.serialize_type
    parsed = header_parsed(parts["header"], command.serialize_type)
    assert (parsed["code"], parsed["flag"], parsed["opaque"], parsed["version"]) == (
        command.code, command.flag, command.opaque, command.version,
    )  # fmt: skip
    assert LANGUAGES[parsed["language"]] == command.language
    assert parsed["remark"] == (command.remark.encode() if command.remark is not None else None)
    assert fields_of(parsed) == command.fields


@given(COMMANDS, st.data())
def test_where_the_compiled_reader_accepts_the_twin_does_and_sees_the_same(command, data) -> None:
    """One byte of a frame is changed. The twin may be stricter (UTF-8, escapes, no code), but must
    not see anything else."""
    raw = bytearray(remoting.encode(command))
    at = data.draw(st.integers(8, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    parts = frame_found(bytes(raw), 16 * 1024 * 1024)
    parsed = header_parsed(parts["header"], command.serialize_type)
    try:
        twin = remoting.decode(bytes(raw[4:]))
    except ProtocolError:
        return
    if parsed["status"] == TOO_LARGE:
        return
    if parsed["status"] != OK and command.serialize_type == JSON:
        # The twin reads Java's loose JSON and so accepts what is no JSON: 31L, 31,, and the like.
        with pytest.raises(ValueError):
            json.loads(parts["header"])
        return
    assert parsed["status"] == OK
    assert (parsed["code"], parsed["opaque"], parsed["flag"]) == (twin.code, twin.opaque, twin.flag)
    if all(isinstance(value, bytes | None) for pair in parsed["fields"] for value in pair):
        mine = {
            key.decode("utf-8", "replace"): value.decode("utf-8", "replace")
            for key, value in parsed["fields"] if value is not None
        }  # fmt: skip
        assert mine == {key: value for key, value in twin.fields.items() if key in mine}
        assert not any(value for key, value in twin.fields.items() if key not in mine)


@given(
    code=st.integers(0, 2**15 - 1), opaque=I32, queue_id=I32, queue_offset=I64,
    serialize_type=st.sampled_from([JSON, BINARY]), uniq_key=st.none() | st.text(min_size=1),
    region=st.none() | st.text(min_size=1), trace_on=st.booleans(),
    remark=st.none() | st.text(min_size=1),
)  # fmt: skip
def test_send_replies_are_what_the_twin_reads(
    code, opaque, queue_id, queue_offset, serialize_type, uniq_key, region, trace_on, remark
) -> None:
    reply = send_reply(
        code=code, opaque=opaque, queue_id=queue_id, queue_offset=queue_offset,
        serialize_type=serialize_type, message_ids=b"AB,CD", trace_on=trace_on,
        remark=remark.encode() if remark else None,
        transaction_id=uniq_key.encode() if uniq_key else None,
        region=region.encode() if region else None,
    )  # fmt: skip
    command = remoting.decode(reply[4:])
    assert int.from_bytes(reply[:4], "big") == len(reply) - 4
    assert command.is_response and not command.is_oneway
    assert (command.code, command.opaque, command.remark) == (code, opaque, remark)
    assert (command.language, command.version, command.body) == ("PYTHON", 479, b"")
    fields = {
        "msgId": "AB,CD", "queueId": str(queue_id), "queueOffset": str(queue_offset),
        "transactionId": uniq_key, "MSG_REGION": region, "TRACE_ON": str(trace_on).lower(),
    }  # fmt: skip
    assert command.fields == {key: value for key, value in fields.items() if value is not None}


@given(code=st.integers(0, 2**15 - 1), opaque=I32, offsets=st.tuples(I64, I64, I64, I64),
       serialize_type=st.sampled_from([JSON, BINARY]), body=st.binary(max_size=100))  # fmt: skip
def test_pull_replies_are_what_the_twin_reads(code, opaque, offsets, serialize_type, body) -> None:
    names = ("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset")
    head = pull_reply_header(
        code=code, opaque=opaque, serialize_type=serialize_type, suggested_broker_id=offsets[0],
        next_begin_offset=offsets[1], min_offset=offsets[2], max_offset=offsets[3],
        body_bytes=len(body), remark=b"FOUND",
    )  # fmt: skip
    command = remoting.decode((head + body)[4:])
    assert (command.code, command.opaque, command.remark) == (code, opaque, "FOUND")
    assert command.body == body
    assert command.fields == dict(zip(names, map(str, offsets), strict=True))


PIECES = st.lists(
    st.sampled_from(
        ["TAGS", "KEYS", "WAIT", "UNIQ_KEY", "\x01", "\x02", "a", "bc", "中", "true", "7"]
    ),
    max_size=30,
)


@given(PIECES)
@settings(max_examples=volume(100, 300))
def test_property_strings_are_split_alike(pieces: list[str]) -> None:
    data = "".join(pieces).encode()
    twin = message_format.decode_properties(data)
    mine = properties_scanned(data)["values"]
    assert {key: value.decode() for key, value in mine.items()} == {
        key: value for key, value in twin.items() if key in ("TAGS", "KEYS", "WAIT", "UNIQ_KEY")
    }
    for name in ("a", "bc", "TAGS", "中"):
        value = found_property(data, name.encode())
        assert (value.decode() if value is not None else None) == twin.get(name)


@given(
    st.dictionaries(
        st.sampled_from(["TAGS", "KEYS", "CLUSTER", "color"]), st.text("abc 中", min_size=1)
    )
)
def test_appended_properties_are_what_the_twin_writes(values: dict[str, str]) -> None:
    mine = b"".join(property_appended(key.encode(), values[key].encode()) for key in values)
    assert mine == message_format.encode_properties(values)


@given(st.text())
def test_tag_codes_agree(tag: str) -> None:
    assert code_of_tag(tag.encode()) == message_format.tags_code(tag)


@given(st.binary(max_size=30))
@settings(max_examples=volume(200, 500))
def test_tag_codes_of_bytes_that_are_not_utf8_agree(tag: bytes) -> None:
    assert code_of_tag(tag) == message_format.tags_code(tag.decode("utf-8", "replace"))


@given(st.binary(max_size=500))
def test_body_checksums_agree(body: bytes) -> None:
    assert body_crc_of(body) == zlib.crc32(body) & 0x7FFFFFFF == message_format.body_crc(body)


@given(
    st.sampled_from(["127.0.0.1", "255.1.2.3", "fe80::1"]),
    st.integers(0, 65535),
    st.integers(0, 2**63 - 1),
)
def test_offset_message_ids_agree(ip: str, port: int, offset: int) -> None:
    host = message_format.Host(ip, port)
    mine = offset_message_id(message_format.encode_host(host), offset).decode()
    assert mine == message_format.encode_message_id(host, offset)
    assert message_format.decode_message_id(mine) == (host, offset)


# Depths that no stack may have room for are a test each: if the process dies, its name is known.
@pytest.mark.parametrize(
    "depths",
    [[1, 2, 31, 32, 33, 60, 61, 62, 63, 64, 65], [300], [900], [100_000]],
    ids=["to 65", "300", "900", "100000"],
)
@pytest.mark.parametrize(
    ("opens", "closes"),
    [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"b":', b"}]"), (b'{"[\\"{":', b"}")],
    ids=["arrays", "objects", "both", "with brackets in names"],
)
@pytest.mark.parametrize("place", [b'{"code":5,"remark":%s}', b'{"code":5,"extFields":{"a":%s}}',
                                   b'{"code":5,"nobody":[1,%s]}'])  # fmt: skip
def test_headers_may_be_nested_equally_deep(
    depths: list[int], opens: bytes, closes: bytes, place: bytes
) -> None:
    """Both readers accept as many levels in all as rmq/format/fastjson.py says."""
    for depth in depths:
        with case(depth):
            assert_nested_equally(depth, opens, closes, place)


def assert_nested_equally(depth: int, opens: bytes, closes: bytes, place: bytes) -> None:
    data = place % (opens * depth + b"1" + closes * depth)
    levels = place.count(b"{") + place.count(b"[") + depth * (opens.count(b"[") + opens.count(b":"))
    if b'"[' in opens:
        levels = place.count(b"{") + place.count(b"[") + depth
    wanted = levels <= fastjson.DEPTH_MAX
    assert (header_parsed(data, JSON)["status"] == OK) == wanted
    try:
        remoting.decode(len(data).to_bytes(4, "big") + data)
    except ProtocolError as error:
        assert not wanted, error
        text = str(error)  # only short texts may be other than plain JSON
        assert "nested deeper than" in text or (depth == 100_000 and "not plain JSON" in text)
    else:
        assert wanted
