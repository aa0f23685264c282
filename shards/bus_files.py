"""Bus directory: where the bus keeps its sockets and its secret, and who may use them.

    <store>/bus/            mode 0700. Refused if another user owns it; a wider mode is narrowed
        requests            ipc socket, ROUTER of the supervisor
        news                ipc socket, XPUB of the supervisor
        token               mode 0600: a Hello must carry it
        shard-1.json        mode 0600: what shard 1 was started with (start_file.py)
        shard-1.pid         which process it is (shard.py)
        shard-1.why         why its last start failed
        lock                held by the supervisor (rmq/node/store_lock.py)

The kernel lets nobody but the owner into the directory, and the ROUTER accepts connections only
from processes of its own user (peer credentials). A Hello must carry the token, so that a shard of
an earlier start, or a command that looks at the wrong store, is not taken for one of this broker.
Publications also begin with the token: whoever subscribed without it receives nothing.

The path of a socket is limited to 107 bytes, the path of a store is not. So the paths given to
ZeroMQ go through the directory's open descriptor: ipc:///proc/self/fd/7/requests.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from shards.messages import BusError

TOKEN_CHARACTERS = 43  # of 32 random bytes


class BusDirectory:
    """Open until close(); the descriptor must outlive the sockets."""

    def __init__(self, store: Path, *, make: bool = False) -> None:
        self.path = store / "bus"
        try:
            if make:
                self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            raise BusError(f"{self.path}: {error.strerror or error}") from None
        try:
            self._check_owner()
        except BaseException:
            os.close(self._fd)
            raise

    def _check_owner(self) -> None:
        found = os.fstat(self._fd)
        if found.st_uid != os.getuid():
            raise BusError(
                f"{self.path} belongs to user {found.st_uid}, this is user {os.getuid()}: the bus "
                "is for one user alone"
            )
        if stat.S_IMODE(found.st_mode) & 0o077:
            os.fchmod(self._fd, 0o700)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def address(self, name: str) -> str:
        """The ZeroMQ address of a socket in here, for this process."""
        return f"ipc:///proc/self/fd/{self._fd}/{name}"

    def token(self) -> str:
        """The secret of the present start; BusError when there is none."""
        text = self.read("token")
        if text is None or len(text) != TOKEN_CHARACTERS:
            raise BusError(f"{self.path / 'token'} holds no token: no supervisor was started here")
        return text

    def new_token(self) -> str:
        import secrets  # here, because only supervisors need it and it takes some milliseconds

        token = secrets.token_urlsafe(32)
        self.write("token", token)
        return token

    def read(self, name: str) -> str | None:
        """The content of a small file in this directory; None when there is no such file."""
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self._fd)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor) as file:
            return file.read(1 << 20)

    def write(self, name: str, text: str) -> None:
        """Replaces the file as a whole; only this user can read it."""
        new = f"{name}.{os.getpid()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(new, flags, 0o600, dir_fd=self._fd), "w") as file:
            file.write(text)
        os.rename(new, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._fd)
