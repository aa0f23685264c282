"""Consumer offsets: the reactor keeps them (pulls commit them), this module writes them to disk.

    config/consumerOffset.json
        {"dataVersion":{..},"offsetTable":{"topic@group":{"0":123,"1":5}},
         "resetOffsetTable":{"topic@group":{"1":5}},"rmqLogOffset":4711}
    config/rmqOffsets.journal     changes since, a record per interval (metadata_journal.py)

Every flushConsumerOffsetInterval ms (5,000) the changed entries of the reactor's table become a
record of the journal, which is synced; a record is also written when the log has grown by 256 MiB.
So a crash repeats at most that much consumption, and loses no message. The log is synced before
anything is written, whatever the flush mode: if a power cut left offsets behind, but not the check
point of a pop or the op message of a transaction that moved them, they would pass over messages for
good. Messages that were popped, not pulled, are found again in the log from rmqLogOffset (the mark)
on (pop_recovery.py): before the mark moves, the groups that have popped so far are on the disk. A
slave's mark stays where its log ended when it last asked for its master's groups and offsets.

The journal is separate from that of the topics: otherwise changes of topics would wait for syncs of
the log, and a log that takes no more would keep topics from their file.

A reset by an operator is answered when the journal holds it, and stays in resetOffsetTable until a
pull of the group has been answered with it. (Apache's broker forgets resets at a restart, and its
consumers then go on where they were.) Java reads the file with or without quotes around the queue
ids, and ignores resetOffsetTable and rmqLogOffset.

Example: the file holds {"offsetTable":{"t@g":{0:7}}} (Apache's spelling). load() gives the reactor
commit_offset(b"g", b"t", 0, 7).
"""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from rmq.base.journal_file import OFFSETS_NAME
from rmq.base.json_file import JsonFile
from rmq.broker.core_seam import DelayCalls, LogCalls, OffsetCalls, PopCalls
from rmq.broker.tables.data_version import DataVersion
from rmq.broker.tables.metadata_journal import Change, JournaledTable, MetadataJournal, part_of
from rmq.broker.tables.offset_entries import Offsets, decoded, encoded
from rmq.errors import RmqError, StoreError
from rmq.limits import TOPIC_QUEUES_MAX
from rmq.names import group_fault, topic_fault

log = logging.getLogger("rmq.broker.offsets")

OFFSET_MAX = 2**63 - 1
MARK_BYTES_MAX = 256 << 20  # of log behind the mark, which a start must search for pops
PUT_BYTES = 1 << 20  # about this many go to the reactor at a time


class CoreCalls(DelayCalls, LogCalls, OffsetCalls, PopCalls, Protocol):
    """What is used here of the core."""


def offset_file(config_directory: Path) -> JsonFile:
    return JsonFile(
        config_directory / "consumerOffset.json",
        tables=("offsetTable", "resetOffsetTable"),
        lost="all groups begin where their clients' consumeFromWhere says, and may be set by "
        "`mqadmin resetOffsetByTime`; what was popped and not acknowledged comes again",
    )


def rewrite(config_directory: Path, change: Callable[[dict[Any, Any]], None]) -> None:
    """Changes what the next load() finds, while no broker uses the table. Afterwards both copies of
    the JSON have everything, and the journal is gone."""
    file = offset_file(config_directory)
    content, _, _ = MetadataJournal(config_directory, OFFSETS_NAME).load(file)
    if not content:
        return
    change(content)
    file.save(content)  # without the journal's mark, so that a journal left behind does not count
    file.settle()
    (config_directory / OFFSETS_NAME).unlink(missing_ok=True)


