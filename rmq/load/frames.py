"""Frames: templates of sends, batches, pulls and pops, spelled as the Java client 5.5 does.

A JSON header is one object with its members in alphabetical order. The fields of a send are the
single letters a..n of V2 (c = TBW102, i = the property string with its control characters escaped
as \\u0001 and \\u0002); those of a pull are in the order of Java's hash map. A binary header
has the fields in declaration order. tests/unit/load/test_frames.py compares all templates with
frames captured from a client.

A template differs from a captured frame in one thing: a JSON opaque always has eight digits, so
that it can be patched in place. The last twelve of the 32 hex digits of each UNIQ_KEY vary, unless
the send is signed: the signature covers them, and is made only once. Pulls and pops are signed when
they are rendered.

    {"code":310,"extFields":{"a":"bench-producer","b":"bench",...,"n":"broker-a"},"flag":0,
     "language":"JAVA","opaque":10000000,"serializeTypeCurrentRPC":"JSON","version":513}
"""

import json
import os
import struct
import time
from collections.abc import Sequence

import msgspec

from cext.load.signer import Signer
from cext.load.template import OPAQUE_FIRST, FrameSet
from rmq.codes import FLAG_SUBSCRIPTION, FLAG_SUSPEND, RequestCode
from rmq.format.signature import SIGNATURE, Credentials, signed_bytes
from rmq.names import AUTO_CREATE_TOPIC

JAVA_VERSION = 513  # V5_5_0
UNIQUE_FIXED = f"7F000001{os.getpid() & 0xFFFF:04X}5D30946E"
UNIQUE_ZERO = "0" * 12
_BINARY_HEAD = struct.Struct(">hBhiii")  # code, language, version, opaque, flag, remark length

FrameTuple = tuple[bytes, int, int, int, tuple[int, ...]]
SignedTuple = tuple[bytes, int, int]


class Queue(msgspec.Struct, frozen=True):
    """The queue to which a template sends, or from which it pulls."""

    topic: str
    queue_id: int
    broker_name: str = "broker-a"


class SendShape(msgspec.Struct, frozen=True):
    """The form of a send, without its queue."""

    body_bytes: int = 256  # of a body of text
    tags: str | None = None
    binary: bool = False
    batch: int = 1
    producer_group: str = "bench-producer"
    keys: tuple[str, ...] = ()  # there is a template for each: a message has one of them as KEYS
    more: str = ""  # further properties in stored form, such as "DELAY\x011\x02"
    sys_flag: int = 0
    credentials: Credentials | None = None  # sign the send; the UNIQ_KEY does not vary then
    payload: bytes | None = None  # the body, instead of text

    @property
    def body(self) -> bytes:
        return body_pattern(self.body_bytes) if self.payload is None else self.payload


def properties(tags: str | None, key: str = "", more: str = "") -> tuple[str, int]:
    """The property string of one message, and where the varying part of its UNIQ_KEY starts."""
    text = f"UNIQ_KEY\x01{UNIQUE_FIXED}{UNIQUE_ZERO}\x02WAIT\x01true\x02"
    if key:
        text += f"KEYS\x01{key}\x02"
    if tags:
        text += f"TAGS\x01{tags}\x02"
    text += more
    return text, len("UNIQ_KEY\x01") + len(UNIQUE_FIXED)


