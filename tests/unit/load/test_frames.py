"""Templates give, byte for byte, the frames a Java client sends.

Goal: what the load generator sends is what brokers get in production. Method: the expected
headers below were captured from rocketmq-client 5.5.0 against a recording socket; the parts that
vary from send to send (opaque, born timestamp, unique id) are masked. What this cannot show:
other client versions.
"""

import re
import struct

import pytest

from cext.load.signer import Signer
from cext.load.template import FrameSet
from rmq.format import remoting
from rmq.format.signature import Credentials, is_right
from rmq.load.frames import Queue, SendShape, pop_frames, pull_frames, send_frames

JAVA_SEND = (
    r'{"code":310,"extFields":{"a":"bench-producer","b":"bench","c":"TBW102","d":"4","e":"3",'
    r'"f":"0","g":"1795262840120","h":"0","i":"UNIQ_KEY\u00017F0000011F9B30946E09699915380000\u0002'
    r'WAIT\u0001true\u0002TAGS\u0001TagA\u0002","j":"0","k":"false","m":"false","n":"broker-a"},'
    r'"flag":0,"language":"JAVA","opaque":4,"serializeTypeCurrentRPC":"JSON","version":513}'
)
JAVA_BATCH = (
    r'{"code":320,"extFields":{"a":"bench-producer","b":"bench","c":"TBW102","d":"4","e":"5",'
    r'"f":"0","g":"1795262840146","h":"0","i":"UNIQ_KEY\u00017F0000011F9B30946E09699915520004\u0002'
    r'WAIT\u0001true\u0002","j":"0","k":"false","m":"true","n":"broker-a"},'
    r'"flag":0,"language":"JAVA","opaque":11,"serializeTypeCurrentRPC":"JSON","version":513}'
)
JAVA_PULL = (
    r'{"code":11,"extFields":{"queueId":"3","commitOffset":"0","subscription":"*",'
    r'"suspendTimeoutMillis":"20000","bname":"broker-a","sysFlag":"6","expressionType":"TAG",'
    r'"ReqT":"0","topic":"bench","consumerGroup":"bench-consumer","maxMsgNums":"32",'
    r'"queueOffset":"1234567","subVersion":"0","maxMsgBytes":"2147483647"},"flag":0,'
    r'"language":"JAVA","opaque":20,"serializeTypeCurrentRPC":"JSON","version":513}'
)
JAVA_SEND_BINARY = (
    b"\x016\x00\x02\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xd6"
    b"\x00\x01a\x00\x00\x00\x0ebench-producer\x00\x01b\x00\x00\x00\x05bench"
    b"\x00\x01c\x00\x00\x00\x06TBW102"
    b"\x00\x01d\x00\x00\x00\x014\x00\x01e\x00\x00\x00\x017\x00\x01f\x00\x00\x00\x010"
    b"\x00\x01g\x00\x00\x00\r1795262886778\x00\x01h\x00\x00\x00\x010"
    b"\x00\x01i\x00\x00\x00\x3eUNIQ_KEY\x017F0000011F9B30946E09699915380000"
    b"\x02WAIT\x01true\x02TAGS\x01TagA\x02"
    b"\x00\x01j\x00\x00\x00\x010\x00\x01k\x00\x00\x00\x05false\x00\x01m\x00\x00\x00\x05false"
    b"\x00\x01n\x00\x00\x00\x08broker-a"
)
JAVA_PULL_BINARY = (
    b"\x00\x0b\x00\x02\x01\x00\x00\x00\x11\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x1d"
    b"\x00\rconsumerGroup\x00\x00\x00\x0ebench-consumer\x00\x05topic\x00\x00\x00\x05bench"
    b"\x00\x07queueId\x00\x00\x00\x013\x00\x0bqueueOffset\x00\x00\x00\x071234567"
    b"\x00\nmaxMsgNums\x00\x00\x00\x0232\x00\x07sysFlag\x00\x00\x00\x016"
    b"\x00\x0ccommitOffset\x00\x00\x00\x010\x00\x14suspendTimeoutMillis\x00\x00\x00\x0520000"
    b"\x00\x0csubscription\x00\x00\x00\x01*\x00\nsubVersion\x00\x00\x00\x010"
    b"\x00\x0eexpressionType\x00\x00\x00\x03TAG\x00\x0bmaxMsgBytes\x00\x00\x00\n2147483647"
    b"\x00\x05bname\x00\x00\x00\x08broker-a\x00\x04ReqT\x00\x00\x00\x010"
)


