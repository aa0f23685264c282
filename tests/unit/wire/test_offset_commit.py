"""Goal: the fields of a commit (15) are read, and a request that lacks one of them is no commit."""

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

from cext.testing.request_probe import offset_commit

FIELDS = {"consumerGroup": "g", "topic": "t", "queueId": "3", "commitOffset": "128"}


@pytest.mark.parametrize(("make", "kind"), [(json_header, JSON), (binary_header, BINARY)])
def test_all_fields_are_read(make, kind) -> None:
    assert offset_commit(make(15, dict(FIELDS)), kind) == {
        "status": OK, "consumer_group": b"g", "topic": b"t", "queue_id": 3, "offset": 128,
    }  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_has_to_be_there(name: str) -> None:
    fields = {key: value for key, value in FIELDS.items() if key != name}
    assert offset_commit(json_header(15, fields), JSON) == {"status": MISSING_FIELD}


@pytest.mark.parametrize("name", ["queueId", "commitOffset"])
@pytest.mark.parametrize("text", ["", "x", "9" * 20, "1.5"])
def test_a_number_that_is_none_is_malformed(name: str, text: str) -> None:
    assert offset_commit(json_header(15, FIELDS | {name: text}), JSON) == {"status": MALFORMED}
