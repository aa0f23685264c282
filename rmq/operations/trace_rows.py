"""Trace rows: what clients traced of a message, in words."""

from __future__ import annotations

from rmq.client.blocking.trace import Traced
from rmq.operations.texts import time_text

COLUMNS = ("WHAT", "TIME", "GROUP", "TOPIC", "RESULT", "MS", "CLIENT", "NOTE")


def trace_row(each: Traced) -> tuple[object, ...]:
    record = each.record
    what = {
        "Pub": "sent",
        "SubBefore": "consuming",
        "SubAfter": "consumed",
        "EndTransaction": "transaction ended",
        "Recall": "recalled",
    }[record.kind]
    result = {True: "success", False: "failure", None: ""}[record.success]
    if record.kind == "SubAfter" and record.code not in ("", "success"):
        result = record.code
    if record.kind == "EndTransaction":
        result = record.transaction_state
    notes = []
    if record.retries > 0:
        notes.append(f"retry {record.retries}")
    if record.message_type not in ("", "normal"):
        notes.append(record.message_type)
    if record.from_check:
        notes.append("after a check")
    if record.tags:
        notes.append(f"tags {record.tags}")
    if record.keys:
        notes.append(f"keys {record.keys}")
    time = time_text(record.time_ms) if record.time_ms >= 0 else ""
    cost = record.cost_ms if record.cost_ms >= 0 else ""
    return (
        what, time, record.group, record.topic, result, cost,
        record.client_host or each.client_host, ", ".join(notes),
    )  # fmt: skip
