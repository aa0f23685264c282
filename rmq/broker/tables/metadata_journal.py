"""Metadata journal: changes of tables on the disk at the cost of the change, not of the table.

    config/rmqMetadata.journal          what changed since the tables' JSON files were written
    config/topics.json                  {..,"rmqJournal":{"identity":"5f0c..","sequence":6}}

A table calls changed(names) after a change. A task then appends one record for each table that
changed, for all changes so far, and syncs the file in a worker thread; what changes meanwhile goes
out together next time. Who must not answer before its change is on the disk awaits saved().

    {"table":"topics.json","put":{"topicConfigTable":{"t":{..}}},
     "remove":{"topicConfigTable":["gone"]},"whole":{"dataVersion":{..}}}

Values are absolute, so a record that is applied twice changes nothing. A member that is a list of
names in the JSON (shardOwn) is put as {name: true}.

The JSON files are written whole, both copies (rmq/base/json_file.py), and the journal begins anew:
when it has grown past 4 MiB and past the size of the tables, a minute after the last change, at a
stop, and instead of an append that failed. So Apache's broker can read all of it after a stop.

A start reads the JSON and applies the records behind the sequence that it names. A journal has
records of a table only when the table's JSON with the journal's identity is on the disk; so a JSON
without it, or with another one, was written by somebody else since (Apache's broker drops the
member, as it does with all it does not know; an operator has put another broker's file there). It
holds what is newer, and the records are not applied. A crash before the first whole write leaves
no journal, and one in the middle of it an older journal, whose records are in the JSON or apply.

The last record may be torn by a crash: nobody has been answered for it. Damage in the middle costs
the changes in it, as a damaged JSON file costs those since its copy: it is named in the log, kept
as rmqMetadata.journal.damaged, and topics that it may have held are found by their queues.

Example: 10,000 topics made one by one cost 10,000 appends of some hundred bytes, and 2 MiB.
"""

import asyncio
import logging
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rmq.base import clock
from rmq.base.journal_file import JournalContent, JournalFile
from rmq.base.json_file import JsonFile
from rmq.errors import StoreError

log = logging.getLogger("rmq.broker.config_files")

NAME = "rmqMetadata.journal"
MARK = "rmqJournal"
BYTES_MIN = 4 << 20  # the journal is not cut before
QUIET_S = 60.0  # after the last change the JSON files are written


class Change(msgspec.Struct, omit_defaults=True):
    """What a record says of one table."""

    table: str
    put: dict[str, dict[str, Any]] = {}
    remove: dict[str, list[str]] = {}
    whole: dict[str, Any] = {}

    def apply(self, content: dict[Any, Any]) -> None:
        """To the content of the table's JSON file."""
        for member, items in self.put.items():
            _table(content, member).update(items)
        for member, names in self.remove.items():
            for name in names:
                _table(content, member).pop(name, None)
        content.update(self.whole)


