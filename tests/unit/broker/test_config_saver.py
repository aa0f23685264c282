"""Many changes are written with few writes, and whoever waits knows what is on disk."""

import asyncio
from pathlib import Path

import pytest
from support.name_server import in_loop
from support.waiting import HANG_S

from rmq.base.json_file import JsonFile
from rmq.broker.tables.config_saver import ConfigSaver
from rmq.errors import StoreError


class CountingFile(JsonFile):
    writes = 0
    failure: OSError | None = None

    def save(self, content: object) -> None:
        self.writes += 1
        if self.failure is not None:
            raise self.failure
        super().save(content)


@in_loop
async def test_a_burst_of_changes_is_one_or_two_writes(tmp_path: Path) -> None:
    file, table = CountingFile(tmp_path / "a.json"), {"n": 0}
    saver = ConfigSaver(file, lambda: dict(table))
    for n in range(100):
        table["n"] = n
        saver.changed()
    await asyncio.gather(*(saver.saved() for _ in range(50)))
    assert file.load() == {"n": 99}
    assert file.writes <= 2
    assert not saver.behind


@in_loop
async def test_a_change_during_a_write_is_written_after_it(tmp_path: Path) -> None:
    file, table = CountingFile(tmp_path / "a.json"), {"n": 1}
    saver = ConfigSaver(file, lambda: dict(table))
    saver.changed()
    first = asyncio.ensure_future(saver.saved())
    await asyncio.sleep(0)
    table["n"] = 2
    saver.changed()
    await saver.saved()
    assert file.load() == {"n": 2}
    await first


@in_loop
async def test_a_failed_write_is_told_and_made_up_for_later(tmp_path: Path) -> None:
    file = CountingFile(tmp_path / "a.json")
    saver = ConfigSaver(file, lambda: {"n": 1})
    file.failure = OSError(28, "No space left on device")
    saver.changed()
    with pytest.raises(StoreError, match="No space left"):
        await saver.saved()
    assert saver.behind
    file.failure = None
    saver.retry()
    await saver.saved()
    assert file.load() == {"n": 1}


@in_loop
async def test_what_is_on_disk_is_told_before_those_who_wait(tmp_path: Path) -> None:
    """A waiter is told when its own change is on disk, even if changes never stop coming."""
    file, table, told = CountingFile(tmp_path / "a.json"), {"n": 0}, []
    saver = ConfigSaver(file, lambda: dict(table), lambda: told.append(file.load()))

    async def change_for_ever() -> None:
        while True:
            table["n"] += 1
            saver.changed()
            await asyncio.sleep(0)

    changing = asyncio.create_task(change_for_ever())
    await asyncio.sleep(0)
    seen = table["n"]
    await asyncio.wait_for(saver.saved(), HANG_S)
    assert told[-1]["n"] >= seen
    changing.cancel()
    await asyncio.gather(changing, return_exceptions=True)
    await saver.saved()
    file.failure = OSError(28, "No space left on device")
    saver.changed()
    count = len(told)
    with pytest.raises(StoreError, match="No space left"):
        await saver.saved()
    assert len(told) == count
