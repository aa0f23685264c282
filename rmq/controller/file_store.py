"""File store: broker sets in one file of one controller, for one machine and for trying things out.

It is not fault-tolerant: while this controller is down no master is elected, and if its disk is
lost, so is the knowledge of who may become master. With three machines use EtcdStore.

    <directory>/controller.json     {"revision": 17, "brokers": {"broker-a": {..}}}

A change is on the disk before it is answered. After a write that failed nothing is decided any
more, because the file may hold the change nevertheless. A file that is damaged, or of which only
the older copy is whole, stops the start: if an epoch were given twice, there could be two masters.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from rmq.base.json_file import JsonFile
from rmq.controller import broker_set
from rmq.controller.broker_set import BrokerSet
from rmq.controller.state_store import Controller, NotLeaderError, StateStoreError
from rmq.errors import StoreCorruptError

_ADVICE = (
    "It says which epoch was given to whom last. Stop all brokers that use this controller, remove "
    "the file and its .bak, and start the broker first that took sends last"
)


class FileStore:
    """Owned by one event loop; one process at a time (the caller locks the directory)."""

    def __init__(self, directory: Path) -> None:
        self._file = JsonFile(directory / "controller.json", tables=("brokers",), advice=_ADVICE)
        self._brokers: dict[str, tuple[BrokerSet, int]] = {}  # name -> (broker set, its revision)
        self._revision = 0
        self._own = Controller("", "")
        self._one_change = asyncio.Lock()
        self._failure = ""
        self._loaded = False

    async def start(self, own: Controller) -> None:
        self._own = own
        content = await asyncio.to_thread(self._file.load)
        if content is not None:
            self._take(content)
        self._loaded = True

    def _take(self, content: dict[Any, Any]) -> None:
        path = self._file.path
        if not self._file.is_newest:
            raise StoreCorruptError(f"{path} is damaged, and {path}.bak is older. {_ADVICE}")
        revision = content.get("revision")
        if not isinstance(revision, int) or not 0 <= revision <= broker_set.I64_MAX:
            raise StoreCorruptError(f"{path}: revision {revision!r}")
        for name, kept in (content.get("brokers") or {}).items():
            found = broker_set.decode(msgspec.json.encode(kept), f"{path}, broker {name}")
            if found.name != name:
                raise StoreCorruptError(f"{path}: broker {name} is called {found.name}")
            self._brokers[name] = (found, revision)
        self._revision = revision

    async def stop(self) -> None:
        async with self._one_change:
            if not self._failure and self._revision:
                await asyncio.to_thread(self._file.settle)

    def is_leader(self) -> bool:
        return self._loaded

    async def leader(self) -> Controller | None:
        return self._own

    async def members(self) -> list[Controller]:
        return [self._own]

    async def names(self) -> list[str]:
        return sorted(self._brokers)

    async def read(self, name: str) -> tuple[BrokerSet | None, int]:
        self._check()
        found = self._brokers.get(name)
        return found if found is not None else (None, 0)

    async def write(self, name: str, after: BrokerSet | None, revision: int) -> bool:
        async with self._one_change:
            self._check()
            if self._brokers.get(name, (None, 0))[1] != revision:
                return False
            brokers = dict(self._brokers)
            if after is None:
                brokers.pop(name, None)
            else:
                brokers[name] = (after, self._revision + 1)
            try:
                await asyncio.to_thread(self._save, brokers, self._revision + 1)
            except OSError as error:
                self._failure = (
                    f"{self._file.path} cannot be written ({error.strerror}); mend the disk and "
                    "start the controller anew"
                )
                self._check()
            self._brokers = brokers
            self._revision += 1
            return True

    def _save(self, brokers: dict[str, tuple[BrokerSet, int]], revision: int) -> None:
        content: dict[str, Any] = {
            "revision": revision,
            "brokers": {name: found for name, (found, _) in brokers.items()},
        }
        self._file.save(content)

    def _check(self) -> None:
        if not self._loaded:
            raise NotLeaderError("this controller has not read its file yet")
        if self._failure:
            raise StateStoreError(self._failure)
