"""Goal: the fields of a pull are read in any spelling, and a refusal names the bad field."""

import pytest
from support.wire_frames import (
    BINARY,
    JAVA_PULL,
    JSON,
    MALFORMED,
    MISSING_FIELD,
    OK,
    PULL_FIELDS,
    binary_header,
    json_header,
)

from cext.testing.request_probe import pull_request

NUMBERS_32 = ("queueId", "maxMsgNums", "sysFlag", "maxMsgBytes", "requestSource")
NUMBERS_64 = ("queueOffset", "commitOffset", "suspendTimeoutMillis", "subVersion")


def test_required_fields_alone_are_enough() -> None:
    for header, serialize_type in (
        (json_header(11, dict(PULL_FIELDS)), JSON),
        (binary_header(361, PULL_FIELDS), BINARY),
    ):
        assert pull_request(header, serialize_type) == {
            "status": OK, "consumer_group": b"cg", "topic": b"Orders", "subscription": None,
            "expression_type": None, "proxy_client_id": None, "queue_offset": 123,
            "commit_offset": 0, "suspend_timeout_ms": 15000, "sub_version": 1700000000000,
            "queue_id": 3, "max_messages": 32, "sys_flag": 2, "max_message_bytes": -1,
            "request_source": -1,
        }  # fmt: skip


def test_optional_fields_are_read() -> None:
    fields = PULL_FIELDS | {
        "subscription": "A || B", "expressionType": "TAG", "maxMsgBytes": "1024",
        "requestSource": "2", "proxyFrowardClientId": "proxy", "lo": "true", "ns": "x",
    }  # fmt: skip
    request = pull_request(json_header(11, dict(fields)), JSON)
    assert (request["subscription"], request["expression_type"]) == (b"A || B", b"TAG")
    assert (request["max_message_bytes"], request["request_source"]) == (1024, 2)
    assert request["proxy_client_id"] == b"proxy"


def test_request_of_the_java_client_is_read() -> None:
    request = pull_request(JAVA_PULL, JSON)
    assert (request["status"], request["queue_offset"], request["sys_flag"]) == (OK, 123, 7)
    assert request["subscription"] == b"TagA || TagB"


@pytest.mark.parametrize("name", list(PULL_FIELDS))
def test_a_missing_required_field_is_named(name: str) -> None:
    fields = {key: value for key, value in PULL_FIELDS.items() if key != name}
    assert pull_request(json_header(11, fields), JSON) == {
        "status": MISSING_FIELD,
        "bad_field": name,
    }


@pytest.mark.parametrize("name", NUMBERS_32 + NUMBERS_64)
def test_a_number_out_of_range_is_named(name: str) -> None:
    limit = 2**31 if name in NUMBERS_32 else 2**63
    for value in (str(limit), str(-limit - 1), "x", ""):
        answer = pull_request(json_header(11, PULL_FIELDS | {name: value}), JSON)
        assert answer == {"status": MALFORMED, "bad_field": name}
    assert pull_request(json_header(11, PULL_FIELDS | {name: str(limit - 1)}), JSON)["status"] == OK
