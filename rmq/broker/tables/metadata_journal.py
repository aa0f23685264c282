"""Metadata journal: brings changes of tables to the disk without writing the whole table.

    config/rmqMetadata.journal          changes since the tables' JSON files were written
    config/rmqOffsets.journal           the same for consumerOffset.json alone (offsets.py)
    config/topics.json                  {..,"rmqJournal":{"identity":"5f0c..","sequence":6}}

A table calls changed(names) after a change. A task then appends one record of all changes so far
and syncs the file in a worker thread; changes made meanwhile go together into the next record. Code
that must not answer before its change is on the disk awaits saved().

    [{"table":"topics.json","put":{"topicConfigTable":{"t":{..}}},
      "remove":{"topicConfigTable":["gone"]},"whole":{"dataVersion":{..}}}]

Values are absolute, so applying a record twice changes nothing. A member that is a list of names in
the JSON (shardOwn) is put as {name: true}.

The JSON files are written whole, both copies (rmq/base/json_file.py), and the journal begins anew:
when it has grown past 4 MiB and past the size of the tables, 3 s after the last change, 10 s after
the first, at a stop, and instead of an append that failed. Large tables are written less often: a
second later for each 64 KiB of them, up to a minute after the last change and ten minutes after the
first. So Apache's broker can read everything after a stop, and all but the last seconds after a
kill.

A start reads the JSON and applies the records behind the sequence that it names. It does not apply
them to a JSON file that something else has written since:

    no rmqJournal       Apache's broker drops the member, like all members that it does not know
    another identity    an operator has put another broker's file there
    no rmqChecksum      it was edited by hand
    below the base      an older file than the one on which the journal builds: a backup

Such a file is used as it is. If the journal has records for it (it has none after a clean stop),
that is logged, and the journal is kept as rmqMetadata.journal.unused. A crash before the first
whole write leaves no journal. A crash in the middle of a whole write leaves an older journal, whose
records are in the JSON already or can be applied. What a start has read is written anew before
anyone is served, because the process before may have been killed between a write and its sync.

The last record may be torn by a crash: nobody has been answered for it. Damage in the middle costs
the changes of one record, that is of one sync: it is logged, the journal is kept as
rmqMetadata.journal.damaged, and topics that the record may have held are found by their queues.
There is one copy of the journal, because it matters only for a crash within seconds or minutes of a
change; older changes are in the JSON files, of which there are two.

Example: 10,000 topics made one by one cost 10,000 appends of some hundred bytes, and 2 MiB.
"""

import asyncio
import contextlib
import logging
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rmq.base import clock
from rmq.base.journal_file import METADATA_NAME, JournalContent, JournalFile
from rmq.base.json_file import JsonFile
from rmq.errors import ProtocolError, StoreError

log = logging.getLogger("rmq.broker.config_files")

MARK = "rmqJournal"
BYTES_MIN = 4 << 20  # a smaller journal is not emptied because of its size
QUIET_S, QUIET_MAX_S = 3.0, 60.0  # from the last change to the write of the JSON files
AGE_S, AGE_MAX_S = 10.0, 600.0  # the same from the first change that they do not have
BYTES_PER_S = 64 << 10  # of tables and journal; each time so many delay the write by a second


class Change(msgspec.Struct, omit_defaults=True):
    """What a record says of one table."""

    table: str
    put: dict[str, dict[str, Any]] = {}
    remove: dict[str, list[str]] = {}
    whole: dict[str, Any] = {}

    def apply(self, content: dict[Any, Any]) -> None:
        """Applies the change to the content of the table's JSON file."""
        for member, items in self.put.items():
            _table(content, member).update(items)
        for member, names in self.remove.items():
            for name in names:
                _table(content, member).pop(name, None)
        content.update(self.whole)


