"""Queue mappings: the static topics of this broker, their file, and the part the reactor gets.

    config/topicQueueMapping.json
        {"dataVersion":{..},"topicQueueMappingInfoMap":{topic:{..QueueMapping..}}}

A change goes: table -> file -> reactor -> name servers -> answer, as a topic's does (topics.py).
A mapping is made before its topic, so a static topic that clients can see always has its mapping.
It is deleted with its topic: a mapping without its topic at a start was left by a crash between the
two steps, and is dropped.

Request 513 (mqadmin's updateStaticTopic and remappingStaticTopic) sets mappings; queue_mapping.py
says what it may change. The form of the file is Apache's.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rmq.base.json_file import JsonFile
from rmq.broker.core_seam import TopicCalls
from rmq.broker.tables.config_saver import ConfigSaver
from rmq.broker.tables.data_version import DataVersion
from rmq.broker.tables.queue_mapping import QueueMapping, succession_fault
from rmq.codes import ResponseCode
from rmq.config import Settings
from rmq.refusal import Refusal

log = logging.getLogger("rmq.broker.queue_mappings")


class QueueMappings:
    """Owned by the control thread."""

    def __init__(self, settings: Settings, core: TopicCalls, config_directory: Path) -> None:
        self._settings = settings
        self._core = core
        self._file = JsonFile(
            config_directory / "topicQueueMapping.json",
            tables=("topicQueueMappingInfoMap",),
            advice="Put a copy in its place, or remove it and its .bak: then static topics have "
            "this broker's physical queues alone, until `mqadmin updateStaticTopic -mf` with the "
            "file that the last change has written in /tmp.",
        )
        self._saver = ConfigSaver(self._file, self._snapshot, self._written)
        self._mappings: dict[str, QueueMapping] = {}
        self._saving: dict[str, QueueMapping] = {}  # being written
        self._registered: dict[str, QueueMapping] = {}  # on the disk and in the reactor
        self.version = DataVersion()
        self.on_change: Callable[[Iterable[str]], None] = lambda changed: None

    # ---- reading

    def get(self, topic: str) -> QueueMapping | None:
        """The topic's mapping, as file and reactor have it."""
        return self._registered.get(topic)

    def all(self) -> dict[str, QueueMapping]:
        """All mappings, as file and reactor have them."""
        return dict(self._registered)

    def __contains__(self, topic: str) -> bool:
        return topic in self._registered

    def __len__(self) -> int:
        return len(self._registered)

    # ---- start and stop

    def load(self) -> None:
        """Reads the file. It must be called before the topics go to the reactor, together with
        their mappings."""
        content = self._file.load() or {}
        self.version = DataVersion.of(content.get("dataVersion"))
        table = content.get("topicQueueMappingInfoMap") or {}
        self._mappings = read_table(table, self._settings.brokerName, str(self._file.path))
        self._registered = dict(self._mappings)

    def drop_orphans(self, exists: Callable[[str], bool]) -> None:
        """Drops mappings of topics that do not exist; to be called when the topics are loaded."""
        orphans = [topic for topic in self._mappings if not exists(topic)]
        for topic in orphans:
            log.warning("%s: there is no topic %s: its mapping goes", self._file.path, topic)
            del self._mappings[topic], self._registered[topic]
        if orphans:
            self.version.advance()
            self._saver.save_now()

    def retry(self) -> None:
        """Writes what an earlier failure left behind; to be called at intervals."""
        self._saver.retry()

    async def saved(self) -> None:
        await self._saver.saved()

    async def stop(self) -> None:
        if self.version.counter or self._mappings:
            await self._saver.stop()

    # ---- changing

    async def put(self, mapping: QueueMapping, force: bool) -> None:
        """Adds or replaces a mapping; returns when file and reactor have it. Refusal 1: it may not
        replace the present one, and `force` is not set. Chains that it does not name stay."""
        present = self._mappings.get(mapping.topic)
        chains = dict(mapping.hosted_queues)
        if present is not None:
            reason = "" if force else _succession_fault(present, mapping)
            if reason:
                raise Refusal(ResponseCode.SYSTEM_ERROR, f"static topic {mapping.topic}: {reason}")
            for queue_id, chain in present.hosted_queues.items():
                if queue_id < mapping.total_queues:
                    chains.setdefault(queue_id, chain)
        merged = msgspec.structs.replace(mapping, hosted_queues=chains)
        if merged != present:
            self._mappings[mapping.topic] = merged
            self._changed()
            log.info("static topic changed: %s, epoch %d", mapping.topic, mapping.epoch)
        await self._saver.saved()

    def forget(self, topic: str) -> None:
        """Removes the mapping of a deleted topic; saved() waits for the file."""
        if self._mappings.pop(topic, None) is not None:
            self._changed()

    async def copy(self, mappings: Mapping[str, QueueMapping]) -> None:
        """Makes this slave's table equal to the master's; returns when the file holds it."""
        if dict(mappings) != self._mappings:
            self._mappings = dict(mappings)
            self._changed()
        await self._saver.saved()

    def put_in_core(self, topic: str) -> None:
        """Gives the reactor the mapping of a topic that it has just got."""
        mapping = self._registered.get(topic)
        if mapping is not None:
            self._core.put_queue_mapping(topic.encode(), mapping.packed())

    def _changed(self) -> None:
        self.version.advance()
        self._saver.changed()

    def _snapshot(self) -> dict[str, Any]:
        self._saving = dict(self._mappings)
        return {
            "dataVersion": self.version.members(),
            "topicQueueMappingInfoMap": {
                topic: mapping.members() for topic, mapping in self._saving.items()
            },
        }

    def _written(self) -> None:
        """Called when a write is on the disk: tells the reactor first, then the name servers."""
        before, self._registered = self._registered, self._saving
        changed = [
            topic
            for topic in before.keys() | self._registered.keys()
            if before.get(topic) != self._registered.get(topic)
        ]
        for topic in changed:
            mapping = self._registered.get(topic)
            packed = mapping.packed() if mapping is not None else b""
            self._core.put_queue_mapping(topic.encode(), packed)
        if changed:
            self.on_change(changed)


def read_table(table: Mapping[Any, Any], broker_name: str, origin: str) -> dict[str, QueueMapping]:
    """The mappings of a file or of an answer (21); invalid ones are left out and logged."""
    found = {}
    for name, members in table.items():
        topic = str(name)
        try:
            mapping = msgspec.convert(members, QueueMapping, strict=False)
        except (msgspec.ValidationError, RecursionError) as error:
            log.error("%s: the mapping of topic %.300r is skipped: %s", origin, topic, error)
            continue
        reason = mapping.fault(topic, broker_name)
        if reason:
            log.error("%s: the mapping of topic %.300r is skipped: %s", origin, topic, reason)
        else:
            found[topic] = mapping
    return found


def _succession_fault(old: QueueMapping, new: QueueMapping) -> str:
    if new.epoch < old.epoch:
        return f"epoch {new.epoch} is older than {old.epoch}, which is here"
    if new.scope != old.scope:
        return f"the scope is {old.scope}, not {new.scope[:100]}"
    if new.total_queues < old.total_queues:
        return f"it has {old.total_queues} queues, and never less"
    same_epoch = new.epoch == old.epoch
    for queue_id, chain in old.hosted_queues.items():
        following = new.hosted_queues.get(queue_id)
        if following is None:
            if same_epoch:
                return f"queue {queue_id} is missing under the same epoch"
            continue
        reason = succession_fault(chain, following, same_epoch)
        if reason:
            return f"queue {queue_id}: {reason}"
    return ""
