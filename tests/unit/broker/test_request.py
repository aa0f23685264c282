"""A request's frame on the hot path: Python and the core read the same in it, however it was
written."""

from __future__ import annotations

import pytest
from support.wire_frames import JSON, frame

from cext.testing.frame_probe import header_parsed
from rmq.broker.clients.connections import Connection
from rmq.broker.dispatch.request import Request
from rmq.format.remoting import Command, decode, encode


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        (b'{"code":7,"extFields":{"a":"1"},"extFields":null}', {}),
        (b'{"code":7,"extFields":{"a":"1"},"extFields":{"b":"2"}}', {"b": "2"}),
        (b'{"code":7,"extFields":{"a":"1","a":"2"}}', {"a": "2"}),
        (b'{"code":"7","extFields":{"AccessKey":7,"b":null}}', {"AccessKey": "7"}),
        (rb'{"code":7,"extFields":{"\u0061":"x","\u0061\"":"\n"}}', {"a": "x", 'a"': "\n"}),
    ],
)
def test_the_hot_path_reads_what_was_judged(header: bytes, fields: dict[str, str]) -> None:
    command = decode(frame(header, b"body")[4:])
    assert command.fields == fields
    written = Request(Connection(1, "10.0.0.1:1"), command).frame
    length = int.from_bytes(written[1:4], "big")
    found = header_parsed(written[4 : 4 + length], JSON)
    assert found["code"] == 7
    assert decode(written).fields == fields
    assert {key.decode(): value.decode() for key, value in found["fields"]} == fields
    assert written.endswith(b"body")


@pytest.mark.parametrize("serialize_type", [0, 1])
def test_what_is_written_as_usual_stays_as_it_is(serialize_type: int) -> None:
    command = Command(code=310, fields={"b": "t", "AccessKey": "alice"}, body=b"x" * 1000,
                      opaque=9, serialize_type=serialize_type)  # fmt: skip
    sent = encode(command)
    assert Request(Connection(1, "10.0.0.1:1"), decode(sent[4:])).frame == sent[4:]
