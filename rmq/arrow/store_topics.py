"""Store topics: whether a store without a broker has the topics that a read names.

    check_topics({"orders"}, [Path("/backup/store")], ranges)       OptionError: it is not there

A topic is there if it has queue files or is configured, with or without messages. If a store has
such topics, its log is not searched for others. A topic that is missing may have been deleted and
still be in the log, where subscribePattern finds it; but more often its name is misspelt.

The log is searched, until all topics that were asked for are found, where nothing else can tell: in
a copy of a log alone, in a store whose queues are in RocksDB, and for a system topic (retries, dead
letters), which no pattern finds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from cext.arrow.columns import Columns
from cext.arrow.decoder import DamageMode, Decoder
from cext.arrow.log_reader import LogReader
from rmq.arrow.options import OptionError
from rmq.arrow.queues import is_system
from rmq.base.journal_file import METADATA_NAME, JournalFile
from rmq.errors import ProtocolError
from rmq.format import fastjson

SHOWN = 20  # topics named in the error


class Range(Protocol):
    """A range of the log: store_log.LogRange."""

    @property
    def path(self) -> str: ...
    @property
    def segment_start(self) -> int: ...
    @property
    def segment_end(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


def check_topics(asked: Iterable[str], roots: Sequence[Path], ranges: Sequence[Range]) -> None:
    missing = set(asked)
    found: set[str] = set()
    bare: set[Path] = set()
    for root in roots:
        named = known_topics(root)
        found |= named
        if not named or in_rocksdb(root) or any(map(is_system, missing - found)):
            bare.add(root / "commitlog")
    for each in ranges:
        if missing <= found:
            return
        if Path(each.path).parent in bare:
            found |= logged_topics(each)
    if missing <= found:
        return
    name = min(missing - found)
    shown = sorted(topic for topic in found if not is_system(topic))
    others = ", ".join(shown[:SHOWN]) + (f" and {len(shown) - SHOWN} more" * (len(shown) > SHOWN))
    raise OptionError(
        f"topic {name} is not in the store {roots[0]}: "
        + (f"there are {others}" if shown else "there are no topics in it")
        + ("; subscribePattern reads what is left of a deleted one" * (len(bare) < len(roots)))
    )


def known_topics(root: Path) -> set[str]:
    """Topics with queue files, and those in the configuration if that can be read."""
    folder = root / "consumequeue"
    found = {each.name for each in folder.glob("*/")} if folder.is_dir() else set()
    try:
        topics = fastjson.loads_object((root / "config" / "topics.json").read_bytes())
        found.update(map(str, topics["topicConfigTable"]))
    except (OSError, ProtocolError, KeyError, TypeError):
        pass
    return found | journaled_topics(root / "config" / METADATA_NAME)


def journaled_topics(journal: Path) -> set[str]:
    """Topics made since topics.json was written (rmq/broker/tables/metadata_journal.py)."""
    found: set[str] = set()
    try:
        for _, record in JournalFile(journal).read().records:
            for change in fastjson.loads(record):
                found.update(map(str, change.get("put", {}).get("topicConfigTable", ())))
    except (OSError, ProtocolError, AttributeError, TypeError):
        pass
    return found


def in_rocksdb(root: Path) -> bool:
    """Whether Apache's broker wrote the store with storeType=defaultRocksDB. Then the files in
    consumequeue/ are the database's, and a topics.json is older than the database, or an export."""
    return (root / "consumequeue" / "CURRENT").is_file()


def logged_topics(part: Range) -> set[str]:
    """Topics of the records in a range of the log."""
    found: set[str] = set()

    def decide(topic: str) -> list[tuple[int, int, int]]:
        found.add(topic)
        return []

    # Retention may have taken the file since the plan was made.
    with suppress(FileNotFoundError), Path(part.path).open("rb", buffering=0) as file:
        reader = LogReader(
            Decoder(Columns([]), mode=DamageMode.DROP), file.fileno(), part.segment_start,
            min(os.fstat(file.fileno()).st_size, part.segment_end - part.segment_start),
            part.start, part.end, decide,
        )  # fmt: skip
        while not reader.fill():
            pass
    return found
