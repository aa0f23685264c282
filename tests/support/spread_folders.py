"""The folders of tests, spread over a disk: for a file system that would search long for new files.

    spread(tmp_path_factory.getbasetemp())

Each test has a folder, which goes with it: a run makes and deletes some 100,000 files. ext4 without
a journal, as some virtual machines have, gives nobody an inode that was freed in the last minutes,
and looks at each such again for every new file, as all folders are made where their parent is: of
the processor time of a whole run it took a twentieth. Below a folder with this attribute (chattr
+T) they are made where there is most room, as those of users in /home are meant to be.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

FS_IOC_GETFLAGS, FS_IOC_SETFLAGS = 0x80086601, 0x40086602
TOPDIR = 0x20000


def spread(folder: Path) -> None:
    """Where there is nothing like it, folders are made as ever."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            fcntl.ioctl(descriptor, FS_IOC_SETFLAGS, _with_topdir(descriptor))
    finally:
        os.close(descriptor)


def _with_topdir(descriptor: int) -> bytes:
    flags = bytearray(4)
    fcntl.ioctl(descriptor, FS_IOC_GETFLAGS, flags)
    return (int.from_bytes(flags, "little") | TOPDIR).to_bytes(4, "little")
