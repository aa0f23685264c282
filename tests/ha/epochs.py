"""Epochs: where in the log each masterEpoch begins, by the stores of replicas.

    date(messages, replicas)      # acknowledgements get the epoch of their place in the log

An `epochFileCheckpoint` is text: a count, a checksum, then a line `epoch-start` for each epoch. Of
the replicas of a broker name the longest list counts. It shows a broker that was replaced and went
on: an offset that it acknowledged behind the start of the next epoch has a second acker.
"""

from __future__ import annotations

import bisect
import re
from pathlib import Path

from tests.ha.findings import Findings
from tests.ha.messages import Messages

LINE = re.compile(r"(\d+)-(\d+)")


def epochs_of(store: Path, findings: Findings) -> list[tuple[int, int]]:
    """(epoch, start) in order; none where the brokers had no controller."""
    try:
        lines = (store / "epochFileCheckpoint").read_text().splitlines()
    except FileNotFoundError:
        return []
    found = [LINE.fullmatch(line.strip()) for line in lines[2:]]
    rows = [(int(each[1]), int(each[2])) for each in found if each]
    if len(rows) != len(found) or rows != sorted(rows) or lines[:1] != [str(len(rows))]:
        findings.violation("store-files", f"{store}/epochFileCheckpoint: {lines[:10]}")
        return []
    return rows


def name_of(store: Path) -> str:
    """The broker name of a replica, from `cluster#name#id` in its brokerIdentity; "": unknown."""
    try:
        parts = (store / "brokerIdentity").read_text().strip().split("#")
    except FileNotFoundError:
        return ""
    return parts[1] if len(parts) == 3 else ""


def date(messages: Messages, replicas: list[list[Path]], findings: Findings) -> None:
    for stores in replicas:
        rows = max((epochs_of(store, findings) for store in stores), key=len, default=[])
        names = {name_of(store) for store in stores} - {""}
        if not rows:
            continue
        starts = [start for _, start in rows]
        for stored in messages.stored.values():
            if stored.epoch < 0 <= stored.log_offset and (not names or stored.broker in names):
                at = bisect.bisect_right(starts, stored.log_offset) - 1
                stored.epoch = rows[at][0] if at >= 0 else -1
