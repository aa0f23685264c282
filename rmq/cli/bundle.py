"""Bundle: files of one archive, each bounded, without secrets, and with a list of what is in it.

    bundle = Bundle(SecretsMask(["wonderland"]), limit_bytes=16 << 20)
    bundle.add("cluster/brokers.json", "what each broker is doing", lambda: [..])
    bundle.write(Path("rmq-debug.tar.gz"))

What cannot be got is left out and noted, and the rest goes on: a bundle is made where something is
broken. The archive is for its owner alone (mode 0600).
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
    """A file of it; `note`: why it is not there, or not all of it."""

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
        """Text as it is, and all else as JSON. is_end: of what is too long the end is kept."""
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
        # Masked before it is cut: half a secret would be found no more.
        content = self._mask.text(text).encode("utf-8", "replace")
        limit, note = min(FILE_BYTES, self._left), None
        if limit <= 0:
            self.entries.append(Entry(file, 0, what, "left out: there is no more room"))
            return
        if len(content) > limit:
            note = f"cut: the {'last' if is_end else 'first'} {limit} of {len(content)} bytes"
            content = content[len(content) - limit :] if is_end else content[:limit]
        self._left -= len(content)
        self._files[file] = content
        self.entries.append(Entry(file, len(content), what, note))

    def write(self, path: Path) -> None:
        """RmqError: it cannot be written; nothing is left of it then."""
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