class MetadataJournal:
    """The journal of some tables of a broker. Owned by the control thread's loop; only the writes
    themselves run elsewhere."""

    def __init__(self, config_directory: Path, name: str = METADATA_NAME) -> None:
        self._file = JournalFile(config_directory / name)
        self._tables: list[JournaledTable] = []
        self._read: JournalContent | None = None
        self._identity = ""
        self._bases: dict[str, int] = {}  # table -> sequence that both copies of its JSON hold
        self._sequence = 0
        self._bytes = 0
        self._bytes_max = BYTES_MIN
        self._appendable = False
        self._compaction_wanted = False
        self._changed_s = 0.0  # when the last change came
        self._oldest_s = 0.0  # when the first change came that the JSON files do not have
        self._trouble = ""  # why the last write failed; logged once
        self._task: asyncio.Task[None] | None = None

    # ---- start and stop

    def load(self, file: JsonFile) -> tuple[dict[Any, Any] | None, bool, bool]:
        """(the newest content of a table's file, whether the file has this journal's mark, whether
        the journal has more than the file). Changes nothing except what JsonFile.load() changes."""
        content = file.load()
        identity, sequence = _mark_of((content or {}).pop(MARK, None))
        journal = self._content(identity)
        changes = _changes_of(journal, file.path.name)
        foreign = _foreign(file, content, journal, identity, sequence)
        if not foreign:
            self._sequence = max(self._sequence, sequence)
            changes = [(number, change) for number, change in changes if number > sequence]
            for _, change in changes:
                change.apply(content or {})
        elif changes:
            log.warning(
                "%s %s: it is used, and %d records of %s are not",
                file.path, foreign, len(changes), self._file.path,
            )  # fmt: skip
            self._keep_as(".unused")
        elif identity and not journal.size_bytes:
            log.warning("%s is missing: changes behind %s are lost", self._file.path, file.path)
            file.is_newest = False
        if journal.damage and not journal.is_torn:
            file.is_newest = False
        is_ours = not foreign
        return content, is_ours and file.is_newest, is_ours and bool(changes)

    def renew(self) -> None:
        """Writes what was read to the disk; to be called when all tables are loaded, before anyone
        is served."""
        found = self._content()
        if not found.identity or not (found.records or found.damage):
            return
        try:
            self._bytes = self._file.create(found.identity, found.bases, found.records)
        except OSError as error:
            log.error("%s cannot be written: %s", self._file.path, error)
        self._appendable = self._file.is_appendable
        found.records = []  # the tables hold them now; they may take as much memory as the tables

    @property
    def is_torn(self) -> bool:
        """Whether the last record was torn."""
        return self._content().is_torn

    def tidy(self) -> None:
        """Writes what an earlier failure left behind, and the JSON files when nothing has changed
        for a while; to be called at intervals."""
        if any(table.journaled for table in self._tables):
            now, more_s = clock.monotonic(), self._size() / BYTES_PER_S
            is_quiet = now - self._changed_s >= min(QUIET_S + more_s, QUIET_MAX_S)
            if is_quiet or now - self._oldest_s >= min(AGE_S + more_s, AGE_MAX_S):
                self._compaction_wanted = True
        if self._compaction_wanted or any(table.behind for table in self._tables):
            self.start()

    def _size(self) -> int:
        """About how many bytes a whole write would write."""
        size = self._bytes
        for table in self._tables:
            with contextlib.suppress(FileNotFoundError):
                size += table.file.path.stat().st_size
        return size

    def compact(self) -> None:
        """Writes the tables to their JSON files, and empties the journal."""
        self._compaction_wanted = True
        self.start()

    async def ended(self) -> None:
        """Returns when no write is under way. For a stop: while tables change, another write may
        always follow."""
        if self._task is not None:
            await asyncio.wait([self._task])

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
        """Writes a table's JSON in the calling thread: at start, before the loop serves anyone."""
        has_journal = self._content().identity
        self._sequence += 1
        table.begin()
        table.file.save(table.whole()() | ({MARK: self._mark()} if has_journal else {}))
        table.written(is_whole=True)
        table.marked = bool(has_journal)

    # ---- writing

    async def _write(self) -> None:
        try:
            while self._compaction_wanted or any(table.behind for table in self._tables):
                if not (self._must_be_whole() or await self._append()):
                    self._appendable = False
                if self._must_be_whole():
                    await self._save_whole()
        except Exception as error:
            if str(error) != self._trouble:
                log.error("%s", error)
            self._trouble = str(error)
            self._appendable = self._compaction_wanted = False
            for table in self._tables:
                table.failed(error)

    def _must_be_whole(self) -> bool:
        return (
            not self._appendable
            or self._compaction_wanted
            or self._bytes > self._bytes_max
            or not all(table.marked for table in self._tables)
        )

    async def _append(self) -> bool:
        """Appends a record of all changes; False when the journal must not be used again."""
        behind = [table for table in self._tables if table.behind]
        if not any(table.journaled for table in self._tables):
            self._oldest_s = clock.monotonic()
        self._sequence += 1
        parts = [table.part(table.begin()) for table in behind]
        try:
            self._bytes += await asyncio.to_thread(self._append_record, parts)
        except OSError as error:
            log.error("%s cannot be written: %s", self._file.path, error)
            return False
        self._trouble = ""
        for table in behind:
            table.written(is_whole=False)
        return True

    def _append_record(self, parts: list[Callable[[], Change]]) -> int:
        record = msgspec.json.encode([make() for make in parts])
        return self._file.append(self._sequence, record)

    async def _save_whole(self) -> None:
        """Writes the tables that have changed since both copies of their JSON were written, and an
        empty journal."""
        due = [each for each in self._tables if each.is_due]
        self._compaction_wanted = False  # a later wish is for another whole write
        self._content()
        self._sequence += 1
        for table in due:
            table.begin()
        contents = [(table.file, table.whole()) for table in due]
        await asyncio.to_thread(self._save_all, contents, self._mark())
        self._appendable, self._trouble = True, ""
        for table in due:
            table.is_settled = True
            table.written(is_whole=True)

    def _save_all(
        self, contents: list[tuple[JsonFile, Callable[[], dict[str, Any]]]], mark: dict[str, Any]
    ) -> None:
        for file, make in contents:
            try:
                file.save({**make(), MARK: mark})
                file.settle()  # the journal will forget changes that the older copy does not have
            except OSError as error:
                raise StoreError(f"{file.path} cannot be written: {error}") from None
        bases = self._bases | {file.path.name: mark["sequence"] for file, _ in contents}
        try:
            self._bytes = self._file.create(self._identity, bases)
        except OSError as error:
            raise StoreError(f"{self._file.path} cannot be written: {error}") from None
        self._bases = bases
        self._bytes_max = max(BYTES_MIN, sum(file.path.stat().st_size for file, _ in contents))

    def _mark(self) -> dict[str, Any]:
        return {"identity": self._identity, "sequence": self._sequence}

    # ---- reading

    def _content(self, identity: str = "") -> JournalContent:
        """The journal's content when it was first read. `identity`: the journal's identity
        according to a JSON file, in case the journal's header is damaged."""
        if self._read is not None and (self._read.identity or not identity):
            return self._read
        path = self._file.path
        try:
            found = self._file.read(identity)
        except (OSError, ProtocolError) as error:
            raise StoreError(f"{path} cannot be read: {error}") from None
        if self._read is not None and not found.records:
            return self._read
        if found.damage and found.is_torn:
            log.warning(
                "%s: a crash left the last record unfinished, or it is damaged: %s",
                path, found.damage,
            )  # fmt: skip
        elif found.damage:
            log.error("%s is damaged: %s; the changes in it are lost", path, found.damage)
            self._keep_as(".damaged")
        self._read = found
        self._appendable = self._file.is_appendable
        self._identity = found.identity or self._identity or uuid.uuid4().hex
        self._bases = found.bases
        self._bytes = found.size_bytes
        known = (*found.bases.values(), *(sequence for sequence, _ in found.records[-1:]))
        self._sequence = max(self._sequence, *known, 0)
        return found

    def _keep_as(self, suffix: str) -> None:
        """Keeps a copy of the journal, because the next whole write begins another one."""
        path = self._file.path
        aside = path.with_name(path.name + suffix)
        try:
            shutil.copyfile(path, aside)
        except OSError as error:  # this process may only have permission to read
            log.warning("%s cannot be written: %s", aside, error)
        else:
            log.warning("%s is kept as %s", path, aside)


