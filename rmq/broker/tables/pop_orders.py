"""Pop orders: the batches that consumers popped in order and hold, kept over a restart.

    config/consumerOrderInfo.json
        {"table":{"topic@group":{"0":{"popTime":..,"i":60000,"o":[5,1,2],"ot":{"6":..},
        "oc":{"6":1},"l":..,"cm":5,"a":"attempt"}}}}

    o   offset of the first, then how far behind it the others are       i   invisible time
    ot  those that are visible again at another time than popTime + i    cm  bits: acknowledged
    oc  how often a message came before     l  time of the pop           a   attempt id

The blocks are the reactor's (cext/flow/pop/pop_order.pxd); this file is written from a copy every
flushConsumerOffsetInterval ms when they have changed, and when the log is on the disk up to the
messages they name: a block that outlived them would be taken for one of others. The form is
Apache's. A slave has the batches that are out as its master has them (copy()), in the same form.
"""

import asyncio
import logging
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from rmq.base.json_file import JsonFile
from rmq.broker.core_seam import DelayCalls, LogCalls, PopCalls
from rmq.errors import RmqError
from rmq.format import fastjson
from rmq.limits import TOPIC_QUEUES_MAX
from rmq.names import group_fault, topic_fault

log = logging.getLogger("rmq.broker.pop_orders")

MESSAGES_MAX = 32
ATTEMPT_BYTES_MAX = 64
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
        self._written = 0  # version of the reactor's blocks that the file holds; -1: others

    def load(self) -> None:
        """After topics: a block of a topic that is gone is dropped, from the file with the next
        save(). Were it there still when a topic is made anew under the name, the next start would
        give it to that one, and late acks would pass over its messages."""
        table = (self._file.load() or {}).get("table") or {}
        put = [
            self._put(place, block, self._file.path)
            for place, block in _blocks(table, self._file.path)
        ]
        self._written = self._core.pop_orders_version if all(put) else -1

    def copy(self, table: Mapping[Any, Any], origin: str) -> None:
        """Makes the batches here, a slave's, those that are out at the master. The file follows
        with the next save()."""
        gone = {(topic, group, at): block for topic, group, at, block in self._core.pop_orders()}
        for place, block in _blocks(table, origin):
            if gone.pop(place, None) != block:
                self._put(place, block, origin)
        for place in gone:
            self._put(place, b"", origin)

    def _put(self, place: Place, block: bytes, origin: object) -> bool:
        try:
            self._core.put_pop_order(*place, block)
        except RmqError as error:
            _skip(origin, *place, error)
            return False
        return True

    async def stop(self) -> None:
        await self.save()
        await asyncio.to_thread(self._file.settle)

    async def save(self) -> None:
        version = self._core.pop_orders_version  # before the copy: what comes between is newer
        if version == self._written:
            return
        blocks = self._core.pop_orders()
        end = self._core.delay_offsets()[1]  # of all that is in the log now
        await asyncio.to_thread(self._save, end, blocks)
        self._written = version

    def _save(self, end: int, blocks: Blocks) -> None:
        """In a thread. StoreError: the log cannot be brought to the disk."""
        self._core.sync_log(end)
        self._file.save(members(blocks))

    async def body(self) -> bytes:
        """The batches that are out now, in the form of the file, for a slave. Others say nothing
        that the offset of their group does not: what is acknowledged blocks nobody."""
        blocks = self._core.pop_orders(open_only=True)
        return await asyncio.to_thread(lambda: fastjson.dumps(members(blocks)))


def members(blocks: Blocks) -> dict[str, Any]:
    """Of pop_orders(): the content of the file."""
    table: dict[str, dict[str, Any]] = {}
    for topic, group, queue_id, block in blocks:
        rows = table.setdefault(f"{topic.decode()}@{group.decode()}", {})
        rows[str(queue_id)] = unpacked(block)
    return {"table": table}


def _blocks(table: Mapping[Any, Any], origin: object) -> Iterator[tuple[Place, bytes]]:
    """What the table of a file or of a master holds; what is none is said, and left out."""
    for key, queues in table.items():
        topic, separator, group = str(key).partition("@")
        if not separator or topic_fault(topic) or group_fault(group):
            log.error("%s: entry %.300r is skipped", origin, key)
            continue
        for queue, row in queues.items() if isinstance(queues, dict) else ():
            try:
                queue_id = int(queue)
                if not 0 <= queue_id < TOPIC_QUEUES_MAX:
                    raise ValueError(queue_id)
                block = packed(row)
            except (TypeError, ValueError, AttributeError, KeyError, struct.error) as error:
                _skip(origin, topic.encode(), group.encode(), queue, error)
                continue
            yield (topic.encode(), group.encode(), queue_id), block


def _skip(origin: object, topic: bytes, group: bytes, queue: Any, error: Exception) -> None:
    log.warning(
        "%s: %s of %s queue %.20r is skipped: %r",
        origin, group.decode(), topic.decode(), queue, error,
    )  # fmt: skip


def packed(row: dict[str, Any]) -> bytes:
    """An entry of the file as the reactor's block; ValueError and its like when it is none."""
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
