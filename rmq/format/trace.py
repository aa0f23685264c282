"""Trace: reads what clients write about their messages when tracing is on.

Such clients send batches of records to RMQ_SYS_TRACE_TOPIC (or a topic of their choice). Message
ids and keys are the KEYS of these batches, so a query by key finds everything about a message. A
body is a sequence of records, each ended by 0x02; a record's fields are separated by 0x01:

    Pub             time region group topic id tags keys storeHost bodyBytes costMs type
                    offsetId success [clientHost]        (4.x without offsetId: 13 fields)
    SubBefore       time region group request id retries keys
    SubAfter        request id costMs success keys code [time group]
    EndTransaction  time region group topic id tags keys storeHost type transaction state fromCheck
    Recall          time region group topic id success

type: 0 normal, 1 half, 2 committed, 3 delayed (4 in order, 5.x). code: 0 success, 1 time out,
2 exception, 3 null, 4 failed. A record that does not fit its row above is left out, and so are
unknown kinds.

Example: decode(b"SubAfter\\x01r1\\x01ID\\x0112\\x01true\\x01k\\x010\\x02")[0].cost_ms is 12.
"""

from __future__ import annotations

import msgspec

MESSAGE_TYPES = ("normal", "half", "committed", "delayed", "in order")
CONSUMED_AS = ("success", "time out", "exception", "returned null", "failed")
_FIELD, _RECORD = "\x01", "\x02"


class TraceRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One thing that happened to a message. Absent texts are empty, absent numbers -1."""

    kind: str  # Pub, SubBefore, SubAfter, EndTransaction, Recall
    message_id: str
    time_ms: int = -1
    region: str = ""
    group: str = ""
    topic: str = ""
    tags: str = ""
    keys: str = ""
    store_host: str = ""
    client_host: str = ""  # of the trace message; only old clients have it in the record
    body_bytes: int = -1
    cost_ms: int = -1
    message_type: str = ""
    offset_id: str = ""
    success: bool | None = None
    request_id: str = ""  # joins a SubBefore and its SubAfter
    retries: int = -1
    code: str = ""
    transaction_id: str = ""
    transaction_state: str = ""
    from_check: bool | None = None


def decode(body: bytes) -> list[TraceRecord]:
    """The records of one trace message."""
    records = []
    for text in body.decode("utf-8", "replace").split(_RECORD):
        fields = text.split(_FIELD)
        reader = _READERS.get(fields[0])
        if reader is None:
            continue
        try:
            records.append(reader(fields))
        except (IndexError, ValueError):
            continue
    return records


def _text(value: str) -> str:
    return "" if value == "null" else value


def _one_of(names: tuple[str, ...], number: str) -> str:
    at = int(number)
    return names[at] if 0 <= at < len(names) else str(at)


def _true(text: str) -> bool:
    return text.lower() == "true"


def _sent(f: list[str]) -> TraceRecord:
    return TraceRecord(
        kind="Pub", time_ms=int(f[1]), region=_text(f[2]), group=f[3], topic=f[4],
        message_id=f[5], tags=_text(f[6]), keys=_text(f[7]), store_host=_text(f[8]),
        body_bytes=int(f[9]), cost_ms=int(f[10]), message_type=_one_of(MESSAGE_TYPES, f[11]),
        offset_id=_text(f[12]) if len(f) > 13 else "",
        success=_true(f[13] if len(f) > 13 else f[12]),
        client_host=f[14] if len(f) > 14 else "",
    )  # fmt: skip


def _before(f: list[str]) -> TraceRecord:
    return TraceRecord(
        kind="SubBefore", time_ms=int(f[1]), region=_text(f[2]), group=f[3], request_id=f[4],
        message_id=f[5], retries=int(f[6]), keys=_text(f[7]) if len(f) > 7 else "",
    )  # fmt: skip


def _after(f: list[str]) -> TraceRecord:
    timed = len(f) > 8 and f[7].isdecimal()
    return TraceRecord(
        kind="SubAfter", request_id=f[1], message_id=f[2], cost_ms=int(f[3]), success=_true(f[4]),
        keys=_text(f[5]), code=_one_of(CONSUMED_AS, f[6]) if len(f) > 6 and f[6] else "",
        time_ms=int(f[7]) if timed else -1, group=f[8] if timed else "",
    )  # fmt: skip


def _ended(f: list[str]) -> TraceRecord:
    return TraceRecord(
        kind="EndTransaction", time_ms=int(f[1]), region=_text(f[2]), group=f[3], topic=f[4],
        message_id=f[5], tags=_text(f[6]), keys=_text(f[7]), store_host=_text(f[8]),
        message_type=_one_of(MESSAGE_TYPES, f[9]), transaction_id=_text(f[10]),
        transaction_state=f[11], from_check=_true(f[12]),
    )  # fmt: skip


def _recalled(f: list[str]) -> TraceRecord:
    return TraceRecord(
        kind="Recall", time_ms=int(f[1]), region=_text(f[2]), group=f[3], topic=f[4],
        message_id=f[5], success=_true(f[6]),
    )  # fmt: skip


_READERS = {
    "Pub": _sent,
    "SubBefore": _before,
    "SubAfter": _after,
    "EndTransaction": _ended,
    "Recall": _recalled,
}
