"""Goal: no bytes from the wire make a reader touch memory outside of them, or return a value that
is no status.

Method: (1) a compiled loop mutates real frames by a seeded generator and gives them to every
reader. Unmapped pages follow directly behind what is read and written, so one byte too far ends the
test run. Headers are also read by shapes, and signatures are also checked by what is remembered of
the request before: both must give what the readers without a memory give. A changed frame whose
signature is found right must be right for the Python twin, too. (2) hypothesis feeds structured and
arbitrary bytes through the entries that Python sees. Not shown: reads before the start of a buffer;
the asan build profile sees those.
"""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import wire_frames
from support.volume import seeds, volume
from support.wire_frames import BINARY, JSON, MALFORMED, MISSING_FIELD, OK, TOO_LARGE

from cext.testing import wire_probe
from cext.testing.frame_probe import frame_found, header_parsed
from cext.testing.message_probe import code_of_tag, properties_scanned
from cext.testing.request_probe import batch_messages, pull_request, send_request, tag_subscription
from cext.testing.text_probe import text_copied
from rmq.errors import ProtocolError
from rmq.format.remoting import decode
from rmq.format.signature import Credentials, is_right, sign

PASSWORD = "secret"
ALICE = Credentials("alice", PASSWORD)
SEND = {**wire_frames.SEND_V2_FIELDS, "i": "TAGS\x01a\x02"}


def signed(
    fields: dict[str, str], body: bytes = b"", kind: int = JSON, by: Credentials = ALICE
) -> bytes:
    """The frame of a signed send, or of a signed pull if there is no body."""
    proved, code = by.sign(fields, body), 310 if body else 11
    made = wire_frames.json_header(code, dict(proved)) if kind == JSON else b""
    return wire_frames.frame(made or wire_frames.binary_header(code, proved), body, kind)


FRAMES = [
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
    signed(SEND, b"body"),
    signed(SEND, b"body", BINARY),
    signed(SEND, b"long" * 1200),  # a body so long that it is not laid behind the values
    signed(wire_frames.PULL_FIELDS),
    signed(wire_frames.PULL_FIELDS, kind=BINARY),
    signed({"z": "1", "a": "\u00fc\\", "Zz": "", "b": "t"}, b"not in order"),
    signed(SEND, b"a token", by=Credentials("alice", PASSWORD, "token")),
    wire_frames.frame(  # and of a client that sends the token unsigned
        wire_frames.json_header(310, {**ALICE.sign(SEND, b"x"), "SecurityToken": "token"}), b"x"
    ),
    signed({"b": "t", "_UNIQUE_KEY_QUERY": "true"}, b"x"),
    signed(SEND, b"body", by=Credentials("alice", "another")),
    signed({f"key{i}": "x" for i in range(70)}, b"too many"),
    wire_frames.frame(  # one field comes twice, and one is null
        b'{"code":310,"extFields":{"b":"u","a":null,"b":"t","n":5,"Signature":"%s"},"opaque":7}'
        % sign({"b": "t", "n": "5"}, b"x", PASSWORD).encode(), b"x",
    ),
]  # fmt: skip
ROUNDS = volume(500_000, 5_000_000)
KEPT_MAX = 2_000  # frames that the twin judges


@pytest.mark.parametrize("seed", seeds(2))
def test_mutated_frames_stay_inside_and_are_signed_only_where_they_still_are(seed: int) -> None:
    kept: list[bytes] = []
    # With few bits set, the generator needs many steps to set more.
    start = (seed + 1) * 0x9E3779B97F4A7C15 % 2**64
    ended = wire_probe.fuzz(FRAMES, start, ROUNDS, PASSWORD.encode(), kept)
    assert ended["violations"] == 0
    judged = 0
    for frame in kept[:: len(kept) // KEPT_MAX + 1]:
        # Such as a frame without a code, at which control closes the connection.
        with contextlib.suppress(ProtocolError):
            command = decode(frame[4 : int.from_bytes(frame[:4], "big") + 4])
            assert is_right(command.fields, command.body, PASSWORD), frame
            judged += 1
    # The mutations must be neither too mild nor too rough: each result must occur.
    for reached in ("parsed", "malformed", "too_large", "sends", "pulls", "batches", "signed",
                    "unsigned", "by_shape"):  # fmt: skip
        assert ended[reached] > ROUNDS // 50, ended
    assert judged > 500


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
