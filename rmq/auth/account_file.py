"""Account file: users and their ACLs on the disk, readable by the broker's own user only.

    rmqAccounts.json    {"users":{"alice":{"username":"alice","password":..}},
                         "acls":{"alice":[{"policyType":"Custom","entries":[..]}]},
                         "lastChange":{"asked":"5f2c..","by":"4711-..","at_ms":1764176400000}}

All servers of a machine may share one file (shards of a broker do): the server that changes it
holds its lock, and the others see by its stamp that it has changed. The file is written as a whole,
and a change is on the disk when save() returns (rmq/base/json_file.py). If the file and its copy
are damaged, the start fails: permissions are not guessed. RocketMQ keeps the same data in RocksDB;
mqadmin's copyUser and copyAcl carry it over.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from rmq.auth.account_texts import TABLES, AccountTexts, plain_or_any
from rmq.auth.accounts import Accounts
from rmq.base.durable_directory import make_directory
from rmq.base.json_file import JsonFile
from rmq.errors import ConfigError, ProtocolError, StoreError

MODE = 0o600
NAME = "rmqAccounts.json"
LOCK_S = 5.0
LOCK_LOOK_S = 0.01

Stamp = tuple[int, int, int]  # of a file; it differs when the file was replaced


class LastChange(msgspec.Struct, frozen=True):
    asked: str = ""  # a digest of the request
    by: str = ""  # the server that made the change
    at_ms: int = 0


class AccountFile:
    def __init__(self, path: Path) -> None:
        self._file = JsonFile(
            path,
            tables=(*TABLES, "lastChange"),
            advice="Put a copy in its place (of another broker of the cluster, too), or remove it "
            "and its .bak and make the users anew (initAuthenticationUser).",
            mode=MODE,
            loads=plain_or_any,
        )
        self._texts = AccountTexts()
        self.path = path
        self.last_change = LastChange()  # in the content that was loaded or saved

    def stamp(self) -> Stamp | None:
        """The file's stamp; None: there is no file."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return (found.st_ino, found.st_mtime_ns, found.st_size)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the file's lock, so that nobody else changes the file; waits for another holder,
        and raises StoreError when that takes too long."""
        make_directory(self.path.parent)
        name = f"{self.path}.lock"
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE)
        try:
            until = time.monotonic() + LOCK_S
            while not _is_locked(fd):
                if time.monotonic() > until:
                    raise StoreError(
                        f"{name} has been held by another process for {LOCK_S:.0f} s: a server "
                        "that is stopped, or waits for its disk"
                    )
                time.sleep(LOCK_LOOK_S)
            yield
        finally:
            os.close(fd)

    def load(self) -> Accounts:
        """Reads the file at a start, or its copy if the file is damaged. ConfigError for a file
        that other users may read, or that holds something that is no account."""
        for path in (self._file.path, self._file.backup_path):
            if path.exists() and path.stat().st_mode & 0o077:
                raise ConfigError(
                    f"{path} holds passwords, and others than its owner may read it: "
                    f"chmod 600 {path}"
                )
        content = self._file.load()
        if content is None:
            return Accounts()
        accounts = self._accounts(content)
        self._file.settle()
        return accounts

    def read(self) -> Accounts:
        """Reads the file later: one that is gone or damaged is an error, and the accounts in memory
        stay valid."""
        try:
            return self._accounts(self._file.read())
        except ProtocolError as error:
            raise StoreError(f"{self.path} is damaged: {error}") from None

    def _accounts(self, content: Mapping[Any, Any]) -> Accounts:
        try:
            accounts, self.last_change = self.of(content)
        except ProtocolError as error:
            raise ConfigError(f"{self._file.path}: {error}") from None
        return accounts

    def of(self, content: Mapping[Any, Any]) -> tuple[Accounts, LastChange]:
        """The accounts in the content of the file, or from another server. ProtocolError: these are
        no accounts."""
        accounts = self._texts.read(content)
        try:
            return accounts, msgspec.convert(content.get("lastChange") or {}, LastChange)
        except msgspec.ValidationError as error:
            raise ProtocolError(f"lastChange: {error}") from None

    def content(self, accounts: Accounts) -> dict[str, Any]:
        """The content that of() reads, with the passwords; msgspec encodes it."""
        return {**self._texts.content(accounts), "lastChange": self.last_change}

    def save(self, accounts: Accounts) -> None:
        """Writes the file and its copy: an old copy could let a deleted user in again."""
        self._file.save(self.content(accounts))
        self._file.settle()


def _is_locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
