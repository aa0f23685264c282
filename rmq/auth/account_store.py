"""Account store: the accounts of this process, in step with their file.

    store = AccountStore(Path("store/config/rmqAccounts.json"))
    store.open(first)                       reads the file; makes the Super users that lack
    await store.change(b"delete alice", lambda accounts: accounts.delete_user("alice", True))
                                            on the disk when it returns; or Refusal, StoreError
    await store.follow()                    for ever: what other processes change counts here LOOK_S
                                            later at most

Tools send a change to every server, one after the other: mqadmin -c to each broker of the cluster.
Where several have one file the first has made it for all. So the last change that was made, if
another server of the file has made it just now, counts as done here, and is not "The user is
existed".

`accounts` is one object from the beginning to the end, so that others may keep it. It changes in
the event loop only; files are read and written beside it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from rmq.auth.account_file import AccountFile, LastChange, Stamp
from rmq.auth.accounts import Accounts
from rmq.base import clock
from rmq.errors import ConfigError, ProtocolError, RmqError
from rmq.format.signature import Credentials

LOOK_S = 0.25
REPEAT_S = 30.0

log = logging.getLogger("rmq.auth")

Change = Callable[[Accounts], None]


class AccountStore:
    """Owned by one event loop."""

    def __init__(self, path: Path, on_change: Callable[[], None] = lambda: None) -> None:
        """on_change: called after `accounts` has changed, in the loop."""
        self.accounts = Accounts()
        self.on_change = on_change
        self._file = AccountFile(path)
        self._stamp = self._file.stamp()
        self._name = f"{os.getpid()}-{id(self)}-{clock.now_ms()}"  # among the servers of the file
        self._one_change = asyncio.Lock()

    def open(self, first: Iterable[tuple[str, Credentials]]) -> None:
        """first: (setting, Super user that is to be there). ConfigError: there is none at all, or
        the file cannot be used."""
        with self._file.locked():
            self._stamp = self._file.stamp()
            found = self._file.load()
            before = found.version
            for setting, user in first:
                try:
                    found.ensure_super(user.access_key, user.secret_key)
                except ProtocolError as error:
                    raise ConfigError(f"{setting}: {error}") from None
            if found.some_super() is None:
                raise ConfigError(
                    "authenticationEnabled=true, and there is no Super user who could make others: "
                    'give initAuthenticationUser={"username":"admin","password":".."}'
                )
            if found.version != before:
                self._file.save(found)
                self._stamp = self._file.stamp()
        self._take(found)

    async def change(self, asked: bytes, change: Change) -> None:
        """asked: what is asked for, the same wherever it is asked."""
        key = hashlib.sha256(asked).hexdigest()
        async with self._one_change:
            self._take(await asyncio.to_thread(self._changed, key, change))

    def _changed(self, key: str, change: Change) -> Accounts:
        file = self._file
        with file.locked():
            is_mine = file.stamp() == self._stamp
            found = self.accounts.copy() if is_mine else file.load()
            if not self._is_done(key):
                before = found.version
                change(found)
                if found.version != before:
                    file.last_change = LastChange(key, self._name, clock.now_ms())
                    file.save(found)
            self._stamp = file.stamp()
            return found

    def _is_done(self, key: str) -> bool:
        """By another server, just now."""
        last = self._file.last_change
        is_new = abs(clock.now_ms() - last.at_ms) < REPEAT_S * 1000
        return last.asked == key and last.by != self._name and is_new

    async def follow(self) -> None:
        """Until it is cancelled."""
        said = ""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
                said = ""
            except (RmqError, OSError) as error:
                if str(error) != said:
                    said = str(error)
                    log.error("accounts stay as they were: %s", error)

    async def look(self) -> None:
        """Takes what another process has changed."""
        if self._file.stamp() == self._stamp:
            return
        async with self._one_change:
            stamp, found = await asyncio.to_thread(self._read)
            self._stamp = stamp
            self._take(found)

    def _read(self) -> tuple[Stamp | None, Accounts]:
        with self._file.locked():
            return self._file.stamp(), self._file.load()

    def _take(self, found: Accounts) -> None:
        self.accounts.take(found)
        self.on_change()