def body_pattern(length: int) -> bytes:
    """A message body: readable, without long runs of one byte."""
    line = b"the quick brown fox jumps over the lazy dog 0123456789 "
    return (line * (length // len(line) + 1))[:length]


def batch_body(shape: SendShape) -> tuple[bytes, list[int]]:
    """The body of a batch send, and where each message's UNIQ_KEY varies (docs/protocol.md)."""
    text, unique_at = properties(shape.tags, more=shape.more)
    property_bytes = text.encode()
    body = shape.body
    size = 22 + len(body) + len(property_bytes)
    one = struct.pack(">iiiii", size, 0, 0, 0, len(body)) + body
    one += struct.pack(">h", len(property_bytes)) + property_bytes
    inside = 22 + len(body) + unique_at
    return one * shape.batch, [i * size + inside for i in range(shape.batch)]


def send_frames(queues: list[Queue], shape: SendShape) -> FrameSet:
    """One template per queue (or per key, over the queues in turn), all with the same body."""
    if shape.batch < 1 or shape.body_bytes < 0:
        raise ValueError(f"batch {shape.batch}, body of {shape.body_bytes} bytes")
    if shape.batch > 1:
        body, unique_at = batch_body(shape)
    else:
        body, unique_at = shape.body, []
    frames = [
        _send_frame(queues[at % len(queues)], shape, body, key)
        for at, key in enumerate(shape.keys or ("",) * len(queues))
    ]
    if shape.credentials is not None:
        unique_at = []
    return FrameSet(frames, body, unique_at, shape.binary, shape.batch)


def pull_frames(
    queues: list[Queue],
    group: str | Sequence[str] = "bench-consumer",
    batch: int = 32,
    suspend_ms: int = 15_000,
    binary: bool = False,
    tags: str = "*",
    credentials: Credentials | None = None,
) -> FrameSet:
    """One pull template per queue, by one group or by one group for each queue. When a frame is
    rendered, the queue offset is inserted and the frame is signed."""
    groups = [group] * len(queues) if isinstance(group, str) else group
    made = [
        _pull_frame(queue, each, batch, suspend_ms, binary, tags, credentials)
        for queue, each in zip(queues, groups, strict=True)
    ]
    return _signed_set(made, binary, batch, credentials)


def pop_frames(
    topics: list[str],
    group: str = "bench-popper",
    batch: int = 32,
    invisible_ms: int = 60_000,
    credentials: Credentials | None = None,
) -> FrameSet:
    """One template per topic: a pop of any of its queues, which does not wait. The current time is
    inserted when a frame is rendered, because a broker ignores a pop that is too old."""
    made = []
    for topic in topics:
        fields = {
            "consumerGroup": group, "topic": topic, "queueId": "-1", "maxMsgNums": str(batch),
            "invisibleTime": str(invisible_ms), "pollTime": "0",
            "bornTime": "", "initMode": "0", "exp": "*", "expType": "TAG", "order": "false",
        }  # fmt: skip
        if credentials is not None:
            fields = credentials.sign(fields)
        header = _json_header(RequestCode.POP_MESSAGE, fields)
        split = header.index(b'"bornTime":"') + len('"bornTime":"')
        frame = _finish(header, split, _opaque_at(header), 0, (), 0, False)
        made.append((frame, _signed(header, fields, "bornTime")))
    return _signed_set(made, False, batch, credentials)


def _signer(credentials: Credentials) -> Signer:
    if credentials.security_token is not None:
        raise ValueError("a load is not signed with a security token")
    return Signer(credentials.access_key.encode(), credentials.secret_key.encode())


def ack_names(group: str, topic: str) -> bytes:
    """The part that all rows of batch acks of the topic share (cext/load/popper.pxd)."""
    return f'"c":{json.dumps(group)},"t":{json.dumps(topic)},'.encode()


def _send_frame(queue: Queue, shape: SendShape, body: bytes, key: str = "") -> FrameTuple:
    text, unique_at = (
        properties(None) if shape.batch > 1 else properties(shape.tags, key, shape.more)
    )
    fields = {
        "a": shape.producer_group,
        "b": queue.topic,
        "c": AUTO_CREATE_TOPIC,
        "d": "4",
        "e": str(queue.queue_id),
        "f": str(shape.sys_flag),
        "g": str(time.time_ns() // 1_000_000),
        "h": "0",
        "i": text,
        "j": "0",
        "k": "false",
        "m": "true" if shape.batch > 1 else "false",
        "n": queue.broker_name,
    }
    if shape.credentials is not None:
        fields = dict(sorted(shape.credentials.sign(fields, body).items()))
    code = RequestCode.SEND_BATCH_MESSAGE if shape.batch > 1 else RequestCode.SEND_MESSAGE_V2
    if shape.binary:
        header = _binary_header(code, fields)
        varying = 0 if shape.credentials is not None else header.index(text.encode()) + unique_at
        return _finish(header, 0, 3 + 2, varying, (), len(body), True)
    header = _json_header(code, fields)
    if shape.credentials is not None:
        return _finish(header, 0, _opaque_at(header), 0, (), len(body), False)
    # The escaped \x01 takes six characters instead of one.
    value_at = header.index(b'"UNIQ_KEY') + 1 if b'"UNIQ_KEY' in header else 0
    return _finish(header, 0, _opaque_at(header), value_at + unique_at + 5, (), len(body), False)


def _signed(header: bytes, fields: dict[str, str], varying: str) -> SignedTuple | None:
    """The signed bytes of a header in which the value of `varying` is empty, where that value goes,
    and where the signature is in the header. None: the header is not signed."""
    if SIGNATURE not in fields:
        return None
    before = signed_bytes({name: text for name, text in fields.items() if name <= varying})
    at = header.index(fields[SIGNATURE].encode()) + 8
    return signed_bytes(fields), len(before), at


def _signed_set(
    made: list[tuple[FrameTuple, SignedTuple | None]],
    binary: bool,
    messages: int,
    credentials: Credentials | None,
) -> FrameSet:
    frames = [frame for frame, _ in made]
    if credentials is None:
        return FrameSet(frames, b"", [], binary, messages)
    signed = [each for _, each in made if each is not None]
    return FrameSet(frames, b"", [], binary, messages, _signer(credentials), signed)


def _pull_frame(
    queue: Queue,
    group: str,
    batch: int,
    suspend_ms: int,
    binary: bool,
    tags: str,
    credentials: Credentials | None,
) -> tuple[FrameTuple, SignedTuple | None]:
    flags = FLAG_SUBSCRIPTION | (FLAG_SUSPEND if suspend_ms > 0 else 0)
    values = {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "queueOffset": "",
        "maxMsgNums": str(batch),
        "sysFlag": str(flags),
        "commitOffset": "0",
        "suspendTimeoutMillis": str(suspend_ms),
        "subscription": tags,
        "subVersion": "0",
        "expressionType": "TAG",
        "maxMsgBytes": "2147483647",
        "bname": queue.broker_name,
        "ReqT": "0",
    }
    if credentials is not None:
        values = credentials.sign(values)
    if binary:
        header = _binary_header(RequestCode.PULL_MESSAGE, values)
        split = header.index(b"queueOffset") + len("queueOffset") + 4
        frame = _finish(header, split, 3 + 2, 0, (17, split - 4), 0, True)
        return frame, _signed(header, values, "queueOffset")
    hash_order = (
        "queueId", "commitOffset", "subscription", "suspendTimeoutMillis", "bname", "sysFlag",
        "expressionType", "ReqT", "topic", "consumerGroup", "maxMsgNums", "queueOffset",
        "subVersion", "maxMsgBytes",
    )  # fmt: skip
    ordered = {**{name: values[name] for name in hash_order}, **values}
    header = _json_header(RequestCode.PULL_MESSAGE, ordered)
    split = header.index(b'"queueOffset":"') + len('"queueOffset":"')
    frame = _finish(header, split, _opaque_at(header), 0, (), 0, False)
    return frame, _signed(header, ordered, "queueOffset")


def _json_header(code: int, fields: dict[str, str]) -> bytes:
    header = {
        "code": code,
        "extFields": fields,
        "flag": 0,
        "language": "JAVA",
        "opaque": OPAQUE_FIRST,
        "serializeTypeCurrentRPC": "JSON",
        "version": JAVA_VERSION,
    }
    return json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()


def _opaque_at(header: bytes) -> int:
    return header.rindex(b'"opaque":') + len('"opaque":')


def _binary_header(code: int, fields: dict[str, str]) -> bytes:
    parts = []
    for name, value in fields.items():
        key, text = name.encode(), value.encode()
        parts.append(struct.pack(">h", len(key)) + key + struct.pack(">i", len(text)) + text)
    joined = b"".join(parts)
    head = _BINARY_HEAD.pack(code, 0, JAVA_VERSION, OPAQUE_FIRST, 0, 0)
    return head + struct.pack(">i", len(joined)) + joined


def _finish(
    header: bytes,
    split: int,
    opaque_at: int,
    unique_at: int,
    cells: tuple[int, ...],
    body_bytes: int,
    binary: bool,
) -> FrameTuple:
    """Puts the eight bytes of lengths in front. Positions move by eight; a 0, for "none", stays."""
    word = len(header) | (1 << 24 if binary else 0)
    frame = struct.pack(">II", 4 + len(header) + body_bytes, word) + header
    lengths = (0, 4, *(cell + 8 for cell in cells)) if split else ()
    return (
        frame,
        split + 8 if split else 0,
        opaque_at + 8,
        unique_at + 8 if unique_at else 0,
        lengths,
    )
