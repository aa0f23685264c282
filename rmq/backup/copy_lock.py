"""Copy lock: lets one backup at a time write a copy, and keeps it from removing files in use.

    with writing(DIR): ..       StoreLockedError while another process writes or reads the copy
    with reading(DIR): ..       StoreLockedError while a process writes it

It is a record lock on DIR/rmqBackup.lock, which the kernel drops when the process ends. A copy on a
read-only disk is read without a lock.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rmq.errors import StoreLockedError

NAME = "rmqBackup.lock"


@contextmanager
def writing(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _lock(descriptor, fcntl.LOCK_EX, directory)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def reading(directory: Path) -> Iterator[None]:
    try:
        descriptor = os.open(directory / NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        _lock(descriptor, fcntl.LOCK_SH, directory)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, kind: int, directory: Path) -> None:
    try:
        fcntl.lockf(descriptor, kind | fcntl.LOCK_NB, 1, 0)
    except OSError:
        raise StoreLockedError(
            f"the backup {directory} is in use by another backup, check or restore: try again when "
            "that has ended"
        ) from None
