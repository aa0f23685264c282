"""Account store: the accounts of this process, in step with their file.

    store = AccountStore(Path("store/config/rmqAccounts.json"))
    store.open(first)                       reads the file; makes the Super users that are missing
    await store.change(b"delete alice", lambda accounts: accounts.delete_user("alice", True))
                                            on the disk when it returns; or Refusal, StoreError
    await store.copy(text, own)             as slave: takes the master's content()
    await store.follow()                    runs for ever: takes changes of other processes, at most
                                            POLL_S later

Tools send a change to every server, one after the other: mqadmin -c to each broker of the cluster.
Where several servers share a file, the first one makes the change for all. So a request for the
last change, if another server of the file has just made it, is answered as done, and not with "The
user is existed".

Files of other accounts (plain_acl.py) are followed in the same way; the store never writes them.

`accounts` is the same object all the time, so that others may keep it. It changes only in the event
loop; except in open(), files are read and written in a thread beside the loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from rmq.auth.account_file import AccountFile, LastChange, Stamp
from rmq.auth.account_texts import plain_or_any
from rmq.auth.accounts import Accounts
from rmq.auth.fixed_accounts import FixedAccounts
from rmq.auth.options import FIRST_USER
from rmq.base import clock
from rmq.errors import ConfigError, ProtocolError, StoreError
from rmq.format.signature import Credentials

POLL_S = 0.25
REPEAT_S = 30.0

log = logging.getLogger("rmq.auth")

Change = Callable[[Accounts], None]


class FixedFiles(Protocol):
    def read(self) -> FixedAccounts:
        """Reads the files at a start. ConfigError if they cannot be used. Blocks."""

    def changed(self) -> FixedAccounts | None:
        """The accounts if the files have changed; None: they are as at the last call. ConfigError
        if they cannot be used. Blocks."""


class AccountStore:
    """Owned by one event loop."""

    def __init__(
        self,
        path: Path,
        on_change: Callable[[], None] = lambda: None,
        fixed: FixedFiles | None = None,
    ) -> None:
        """on_change: called in the loop after `accounts` has changed. fixed: files of accounts that
        no request changes."""
        self.accounts = Accounts()
        self._fixed = fixed
        self.on_change = on_change
        self._file = AccountFile(path)
        self._stamp: Stamp | None = None
        self._name = f"{os.getpid()}-{id(self)}-{clock.now_ms()}"  # unique for servers of the file
        self._is_behind = False  # on_change() has failed and must be called again
        self._one_change = asyncio.Lock()

    def open(self, first: Iterable[tuple[str, Credentials]]) -> None:
        """Reads the files. first: (setting, Super user that must exist). ConfigError: there is no
        Super user at all, or the file cannot be used."""
        try:
            if self._fixed is not None:
                self.accounts.fixed = self._fixed.read()
            self._take(*self._opened(first))
        except (OSError, StoreError) as error:
            raise ConfigError(f"the accounts cannot be used: {error}") from None

    def _opened(self, first: Iterable[tuple[str, Credentials]]) -> tuple[Stamp | None, Accounts]:
        with self._file.locked():
            found = self._file.load()
            found.fixed = self.accounts.fixed
            before = found.version
            for setting, user in first:
                # The first user is only for making others: once deleted, it is not made again.
                if setting == FIRST_USER and found.some_super() is not None:
                    continue
                try:
                    found.ensure_super(user.access_key, user.secret_key)
                except ProtocolError as error:
                    raise ConfigError(f"{setting}: {error}") from None
            if found.some_super() is None:
                raise ConfigError(
                    "authenticationEnabled=true, and there is no Super user who could make others: "
                    'give initAuthenticationUser={"username":"admin","password":".."}'
                    ", or, with aclEnable, an account with admin: true"
                )
            if found.version != before:
                self._file.save(found)
            return self._file.stamp(), found

    def content(self) -> dict[str, Any]:
        """The content for a slave's copy(), with the passwords; msgspec encodes it."""
        return self._file.content(self.accounts)

    async def copy(self, text: bytes, own: Iterable[Credentials]) -> None:
        """Takes another server's encoded content() as a whole, except that each user of `own` stays
        a Super user, or is made one. ProtocolError: these are no accounts; OSError, StoreError:
        they cannot be written."""
        kept = tuple(own)
        await asyncio.shield(asyncio.ensure_future(self._copy(text, kept)))

    async def _copy(self, text: bytes, own: tuple[Credentials, ...]) -> None:
        async with self._one_change:
            self._take(*await asyncio.to_thread(self._copied, text, own))

    def _copied(self, text: bytes, own: tuple[Credentials, ...]) -> tuple[Stamp | None, Accounts]:
        file = self._file
        content = plain_or_any(text)
        if not isinstance(content, Mapping):
            raise ProtocolError("the accounts are no object")
        with file.locked():
            found, last_change = file.of(content)
            for each in own:
                found.ensure_super(each.access_key, each.secret_key)
            before = self.accounts if file.stamp() == self._stamp else file.read()
            if found.tables() != before.tables():
                file.last_change = last_change
                file.save(found)
            return file.stamp(), found

    async def change(self, asked: bytes, change: Change) -> None:
        """Makes a change. asked: the request for it, which is the same at every server."""
        key = hashlib.sha256(asked).hexdigest()
        # If the caller is cancelled, the change must not end up on the disk but not in memory.
        await asyncio.shield(asyncio.ensure_future(self._change(key, change)))

    async def _change(self, key: str, change: Change) -> None:
        async with self._one_change:
            self._take(*await asyncio.to_thread(self._changed, key, change))

    def _changed(self, key: str, change: Change) -> tuple[Stamp | None, Accounts]:
        file = self._file
        with file.locked():
            is_mine = file.stamp() == self._stamp
            found = self.accounts.copy() if is_mine else file.read()
            found.fixed = self.accounts.fixed
            if not self._is_done(key):
                before = found.version
                change(found)
                if found.version != before:
                    file.last_change = LastChange(key, self._name, clock.now_ms())
                    file.save(found)
            return file.stamp(), found

    def _is_done(self, key: str) -> bool:
        """Whether another server has just made this change."""
        last = self._file.last_change
        is_new = abs(clock.now_ms() - last.at_ms) < REPEAT_S * 1000
        return last.asked == key and last.by != self._name and is_new

    async def follow(self) -> None:
        """Runs until it is cancelled."""
        said = ""
        while True:
            await asyncio.sleep(POLL_S)
            try:
                await self.look()
                said = ""
            except Exception as error:  # after any error the next look may succeed
                if str(error) != said:
                    said = str(error)
                    log.error("the accounts stay as they were: %s", error or repr(error))

    async def look(self) -> None:
        """Takes changes that another process, or a person, has made to the files."""
        try:
            await self._look_at_fixed()
        finally:
            await self._look_at_own()

    async def _look_at_fixed(self) -> None:
        fixed = None if self._fixed is None else await asyncio.to_thread(self._fixed.changed)
        if fixed is None:
            return
        tried = self.accounts.copy()
        tried.fixed = fixed
        if tried.some_super() is None:
            raise ConfigError("the files have no account with admin: true, and no other is Super")
        log.info("%d accounts of files are read anew", len(fixed.users))
        self.accounts.fixed = fixed
        self._tell()

    async def _look_at_own(self) -> None:
        if self._file.stamp() != self._stamp:
            async with self._one_change:
                self._take(*await asyncio.to_thread(self._read))
        elif self._is_behind:
            self._tell()

    def _read(self) -> tuple[Stamp | None, Accounts]:
        with self._file.locked():
            return self._file.stamp(), self._file.read()

    def _take(self, stamp: Stamp | None, found: Accounts) -> None:
        self._stamp = stamp
        self.accounts.take(found)
        self._tell()

    def _tell(self) -> None:
        """Calls on_change(). The change itself is made: if on_change() fails, it is called again at
        the next look."""
        self._is_behind = True
        try:
            self.on_change()
        except Exception:
            log.exception("a change of the accounts is not known everywhere in this process yet")
        else:
            self._is_behind = False
