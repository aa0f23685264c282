"""Goal: no bytes from the wire make a reader read or write outside, or say what is not a status.

Method: (1) a compiled loop mutates real frames by a seeded generator and hands them to every
reader, with unmapped pages directly behind what is read and written, so one byte too far ends the
test run; (2) hypothesis feeds structured and arbitrary bytes through the Python-visible entries.
Not shown: reads before the start of a buffer; the asan build profile sees those.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import wire_frames
from support.volume import volume
from support.wire_frames import BINARY, JSON, MALFORMED, MISSING_FIELD, OK, TOO_LARGE

from cext.testing import wire_probe
from cext.testing.frame_probe import frame_found, header_parsed
from cext.testing.message_probe import code_of_tag, properties_scanned
from cext.testing.request_probe import batch_messages, pull_request, send_request, tag_subscription
from cext.testing.text_probe import text_copied

SEEDS = [
    wire_frames.frame(wire_frames.JAVA_SEND_V2, b"hello"),
    wire_frames.frame(wire_frames.GO_SEND, b"hello" * 50),
    wire_frames.frame(wire_frames.JAVA_PULL),
    wire_frames.frame(
        wire_frames.json_header(320, {**wire_frames.SEND_V2_FIELDS, "m": "true"}),
        wire_frames.batch_body([(0, b"one", b"KEYS\x01k\x02"), (1, b"two" * 30, b"")]),
    ),
    wire_frames.frame(
        wire_frames.binary_header(310, {**wire_frames.SEND_V2_FIELDS, "i": "TAGS\x01a\x02"}),
        b"body", BINARY,
    ),
    wire_frames.frame(wire_frames.binary_header(11, wire_frames.PULL_FIELDS), b"", BINARY),
    wire_frames.frame(
        b'{"x":[{"y":[1,2.5e3,"]\\u00e9"]},null],"code":"11","extFields":{"d":{"a":"b"}},'
        b'"e":"\\ud83d\\ude00"}'
    ),
    wire_frames.frame(wire_frames.json_header(10, {f"key{i}": i for i in range(70)})),
]  # fmt: skip


@pytest.mark.parametrize("seed", [1, 0x9E3779B97F4A7C15])
def test_half_a_million_mutated_frames_stay_inside(seed: int) -> None:
    ended = wire_probe.fuzz(SEEDS, seed, 500_000)
    assert ended["violations"] == 0
    # The mutations are neither so mild nor so rough that one side is never reached.
    assert min(ended["parsed"], ended["malformed"], ended["too_large"]) > 10_000, ended
    assert min(ended["sends"], ended["pulls"], ended["batches"]) > 10_000, ended


@settings(max_examples=volume(150, 400))
@given(st.binary(max_size=200))
def test_arbitrary_bytes_end_in_a_status(data: bytes) -> None:
    assert frame_found(data, 1000)["status"] in (OK, -1, TOO_LARGE, MALFORMED)
    for serialize_type in (JSON, BINARY, 2):
        assert header_parsed(data, serialize_type)["status"] in (OK, TOO_LARGE, MALFORMED)
        for read in (send_request, pull_request):
            assert read(data, serialize_type)["status"] in (OK, TOO_LARGE, MALFORMED, MISSING_FIELD)
    assert properties_scanned(data)["status"] in (OK, MALFORMED)
    packed = batch_messages(data)
    assert packed == MALFORMED or len(wire_frames.batch_body(packed)) == len(data)
    assert isinstance(text_copied(data, True, len(data)), bytes | int)
    tag_subscription(data)
    tag_subscription(data, True)
    code_of_tag(data)


JSON_PIECES = st.lists(
    st.sampled_from(
        ['{', '}', '[', ']', ':', ',', '"', '\\', '\\"', '\\\\', '"a":', '"code":1',
         '"extFields":{', ' ', 'null', 'true', '-1', '"\\u0001"', '""', '"topic":"T"', '\x01', 'é',
         '0' * 70]
    ),
    max_size=40,
)  # fmt: skip


@settings(max_examples=volume(150, 400))
@given(JSON_PIECES)
def test_shuffled_json_pieces_end_in_a_status(pieces: list[str]) -> None:
    data = ("{" + "".join(pieces) + "}").encode()
    assert header_parsed(data, JSON)["status"] in (OK, TOO_LARGE, MALFORMED)
