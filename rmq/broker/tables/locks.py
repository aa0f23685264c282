"""Locks: queue locks of orderly consumers: which client may consume a queue of a group now.

A lock lasts 60 s after it was taken or renewed; clients renew every 20 s. A queue that another
client holds with an unexpired lock is left out of the reply.

    config/rmqLocks.json    {"locks":{"g":{"c":[["t","b",0]]}}}

Each change of ownership is in this file (RocketMQ has none) before a client is told, and counts for
another 60 s after a restart: so a client that still consumes a queue, relying on its lock, is not
joined by another one that asks first. The time of the last renewal is not kept. When the file
cannot be written, that is logged and the locks work on.

Example: client a locks queue 0 of "t" at 0 s. Client b is refused at 59 s, gets it at 61 s.
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rmq.base import clock
from rmq.base.json_file import JsonFile
from rmq.broker.core_seam import GroupCalls
from rmq.broker.tables.config_saver import ConfigSaver
from rmq.errors import StoreError
from rmq.format.fastjson import MessageQueue

log = logging.getLogger("rmq.broker.locks")

LOCK_S = 60.0
LOCKS_MAX = 100_000  # of one group; RocketMQ has no such limit


class LockTable:
    """Owned by the control thread."""

    def __init__(self, core: GroupCalls, config_directory: Path) -> None:
        self._core = core
        self._locks: dict[str, dict[MessageQueue, tuple[str, float]]] = {}
        self._file = JsonFile(
            config_directory / "rmqLocks.json",
            tables=("locks",),
            lost="queues consumed in order go to the first consumer that asks",
        )
        self._saver = ConfigSaver(self._file, self.members)

    def load(self) -> None:
        """Takes over the locks of the process before as if they were renewed now."""
        now = clock.monotonic()
        content = self._file.load() or {}
        for group, clients in _object(content.get("locks")).items():
            for client_id, rows in _object(clients).items():
                for queue in _queues(rows):
                    self._locks.setdefault(group, {})[queue] = (client_id, now)
        for group in list(self._locks):
            self.put_in_core(group)

    def members(self) -> dict[str, Any]:
        """The content of the file."""
        table: dict[str, dict[str, list[list[Any]]]] = {}
        for group, locks in self._locks.items():
            for queue, (client_id, _) in locks.items():
                table.setdefault(group, {}).setdefault(client_id, []).append(list(queue))
        return {"locks": table}

    async def saved(self) -> None:
        """Returns when the file holds all locks, or cannot be written."""
        try:
            await self._saver.saved()
        except StoreError as error:
            log.error("locks are kept in memory only: %s", error)

    def lock(
        self, group: str, queues: Iterable[MessageQueue], client_id: str
    ) -> list[MessageQueue]:
        """Takes free queues and renews held ones; returns the queues that the client holds now."""
        now = clock.monotonic()
        table = self._locks.setdefault(group, {})
        held = []
        changed = False
        for queue in queues:
            owner = table.get(queue)
            if owner is None and len(table) >= LOCKS_MAX:
                continue
            if owner is None or owner[0] == client_id or now - owner[1] > LOCK_S:
                table[queue] = (client_id, now)
                held.append(queue)
                changed |= owner is None or owner[0] != client_id
        if changed:
            self._saver.changed()
        self.put_in_core(group)
        return held

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        table = self._locks.get(group, {})
        changed = False
        for queue in queues:
            owner = table.get(queue)
            if owner is not None and owner[0] == client_id:
                del table[queue]
                changed = True
        if changed:
            self._saver.changed()
        self.put_in_core(group)

    def held_by_anyone(self, group: str) -> bool:
        """Whether a lock of the group has not expired, so that its consumers are orderly."""
        now = clock.monotonic()
        return any(now - taken <= LOCK_S for _, taken in self._locks.get(group, {}).values())

    def put_in_core(self, group: str) -> None:
        """Tells the core how long the group has a lock: messages that clients send to its retry
        topic meanwhile go to the dead letters (cext/flow/send/dead_letter.pxd)."""
        table = self._locks.get(group)
        if not table:
            self._locks.pop(group, None)
            self._core.lock_group(group.encode(), 0)
            return
        newest = max(taken for _, taken in table.values())
        left_s = newest + LOCK_S - clock.monotonic()
        self._core.lock_group(group.encode(), max(0, int(left_s * 1000)))

    def expire(self) -> None:
        """Forgets expired locks; to be called at intervals."""
        now = clock.monotonic()
        for group, table in list(self._locks.items()):
            for queue in [q for q, (_, taken) in table.items() if now - taken > LOCK_S]:
                del table[queue]
            if not table:
                del self._locks[group]


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _queues(rows: Any) -> list[MessageQueue]:
    """The queues of one client in the file; rows that are no queue are left out."""
    found = []
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, list) and [type(each) for each in row] == [str, str, int]:
            found.append(MessageQueue(*row))
    return found
