"""Store copies: copies stores without the unwritten parts of their files.

    copy_store(live, killed)            # as a kill would leave it: the broker may go on writing
    copy_store(live, cut, ignore=shutil.ignore_patterns("*.tmp"))

A store's files have their whole length from the start, and read as zeros behind what was written. A
plain copy would make the kernel zero, read ahead and write each of these pages. This copy has the
same lengths and bytes, and holes where nothing was written, even where disk space was reserved.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def copy_store(source: Path, target: Path, **how: Any) -> None:
    """`how`: further arguments of shutil.copytree."""
    shutil.copytree(source, target, copy_function=copy_file, **how)


def copy_file(source: Path | str, target: Path | str) -> None:
    """Copies a plain file with its times and rights, and the length that it has at the start."""
    with open(source, "rb") as given, open(target, "wb") as made:
        length = os.fstat(given.fileno()).st_size
        made.truncate(length)
        for start, end in _written(given.fileno(), length):
            os.lseek(made.fileno(), start, os.SEEK_SET)
            while start < end:
                moved = os.sendfile(made.fileno(), given.fileno(), start, end - start)
                if moved == 0:
                    break  # the file was cut meanwhile
                start += moved
    shutil.copystat(source, target)


def _written(fd: int, length: int) -> Iterator[tuple[int, int]]:
    """(start, end) of the parts that are not holes."""
    end = 0
    while end < length:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = min(length, os.lseek(fd, start, os.SEEK_HOLE))
        except OSError as error:
            if error.errno != errno.ENXIO:  # ENXIO: no data up to the end
                raise
            return
        yield start, end