def masked(header: bytes) -> bytes:
    """The header with opaque, born timestamp and unique id blanked."""
    header = re.sub(rb'"opaque":\d+', b'"opaque":N', header)
    header = re.sub(rb"179\d{10}|1[6-9]\d{11}|2\d{12}", b"T", header)
    return re.sub(rb"7F000001[0-9A-F]{24}", b"U", header)


def header_of(frame: bytes) -> bytes:
    length, word = struct.unpack_from(">iI", frame)
    assert length == len(frame) - 4
    return frame[8 : 8 + (word & 0xFFFFFF)]


def test_json_send_is_what_java_sends():
    frames = send_frames([Queue("bench", 3)], SendShape(10, tags="TagA"))
    header = header_of(frames.render_one(0, 12_345_678, 1))
    assert masked(header) == masked(JAVA_SEND.encode())


def test_json_batch_is_what_java_sends():
    frames = send_frames([Queue("bench", 5)], SendShape(10, batch=2))
    header = header_of(frames.render_one(0, 12_345_678, 1))
    assert masked(header) == masked(JAVA_BATCH.encode())


def test_json_pull_is_what_java_sends():
    frames = pull_frames([Queue("bench", 3)], suspend_ms=20_000)
    header = header_of(frames.render_one(0, 12_345_678, 0, 1_234_567))
    assert masked(header) == masked(JAVA_PULL.encode())


def test_binary_send_is_what_java_sends():
    frames = send_frames([Queue("bench", 7)], SendShape(10, tags="TagA", binary=True))
    header = header_of(frames.render_one(0, 12_345_678, 1))
    assert header[:5] == JAVA_SEND_BINARY[:5] and header[5:9] == struct.pack(">i", 12_345_678)
    assert masked(header[9:]) == masked(JAVA_SEND_BINARY[9:])


def test_binary_pull_is_what_java_sends():
    frames = pull_frames([Queue("bench", 3)], suspend_ms=20_000, binary=True)
    header = header_of(frames.render_one(0, 12_345_678, 0, 1_234_567))
    assert header[:5] == JAVA_PULL_BINARY[:5] and header[9:] == JAVA_PULL_BINARY[9:]


@pytest.mark.parametrize("binary", [False, True])
def test_unique_ids_follow_the_counter_in_header_and_batch_body(binary):
    single = send_frames([Queue("t", 0)], SendShape(32, binary=binary))
    first = remoting.decode(single.render_one(0, 10_000_000, 0xABC)[4:])
    assert first.opaque == 10_000_000
    assert first.fields["i"].split("\x02")[0].endswith("000000000ABC")
    batch = send_frames([Queue("t", 0)], SendShape(32, batch=3, binary=binary))
    body = remoting.decode(batch.render_one(0, 99_999_999, 0xFF)[4:]).body
    assert re.findall(rb"UNIQ_KEY\x01.{20}(.{12})", body, re.DOTALL) == [
        b"0000000000FF", b"000000000100", b"000000000101",
    ]  # fmt: skip


def test_a_batch_body_is_a_row_of_whole_messages():
    command = remoting.decode(
        send_frames([Queue("t", 0)], SendShape(100, tags="a", batch=5)).render_one(
            0, 10_000_000, 0
        )[4:]
    )
    at, count = 0, 0
    while at < len(command.body):
        size, magic, crc, flag, length = struct.unpack_from(">iiiii", command.body, at)
        assert (magic, crc, flag, length) == (0, 0, 0, 100)
        (property_bytes,) = struct.unpack_from(">h", command.body, at + 20 + length)
        assert size == 22 + length + property_bytes
        at += size
        count += 1
    assert (at, count, command.fields["m"]) == (len(command.body), 5, "true")


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("offset", [0, 9, 10, 123_456_789_012])
def test_a_pull_offset_of_any_length_keeps_the_frame_well_formed(binary, offset):
    frames = pull_frames([Queue("a", 0), Queue("b", 7)], binary=binary)
    frame = frames.render_one(1, 55_555_555, 0, offset)
    command = remoting.decode(frame[4:])
    assert len(frame) == int.from_bytes(frame[:4], "big") + 4
    assert (command.opaque, command.fields["topic"]) == (55_555_555, "b")
    assert command.fields["queueOffset"] == str(offset) and command.fields["queueId"] == "7"


