"""Goal: both spellings give the same request, and a refusal names a bad field in its sender's
spelling."""

import pytest
from support.wire_frames import (
    BINARY,
    GO_SEND,
    JAVA_SEND_V2,
    JSON,
    LONG_NAMES,
    MALFORMED,
    MISSING_FIELD,
    OK,
    SEND_V2_FIELDS,
    binary_header,
    json_header,
)

from cext.testing.request_probe import send_request

OPTIONAL = {"i": "K\x01v", "j": "2", "k": "true", "l": "5", "m": "TRUE", "n": "broker-a"}


def spellings(fields: dict[str, str]) -> list[tuple[bytes, int]]:
    """The same fields as V2 and as V1, each in JSON and in binary."""
    long = {LONG_NAMES[letter]: value for letter, value in fields.items() if letter in LONG_NAMES}
    return [
        (json_header(310, dict(fields)), JSON),
        (json_header(10, dict(long)), JSON),
        (binary_header(320, fields), BINARY),
        (binary_header(324, long), BINARY),
        (json_header(325, dict(reversed(fields.items()))), JSON),
    ]


def test_required_fields_alone_are_enough() -> None:
    for header, serialize_type in spellings(SEND_V2_FIELDS):
        assert send_request(header, serialize_type) == {
            "status": OK, "producer_group": b"pg", "topic": b"Orders", "default_topic": b"TBW102",
            "properties": None, "born_timestamp_ms": 1700000000123, "default_topic_queue_nums": 4,
            "queue_id": 0, "sys_flag": 0, "flag": 0, "reconsume_times": 0,
            "max_reconsume_times": None, "unit_mode": False, "batch": False,
        }  # fmt: skip


def test_optional_fields_are_read() -> None:
    for header, serialize_type in spellings(SEND_V2_FIELDS | OPTIONAL):
        request = send_request(header, serialize_type)
        assert request["properties"] in (b"K\x01v", b"K\\u0001v")
        assert (request["reconsume_times"], request["max_reconsume_times"]) == (2, 5)
        assert (request["unit_mode"], request["batch"]) == (True, True)


def test_requests_of_the_official_clients_are_read() -> None:
    java = send_request(JAVA_SEND_V2, JSON)
    assert (java["status"], java["topic"], java["queue_id"]) == (OK, b"Orders", 2)
    go = send_request(GO_SEND, JSON)
    assert (go["status"], go["topic"], go["max_reconsume_times"]) == (OK, b"Orders", 16)


@pytest.mark.parametrize("letter", "abcdefgh")
def test_a_missing_or_null_required_field_is_named(letter: str) -> None:
    fields = {key: value for key, value in SEND_V2_FIELDS.items() if key != letter}
    for header, serialize_type in spellings(fields):
        name = LONG_NAMES[letter] if b'"code":10' in header or header[:2] == b"\x01\x44" else letter
        assert send_request(header, serialize_type) == {"status": MISSING_FIELD, "bad_field": name}
    null = json_header(310, {**SEND_V2_FIELDS, letter: None})
    assert send_request(null, JSON) == {"status": MISSING_FIELD, "bad_field": letter}


@pytest.mark.parametrize("letter", "defghjl")
@pytest.mark.parametrize("value", ["x", "", "1.0", "9223372036854775808", " 1"])
def test_a_field_that_is_no_number_is_named(letter: str, value: str) -> None:
    fields = SEND_V2_FIELDS | OPTIONAL | {letter: value}
    assert send_request(json_header(310, dict(fields)), JSON) == {
        "status": MALFORMED,
        "bad_field": letter,
    }
    long = {LONG_NAMES[key]: text for key, text in fields.items() if key in LONG_NAMES}
    answer = send_request(json_header(10, dict(long)), JSON)
    assert answer == {"status": MALFORMED, "bad_field": LONG_NAMES[letter]}


def test_only_the_born_timestamp_has_64_bits() -> None:
    for letter in "defhjl":
        fields = SEND_V2_FIELDS | {letter: "2147483648"}
        assert send_request(json_header(310, dict(fields)), JSON)["bad_field"] == letter
    fields = SEND_V2_FIELDS | {"g": str(2**63 - 1)}
    assert send_request(json_header(310, dict(fields)), JSON)["born_timestamp_ms"] == 2**63 - 1


def test_the_later_of_two_equal_fields_counts() -> None:
    for code, name in ((310, b"e"), (10, b"queueId")):
        names = LONG_NAMES if code == 10 else {letter: letter for letter in SEND_V2_FIELDS}
        header = json_header(code, {names[key]: text for key, text in SEND_V2_FIELDS.items()})
        doubled = header.replace(b'"extFields":{', b'"extFields":{"%s":"7",' % name)
        assert send_request(doubled, JSON)["queue_id"] == 0
        assert send_request(header.replace(b"}}", b',"%s":"7"}}' % name), JSON)["queue_id"] == 7
