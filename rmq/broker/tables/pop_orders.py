"""Pop orders: the batches that consumers popped in order and hold, kept over a restart.

    config/consumerOrderInfo.json
        {"table":{"topic@group":{"0":{"popTime":..,"i":60000,"o":[5,1,2],"ot":{"6":..},
        "oc":{"6":1},"l":..,"cm":5,"a":"attempt"}}}}

    o   offset of the first message, then the distances of the others    i   invisible time
    ot  messages visible again at another time than popTime + i          cm  bits: acknowledged
    oc  how often a message came before     l  time of the pop           a   attempt id

The reactor has the blocks (cext/flow/pop/pop_order.pxd). When they have changed, this file is
written from a copy every flushConsumerOffsetInterval ms, after the log is on the disk up to the
messages that they name: a block without its messages would later be taken for a batch of other
messages. The form is Apache's. A slave copies from its master the batches that are not acknowledged
(copy()), in the same form.
"""

import asyncio
import logging
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rmq.base.json_file import JsonFile
from rmq.broker.core_seam import DelayCalls, LogCalls, PopCalls
from rmq.errors import RmqError
from rmq.format import fastjson
from rmq.limits import TOPIC_QUEUES_MAX
from rmq.names import group_fault, topic_fault

log = logging.getLogger("rmq.broker.pop_orders")

MESSAGES_MAX = 32
ATTEMPT_BYTES_MAX = 64
PUT_BLOCKS = 64  # blocks that go to the reactor in one turn of the control thread
_BLOCK = struct.Struct("=qqqiI32q32q32iI64s4x")

Place = tuple[bytes, bytes, int]  # topic, group, queue id
Blocks = list[tuple[bytes, bytes, int, bytes]]  # the same, and an OrderBlock


def order_file(config_directory: Path) -> JsonFile:
    return JsonFile(
        config_directory / "consumerOrderInfo.json",
        tables=("table",),
        lost="what was popped in order and not acknowledged comes again",
    )


class CoreCalls(PopCalls, DelayCalls, LogCalls, Protocol):
    """What is used here of the core."""


class PopOrders:
    """Owned by the control thread; the blocks themselves by the reactor."""

    def __init__(self, core: CoreCalls, config_directory: Path) -> None:
        self._core = core
        self._file = order_file(config_directory)
        self._making = asyncio.Lock()
        self._made = -1, b""  # (version, the body made of it for slaves)
        self._said: list[str] = []  # the skipped batches that were logged last
        self._written = 0  # version of the blocks in the file; -1: the file holds other blocks

    def load(self) -> None:
        """Reads the file; topics must be loaded before. Blocks of topics that are gone are dropped,
        and leave the file with the next save(). If such a block were still there when a topic of
        the same name is made, the next start would give it to the new topic, and late acks would
        pass over its messages."""
        rows = _rows((self._file.load() or {}).get("table") or {})
        refused = [fault for each in rows.blocks.items() if (fault := self._put(*each))]
        self._say(self._file.path, rows.faults + refused)
        self._written = -1 if refused else self._core.pop_orders_version

    async def copy(self, table: Mapping[Any, Any], origin: str) -> None:
        """Makes this slave's batches those that are out at the master. The file follows with the
        next save(). Entries of the table that cannot be read stay as they are here."""
        here = self._core.pop_orders()  # nothing else changes them, as a slave pops nothing
        changes, faults = await asyncio.to_thread(_changes, table, here)
        for number, each in enumerate(changes):
            if fault := self._put(*each):
                faults.append(fault)
            if number % PUT_BLOCKS == PUT_BLOCKS - 1:
                await asyncio.sleep(0)  # lets other tasks have their turn
        self._say(origin, faults)

    def _put(self, place: Place, block: bytes) -> str:
        """Puts a block into the core; returns why that failed, or an empty text."""
        try:
            self._core.put_pop_order(*place, block)
        except RmqError as error:
            topic, group, queue_id = place
            return _fault(topic.decode(), group.decode(), queue_id, error)
        return ""

    def _say(self, origin: object, faults: list[str]) -> None:
        """Logs skipped batches in one line, and the same ones only once, because a slave copies
        batches every second."""
        if faults and faults != self._said:
            log.warning("%s: batches skipped: %d, as %s", origin, len(faults), faults[0])
        self._said = faults

    async def stop(self) -> None:
        await self.save()
        await asyncio.to_thread(self._file.settle)

    async def save(self) -> None:
        version = self._core.pop_orders_version  # before the copy: changes in between are newer
        if version == self._written:
            return
        blocks = self._core.pop_orders()
        end = self._core.delay_offsets()[1]  # the end of all that is in the log now
        await asyncio.to_thread(self._save, end, blocks)
        self._written = version

    def _save(self, end: int, blocks: Blocks) -> None:
        """Writes the file, in a thread. StoreError: the log cannot be synced."""
        self._core.sync_log(end)
        self._file.save(members(blocks))

    async def body(self) -> bytes:
        """The batches that are not fully acknowledged now, in the form of the file, for a slave.
        The others block nobody, and say nothing that the offset of their group does not say."""
        async with self._making:  # because slaves may ask at the same time
            version = self._core.pop_orders_version
            if self._made[0] != version:
                blocks = self._core.pop_orders(open_only=True)
                body = await asyncio.to_thread(lambda: fastjson.dumps(members(blocks)))
                self._made = version, body
            return self._made[1]