class OffsetTable:
    """Owned by the control thread; the offsets themselves by the reactor."""

    def __init__(
        self, core: CoreCalls, config_directory: Path, groups_saved: Callable[[], Awaitable[None]]
    ) -> None:
        """groups_saved: returns when all present groups are on the disk."""
        self._core = core
        self._groups_saved = groups_saved
        self._next_mark = 0  # log offset: all groups that popped below it are on the disk
        # At a slave: log offset; groups that popped below it, and their offsets, are copied.
        self.copied: int | None = None
        self._file = offset_file(config_directory)
        self._journal = MetadataJournal(config_directory, OFFSETS_NAME)
        self._saver = JournaledTable(
            self._journal,
            self._file,
            whole=self._whole,
            part=self._part,
            on_begin=self._begun,
            on_written=self._written,
        )
        self._begun_version = -1  # version of the reactor's table in the last write that began
        self._begun_mark = 0
        self._written_version = -1  # the same in the last write that is on the disk
        self._reset: set[str] = set()  # pairs whose resets the last write has
        self.operator_changes = 0  # resets, copies and removals since the start
        self.mark: int | None = None  # the rmqLogOffset that is on the disk
        self.version = DataVersion()

    # ---- start and stop

    def load(self) -> None:
        """Gives the reactor the offsets of file and journal; before anyone is served."""
        content = self._saver.load() or {}
        self._journal.renew()
        self.version = DataVersion.of(content.get("dataVersion"))
        table = content.get("offsetTable") or {}
        resets = content.get("resetOffsetTable")
        resets = resets if isinstance(resets, dict) else {}
        block = bytearray()
        for key in map(str, table.keys() | resets.keys()):
            topic, separator, group = key.partition("@")
            if not separator or topic_fault(topic) or group_fault(group):
                log.error("%s: entry %.300r is skipped: not topic@group", self._file.path, key)
                continue
            reset = self._checked(key, resets.get(key), self._file.path)
            if reset:
                self._reset.add(key)
            offsets = self._checked(key, table.get(key), self._file.path)
            block += encoded(key.encode(), Offsets(offsets, reset))
            if len(block) >= PUT_BYTES:
                self._core.put_offsets(bytes(block))
                block.clear()
        self._core.put_offsets(bytes(block))
        self._core.take_changed_offsets()
        mark = content.get("rmqLogOffset")
        self.mark = mark if isinstance(mark, int) and 0 <= mark <= OFFSET_MAX else None
        end = self._core.log_range()[1]
        self._next_mark = end if self.mark is None else min(self.mark, end)
        self._begun_version = self._written_version = self._core.offsets_version
        log.debug("consumer offsets loaded: %d topic@group", len(table))

    def _checked(self, key: str, offsets: Any, origin: object) -> dict[int, int]:
        """The offsets by queue that a pair has in the file; invalid ones are left out."""
        found = {}
        for queue, offset in offsets.items() if isinstance(offsets, dict) else ():
            try:
                queue_id, value = int(queue), int(offset)
            except (TypeError, ValueError):
                queue_id, value = -1, -1
            if not 0 <= queue_id <= TOPIC_QUEUES_MAX or not 0 <= value <= OFFSET_MAX:
                log.error(
                    "%s: %s queue %.20r offset %.30r is skipped: not whole numbers in range",
                    origin, key, queue, offset,
                )  # fmt: skip
                continue
            found[queue_id] = value
        return found

    async def save(self, behind_max: int = MARK_BYTES_MAX) -> bool:
        """Returns when all present offsets are on the disk. Returns whether there was anything to
        write: an offset had changed, or more than `behind_max` bytes of log were behind the
        mark."""
        await self._advance()
        self._journal.tidy()
        is_due = self._is_due(behind_max)
        if is_due:
            self._saver.changed()
        await self._saver.saved()
        return is_due

    def _is_due(self, behind_max: int) -> bool:
        if self._saver.behind or self._core.offsets_version != self._written_version:
            return True
        return self.mark is None or not 0 <= self._core.log_range()[1] - self.mark < behind_max

    async def save_whole(self) -> None:
        """Returns when consumerOffset.json holds all present offsets, and the journal none;
        StoreError when it cannot be written. At a stop it is the last write: no pop follows it, so
        the next start need not read the log."""
        await self._advance()
        if self._is_due(behind_max=1):
            self._saver.changed()
        await self._saver.save_whole()

    async def ended(self) -> None:
        """Returns when no write is under way; at a stop."""
        await self._journal.ended()

    async def _advance(self) -> None:
        """Moves the mark, if all groups can be saved; if not, offsets are written nevertheless."""
        end = self._core.log_range()[1]
        try:
            await self._groups_saved()
        except StoreError as error:
            log.warning("the mark in %s stays where it is: %s", self._file.path, error)
            return
        self._next_mark = end if self.copied is None else min(self.copied, end)

    # ---- used by the journal

    def _begun(self) -> None:
        """Notes version and mark of a write that begins. The entries are copied after this, so
        changes in between are newer than version and mark."""
        if self._core.offsets_version != self._begun_version:
            self.version.advance()
        self._begun_version = self._core.offsets_version
        self._begun_mark = self._next_mark

    def _written(self) -> None:
        self._written_version = self._begun_version
        self.mark = self._begun_mark

    def _whole(self) -> Callable[[], dict[str, Any]]:
        self._core.take_changed_offsets()  # changes before the copy, which the copy contains
        entries = self._core.offset_entries()
        head, synced = self._head(), self._synced_log()

        def make() -> dict[str, Any]:
            synced()
            table, resets = _members(decoded(entries))
            self._reset = set(resets)
            found = {**head, "offsetTable": table}
            return {**found, "resetOffsetTable": resets} if resets else found

        return make

    def _part(self, names: set[str]) -> Callable[[], Change]:
        entries = self._core.take_changed_offsets()
        head, synced = self._head(), self._synced_log()

        def make() -> Change:
            synced()
            changed = dict(decoded(entries))
            table, resets = _members(changed.items())
            gone = {key.decode() for key, offsets in changed.items() if offsets is None}
            over = {key for key in gone | table.keys() if key in self._reset} - resets.keys()
            self._reset = (self._reset - over) | resets.keys()
            return part_of(
                self._file.path.name,
                {
                    "offsetTable": {**table, **dict.fromkeys(gone)},
                    "resetOffsetTable": {**resets, **dict.fromkeys(over)},
                },
                **head,
            )

        return make

    def _head(self) -> dict[str, Any]:
        return {"dataVersion": self.version.members(), "rmqLogOffset": self._begun_mark}

    def _synced_log(self) -> Callable[[], None]:
        """A function for the writing thread, made when the entries are copied. It syncs the log,
        because the records for which the offsets were moved must be on the disk first."""
        end = self._core.delay_offsets()[1]  # the end of all that is in the log now
        return lambda: self._core.sync_log(end)

    # ---- reading

    def members(self) -> dict[str, Any]:
        """The content of consumerOffset.json as of now, and for slaves the number of operators'
        changes: these they have only when they are on their disks as well."""
        table = self._core.offsets()
        resets = {key.decode(): queues for key, queues in self._core.offsets(2).items() if queues}
        return {
            "dataVersion": self.version.members(),
            "offsetTable": {key.decode(): queues for key, queues in table.items()},
            "rmqOperatorChanges": self.operator_changes,
            **({"resetOffsetTable": resets} if resets else {}),
        }

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The offset from which the group goes on in this queue; -1 when unknown."""
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
        self.operator_changes += 1
        for queue_id, offset in offsets.items():
            self._core.reset_offset(group.encode(), topic.encode(), queue_id, offset)
        await self._groups_saved()  # else the mark stays behind, and a start would redo older pops
        await self.save()

    def take(self, content: Mapping[Any, Any], origin: str) -> bool:
        """Makes this slave's offsets those of the master, whose consumerOffset.json is given. Lower
        offsets are taken, too, since they may have been reset. Batches popped in order before such
        a reset end here, until the master says which batches it has. Returns whether there may be
        such a batch."""
        table, resets = content.get("offsetTable") or {}, content.get("resetOffsetTable") or {}
        present = self._core.offsets()
        before, ended = dict(present), False
        for name, ours in self._core.offsets(2).items():
            # For a reset that a consumer at the master has taken, commits count again.
            key = name.decode()
            if not ours:
                continue
            if over := ours.keys() - self._checked(key, resets.get(key), origin).keys():
                topic, _, group = key.partition("@")
                ended |= self._end_batches(topic, group, over)
                self._core.remove_offsets(group.encode(), topic.encode())
                present.pop(name, None)
        block = bytearray()
        for key in map(str, table):
            topic, separator, group = key.partition("@")
            if not separator or topic_fault(topic) or group_fault(group):
                log.error("%s: entry %.300r is skipped: not topic@group", origin, key)
                continue
            offsets = self._checked(key, table.get(key), origin)
            reset = self._checked(key, resets.get(key), origin)
            ours = before.get(key.encode(), {})
            if offsets != ours:
                fell = {queue for queue, at in offsets.items() if at < ours.get(queue, 0)}
                ended |= self._end_batches(topic, group, fell)
            if reset or offsets != present.get(key.encode()):
                block += encoded(key.encode(), Offsets(offsets, reset))
        self._core.put_offsets(bytes(block))
        for name in present:
            if name.decode() not in table:
                topic, _, group = name.decode().partition("@")
                self._core.remove_offsets(group.encode(), topic.encode())
        return ended

    def _end_batches(self, topic: str, group: str, queues: set[int]) -> bool:
        with contextlib.suppress(RmqError):  # the topic is not here, so it has no batches
            for queue_id in queues:
                self._core.put_pop_order(topic.encode(), group.encode(), queue_id, b"")
        return bool(queues)

    def follow(self) -> None:
        """Notes that groups and offsets come from a master from now on."""
        if self.copied is None:
            self.copied = self._next_mark

    def copy(self, source: str, target: str, topic: str) -> int:
        """Gives the target group the source's offsets on the topic; returns for how many queues. In
        a queue where the target has a reset that waits for a pull, the reset is changed, because a
        commit does not count while a reset waits."""
        self.operator_changes += 1
        offsets = self.of(source, topic)
        marked = self._core.offsets(2).get(f"{topic}@{target}".encode(), {})
        for queue_id, offset in offsets.items():
            move = self._core.reset_offset if queue_id in marked else self._core.commit_offset
            move(target.encode(), topic.encode(), queue_id, offset)
        return len(offsets)

    def remove_group(self, group: str) -> None:
        self.operator_changes += 1
        self._core.remove_offsets(group.encode(), None)

    def remove_topic(self, topic: str) -> None:
        self.operator_changes += 1
        self._core.remove_offsets(None, topic.encode())


def _members(
    entries: Iterable[tuple[bytes, Offsets | None]],
) -> tuple[dict[str, dict[int, int]], dict[str, dict[int, int]]]:
    """(offsetTable, resetOffsetTable) of these entries."""
    table, resets = {}, {}
    for key, offsets in entries:
        if offsets is not None:
            table[key.decode()] = offsets.committed
            if offsets.resets:
                resets[key.decode()] = offsets.resets
    return table, resets