class MetadataJournal:
    """The journal of all tables of a broker. Owned by the control thread's loop; only the writes
    themselves run elsewhere."""

    def __init__(self, config_directory: Path) -> None:
        self._file = JournalFile(config_directory / NAME)
        self._tables: list[JournaledTable] = []
        self._read: JournalContent | None = None
        self._identity = ""
        self._sequence = 0
        self._bytes = 0
        self._bytes_max = BYTES_MIN
        self._appendable = False
        self._cut_wanted = False
        self._changed_s = 0.0  # when the last change came
        self._task: asyncio.Task[None] | None = None

    # ---- start and stop

    def load(self, file: JsonFile) -> tuple[dict[Any, Any] | None, bool, bool]:
        """The newest content of a table's file, whether the file is marked as the journal's, and
        whether the journal has more than it. Changes nothing but what JsonFile.load() does."""
        content = file.load()
        journal = self._content()
        mark = (content or {}).pop(MARK, None)
        identity, sequence = _mark_of(mark)
        changes = _changes_of(journal, file.path.name)
        is_ours = identity == journal.identity != ""
        news = [change for number, change in changes if number > sequence] if is_ours else []
        for change in news:
            change.apply(content or {})
        if is_ours:
            self._sequence = max(self._sequence, sequence)
        elif changes:
            log.warning(
                "%s was written by another broker, or by hand, since the last change in %s: it is "
                "used, and %d records there are not",
                file.path, self._file.path, len(changes),
            )  # fmt: skip
        elif identity and not journal.size_bytes:
            log.warning("%s is missing: changes behind %s are lost", self._file.path, file.path)
            file.is_newest = False
        if journal.damage and not journal.is_torn:
            file.is_newest = False
        return content, is_ours and file.is_newest, bool(news)

    def tidy(self) -> None:
        """To be called now and then: writes what an earlier failure left behind, and the JSON
        files when nothing has changed for a while."""
        if any(table.behind for table in self._tables):
            self.start()
        elif (
            any(table.journaled for table in self._tables)
            and clock.monotonic() - self._changed_s >= QUIET_S
        ):
            self._cut_wanted = True
            self.start()

    async def stop(self) -> None:
        """All tables are whole in their JSON files, and the journal is empty."""
        if any(table.behind or table.journaled for table in self._tables):
            self._cut_wanted = True
            self.start()
        if self._task is not None:
            await self._task

    @property
    def is_writing(self) -> bool:
        return self._task is not None and not self._task.done()

    # ---- used by the tables

    def join(self, table: "JournaledTable") -> None:
        self._tables.append(table)

    def changed(self) -> None:
        self._changed_s = clock.monotonic()
        self.start()

    def start(self) -> None:
        if not self.is_writing:
            self._task = asyncio.get_running_loop().create_task(self._write())

    def save_now(self, table: "JournaledTable") -> None:
        """Writes a table's JSON on the calling thread: at start, before the loop serves anyone."""
        has_journal = self._content().identity
        self._sequence += 1
        table.begin()
        table.file.save(table.whole()() | ({MARK: self._mark()} if has_journal else {}))
        table.written(is_whole=True)
        table.marked = bool(has_journal)

    # ---- writing

    async def _write(self) -> None:
        try:
            while self._cut_wanted or any(table.behind for table in self._tables):
                if not (self._must_be_whole() or await self._append()):
                    self._appendable = False
                if self._must_be_whole():
                    await self._save_whole()
        except Exception as error:
            log.error("%s", error)
            self._appendable = self._cut_wanted = False
            for table in self._tables:
                table.failed(error)

    def _must_be_whole(self) -> bool:
        return (
            not self._appendable
            or self._cut_wanted
            or self._bytes > self._bytes_max
            or not all(table.marked for table in self._tables)
        )

    async def _append(self) -> bool:
        """A record for each table that changed; False when the journal is not to be used again."""
        behind = [table for table in self._tables if table.behind]
        records = []
        for table in behind:
            self._sequence += 1
            records.append((self._sequence, msgspec.json.encode(table.part(table.begin()))))
        try:
            self._bytes += await asyncio.to_thread(self._file.append, records)
        except OSError as error:
            log.error("%s cannot be written: %s", self._file.path, error)
            return False
        for table in behind:
            table.written(is_whole=False)
        return True

    async def _save_whole(self) -> None:
        """The tables that have changed since their JSON was written, and an empty journal."""
        due = [each for each in self._tables if each.behind or each.journaled or not each.marked]
        self._content()
        self._sequence += 1
        for table in due:
            table.begin()
        contents = [(table.file, table.whole()) for table in due]
        await asyncio.to_thread(self._save_all, contents, self._mark())
        self._appendable, self._cut_wanted = True, False
        for table in due:
            table.written(is_whole=True)

    def _save_all(
        self, contents: list[tuple[JsonFile, Callable[[], dict[str, Any]]]], mark: dict[str, Any]
    ) -> None:
        for file, make in contents:
            try:
                file.save({**make(), MARK: mark})
                file.settle()  # the journal is about to forget what the older copy has not
            except OSError as error:
                raise StoreError(f"{file.path} cannot be written: {error}") from None
        try:
            self._bytes = self._file.create(self._identity)
        except OSError as error:
            raise StoreError(f"{self._file.path} cannot be written: {error}") from None
        self._bytes_max = max(BYTES_MIN, sum(file.path.stat().st_size for file, _ in contents))

    def _mark(self) -> dict[str, Any]:
        return {"identity": self._identity, "sequence": self._sequence}

    # ---- reading

    def _content(self) -> JournalContent:
        """What was in the journal when it was first looked at."""
        if self._read is not None:
            return self._read
        path = self._file.path
        try:
            found = self._file.read()
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error}") from None
        if found.damage and found.is_torn:
            log.warning("%s: a crash left the last record unfinished: %s", path, found.damage)
        elif found.damage:
            aside = path.with_name(path.name + ".damaged")
            log.error(
                "%s is damaged: %s; the changes in it are lost, what is left of it is kept as %s",
                path, found.damage, aside,
            )  # fmt: skip
            try:
                shutil.copyfile(path, aside)
            except OSError as error:  # somebody who may only read
                log.warning("%s cannot be written: %s", aside, error)
        self._read = found
        self._appendable = bool(found.identity) and not found.damage
        self._identity = found.identity or uuid.uuid4().hex
        self._bytes = found.size_bytes
        if found.records:
            self._sequence = max(self._sequence, found.records[-1][0])
        return found


