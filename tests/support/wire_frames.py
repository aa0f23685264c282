"""Wire frames: frames as clients write them, built only with json and struct, for codec tests."""

from __future__ import annotations

import json
import struct

OK = 0
NOT_READY = -1
TOO_LARGE = -9
MALFORMED = -10
MISSING_FIELD = -11

JSON = 0
BINARY = 1
# dumps() with separators makes an encoder for each call, which takes three times as long.
_COMPACT = json.JSONEncoder(separators=(",", ":"))
_SHORT, _INT = struct.Struct(">h"), struct.Struct(">i")
_FIXED, _HEAD = struct.Struct(">hBhiii"), struct.Struct(">II")

# A send (310) as Java's fastjson writes it: separators escaped, keys sorted.
JAVA_SEND_V2 = (
    rb'{"code":310,"extFields":{"a":"orders_producer","b":"Orders","c":"TBW102","d":"4","e":"2",'
    rb'"f":"0","g":"1700000000123","h":"0","i":"UNIQ_KEY\u00017F0000010AAA18B4AAC212345678'
    rb'0000\u0002KEYS\u0001order-17\u0002WAIT\u0001true\u0002TAGS\u0001TagA\u0002","j":"0",'
    rb'"k":"false",'
    rb'"m":"false","n":"broker-a"},"flag":0,"language":"JAVA","opaque":12,'
    rb'"serializeTypeCurrentRPC":"JSON","version":477}'
)
JAVA_SEND_V2_PROPERTIES = (
    b"UNIQ_KEY\x017F0000010AAA18B4AAC2123456780000\x02KEYS\x01order-17\x02WAIT\x01true\x02"
    b"TAGS\x01TagA\x02"
)

# A single send as the Go client writes it: long names, an empty remark.
GO_SEND = (
    rb'{"code":10,"language":"GO","version":317,"opaque":3,"flag":0,"remark":"","extFields":{'
    rb'"batch":"false","bornTimestamp":"1700000000123","defaultTopic":"TBW102",'
    rb'"defaultTopicQueueNums":"4","flag":"0","maxReconsumeTimes":"16","producerGroup":"pg",'
    rb'"properties":"UNIQ_KEY\u0001C0A80102000100000000000000000001\u0002TAGS\u0001a",'
    rb'"queueId":"1",'
    rb'"reconsumeTimes":"0","sysFlag":"0","topic":"Orders","unitMode":"false"}}'
)

JAVA_PULL = (
    rb'{"code":11,"extFields":{"commitOffset":"120","consumerGroup":"orders_consumer",'
    rb'"expressionType":"TAG","maxMsgNums":"32","queueId":"3","queueOffset":"123","subVersion":'
    rb'"1700000000000","subscription":"TagA || TagB","suspendTimeoutMillis":"15000","sysFlag":"7",'
    rb'"topic":"Orders"},"flag":0,"language":"JAVA","opaque":99,"version":477}'
)

SEND_V2_FIELDS = {
    "a": "pg", "b": "Orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000123",
    "h": "0",
}  # fmt: skip
LONG_NAMES = {
    "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums",
    "e": "queueId", "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties",
    "j": "reconsumeTimes", "k": "unitMode", "l": "maxReconsumeTimes", "m": "batch",
}  # fmt: skip
PULL_FIELDS = {
    "consumerGroup": "cg", "topic": "Orders", "queueId": "3", "queueOffset": "123",
    "maxMsgNums": "32", "sysFlag": "2", "commitOffset": "0", "suspendTimeoutMillis": "15000",
    "subVersion": "1700000000000",
}  # fmt: skip


def json_header(code: int, fields: dict[str, object] | None = None, **members: object) -> bytes:
    header: dict[str, object] = {"code": code, "flag": 0, "language": "JAVA", "opaque": 1}
    header.update(members)
    if fields is not None:
        header["extFields"] = fields
    return _COMPACT.encode(header).encode()


def binary_header(
    code: int, fields: dict[str, str], *, opaque: int = 1, flag: int = 0, remark: str = ""
) -> bytes:
    parts: list[bytes] = []
    for name, value in fields.items():
        key, given = name.encode(), value.encode()
        parts += (_SHORT.pack(len(key)), key, _INT.pack(len(given)), given)
    packed = b"".join(parts)
    text = remark.encode()
    fixed = _FIXED.pack(code, 0, 477, opaque, flag, len(text))
    return fixed + text + _INT.pack(len(packed)) + packed


def frame(header: bytes, body: bytes = b"", serialize_type: int = JSON) -> bytes:
    total = 4 + len(header) + len(body)
    return _HEAD.pack(total, serialize_type << 24 | len(header)) + header + body


def batch_body(messages: list[tuple[int, bytes, bytes]]) -> bytes:
    """The body of a batch, packed as clients do. Each message: (flag, body, properties)."""
    return b"".join(
        struct.pack(">iiiii", 22 + len(body) + len(properties), 0, 0, flag, len(body))
        + body + struct.pack(">h", len(properties)) + properties
        for flag, body, properties in messages
    )  # fmt: skip