def test_a_pull_has_the_group_that_is_given_for_it():
    frames = pull_frames([Queue("a", 0), Queue("a", 0), Queue("b", 7)], ["x", "y", "x"])
    found = [remoting.decode(frames.render_one(at, 10_000_000, 0)[4:]) for at in range(3)]
    assert [(each.fields["topic"], each.fields["consumerGroup"]) for each in found] == [
        ("a", "x"), ("a", "y"), ("b", "x"),
    ]  # fmt: skip
    with pytest.raises(ValueError):
        pull_frames([Queue("a", 0)], ["x", "y"])


@pytest.mark.parametrize(
    ("frame", "unique"),
    [
        ((b"x" * 20, 0, 17, 0, ()), []),  # the opaque lies beyond the header
        ((b"x" * 40, 0, 10, 39, ()), []),  # the unique id lies beyond the header
        ((b"x" * 40, 41, 10, 0, ()), []),  # the number lies beyond the header
        ((b"x" * 40, 20, 10, 0, (18,)), []),  # the length field comes after the number
        ((b"x" * 40, 0, 10, 0, ()), [1]),  # the unique id lies beyond the body
        ((b"x" * 8, 0, 8, 0, ()), []),  # no header
    ],
)
def test_a_template_that_would_write_out_of_bounds_is_refused(frame, unique):
    with pytest.raises(ValueError):
        FrameSet([frame], b"body", unique)


ALICE = Credentials("alice", "wonderland")


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("binary", [False, True])
def test_a_signed_send_is_right(binary: bool, batch: int) -> None:
    shape = SendShape(32, tags="TagA", binary=binary, batch=batch, credentials=ALICE)
    frames = send_frames([Queue("t", 0), Queue("t", 1)], shape)
    for unique in (0, 0xABC):
        command = remoting.decode(frames.render_one(1, 55_555_555, unique)[4:])
        assert command.fields["AccessKey"] == "alice"
        assert is_right(command.fields, command.body, ALICE.secret_key)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("offset", [0, 9, 10, 123_456_789_012])
def test_a_signed_pull_is_signed_with_its_offset(binary: bool, offset: int) -> None:
    frames = pull_frames([Queue("a", 0), Queue("b", 7)], binary=binary, credentials=ALICE)
    command = remoting.decode(frames.render_one(1, 55_555_555, 0, offset)[4:])
    assert (command.fields["topic"], command.fields["queueOffset"]) == ("b", str(offset))
    assert is_right(command.fields, command.body, ALICE.secret_key)
    assert not is_right(command.fields, command.body, "another")


@pytest.mark.parametrize("born_ms", [0, 1_795_262_840_120])
def test_a_signed_pop_is_signed_with_its_time(born_ms: int) -> None:
    frames = pop_frames(["a", "b"], credentials=ALICE)
    command = remoting.decode(frames.render_one(1, 55_555_555, 0, born_ms)[4:])
    assert (command.fields["topic"], command.fields["bornTime"]) == ("b", str(born_ms))
    assert is_right(command.fields, command.body, ALICE.secret_key)


@pytest.mark.parametrize(
    "signed",
    [
        [],  # for no frame
        [(b"content", 8, 20)],  # the number lies beyond the content
        [(b"content", 0, 29)],  # the signature lies beyond the header
        [(b"content", 0, 7)],  # the signature lies in the length
        [(bytes(140_000), 0, 20)],  # too long
    ],
)
def test_a_signature_that_would_lie_out_of_bounds_is_refused(
    signed: list[tuple[bytes, int, int]],
) -> None:
    frames = [(b"x" * 56, 20, 10, 0, ())]
    FrameSet(frames, b"", [], signer=Signer(b"a", b"b"), signed=[(b"content", 7, 28)])
    with pytest.raises(ValueError):
        FrameSet(frames, b"", [], signer=Signer(b"a", b"b"), signed=signed)


@pytest.mark.parametrize(
    ("frame", "at"),
    [
        ((b"x" * 56, 0, 10, 0, ()), 28),  # without a number: signed once, in advance
        ((b"x" * 56, 20, 10, 30, ()), 28),  # with a unique id, which would change
        ((b"x" * 20, 12, 8, 0, ()), 8),  # too short for a signature
        ((b"x" * 56, 20, 10, 0, ()), 12),  # the number lies within the signature
    ],
)
def test_what_cannot_be_signed_anew_is_refused(
    frame: tuple[bytes, int, int, int, tuple[int, ...]], at: int
) -> None:
    with pytest.raises(ValueError):
        FrameSet([frame], b"", [], signer=Signer(b"a", b"b"), signed=[(b"content", 7, at)])
