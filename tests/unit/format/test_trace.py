"""Trace records as the Java and Go clients write them."""

import pytest

from rmq.format.trace import decode


def row(*fields: object) -> bytes:
    return "\x01".join(map(str, fields)).encode() + b"\x02"


SENT = ("Pub", 1700, "DefaultRegion", "PG", "t", "ID", "tag", "k1 k2", "10.0.0.1:10911", 12, 3, 0)


def test_a_send_is_read_in_all_its_spellings() -> None:
    for tail, offset_id, client in (
        (("true",), "", ""),
        (("OFF", "true"), "OFF", ""),
        (("OFF", "true", "10.0.0.9"), "OFF", "10.0.0.9"),
    ):
        (record,) = decode(row(*SENT, *tail))
        assert (record.kind, record.time_ms, record.group, record.topic) == ("Pub", 1700, "PG", "t")
        assert (record.message_id, record.tags, record.keys) == ("ID", "tag", "k1 k2")
        assert (record.store_host, record.body_bytes, record.cost_ms) == ("10.0.0.1:10911", 12, 3)
        assert (record.offset_id, record.success) == (offset_id, True)
        assert (record.client_host, record.message_type) == (client, "normal")
    assert decode(row(*SENT[:-1], 3, "OFF", "false"))[0].message_type == "delayed"
    assert decode(row(*SENT[:-1], 9, "OFF", "false"))[0].success is False


def test_consumption_is_read_with_and_without_its_time() -> None:
    records = decode(
        row("SubBefore", 1700, "null", "CG", "R1", "ID", 2, "k")
        + row("SubAfter", "R1", "ID", 12, "false", "k", 1, 1712, "CG")
        + row("SubAfter", "R2", "ID", 12, "true", "k", 0, "")
        + row("SubAfter", "R3", "ID", 12, "true", "k")
    )
    before, after, cloud, old = records
    assert (before.group, before.region, before.request_id, before.retries) == ("CG", "", "R1", 2)
    assert (after.cost_ms, after.success, after.code) == (12, False, "time out")
    assert (after.time_ms, after.group) == (1712, "CG")
    assert (cloud.code, cloud.time_ms) == ("success", -1)
    assert (old.code, old.message_id) == ("", "ID")


def test_ends_of_transactions_and_recalls_are_read() -> None:
    ended, recalled = decode(
        row("EndTransaction", 1, "r", "PG", "t", "ID", "null", "", "h", 1, "TX", "COMMIT_MESSAGE",
            "true")
        + row("Recall", 2, "r", "PG", "t", "ID", "true")
    )  # fmt: skip
    assert (ended.transaction_id, ended.transaction_state) == ("TX", "COMMIT_MESSAGE")
    assert (ended.message_type, ended.from_check, ended.tags) == ("half", True, "")
    assert (recalled.kind, recalled.success) == ("Recall", True)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\x02\x02", b"Pub", b"Pub\x01x\x02", b"Other\x011\x02", row("SubBefore", 1),
        row(*SENT, "true").replace(b"1700", b"17x"), b"\xff\xfe\x01\x02", row("SubAfter", 1, 2, ""),
    ],
)  # fmt: skip
def test_what_is_no_record_is_left_out(body: bytes) -> None:
    assert decode(body) == []
    assert len(decode(body + b"\x02" + row("Recall", 2, "r", "PG", "t", "ID", "true"))) == 1
