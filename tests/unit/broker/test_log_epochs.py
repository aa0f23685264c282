"""The epochs of a log in memory and on the disk.

Goal: the file never gives an epoch to bytes of another one, whichever write failed and wherever the
log ended at the start. What the file knew is still known after a power cut took the log's end.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from support.fake_core import FakeCore
from support.name_server import in_loop
from support.shard import Shard
from support.waiting import HANG_S

from rmq.broker.replication.epoch_file import EpochFile
from rmq.broker.replication.epochs import ENTRIES_MAX, NO_EPOCH, Epochs
from rmq.broker.replication.log_epochs import LogEpochs

OLD = Epochs.of([(1, 0)])
NEW = Epochs.of([(1, 0), (5, 300)])


@pytest.fixture
def file(tmp_path: Path) -> EpochFile:
    return EpochFile(tmp_path / "epochFileCheckpoint")


def loaded(file: EpochFile, log_end: int) -> LogEpochs:
    made = LogEpochs(file, FakeCore())
    made.load((0, log_end))
    return made


@in_loop
async def test_an_epoch_that_the_log_lost_goes_from_the_file_before_the_log_grows(
    file: EpochFile,
) -> None:
    file.write(NEW)
    epochs = loaded(file, 250)
    assert (epochs.value, epochs.newest) == (OLD, 5)
    assert file.read() == NEW, "it is asked what it was once more, should this start fail"
    await epochs.learn(OLD, (0, 250))
    assert file.read() == OLD and epochs.newest == 1
    # The log grows beyond 300, and ends at 400 at the next start.
    assert loaded(file, 400).value == OLD


@in_loop
async def test_a_file_with_more_epochs_than_a_core_takes_is_loaded(
    file: EpochFile, tmp_path: Path
) -> None:
    """RocketMQ's brokers write such files: nothing but retention limits their number of epochs."""
    entries = [(number, number * 10) for number in range(1, 3001)]
    file.write(Epochs.of(entries))
    with Shard(tmp_path) as shard:
        epochs = LogEpochs(file, shard.core)
        epochs.load((20_010, 30_000))
        assert epochs.value == Epochs.of(entries[-ENTRIES_MAX:]) and epochs.newest == 3000
        epochs.load((15_010, 25_000))
        assert epochs.value == Epochs.of(entries[2500 - ENTRIES_MAX : 2500])
        assert epochs.newest == 3000, "some are lost, and it is known"
        epochs.load((10, 30_000))
        whole = Epochs.of([(2001, 0), *entries[1 - ENTRIES_MAX :]])
        assert epochs.value == whole, "a log that has more than they say is whole in them"


@in_loop
async def test_a_write_that_failed_on_the_way_is_taken_back_by_the_next(file: EpochFile) -> None:
    file.write(OLD)
    epochs = loaded(file, 300)
    await epochs.learn(OLD, (0, 300))
    way = file.path.with_name("epochFileCheckpoint.bak.new")
    way.mkdir()
    with pytest.raises(OSError):
        await epochs.begin(5, (0, 300))
    assert file.read() == NEW and epochs.value == OLD and epochs.newest == 5
    way.rmdir()
    await epochs.learn(OLD, (0, 300))  # another replica is master
    assert file.read() == OLD and epochs.newest == 1


@in_loop
async def test_the_same_write_is_done_again_after_it_failed(file: EpochFile) -> None:
    epochs = loaded(file, 0)
    assert epochs.newest == NO_EPOCH
    way = file.path.with_name("epochFileCheckpoint.bak.new")
    way.mkdir()
    for _ in range(2):
        with pytest.raises(OSError):
            await epochs.begin(5, (0, 0))
    way.rmdir()
    await epochs.begin(5, (0, 0))
    copy = EpochFile(file.path.with_name("epochFileCheckpoint.bak"))
    assert file.read() == copy.read() == Epochs.of([(5, 0)])


class HeldFile(EpochFile):
    """An epoch file whose first write waits until it is told to go on."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.began, self.may_go_on = threading.Event(), threading.Event()

    def write(self, epochs: Epochs) -> None:
        if not self.began.is_set():
            self.began.set()
            assert self.may_go_on.wait(HANG_S)
        super().write(epochs)


@in_loop
async def test_a_write_whose_asker_left_does_not_overtake_the_next(tmp_path: Path) -> None:
    """A slave that is made master while it still writes down its master's epochs must end with its
    own epochs in the file, not with that older write."""
    file = HeldFile(tmp_path / "epochFileCheckpoint")
    epochs = loaded(file, 300)
    learning = asyncio.create_task(epochs.learn(OLD, (0, 300)))
    assert await asyncio.to_thread(file.began.wait, HANG_S)
    learning.cancel()
    await asyncio.gather(learning, return_exceptions=True)
    beginning = asyncio.create_task(epochs.begin(5, (0, 300)))
    await asyncio.sleep(0)
    file.may_go_on.set()
    await beginning
    assert file.read() == Epochs.of([(5, 0)]), "with what was there before, and has no other name"


@pytest.mark.parametrize("start", [0, 4096])
@in_loop
async def test_a_log_that_was_written_without_a_controller_is_of_its_first_epoch(
    file: EpochFile, start: int
) -> None:
    """A log that was written without a controller must get its first epoch for all its bytes.
    Otherwise no slave could copy it, because none would know whose bytes they are."""
    core = FakeCore()
    epochs = LogEpochs(file, core)
    epochs.load((start, 9000))
    assert epochs.value == Epochs()
    await epochs.begin(1, (start, 9000))
    assert epochs.value == file.read() == Epochs.of([(1, 0)]) and core.epochs == [(1, 0)]
    await epochs.begin(3, (start, 9500))
    assert file.read() == Epochs.of([(1, 0), (3, 9500)])
    file.write(Epochs.of([(1, 9000), (3, 9500)]))  # as the file was written before
    epochs.load((start, 9600))
    assert epochs.value == Epochs.of([(1, 0), (3, 9500)])
    epochs.load((9216, 9600))
    assert epochs.value == file.read(), "what is below has left the log"


@in_loop
async def test_of_a_log_without_a_byte_no_epoch_is_known(file: EpochFile) -> None:
    """A log without a byte must not claim epochs: its disk was replaced, and it begins where its
    master's log does, beyond epochs that this broker once led."""
    file.write(Epochs.of([(1, 0), (4, 100), (5, 300)]))
    epochs = loaded(file, 4096)
    await epochs.learn(Epochs.of([(1, 0), (3, 200), (6, 4096), (7, 5000)]), (4096, 4096))
    assert epochs.value == file.read() == Epochs.of([(1, 0), (3, 200), (6, 4096)])
    await epochs.forget()
    assert epochs.value == file.read() == Epochs()
    assert epochs.newest == NO_EPOCH