class JournaledTable:
    """A table's way to the disk. Owned by its table."""

    def __init__(
        self,
        journal: MetadataJournal,
        file: JsonFile,
        *,
        whole: Callable[[], Callable[[], dict[str, Any]]],
        part: Callable[[set[str]], Change],
        on_begin: Callable[[], None] = lambda: None,
        on_written: Callable[[], None] = lambda: None,
    ) -> None:
        """whole: called on the loop; what it returns makes the content of the JSON file in another
        thread, as it was at the call. part: the record of these names. on_begin: a write begins,
        of all changes so far; on_written: it is on the disk; called before those who wait."""
        self.file = file
        self.whole = whole
        self.part = part
        self.marked = False  # the JSON has the journal's identity
        self.journaled = False  # the journal has changes that the JSON has not
        self._journal = journal
        self._on_begin, self._on_written = on_begin, on_written
        self._names: set[str] = set()  # changed since the last write began
        self._changed = 0  # generation of the table
        self._goal = 0  # generation that is being written
        self._written = 0  # generation on the disk
        self._error: Exception | None = None
        self._progress = asyncio.Event()  # set and replaced after each write, also a failed one
        journal.join(self)

    @property
    def behind(self) -> bool:
        return self._written < self._changed

    def load(self) -> dict[Any, Any] | None:
        content, self.marked, self.journaled = self._journal.load(self.file)
        return content

    def changed(self, *names: str) -> None:
        self._names.update(names)
        self._changed += 1
        self._journal.changed()

    async def saved(self) -> None:
        """Returns when all changes made so far are on the disk; StoreError when they cannot be."""
        goal = self._changed
        while self._written < goal:
            self._journal.start()
            await self._progress.wait()
            if self._error is not None and self._written < goal:
                raise StoreError(str(self._error)) from None

    async def stop(self) -> None:
        """saved(), and both copies of the JSON file hold it."""
        await self._journal.stop()
        await self.saved()
        await asyncio.to_thread(self.file.settle)

    def save_now(self) -> None:
        self._journal.save_now(self)

    # ---- used by the journal

    def begin(self) -> set[str]:
        """The names that changed; a write of all changes so far begins."""
        names, self._names = self._names, set()
        self._goal = self._changed
        self._on_begin()
        return names

    def written(self, *, is_whole: bool) -> None:
        self._error = None
        self._written = self._goal
        self.journaled = not is_whole
        self.marked = True
        self._on_written()
        self._progressed()

    def failed(self, error: Exception) -> None:
        self._error = error
        self._progressed()

    def _progressed(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()


def part_of(table: str, members: Mapping[str, Mapping[str, Any]], **whole: Any) -> Change:
    """The record of a table: the values of names by member, None for what is gone."""
    change = Change(table, whole=whole)
    for member, items in members.items():
        put = {name: value for name, value in items.items() if value is not None}
        gone = [name for name, value in items.items() if value is None]
        if put:
            change.put[member] = put
        if gone:
            change.remove[member] = gone
    return change


def _mark_of(mark: Any) -> tuple[str, int]:
    """identity and sequence in a JSON file; an empty identity when it has none."""
    if not isinstance(mark, dict):
        return "", 0
    identity, sequence = mark.get("identity"), mark.get("sequence")
    if not isinstance(identity, str) or not isinstance(sequence, int):
        return "", 0
    return identity, sequence


def _table(content: dict[Any, Any], member: str) -> dict[Any, Any]:
    found = content.get(member)
    if not isinstance(found, dict):
        found = content[member] = dict.fromkeys(found, True) if isinstance(found, list) else {}
    return found


def _changes_of(journal: JournalContent, table: str) -> list[tuple[int, Change]]:
    found = []
    for sequence, payload in journal.records:
        try:
            change = msgspec.json.decode(payload, type=Change)
        except msgspec.DecodeError as error:
            raise StoreError(f"record {sequence} of {NAME} is none of a table: {error}") from None
        if change.table == table:
            found.append((sequence, change))
    return found
