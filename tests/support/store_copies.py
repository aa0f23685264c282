"""Copies of stores by what has been written to their files, for tests.

    copy_store(live, killed)            # as a kill leaves it: the broker may write on
    copy_store(live, cut, ignore=shutil.ignore_patterns("*.tmp"))

A store's files have their whole length from the start, and all but their beginning reads as zeros:
sent by the kernel, each page of that is zeroed, read ahead and written. A copy has the same lengths
and the same bytes; where nobody wrote, it has holes, whether the disk was reserved there or not.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def copy_store(source: Path, target: Path, **how: Any) -> None:
    """`how`: more of shutil.copytree."""
    shutil.copytree(source, target, copy_function=copy_file, **how)


def copy_file(source: Path | str, target: Path | str) -> None:
    """Of a plain file, with its times and rights, and as long as it is when this begins."""
    with open(source, "rb") as given, open(target, "wb") as made:
        length = os.fstat(given.fileno()).st_size
        made.truncate(length)
        for start, end in _written(given.fileno(), length):
            os.lseek(made.fileno(), start, os.SEEK_SET)
            while start < end:
                moved = os.sendfile(made.fileno(), given.fileno(), start, end - start)
                if moved == 0:
                    break  # cut short meanwhile
                start += moved
    shutil.copystat(source, target)


def _written(fd: int, length: int) -> Iterator[tuple[int, int]]:
    """(start, end) of what is not a hole."""
    end = 0
    while end < length:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = min(length, os.lseek(fd, start, os.SEEK_HOLE))
        except OSError as error:
            if error.errno != errno.ENXIO:  # behind the last of it
                raise
            return
        yield start, end
