"""Consumer offsets: kept by the reactor (pulls commit them), written to their file from here.

    config/consumerOffset.json    {"dataVersion":{..},"offsetTable":{"topic@group":{"0":123,"1":5}}}

Every flushConsumerOffsetInterval ms (5,000) the reactor's table is written when its version is not
that of the last write. A crash therefore repeats at most that much consumption; no acked
message is lost by it. Java reads the file with or without quotes around the queue ids.

Example: the file holds {"offsetTable":{"t@g":{0:7}}} (Apache's spelling). load() gives the reactor
commit_offset(b"g", b"t", 0, 7).
"""

import asyncio
import logging
from pathlib import Path
from typing import Any

from rmq.broker.core_seam import Core
from rmq.broker.data_version import DataVersion
from rmq.broker.json_file import JsonFile
from rmq.broker.names import group_fault, topic_fault
from rmq.broker.topic_config import QUEUES_MAX

log = logging.getLogger("rmq.broker.offsets")

OFFSET_MAX = 2**63 - 1


class OffsetTable:
    """Owned by the control thread; the offsets themselves by the reactor."""

    def __init__(self, core: Core, config_directory: Path) -> None:
        self._core = core
        self._file = JsonFile(config_directory / "consumerOffset.json")
        self._written = -1  # version of the reactor's table that the file holds
        self._writing = asyncio.Lock()
        self.version = DataVersion()

    # ---- start and stop

    def load(self) -> None:
        """Gives the reactor what the file holds."""
        content = self._file.load() or {}
        self.version = DataVersion.of(content.get("dataVersion"))
        table = content.get("offsetTable") or {}
        for key, offsets in table.items():
            self._load_one(str(key), offsets)
        self._written = self._core.offsets_version
        log.info("consumer offsets loaded: %d topic@group", len(table))

    def _load_one(self, key: str, offsets: Any) -> None:
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
            self._core.commit_offset(group.encode(), topic.encode(), queue_id, value)

    async def save(self) -> bool:
        """Writes the offsets when they changed since the last write; True when it wrote."""
        async with self._writing:
            version = self._core.offsets_version  # before the copy: what comes between is newer
            if version == self._written:
                return False
            self.version.advance()
            await asyncio.to_thread(self._file.save, self._members(self._core.offsets()))
            self._written = version
            return True

    # ---- reading

    def members(self) -> dict[str, Any]:
        """The content of consumerOffset.json as of now."""
        return self._members(self._core.offsets())

    def _members(self, table: dict[bytes, dict[int, int]]) -> dict[str, Any]:
        return {
            "dataVersion": self.version.members(),
            "offsetTable": {key.decode(): offsets for key, offsets in table.items()},
        }

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The next offset the group wants of this queue; -1 when unknown."""
        return self._core.query_offset(group.encode(), topic.encode(), queue_id)

    def of(self, group: str, topic: str) -> dict[int, int]:
        """queue id -> offset."""
        return self._core.offsets().get(f"{topic}@{group}".encode(), {})

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