class JournaledTable:
    """Brings one table to the disk. Owned by that table."""

    def __init__(
        self,
        journal: MetadataJournal,
        file: JsonFile,
        *,
        whole: Callable[[], Callable[[], dict[str, Any]]],
        part: Callable[[set[str]], Callable[[], Change]],
        on_begin: Callable[[], None] = lambda: None,
        on_written: Callable[[], None] = lambda: None,
    ) -> None:
        """whole: called on the loop; returns a function that makes the content of the JSON file, as
        of that call, in another thread. part: the same for the record of these names. Both
        functions may wait in that thread for what must be on the disk first, and raise when that
        fails. on_begin: called when a write of all changes so far begins; on_written: called when
        it is on the disk, before waiting callers go on."""
        self.file = file
        self.whole = whole
        self.part = part
        self.marked = False  # the JSON has the journal's identity
        self.journaled = False  # the journal has changes that the JSON does not have
        self.is_settled = False  # both copies of the JSON were written by this process
        self._journal = journal
        self._on_begin, self._on_written = on_begin, on_written
        self._names: set[str] = set()  # changed since the last write began
        self._changed = 0  # generation of the table
        self._goal = 0  # generation that is being written
        self._written = 0  # generation on the disk
        self._in_json = 0  # generation in the JSON file; -1: the journal that was read has more
        self._error: Exception | None = None
        self._progress = asyncio.Event()  # set and replaced after each write, also a failed one
        journal.join(self)

    @property
    def behind(self) -> bool:
        return self._written < self._changed

    @property
    def is_due(self) -> bool:
        """Whether this table's JSON must be written before the journal begins anew."""
        return self.behind or self.journaled or not self.marked or not self.is_settled

    @property
    def is_torn(self) -> bool:
        """Whether the last record of the journal was torn."""
        return self._journal.is_torn

    def load(self) -> dict[Any, Any] | None:
        content, self.marked, self.journaled = self._journal.load(self.file)
        self._in_json = -1 if self.journaled else 0
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
                raise self._failure()

    async def save_whole(self) -> None:
        """Like saved(), but also waits until both copies of the JSON file hold the table;
        StoreError when they cannot."""
        goal = self._changed
        if self._in_json < goal:
            self._journal.compact()
        while self._in_json < goal:  # a write under way may have begun before the changes
            await self._progress.wait()
            if self._error is not None and self._in_json < goal:
                raise self._failure()
        try:
            await asyncio.to_thread(self.file.settle)  # this process has not written it yet
        except OSError as error:
            raise StoreError(f"{self.file.backup_path} cannot be written: {error}") from None

    def save_now(self) -> None:
        self._journal.save_now(self)

    # ---- used by the journal

    def begin(self) -> set[str]:
        """Begins a write of all changes so far; returns the names that have changed."""
        names, self._names = self._names, set()
        self._goal = self._changed
        self._on_begin()
        return names

    def written(self, *, is_whole: bool) -> None:
        self._error = None
        self._written = self._goal
        if is_whole:
            self._in_json = self._goal
        self.journaled = not is_whole
        self.marked = True
        self._on_written()
        self._progressed()

    def failed(self, error: Exception) -> None:
        self._error = error
        self._progressed()

    def _failure(self) -> StoreError:
        error = self._error
        return (type(error) if isinstance(error, StoreError) else StoreError)(str(error))

    def _progressed(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()


def part_of(table: str, members: Mapping[str, Mapping[str, Any]], **whole: Any) -> Change:
    """The record of a table: for each member the values by name, None for names that are gone."""
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
    """(identity, sequence) in a JSON file; the identity is empty when the file has none."""
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


def _foreign(
    file: JsonFile,
    content: dict[Any, Any] | None,
    journal: JournalContent,
    identity: str,
    sequence: int,
) -> str:
    """Why the journal's records do not belong to this content; empty: they do."""
    if content is None:
        return "is missing"
    if not identity or identity != journal.identity:
        return "was written by another broker since"
    if not file.has_checksum:
        return "was edited by hand since"
    if sequence < journal.bases.get(file.path.name, 0):
        return "is older than the journal, as from a backup"
    return ""


def _changes_of(journal: JournalContent, table: str) -> list[tuple[int, Change]]:
    found = []
    for sequence, payload in journal.records:
        try:
            changes = msgspec.json.decode(payload, type=list[Change])
        except msgspec.DecodeError as error:
            raise StoreError(
                f"record {sequence} of the journal of {table} holds no changes: {error}"
            ) from None
        found += [(sequence, change) for change in changes if change.table == table]
    return found
