"""Goal: replies are frames that a client can read, complete and in the client's own serialisation.

Method: JSON replies are read by json.loads, binary ones by cext's own reader; the independent
reader of both is in tests/contract/test_wire_twins.py.
"""

import json
import struct

import pytest
from support.wire_frames import BINARY, JSON, OK

from cext.testing.frame_probe import (
    error_reply,
    frame_found,
    header_parsed,
    pull_reply_header,
    send_reply,
)

FRAME_MAX = 16 * 1024 * 1024


def header_of(frame: bytes, serialize_type: int) -> dict[str, object]:
    parts = frame_found(frame, FRAME_MAX)
    assert (parts["status"], parts["serialize_type"], parts["body"]) == (OK, serialize_type, b"")
    assert parts["total_bytes"] == len(frame)
    if serialize_type == JSON:  # Rust's client takes a header without it for none
        assert json.loads(parts["header"])["serializeTypeCurrentRPC"] == "JSON"
    return header_parsed(parts["header"], serialize_type)


@pytest.mark.parametrize("serialize_type", [JSON, BINARY])
def test_send_reply_carries_what_java_reads(serialize_type: int) -> None:
    reply = send_reply(
        code=0, opaque=-12, queue_id=3, queue_offset=2**40, serialize_type=serialize_type,
        message_ids=b"7F00000100002A9F0000000000000100", transaction_id=b"UNIQ",
        region=b"DefaultRegion",
    )  # fmt: skip
    header = header_of(reply, serialize_type)
    assert (header["code"], header["flag"], header["opaque"]) == (0, 1, -12)
    assert (header["version"], header["language"], header["remark"]) == (479, 3, None)
    assert dict(header["fields"]) == {
        b"msgId": b"7F00000100002A9F0000000000000100", b"queueId": b"3",
        b"queueOffset": b"1099511627776", b"transactionId": b"UNIQ",
        b"MSG_REGION": b"DefaultRegion", b"TRACE_ON": b"true",
    }  # fmt: skip


@pytest.mark.parametrize("serialize_type", [JSON, BINARY])
def test_send_reply_leaves_out_what_is_absent(serialize_type: int) -> None:
    reply = send_reply(
        code=10, opaque=1, queue_id=0, queue_offset=0, serialize_type=serialize_type,
        message_ids=b",".join([b"A" * 32] * 500), trace_on=False, remark=b"flush timed out",
    )  # fmt: skip
    header = header_of(reply, serialize_type)
    assert (header["code"], header["remark"]) == (10, b"flush timed out")
    keys = [key for key, _ in header["fields"]]
    assert keys == [b"msgId", b"queueId", b"queueOffset", b"TRACE_ON"]
    assert dict(header["fields"])[b"TRACE_ON"] == b"false"


@pytest.mark.parametrize("serialize_type", [JSON, BINARY])
def test_pull_reply_header_counts_the_body_that_follows(serialize_type: int) -> None:
    head = pull_reply_header(
        code=0, opaque=5, serialize_type=serialize_type, next_begin_offset=2**63 - 1,
        min_offset=-(2**63), max_offset=10, suggested_broker_id=1, body_bytes=7, remark=b"FOUND",
    )  # fmt: skip
    parts = frame_found(head + b"RECORDS", FRAME_MAX)
    assert (parts["status"], parts["body"]) == (OK, b"RECORDS")
    assert (b'"serializeTypeCurrentRPC":"JSON"' in head) == (serialize_type == JSON)
    header = header_parsed(parts["header"], serialize_type)
    assert (header["code"], header["remark"], header["flag"]) == (0, b"FOUND", 1)
    assert dict(header["fields"]) == {
        b"suggestWhichBrokerId": b"1", b"nextBeginOffset": b"9223372036854775807",
        b"minOffset": b"-9223372036854775808", b"maxOffset": b"10",
    }  # fmt: skip


@pytest.mark.parametrize("serialize_type", [JSON, BINARY])
def test_error_reply_with_and_without_remark(serialize_type: int) -> None:
    remark = 'no topic "T"\n中'.encode()
    header = header_of(error_reply(7, serialize_type, 17, remark), serialize_type)
    assert (header["code"], header["opaque"], header["remark"]) == (17, 7, remark)
    plain = header_of(error_reply(7, serialize_type, 0), serialize_type)
    assert (plain["code"], plain["remark"], plain["fields"]) == (0, None, [])


def test_the_example_of_the_header_file() -> None:
    reply = error_reply(7, JSON, 17, b"no topic")
    assert (len(reply), struct.unpack(">II", reply[:8])) == (126, (122, 118))


def test_json_replies_are_json_with_strings_in_fields_whatever_the_texts_hold() -> None:
    nasty = bytes(range(128)) + "é中\U0001f600".encode()
    for shift in range(20):
        reply = send_reply(
            code=0, opaque=2**31 - 1, queue_id=-(2**31), queue_offset=-1, serialize_type=JSON,
            message_ids=b"A", transaction_id=b"x" * shift + nasty, region=nasty[::-1][10:],
        )  # fmt: skip
        header = json.loads(reply[8:])
        assert header["extFields"]["transactionId"] == "x" * shift + nasty.decode()
        assert all(isinstance(value, str) for value in header["extFields"].values())
        assert header["language"] == "PYTHON"
        assert header["extFields"]["queueId"] == "-2147483648"


def test_long_remarks_are_cut_between_characters() -> None:
    for remark in ("中" * 1000, "x" + "\U0001f600" * 1000, "\x01" * 5000):
        for serialize_type in (JSON, BINARY):
            reply = error_reply(1, serialize_type, 1, remark.encode())
            kept = header_of(reply, serialize_type)["remark"]
            assert remark.startswith(kept.decode())
            assert 1020 < len(kept) <= 1024
            pull = pull_reply_header(
                code=1, opaque=0, serialize_type=serialize_type, next_begin_offset=-(2**63),
                min_offset=-(2**63), max_offset=-(2**63), suggested_broker_id=-(2**63),
                body_bytes=0, remark=remark.encode(),
            )  # fmt: skip
            assert 60 < len(header_of(pull, serialize_type)["remark"]) <= 64


def test_what_json_must_escape_is_found_wherever_it_stands() -> None:
    for length in range(1, 42):
        for at in range(length):
            for special in ('"', "\\", "\x1f", "\x01", "é", "!", "[", "]", " ", "#"):
                text = "m" * at + special + "m" * (length - at - 1)
                frame = send_reply(
                    code=0, opaque=1, queue_id=2, queue_offset=3, serialize_type=JSON,
                    message_ids=b"A", region=text.encode(),
                )  # fmt: skip
                header = json.loads(frame[8:])
                assert header["extFields"]["MSG_REGION"] == text
