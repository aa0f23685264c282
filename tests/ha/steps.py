"""Steps: single events, most of one group in one queue, for the checker's own tests.

    events = [committed(10, 5), *kill(12 * MS, 4), offset_read(20 * MS, 5)]
    found(tmp_path / "h.jsonl", events).broken

The group is the simulation's that pulls. `at` are nanoseconds; what was asked was asked one before.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.ha.checker import check
from tests.ha.findings import Findings
from tests.ha.history import (
    AnyEvent,
    Committed,
    Delivered,
    Fault,
    Held,
    InSync,
    LogEnd,
    OffsetRead,
    Reset,
    Worked,
)
from tests.ha.simulation import BROKER, PULLED, TOPIC

MS = 1_000_000


def write(path: Path, events: list[AnyEvent]) -> list[AnyEvent]:
    """As a file; the events get the lines they have in it."""
    events.sort(key=lambda each: each.at)
    lines = []
    for line, event in enumerate(events, 1):
        event.place = 0
        lines.append(msgspec.json.encode(event) + b"\n")
        event.place = line
    path.write_bytes(b"".join(lines))
    return events


def found(path: Path, events: list[AnyEvent]) -> Findings:
    write(path, events)
    return check([path])


def committed(at: int, offset: int, acked: bool = True, since: int = 0) -> Committed:
    return Committed(at=at, asked=at - 1, group=PULLED, topic=TOPIC, broker=BROKER, queue_id=0,
                     offset=offset, acked=acked, since=since)  # fmt: skip


def offset_read(at: int, offset: int, since: int = 0) -> OffsetRead:
    return OffsetRead(at=at, asked=at - 1, group=PULLED, topic=TOPIC, broker=BROKER, queue_id=0,
                      offset=offset, since=since)  # fmt: skip


def held(at: int, offset: int, asked: int = 0) -> Held:
    return Held(at=at, asked=asked or at - 1, group=PULLED, topic=TOPIC, broker=BROKER, queue_id=0,
                offset=offset)  # fmt: skip


def reset(at: int, offset: int, acked: bool = True) -> Reset:
    return Reset(at=at, asked=at - 1, group=PULLED, topic=TOPIC, broker=BROKER, queue_id=0,
                 offset=offset, acked=acked)  # fmt: skip


def kill(
    at: int, loses_ms: int, lasts: int = 1, hides_ms: int = -1, copies: bool = False,
    settles: bool = False,
) -> list[AnyEvent]:  # fmt: skip
    return [Fault(at=at, name="kill", loses_ms=loses_ms, hides_ms=hides_ms, loses_copies=copies,
                  until_settled=settles),
            Fault(at=at + lasts, name="kill", ends=True)]  # fmt: skip


def pulled(at: int, offset: int) -> Delivered:
    return Delivered(at=at, group=PULLED, topic=TOPIC, broker=BROKER, queue_id=0, offset=offset,
                     message=f"p/{offset}", how="pull")  # fmt: skip


def in_sync(at: int, members: str, set_epoch: int = 1, master: str = "a", epoch: int = 1) -> InSync:
    """`members`: their addresses, each of one letter."""
    return InSync(at=at, asked=at - 1, broker=BROKER, members=tuple(members), master=master,
                  master_epoch=epoch, set_epoch=set_epoch)  # fmt: skip


def log_end(at: int, address: str, end: int) -> LogEnd:
    return LogEnd(at=at, asked=at - 1, broker=BROKER, address=address, end=end)


def worked(began: int, at: int, process: str) -> Worked:
    return Worked(at=at, began=began, process=process, group=PULLED, topic=TOPIC, broker=BROKER,
                  queue_id=0, offset=began)  # fmt: skip
