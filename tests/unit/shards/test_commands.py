"""Goal: a command that cannot be done leaves the shards as they were. Method: a real supervisor of
shards without processes; the test gives their answers on the bus. With real shards:
tests/process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.name_server import in_loop

from rmq.base import clock
from rmq.config import load_properties
from rmq.system.topology import read_topology
from shards.bus_router import Peer
from shards.commands import answer
from shards.messages import Done, Drain, Hello, Message, Permission, Shrink
from shards.placement import place
from shards.shards_file import ShardsFile, ShardsState
from shards.supervisor import Supervisor

TAKEN, GIVEN_BACK = Permission(4, refuse=True), Permission(6)


class Stage:
    """All shards have said hello, and do what they are told."""

    def __init__(self, store: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
        values = {"storePathRootDir": str(store), "listenPort": "0"}
        settings = load_properties(None, values)
        self.supervisor = Supervisor(settings, place(settings, count, read_topology(), bind=False))
        self.told: list[tuple[int, Message]] = []
        self.saves_left = 1000
        for index in range(count):
            hello = Hello(index, "", 1, f"b-{index}", 4711, 0, "")
            peer = Peer(b"%d" % index, hello, clock.monotonic())
            self.supervisor.router._shards[index] = peer
        monkeypatch.setattr(self.supervisor.router, "ask", self._tell)
        save = ShardsFile.save

        def save_some(file: ShardsFile, state: ShardsState) -> None:
            self.saves_left -= 1
            if self.saves_left < 0:
                raise OSError(28, "No space left on device")
            save(file, state)

        monkeypatch.setattr(ShardsFile, "save", save_some)

    async def _tell(self, index: int, message: Message, timeout_s: float) -> Message:
        self.told.append((index, message))
        return Done()

    @property
    def drained(self) -> list[int]:
        return [shard.index for shard in self.supervisor.shards.values() if shard.drain]


@asynccontextmanager
async def stage(store: Path, count: int, patch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    made = Stage(store, count, patch)
    try:
        yield made
    finally:
        await made.supervisor.stop()


@in_loop
async def test_a_shrink_that_cannot_be_noted_gives_all_their_permission_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage(tmp_path, 3, monkeypatch) as on:
        on.saves_left = 1
        with pytest.raises(OSError, match="No space left"):
            await answer(on.supervisor, Shrink(1))
        assert on.told == [(2, TAKEN), (2, GIVEN_BACK), (1, GIVEN_BACK)]
        assert on.drained == [] and len(on.supervisor.shards) == 3


@in_loop
async def test_shards_that_a_shrink_does_not_come_to_take_sends_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the disk is full after one shard was taken off, the others must take sends again and stay.
    A later start brings the removed one back."""
    async with stage(tmp_path, 3, monkeypatch) as on:
        on.supervisor._count(2)
        on.saves_left = 2
        with pytest.raises(OSError, match="No space left"):
            await answer(on.supervisor, Shrink(1, discard=True))
        assert on.told == [(2, TAKEN), (1, TAKEN), (1, GIVEN_BACK)]
        assert on.drained == [] and sorted(on.supervisor.shards) == [0, 1]
        on.saves_left = 1000
        assert ShardsFile(tmp_path).count(None) == 3


@in_loop
async def test_a_shrink_that_fails_leaves_a_drained_shard_drained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drained shard must stay drained, but must stop refusing clients that still have an old
    route."""
    async with stage(tmp_path, 3, monkeypatch) as on:
        await answer(on.supervisor, Drain(2))
        on.told.clear()
        on.saves_left = 0
        with pytest.raises(OSError, match="No space left"):
            await answer(on.supervisor, Shrink(1))
        assert on.told == [(2, TAKEN), (2, Permission(4)), (1, GIVEN_BACK)]
        assert on.drained == [2]


@in_loop
async def test_a_drain_that_cannot_be_noted_is_not_done_and_its_end_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drain that cannot be saved must not be done, because a restart would forget it. The end of
    a drain must be done even if it cannot be saved: a full disk must not keep a shard from
    sends."""
    async with stage(tmp_path, 2, monkeypatch) as on:
        on.saves_left = 0
        with pytest.raises(OSError, match="No space left"):
            await answer(on.supervisor, Drain(1))
        assert on.told == [] and on.drained == []
        on.saves_left = 1
        await answer(on.supervisor, Drain(1))
        with pytest.raises(OSError, match="No space left"):
            await answer(on.supervisor, Drain(1, on=False))
        assert on.told == [(1, Permission(4)), (1, GIVEN_BACK)]
        assert on.drained == []
