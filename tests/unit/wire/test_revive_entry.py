"""Goal: the JSON of the revive log is read in any order and spelling, and written as Apache does.

Method: rmq's JSON library is the other reader; JSON that is broken anywhere must not be believed.
"""

import json
from base64 import b64encode

import pytest

from cext.testing.message_probe import revive_acks, revive_bits, revive_read, revive_write

MALFORMED, TOO_LARGE = -10, -9
POINT = {
    "bm": 5, "bn": "broker-a", "c": "g", "d": [0, 1, 3], "it": 60000, "n": 3,
    "pt": 1700000000000, "q": 2, "ro": 0, "so": 100, "t": "T",
}  # fmt: skip


def parts(**changed: object) -> dict[str, object]:
    entry = {
        "topic": "T", "group": "g", "broker_name": "broker-a", "retry": None, "bits": None,
        "start_offset": 100, "ack_offset": -1, "pop_ms": 1700000000000, "invisible_ms": 60000,
        "queue_id": 2, "revive_queue": -1, "count": 3, "done": 5, "tries": 0, "list": [0, 1, 3],
    }  # fmt: skip
    return entry | changed


def test_a_check_point_is_read_in_any_order_and_with_members_of_newer_ones() -> None:
    assert revive_read(json.dumps(POINT).encode()) == parts()
    turned = dict(reversed(POINT.items())) | {"new": [1, 2], "more": True, "none": None, "rp": "3"}
    assert revive_read(json.dumps(turned, indent=2).encode()) == parts(tries=3)
    assert revive_read(json.dumps(POINT | {"t": '\u00fc"T'}).encode()) == parts(topic='\u00fc"T')


@pytest.mark.parametrize("kind", ["ck", "ack"])
@pytest.mark.parametrize("offsets", [[], [4], list(range(32))])
def test_what_is_written_is_what_others_read(kind: str, offsets: list[int]) -> None:
    names = {"topic": b"%RETRY%g_t", "group": "gr\u00fcn".encode(), "broker_name": b'a"b\\'}
    numbers = {"start_offset": 2**59, "pop_ms": 1, "invisible_ms": 2, "queue_id": 65535}
    text = revive_write(kind, **names, **numbers, offsets=offsets, ack_offset=7)
    told = json.loads(text)
    assert (told["t"], told["c"], told["bn"]) == ("%RETRY%g_t", "gr\u00fcn", 'a"b\\')
    assert (told["so"], told["pt"], told["q"]) == (2**59, 1, 65535)
    assert told.get("d" if kind == "ck" else "aol", []) == offsets
    again = revive_read(text)
    assert isinstance(again, dict)
    assert (again["list"], again["broker_name"]) == (offsets, 'a"b\\')


def test_names_that_are_too_long_stay_within_the_buffer() -> None:
    long = b"\x01" * 3000
    text = revive_write("ck", topic=long, group=long, broker_name=long, start_offset=2**59,
                 pop_ms=2**59, invisible_ms=2**59, queue_id=2**31 - 1,
                 offsets=[-(2**63)] * 64)  # fmt: skip
    assert len(text) <= 6400
    assert len(json.loads(text)["t"]) == 255


def test_no_beginning_of_an_entry_is_taken_for_one() -> None:
    whole = json.dumps(POINT).encode()
    for end in range(len(whole)):
        assert revive_read(whole[:end]) == MALFORMED
    for wrong in (
        b"[]", b'{"so":-1}', b'{"so":1152921504606846976}', b'{"pt":99999999999999999999}',
        b'{"d":[1,"2"]}', b'{"d":[[1]]}', b'{"d":{}}', b'{"a" 1}', b'{"a":1,}', b'{"rp":"x"}',
    ):  # fmt: skip
        assert revive_read(wrong) == MALFORMED, wrong
    assert revive_read(json.dumps({"d": list(range(65))}).encode()) == TOO_LARGE


def test_the_acks_of_a_batch_come_one_by_one() -> None:
    row = {"c": "g", "t": "T", "r": "1", "so": 100, "q": 2, "rq": 3, "pt": 5, "it": 6, "b": "Bg=="}
    body = json.dumps({"brokerName": "b", "acks": [row, row | {"so": 200}]}).encode()
    found = revive_acks(body)
    assert isinstance(found, list)
    assert [(one["start_offset"], one["retry"], one["bits"]) for one in found] == [
        (100, "1", "Bg=="), (200, "1", "Bg=="),
    ]  # fmt: skip
    for empty in (b"{}", b'{"acks":[]}', b'{"brokerName":"b"}'):
        assert revive_acks(empty) == []
    for wrong in (b"", b"[]", b'{"acks":[', b'{"acks":[{}', b'{"acks":[{} {}]}', b'{"acks":[1]}'):
        assert revive_acks(wrong) == MALFORMED, wrong


def test_bits_are_those_of_javas_bit_set() -> None:
    for numbers in ([], [0], [1, 2], [0, 7, 8, 63], list(range(200))):
        plain = sum(1 << number for number in numbers).to_bytes(25, "little").rstrip(b"\0")
        assert revive_bits(b64encode(plain)) == numbers
    assert revive_bits(b"Bg\\/w==") != MALFORMED
    far = [0, 3071, 3072, 16_415]  # as far as the scan of a filtered pop goes
    plain = sum(1 << number for number in far).to_bytes(2052, "little")
    assert revive_bits(b64encode(plain).replace(b"/", b"\\/")) == far
    for wrong in (b"B g=", b"\xff\xff", b"A" * 4097):
        assert revive_bits(wrong) == MALFORMED
