"""Byte copy: copies ranges of files, inside the kernel if possible (shared blocks on XFS, btrfs).

    copy_bytes(source, target, 0, 1 << 30, told)    from one descriptor to another, same place
    crc32_of(descriptor, 0, 1 << 30)                checksum of a range
    with trouble(DIR, "the copy"): ..               turns a full disk into an error with advice

Neither copy_bytes() nor crc32_of() moves a descriptor's position.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rmq.errors import StoreCorruptError, StoreError

PIECE_BYTES = 16 << 20
READ_BYTES = 1 << 20
# copy_file_range cannot copy these files: on two file systems, an old kernel or a network
UNABLE = (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF, errno.EPERM)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def copy_bytes(
    source: int, target: int, at: int, end: int, told: Callable[[int], None] = lambda _: None
) -> None:
    """Copies [at, end) of the source to the same place in the target. `told`: called repeatedly
    with the bytes done. OSError; StoreCorruptError when the source is shorter."""
    by_kernel = True
    while at < end:
        wanted = min(PIECE_BYTES, end - at)
        done = 0
        if by_kernel:
            try:
                done = os.copy_file_range(source, target, wanted, at, at)
            except OSError as error:
                if error.errno not in UNABLE:
                    raise
            by_kernel = done > 0  # some file systems return 0 when they cannot
        if not done:
            done = _copy_piece(source, target, at, min(READ_BYTES, wanted))
        at += done
        told(done)


def _copy_piece(source: int, target: int, at: int, wanted: int) -> int:
    data = os.pread(source, wanted, at)
    if not data:
        raise StoreCorruptError(f"a file became shorter while it was copied: it ends at {at}")
    written = 0
    while written < len(data):
        written += os.pwrite(target, data[written:], at + written)
    return len(data)


def crc32_of(descriptor: int, at: int, end: int, before: int = 0) -> int:
    """The checksum of [at, end), continued from the checksum `before` of the bytes before it."""
    while at < end:
        data = os.pread(descriptor, min(READ_BYTES, end - at), at)
        if not data:
            return -1  # the file is shorter; -1 equals no checksum
        before = zlib.crc32(data, before)
        at += len(data)
    return before


@contextmanager
def trouble(directory: Path, what: str, cure: str) -> Iterator[None]:
    """Turns errors of the system into errors that say what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise StoreError(f"{what} {directory}: {error}") from None
        space = os.statvfs(directory)
        free = space.f_bavail * space.f_frsize
        reason = "a limit of its size (ulimit -f)" if error.errno == errno.EFBIG else "its disk is"
        raise StoreError(
            f"{what} {directory} takes no more: {reason} "
            f"{'reached' if error.errno == errno.EFBIG else 'full'}, {free >> 20} MiB are free. "
            f"{cure}"
        ) from None
