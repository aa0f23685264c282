"""Bundle: an archive of files without secrets, each of limited size, with a list of its contents.

    bundle = Bundle(SecretsMask(["wonderland"]), limit_bytes=16 << 20)
    bundle.add("cluster/brokers.json", "what each broker is doing", lambda: [..])
    bundle.write(Path("rmq-debug.tar.gz"))

A file that cannot be got is left out, the list says why, and the other files are gathered all the
same: a bundle is made when something is broken. Only its owner may read the archive (mode 0600).
"""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from rmq.cli.errors import describe_error
from rmq.cli.export import whole_file
from rmq.cli.secrets_mask import SecretsMask
from rmq.errors import RmqError
from rmq.progress import Progress, no_progress

FILE_BYTES = 2 << 20
INDEX = "index.json"


class Entry(msgspec.Struct):
    """A file of the bundle; `note`: why it was left out or cut."""

    file: str
    bytes: int
    what: str
    note: str | None = None


class Bundle:
    def __init__(
        self, mask: SecretsMask, limit_bytes: int, progress: Progress = no_progress
    ) -> None:
        self._mask, self._left, self.progress = mask, limit_bytes, progress
        self._files: dict[str, bytes] = {}
        self.entries: list[Entry] = []

    def add(self, file: str, what: str, make: Callable[[], Any], *, is_end: bool = False) -> None:
        """Adds what make() returns: a text as it is, anything else as JSON. Of content that is too
        long the beginning is kept; is_end: its end."""
        self.progress(file, len(self.entries), 0)
        try:
            made = make()
        except RmqError as error:
            self.entries.append(Entry(file, 0, what, f"left out: {describe_error(error).error}"))
            return
        except OSError as error:
            reason = error.strerror or str(error)
            self.entries.append(Entry(file, 0, what, f"left out: {reason}"))
            return
        text = made if isinstance(made, str) else _json(made)
        # Masked before it is cut, because half a secret would not be found.
        content = self._mask.text(text).encode("utf-8", "replace")
        limit, note = min(FILE_BYTES, self._left), None
        if limit <= 0:
            self.entries.append(Entry(file, 0, what, "left out: the limit --max-mib is reached"))
            return
        if len(content) > limit:
            note = f"cut: the {'last' if is_end else 'first'} {limit} of {len(content)} bytes"
            content = content[len(content) - limit :] if is_end else content[:limit]
        self._left -= len(content)
        self._files[file] = content
        self.entries.append(Entry(file, len(content), what, note))

    def write(self, path: Path) -> None:
        """Writes the archive. RmqError: it cannot be written; no part of it is left."""
        root = path.name.partition(".")[0]
        index = _json(self.entries).encode()
        with (
            whole_file(path, mode=0o600) as part,
            tarfile.open(part, "w:gz", format=tarfile.PAX_FORMAT) as archive,
        ):
            for name, content in {INDEX: index, **self._files}.items():
                header = tarfile.TarInfo(f"{root}/{name}")
                header.size, header.mode, header.mtime = len(content), 0o600, int(time.time())
                archive.addfile(header, io.BytesIO(content))


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode() + "\n"
