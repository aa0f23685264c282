"""Store lock: keeps two brokers off one store directory, RocketMQ's own included.

Apache RocketMQ takes an exclusive POSIX record lock on the first byte of `<store>/lock` and writes
the text "lock" into the file. We do the same, so neither can open a store that the other holds. The
kernel releases the lock when the process ends, however it ends. It also tells which process holds
the lock (F_GETLK); /proc tells that process's command line. Example of a refusal:

    store /var/rmq is held by process 4711 (rmq broker --store /var/rmq). Stop it with `kill 4711`

A record lock is also released when the process closes any other descriptor of the same file.
Therefore no other code in this process may open `lock`.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from rmq.base.durable_directory import make_directory
from rmq.errors import StoreError, StoreLockedError

# Linux's struct flock: type, whence, start, length, pid; native alignment.
_FLOCK = struct.Struct("@hhqqi")


def make_store(root: Path) -> None:
    """Makes the store's directory, which only this user and its group may use. Call it before
    anything is made inside: parents made on the way get the umask's permissions. Raises StoreError
    if the directory cannot be made."""
    try:
        make_directory(root)
    except OSError as error:
        raise _cannot_be_opened(root, error) from None


def _cannot_be_opened(root: Path, error: OSError) -> StoreError:
    return StoreError(
        f"store {root} cannot be opened ({(error.strerror or '').lower()}); "
        "choose a directory this user may write: --store DIR"
    )


class StoreLock:
    """Held from the constructor until `release`."""

    def __init__(self, root: Path) -> None:
        make_store(root)
        try:
            self._fd = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise _cannot_be_opened(root, error) from None
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError:
            holder = _holder(self._fd)
            os.close(self._fd)
            raise StoreLockedError(f"store {root} is held by {holder}") from None
        if os.fstat(self._fd).st_size == 0:
            os.write(self._fd, b"lock")

    def release(self) -> None:
        os.close(self._fd)


class StoreReadLock:
    """Keeps brokers off a store while it is read, by a shared lock on the same byte. It writes
    nothing. A store without a lock file has never had a broker, or is a copy of one."""

    def __init__(self, root: Path) -> None:
        self._fd = -1
        try:
            self._fd = os.open(root / "lock", os.O_RDONLY | os.O_CLOEXEC)
            fcntl.lockf(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 0)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except BlockingIOError:
            holder = _holder(self._fd, fcntl.F_RDLCK)
            self.release()
            raise StoreLockedError(f"store {root} is held by {holder}") from None
        except OSError as error:
            self.release()
            raise StoreError(f"store {root}: {error.strerror}") from None

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def _holder(fd: int, wanted: int = fcntl.F_WRLCK) -> str:
    query = _FLOCK.pack(wanted, os.SEEK_SET, 0, 1, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, query))
    if kind == fcntl.F_UNLCK:
        return "a process that has just let go of it; try again"
    if pid <= 0:  # on another machine (network file system) or in another container
        return "a process outside this container or machine"
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        command = b" ".join(words).decode(errors="replace")
    except OSError:
        command = "command unknown"
    if len(command) > 200:
        command = command[:200] + "..."
    return f"process {pid} ({command}). Stop it with `kill {pid}`"
