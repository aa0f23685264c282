"""Consumer offsets: kept by the reactor (pulls commit them), written to their file from here.

    config/consumerOffset.json
        {"dataVersion":{..},"offsetTable":{"topic@group":{"0":123,"1":5}},
         "resetOffsetTable":{"topic@group":{"1":5}},"rmqLogOffset":4711}

Every flushConsumerOffsetInterval ms (5,000) the reactor's table is written when its version is not
that of the last write, or the log has grown by 256 MiB. A crash therefore repeats at most that much
consumption; no acked message is lost by it. The log is synced before the file is written, whatever
the flush mode: offsets that a power cut leaves behind without the check point of a pop, or without
the op message of a transaction, would pass over messages for good. What was popped and not pulled
is found again in the log, from rmqLogOffset on (pop_recovery.py), which is its end when the table
was copied.

A reset by an operator is answered when the file holds it, and stays in resetOffsetTable until a
pull of the group has been answered with it: Apache forgets that at a restart, and its consumers
then go on where they were. Java reads the file with or without quotes around the queue ids, and
passes over resetOffsetTable and rmqLogOffset.

Example: the file holds {"offsetTable":{"t@g":{0:7}}} (Apache's spelling). load() gives the reactor
commit_offset(b"g", b"t", 0, 7).
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from rmq.base.json_file import JsonFile
from rmq.broker.core_seam import DelayCalls, LogCalls, OffsetCalls
from rmq.broker.tables.data_version import DataVersion
from rmq.broker.tables.topic_config import QUEUES_MAX
from rmq.names import group_fault, topic_fault

log = logging.getLogger("rmq.broker.offsets")

OFFSET_MAX = 2**63 - 1
MARK_BYTES_MAX = 256 << 20  # of the log behind the file's mark, in which pops are looked for


class CoreCalls(DelayCalls, LogCalls, OffsetCalls, Protocol):
    """What is used here of the core."""


class OffsetTable:
    """Owned by the control thread; the offsets themselves by the reactor."""

    def __init__(self, core: CoreCalls, config_directory: Path) -> None:
        self._core = core
        self._file = JsonFile(
            config_directory / "consumerOffset.json",
            tables=("offsetTable", "resetOffsetTable"),
            lost="all groups begin where their clients' consumeFromWhere says, and may be set by "
            "`mqadmin resetOffsetByTime`; what was popped and not acknowledged comes again",
        )
        self._written = -1  # version of the reactor's table that the file holds
        self._writing = asyncio.Lock()
        self.mark: int | None = None  # the file's rmqLogOffset
        self.version = DataVersion()

    # ---- start and stop

    def load(self) -> None:
        """Gives the reactor what the file holds."""
        content = self._file.load() or {}
        self.version = DataVersion.of(content.get("dataVersion"))
        table = content.get("offsetTable") or {}
        resets = content.get("resetOffsetTable") or {}
        for key, offsets in table.items():
            self._load_one(str(key), offsets, self._core.commit_offset)
        for key, offsets in resets.items() if isinstance(resets, dict) else ():
            self._load_one(str(key), offsets, self._core.reset_offset)
        mark = content.get("rmqLogOffset")
        self.mark = mark if isinstance(mark, int) and 0 <= mark <= OFFSET_MAX else None
        self._written = self._core.offsets_version
        log.info("consumer offsets loaded: %d topic@group", len(table))

    def _load_one(
        self, key: str, offsets: Any, take: Callable[[bytes, bytes, int, int], None]
    ) -> None:
        topic, separator, group = key.partition("@")
        if not separator or topic_fault(topic) or group_fault(group):
            log.error("%s: entry %.300r is skipped: not topic@group", self._file.path, key)
            return
        for queue, offset in offsets.items() if isinstance(offsets, dict) else ():
            try:
                queue_id, value = int(queue), int(offset)
            except (TypeError, ValueError):
                queue_id, value = -1, -1
            if not 0 <= queue_id <= QUEUES_MAX or not 0 <= value <= OFFSET_MAX:
                log.error(
                    "%s: %s queue %.20r offset %.30r is skipped: not whole numbers in range",
                    self._file.path, key, queue, offset,
                )  # fmt: skip
                continue
            take(group.encode(), topic.encode(), queue_id, value)

    async def save(self, behind_max: int = MARK_BYTES_MAX) -> bool:
        """Writes the offsets when they changed since the last write, or so many bytes of the log
        are behind the file's mark; True when it wrote."""
        async with self._writing:
            version = self._core.offsets_version  # before the copy: what comes between is newer
            mark = self._core.log_range()[1]
            if version != self._written:
                self.version.advance()
            elif self.mark is not None and 0 <= mark - self.mark < behind_max:
                return False
            content = {**self.members(), "rmqLogOffset": mark}
            end = self._core.delay_offsets()[1]  # of all that is in the log when the copy is made
            await asyncio.to_thread(self._write, content, end)
            self._written = version
            self.mark = mark
            return True

    def _write(self, content: dict[str, Any], log_end: int) -> None:
        """On a thread of its own: what the offsets were moved for has to be on the disk first."""
        self._core.sync_log(log_end)
        self._file.save(content)

    async def stop(self) -> bool:
        """The last write: no pop comes any more, so the next start reads nothing of the log."""
        wrote = await self.save(behind_max=1)
        await asyncio.to_thread(self._file.settle)
        return wrote

    # ---- reading

    def members(self) -> dict[str, Any]:
        """The content of consumerOffset.json as of now."""
        table = self._core.offsets()
        resets = {key.decode(): queues for key, queues in self._core.offsets(2).items() if queues}
        return {
            "dataVersion": self.version.members(),
            "offsetTable": {key.decode(): queues for key, queues in table.items()},
            **({"resetOffsetTable": resets} if resets else {}),
        }

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The next offset the group wants of this queue; -1 when unknown."""
        return self._core.query_offset(group.encode(), topic.encode(), queue_id)

    def of(self, group: str, topic: str) -> dict[int, int]:
        """queue id -> offset."""
        return self._core.offsets().get(f"{topic}@{group}".encode(), {})

    def pulled(self, group: str, topic: str) -> dict[int, int]:
        """queue id -> offset up to which the group has pulled since the start."""
        return self._core.pulled(group.encode(), topic.encode())

    def topics_of(self, group: str) -> list[str]:
        """Topics the group has offsets on."""
        tail = b"@" + group.encode()
        return sorted(
            key[: -len(tail)].decode() for key in self._core.offsets() if key.endswith(tail)
        )

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have offsets on the topic."""
        head = topic.encode() + b"@"
        return sorted(
            key[len(head) :].decode() for key in self._core.offsets() if key.startswith(head)
        )

    def by_group(self) -> dict[str, dict[str, dict[int, int]]]:
        """group -> topic -> queue id -> offset."""
        table: dict[str, dict[str, dict[int, int]]] = {}
        for key, offsets in self._core.offsets().items():
            topic, _, group = key.decode().partition("@")
            table.setdefault(group, {})[topic] = offsets
        return table

    # ---- changing

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self._core.commit_offset(group.encode(), topic.encode(), queue_id, offset)

    async def reset(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        """Moves and marks the offsets of these queues; returns when the file holds it."""
        for queue_id, offset in offsets.items():
            self._core.reset_offset(group.encode(), topic.encode(), queue_id, offset)
        await self.save()

    def copy(self, source: str, target: str, topic: str) -> int:
        """Gives the target group the source's offsets on the topic; how many queues."""
        offsets = self.of(source, topic)
        for queue_id, offset in offsets.items():
            self.commit(target, topic, queue_id, offset)
        return len(offsets)

    def remove_group(self, group: str) -> None:
        self._core.remove_offsets(group.encode(), None)

    def remove_topic(self, topic: str) -> None:
        self._core.remove_offsets(None, topic.encode())
