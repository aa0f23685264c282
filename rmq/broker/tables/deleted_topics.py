"""Deleted topics: where the log ended when each was deleted, so that older messages stay away.

    config/rmqDeletedTopics.json    {"deletedTopics":{"orders":[1073741824,1763726400000]}}
                                    name: [log offset, ms]

The log keeps the messages of a deleted topic until its files are old, and recovery makes queues
anew from the log: after a crash from its end, after damage from all of it. A topic that was made
again under the same name would begin with the older topic's messages. So recovery
(cext/store/recovery.pyx) passes over messages below the offset that were stored before the time. It
checks both, because a log that lost its end in a power cut, or that is another one altogether, has
newer messages at the same offsets.

An entry is on the disk (metadata_journal.py) after the topic has left topics.json, and before the
deletion is answered. A topic that never had a message gets no entry; an entry is dropped when the
log begins behind it. RocketMQ does not know the file.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rmq.base.clock import now_ms
from rmq.base.json_file import JsonFile
from rmq.broker.core_seam import LogCalls
from rmq.broker.tables.metadata_journal import Change, JournaledTable, MetadataJournal, part_of

MEMBER = "deletedTopics"
TOPICS_MAX = 100_000  # the oldest are dropped first: their messages leave the log first


class DeletedTopics:
    """Owned by the table of topics."""

    def __init__(self, core: LogCalls, config_directory: Path, journal: MetadataJournal) -> None:
        self._core = core
        self._file = _file(config_directory)
        self._saver = JournaledTable(journal, self._file, whole=self._whole, part=self._part)
        self._ends: dict[str, tuple[int, int]] = {}
        self._low = 0  # where the log began when the entries were last checked
        self.changes = 0  # number of changes since the start

    def load(self) -> None:
        """Reads the entries, after recovery. None may be beyond the end of the log, where new
        messages come."""
        low, high = self._core.log_range()[:2]
        found = _entries(self._saver.load())
        self._low = low
        self._ends = {
            name: (min(offset, high), ms) for name, (offset, ms) in found.items() if offset > low
        }
        if self._ends != found:
            self._saver.save_now()

    def __contains__(self, name: str) -> bool:
        return name in self._ends

    def end_of(self, name: str) -> int:
        """Where the log ended when the topic was deleted; -1: it was not deleted."""
        return self._ends.get(name, (-1, 0))[0]

    def add(self, ends: Mapping[str, int]) -> None:
        """Notes topics that the reactor has deleted, each with the log's end at that time."""
        now = now_ms()
        self.take({name: (end, now) for name, end in ends.items()})

    def members(self) -> dict[str, list[int]]:
        """name: [log offset, ms]"""
        low = self._core.log_range()[0]
        return {name: list(entry) for name, entry in self._ends.items() if entry[0] > low}

    def unseen(self, marks: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
        """The master's entries that are not here yet. An entry below the beginning of this log is
        left out: none of its messages is left, and an empty queue may belong to the older topic or
        long since to the newer one."""
        low = self._core.log_range()[0]
        return {name: mark for name, mark in marks.items() if mark[0] > max(low, self.end_of(name))}

    def take(self, marks: Mapping[str, tuple[int, int]]) -> None:
        """Takes entries: (log offset, ms) by topic."""
        if not marks:
            return
        low = self._core.log_range()[0]
        for name, mark in marks.items():
            self._ends.pop(name, None)
            self._ends[name] = mark  # the newest are the last
        if low != self._low:
            self._low = low
            self._ends = {name: entry for name, entry in self._ends.items() if entry[0] > low}
        while len(self._ends) > TOPICS_MAX:
            del self._ends[next(iter(self._ends))]
        self.changes += 1
        self._saver.changed(*marks)  # dropped entries leave the file when it is written whole

    async def saved(self) -> None:
        await self._saver.saved()

    async def stop(self) -> None:
        await self._saver.save_whole()

    def _whole(self) -> Callable[[], dict[str, Any]]:
        ends = dict(self._ends)
        return lambda: {MEMBER: {name: list(entry) for name, entry in ends.items()}}

    def _part(self, changed: set[str]) -> Callable[[], Change]:
        ends = {name: self._ends.get(name) for name in changed}
        return lambda: part_of(
            self._file.path.name,
            {MEMBER: {name: entry and list(entry) for name, entry in ends.items()}},
        )


def read_marks(content: Mapping[Any, Any]) -> dict[str, tuple[int, int]]:
    """(log offset, ms) by topic, from a master's answer about its topics."""
    return _entries({MEMBER: content.get("rmqDeletedTopics")})


def deleted_topics(config_directory: Path) -> dict[bytes, tuple[int, int]]:
    """(log offset, ms) by topic, for recovery."""
    found = _entries(MetadataJournal(config_directory).load(_file(config_directory))[0])
    return {name.encode(): entry for name, entry in found.items()}


def _file(config_directory: Path) -> JsonFile:
    return JsonFile(
        config_directory / "rmqDeletedTopics.json",
        tables=(MEMBER,),
        lost="a topic that was deleted and made anew may begin with its older messages when its "
        "queues are made from the log",
    )


def _entries(content: Mapping[Any, Any] | None) -> dict[str, tuple[int, int]]:
    found = {}
    table = (content or {}).get(MEMBER)
    for name, pair in table.items() if isinstance(table, Mapping) else ():
        if (
            isinstance(name, str)
            and isinstance(pair, list)
            and len(pair) == 2
            and all(type(number) is int and 0 <= number < 2**63 for number in pair)
        ):
            found[name] = (pair[0], pair[1])
    return found
