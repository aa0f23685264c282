"""Goal: the fields of pops, acks and similar requests are read by their code; a refusal names the
bad field."""

import pytest
from support.wire_frames import (
    BINARY,
    JSON,
    MALFORMED,
    MISSING_FIELD,
    OK,
    binary_header,
    json_header,
)

from cext.testing.request_probe import pop_extra_info, pop_request

PLACE = {"consumerGroup": "g", "topic": "t", "queueId": "-1"}
REQUIRED = {
    200050: {**PLACE, "maxMsgNums": "32", "invisibleTime": "60000", "pollTime": "15000",
             "initMode": "1"},
    200051: {**PLACE, "extraInfo": "1 2 3 4 0 b 0 1", "offset": "7"},
    200052: {**PLACE, "maxMsgNums": "5"},
    200053: {**PLACE, "extraInfo": "1 2 3 4 0 b 0 1", "offset": "7", "invisibleTime": "5"},
    200054: {**PLACE, "pollTime": "9"},
    200055: PLACE,
}  # fmt: skip


def test_a_pop_is_read_with_all_its_fields() -> None:
    fields = REQUIRED[200050] | {
        "bornTime": "1700000000000", "expType": "SQL92", "exp": "a > 1", "order": "true",
        "attemptId": "A1",
    }  # fmt: skip
    for header, kind in (
        (json_header(200050, dict(fields)), JSON),
        (binary_header(200050 & 0xFFFF, fields), BINARY),
    ):
        assert pop_request(header, kind) == {
            "status": OK, "code": 200050, "consumer_group": b"g", "topic": b"t",
            "expression_type": b"SQL92", "expression": b"a > 1", "attempt_id": b"A1",
            "extra_info": None, "queue_id": -1, "max_messages": 32, "init_mode": 1, "order": True,
            "invisible_ms": 60000, "poll_ms": 15000, "born_ms": 1700000000000, "offset": 0,
        }  # fmt: skip


@pytest.mark.parametrize(("code", "name"), [(c, n) for c, fields in REQUIRED.items()
                                            for n in fields])  # fmt: skip
def test_a_missing_or_wrong_field_is_named(code: int, name: str) -> None:
    fields = dict(REQUIRED[code])
    assert pop_request(json_header(code, fields), JSON)["status"] == OK
    if name not in ("consumerGroup", "topic", "extraInfo"):
        wrong = fields | {name: "9" * 20}
        assert pop_request(json_header(code, wrong), JSON) == {
            "status": MALFORMED,
            "bad_field": name,
        }
    del fields[name]
    assert pop_request(json_header(code, fields), JSON) == {
        "status": MISSING_FIELD,
        "bad_field": name,
    }


def test_extra_info_is_taken_apart() -> None:
    assert pop_extra_info(b"100 1700000000000 60000 3 0 broker-a 1 102") == (
        100, 1700000000000, 60000, 3, b"broker-a",
    )  # fmt: skip
    assert pop_extra_info(b"0 1 2 999 1 b") == (0, 1, 2, 999, b"b")
    for wrong in (
        b"", b" ", b"1", b"1 2 3 4 0", b"a 2 3 4 0 b", b"1 2 3 4.0 0 b", b"-1 2 3 4 0 b",
        b"1 2 3 -4 0 b", b"1 9223372036854775807 3 4 0 b", b"1  2 3 4 0 b",
    ):  # fmt: skip
        assert pop_extra_info(wrong) is None, wrong
