"""Deleted topics: where the log stood when each was deleted; what lies below stays away.

    config/rmqDeletedTopics.json    {"deletedTopics":{"orders":[1073741824,1763726400000]}}
                                    name: [log offset, ms]

The log keeps the messages of a deleted topic until its files are old, and recovery makes queues
anew from the log: after a crash the end of it, after damage all of it. A topic that was made again
under the same name would begin with the older one's messages. So recovery (cext/store/recovery.pyx)
passes over those below the offset that were stored before the time. It asks for both: a log that
was cut by a power cut, or is another one altogether, has newer messages at the same offsets.

The file is written after topics.json, which is without the topic then, and before the deletion is
answered. An entry goes when the log begins behind it. RocketMQ does not know the file.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rmq.base.clock import now_ms
from rmq.base.json_file import JsonFile
from rmq.broker.core_seam import Core
from rmq.broker.tables.config_saver import ConfigSaver

MEMBER = "deletedTopics"
TOPICS_MAX = 100_000  # the oldest go first: their messages are the first to leave the log


class DeletedTopics:
    """Owned by the table of topics."""

    def __init__(self, core: Core, config_directory: Path) -> None:
        self._core = core
        self._file = _file(config_directory)
        self._saver = ConfigSaver(self._file, self.members)
        self._ends: dict[str, tuple[int, int]] = {}

    def load(self) -> None:
        """After recovery: none lies behind the end of the log, where new messages come."""
        low, high = self._core.log_range()[:2]
        found = _entries(self._file.load())
        self._ends = {
            name: (min(offset, high), ms) for name, (offset, ms) in found.items() if offset > low
        }
        if self._ends != found:
            self._saver.save_now()

    def members(self) -> dict[str, Any]:
        return {MEMBER: {name: list(entry) for name, entry in self._ends.items()}}

    def add(self, ends: Mapping[str, int]) -> None:
        """The reactor has deleted these topics when the log ended there."""
        if not ends:
            return
        now, low = now_ms(), self._core.log_range()[0]
        for name, end in ends.items():
            self._ends.pop(name, None)
            self._ends[name] = (end, now)  # the newest are the last
        kept = [(name, entry) for name, entry in self._ends.items() if entry[0] > low]
        self._ends = dict(kept[-TOPICS_MAX:])
        self._saver.changed()

    async def saved(self) -> None:
        await self._saver.saved()

    async def stop(self) -> None:
        await self._saver.stop()

    def retry_save(self) -> None:
        self._saver.retry()


def deleted_topics(config_directory: Path) -> dict[bytes, tuple[int, int]]:
    """What recovery is given: (log offset, ms) by topic."""
    found = _entries(_file(config_directory).load())
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
    for name, pair in ((content or {}).get(MEMBER) or {}).items():
        if (
            isinstance(name, str)
            and isinstance(pair, list)
            and len(pair) == 2
            and all(type(number) is int and 0 <= number < 2**63 for number in pair)
        ):
            found[name] = (pair[0], pair[1])
    return found