def members(blocks: Blocks) -> dict[str, Any]:
    """The content of the file, made of pop_orders()."""
    table: dict[str, dict[str, Any]] = {}
    for topic, group, queue_id, block in blocks:
        rows = table.setdefault(f"{topic.decode()}@{group.decode()}", {})
        rows[str(queue_id)] = unpacked(block)
    return {"table": table}


class _Rows(NamedTuple):
    """The rows in the table of a file or of a master."""

    blocks: dict[Place, bytes]
    unread: set[Place | tuple[bytes, bytes]]  # unreadable queues, and unreadable whole pairs
    faults: list[str]


def _rows(table: Mapping[Any, Any]) -> _Rows:
    found = _Rows({}, set(), [])
    for key, queues in table.items():
        topic, separator, group = str(key).partition("@")
        if not separator or topic_fault(topic) or group_fault(group):
            found.faults.append(f"{key!r:.300}: not topic@group")
            continue
        pair = topic.encode(), group.encode()
        if not isinstance(queues, dict):
            found.faults.append(f"{key!r:.300}: no queues")
            found.unread.add(pair)
            continue
        for queue, row in queues.items():
            place = None
            try:
                queue_id = int(queue)
                if not 0 <= queue_id < TOPIC_QUEUES_MAX:
                    raise ValueError(queue_id)
                place = (*pair, queue_id)
                found.blocks[place] = packed(row)
            except (TypeError, ValueError, AttributeError, KeyError, struct.error) as error:
                found.faults.append(_fault(topic, group, queue, error))
                if place is not None:
                    found.unread.add(place)
    return found


def _changes(table: Mapping[Any, Any], here: Blocks) -> tuple[list[tuple[Place, bytes]], list[str]]:
    """(changes that make the batches here the master's, faults of rows that cannot be read)."""
    rows = _rows(table)
    present = {(topic, group, queue_id): block for topic, group, queue_id, block in here}
    changes = [
        (place, block) for place, block in rows.blocks.items() if present.get(place) != block
    ]
    for place in present.keys() - rows.blocks.keys() - rows.unread:
        if place[:2] not in rows.unread:
            changes.append((place, b""))
    return changes, rows.faults


def _fault(topic: str, group: str, queue: Any, error: Exception) -> str:
    return f"{group} of {topic} queue {queue!r:.20}: {error!r:.200}"


def packed(row: dict[str, Any]) -> bytes:
    """An entry of the file as the reactor's block; ValueError or a similar error when it is
    invalid."""
    listed = [int(offset) for offset in row["o"]]
    if not 1 <= len(listed) <= MESSAGES_MAX:
        raise ValueError(f"{len(listed)} offsets")
    offsets = [listed[0], *(listed[0] + behind for behind in listed[1:])]
    visible = {int(offset): int(when) for offset, when in (row.get("ot") or {}).items()}
    times = {int(offset): int(count) for offset, count in (row.get("oc") or {}).items()}
    attempt = (row.get("a") or "").encode()
    if len(attempt) > ATTEMPT_BYTES_MAX:
        attempt = b""
    fill = [0] * (MESSAGES_MAX - len(offsets))
    return _BLOCK.pack(
        int(row["popTime"]), int(row.get("i") or 0), int(row.get("l") or 0), len(offsets),
        int(row.get("cm") or 0) & 0xFFFFFFFF,
        *offsets, *fill,
        *(visible.get(offset, 0) for offset in offsets), *fill,
        *(times.get(offset, 0) for offset in offsets), *fill,
        len(attempt), attempt,
    )  # fmt: skip


def unpacked(block: bytes) -> dict[str, Any]:
    pop_ms, invisible_ms, touched_ms, count, acked, *rest = _BLOCK.unpack(block)
    offsets, visible = rest[:count], rest[MESSAGES_MAX : MESSAGES_MAX + count]
    times = rest[2 * MESSAGES_MAX : 2 * MESSAGES_MAX + count]
    length, attempt = rest[3 * MESSAGES_MAX :]
    row = {
        "cm": acked, "i": invisible_ms, "l": touched_ms,
        "o": [*offsets[:1], *(offset - offsets[0] for offset in offsets[1:])],
        "oc": {str(at): n for at, n in zip(offsets, times, strict=True) if n},
        "ot": {str(at): when for at, when in zip(offsets, visible, strict=True) if when},
        "popTime": pop_ms,
    }  # fmt: skip
    if length:
        row["a"] = attempt[:length].decode("utf-8", "replace")
    return row
