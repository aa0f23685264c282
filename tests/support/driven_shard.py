"""Driven shard: a shard whose turns the test runs, one by one; no thread of its core runs.

    with DrivenShard(tmp_path, 8) as shard:     # turns of 8 records
        client = shard.connect()
        client.put(send("t"), send("t", opaque=2))
        first, second = shard.replies(client, 2)
        shard.driven.waits()                    # how long it would sleep now

It has no TLS, which would need one more turn to look at the first byte of a connection.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cext.testing.driven_core import DrivenCore
from support.shard import MIB, Client, Shard, readable

from rmq.format.remoting import Command, decode

TURNS_MAX = 1000


class DrivenShard(Shard):
    """Has topic t, and group g subscribed to it. `records`: limit of a turn; 0: the core's own."""

    def __init__(self, directory: Path, records: int = 0, **options: Any) -> None:
        super().__init__(directory, tls=None, **options)
        self.records = records
        self.unread: dict[Client, bytearray] = {}

    def __enter__(self) -> DrivenShard:
        self.core.open()
        self.driven = DrivenCore(self.core)
        if self.records > 0:
            DrivenCore.set_turn_records(self.core, self.records)
        self.topic("t")
        self.group("g", "t")
        self.stopped = True  # the core was never started
        return self

    def connect(self, receive_buffer: int = 0) -> Client:
        """A client that the shard has accepted."""
        before = self.core.stats()["connections"]
        client = super().connect(receive_buffer)
        while self.core.stats()["connections"] == before:
            self.driven.turn()
        return client

    def turn_until(self, condition: Callable[[], object]) -> None:
        for _ in range(TURNS_MAX):
            if condition():
                return
            self.driven.turn()
        raise AssertionError(f"not after {TURNS_MAX} turns: {self.core.stats()}")

    def replies(self, client: Client, count: int) -> list[Command]:
        """Runs turns until `count` answers have come, and returns them in their order."""
        found: list[Command] = []
        turns = 0
        while True:
            got = self.unread.setdefault(client, bytearray())
            while readable(client.socket.fileno(), 0):
                got += client.socket.recv(MIB)
            while len(got) >= 4 and len(got) >= 4 + (length := int.from_bytes(got[:4], "big")):
                found.append(decode(bytes(got[4 : 4 + length])))
                del got[: 4 + length]
            if len(found) >= count:
                assert len(found) == count
                return found
            self.driven.turn()
            turns += 1
            assert turns < TURNS_MAX, f"{len(found)} answers of {count}"
