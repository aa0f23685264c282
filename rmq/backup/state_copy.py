"""State copy: copies what a store keeps beside its log, as of one moment.

    config/*            topics, groups, offsets: JSON files with their .bak, and their journals
    queueEnds.synced    where each queue ends, made of the store's queueEnds
    rmqTimers/position  how far timed messages are delivered

A JSON file says up to which record of its journal it is (rmq/broker/tables/metadata_journal.py), so
files and journals must be of one moment. All are opened, then read, and then their names are looked
up once more: if each name still belongs to the file that was read, all of them existed at that
moment. Files are only replaced, never changed in place, except journals, which grow. A record that
a journal gets meanwhile may be read or not; it is a change of its own. If a broker writes files
anew meanwhile, the copy is tried again.

Queues are made anew from the log when the copy is restored. A queue whose messages are all deleted
has nothing in the log, and would begin at offset 0 again: consumers that had reached offset 500
would miss the next 500 messages. So the ends are copied: an entry says "nothing is left, and the
next offset is 500", which counts only if the log has nothing of the queue (rows A1, Q6 and Q10 of
cext/store/recovery.pxd). The end is the one that rmq has noted (queueEnds) or the one of the
queue's files, whichever is larger: both may be seconds behind, but messages are deleted only after
hours.

Files that can be made anew are left out: consumequeue/, index/, checkpoint, and rmqTimers/ except
position.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from rmq.backup.manifest import CONFIG_FILE, QUEUE_ENDS, TIMER_POSITION, FileCopy, mode_of
from rmq.base.atomic_file import write_synced
from rmq.base.durable_directory import make_directory, sync_directory
from rmq.errors import StoreError
from rmq.format.queue_ends import EndsFile, QueueEnds, decode_ends, encode_ends
from rmq.format.store_files import QUEUE_ENTRY_BYTES, numbered_files, queue_directories
from rmq.offline.overview import entry_count

TRIES = 200
NAME_BYTES = 256  # more than a name in an entry of queueEnds can have
QUEUE_IDS = 1 << 31
PAUSE_S = 0.02
# Files that are being written, or were put aside: no broker reads them.
UNREAD = (".tmp", ".new", ".damaged", ".unused", ".lock")


def read_state(store: Path) -> dict[str, bytes]:
    """Path in the state -> content."""
    ends = encode_ends(EndsFile(bytes(16), 0, -1, _queue_ends(store)))
    found = {f"config/{name}": data for name, data in _read_config(store / "config").items()}
    found[QUEUE_ENDS] = ends
    with suppress(FileNotFoundError):
        found[TIMER_POSITION] = (store / TIMER_POSITION).read_bytes()
    return found


def write_state(directory: Path, state: dict[str, bytes]) -> list[FileCopy]:
    """Writes the state, durably, into a directory that does not exist yet."""
    for path, data in state.items():
        make_directory((directory / path).parent)
        write_synced(directory / path, data, mode_of(path))
    for each in {(directory / path).parent for path in state}:
        sync_directory(each)
    return [FileCopy(path, len(data), zlib.crc32(data)) for path, data in sorted(state.items())]


def _read_config(directory: Path) -> dict[str, bytes]:
    for _ in range(TRIES):
        found = _read_once(directory)
        if found is not None:
            return found
        time.sleep(PAUSE_S)
    raise StoreError(
        f"{directory}: files were replaced during each of {TRIES} readings, so no copy of one "
        "moment could be made. Try again when fewer topics and groups are being changed"
    )


def _read_once(directory: Path) -> dict[str, bytes] | None:
    """Path -> content; None: a file was replaced meanwhile."""
    with ExitStack() as opened:
        files = {}
        try:
            for name in _names(directory):
                files[name] = opened.enter_context((directory / name).open("rb"))
            # JSON first, so that its journal may have more than it, but never less.
            order = sorted(files, key=lambda name: name.endswith(".journal"))
            found = {name: files[name].read() for name in order}
            for name, file in files.items():
                if not os.path.samestat(os.fstat(file.fileno()), (directory / name).stat()):
                    return None
        except FileNotFoundError:
            return None
        return found if set(_names(directory)) == set(found) else None


def _names(directory: Path) -> Iterator[str]:
    for path in directory.iterdir() if directory.is_dir() else ():
        is_read = CONFIG_FILE.fullmatch(f"config/{path.name}") and not path.name.endswith(UNREAD)
        if is_read and path.is_file():
            yield path.name


def _queue_ends(store: Path) -> dict[tuple[bytes, int], QueueEnds]:
    """At least the next offset of each queue: as rmq has noted it at the last barrier, or as the
    queue's files say, which is more if the queue is younger than that."""
    ends: dict[tuple[bytes, int], int] = {}
    for name in ("queueEnds", "queueEnds.synced"):  # the newer one first
        try:
            noted = decode_ends((store / name).read_bytes()).queues
        except (OSError, ValueError):
            continue
        ends = {queue: entry.end_offset for queue, entry in noted.items()}
        break
    for topic, queue_id, path in queue_directories(store / "consumequeue"):
        if len(topic) < NAME_BYTES and queue_id < QUEUE_IDS:
            queue = topic, queue_id
            ends[queue] = max(ends.get(queue, 0), _end_in_files(path))
    return {queue: QueueEnds(end, -1, end, -1, 0) for queue, end in ends.items() if end > 0}


def _end_in_files(path: Path) -> int:
    files, _ = numbered_files(path)
    for file in reversed(files):
        with suppress(FileNotFoundError):  # the topic is being deleted
            entries = entry_count(file)
            if entries:
                return int(file.name) // QUEUE_ENTRY_BYTES + entries
    return 0
