"""Open files: pieces of many files, without reading them whole or opening each again and again.

    files = OpenFiles()
    files.read(path, at=140, count=20)      # fewer bytes at the file's end
    files.close()

This is for readers that come back to thousands of files in any order: each queue of a store has
files of megabytes, and a record's entry in one is 20 bytes.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path

MOST = 256  # descriptors; a process has 1,024 by default


class OpenFiles:
    """At most `most` files are open. To open another, the one unread for the longest is closed."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._descriptors: OrderedDict[Path, int] = OrderedDict()

    def read(self, path: Path, at: int, count: int) -> bytes:
        """The bytes; OSError: the file cannot be opened or read."""
        descriptor = self._descriptors.get(path)
        if descriptor is None:
            if len(self._descriptors) >= self._most:
                os.close(self._descriptors.popitem(last=False)[1])
            descriptor = self._descriptors[path] = os.open(path, os.O_RDONLY)
        else:
            self._descriptors.move_to_end(path)
        return os.pread(descriptor, count, at)

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])
