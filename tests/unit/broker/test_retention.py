"""Deletion of old log files, and the guard against a full disk. Disk and clock are made up."""

import time
from pathlib import Path

import pytest
from support.fake_core import FakeCore, control
from support.name_server import in_loop

from rmq.broker.tasks import retention
from rmq.broker.tasks.retention import Retention, disk_ratio, is_hour
from rmq.broker.tasks.write_stops import WriteStops
from rmq.config import load_properties


class Disk:
    """Stands for the module `time` in retention alone: the event loop needs the real one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: str) -> None:
        self.ratio, self.now, self.hour = 0.5, 1000.0, 12
        monkeypatch.setattr(retention, "disk_ratio", lambda directory: self.ratio)
        monkeypatch.setattr(retention, "time", self)
        monkeypatch.setattr(retention, "clock", self)
        self.core = FakeCore()
        self.stops = WriteStops(self.core)
        self.settings = load_properties(None, settings)
        self.keeper = Retention(self.settings, self.core, [Path("/x")], self.stops)

    def monotonic(self) -> float:
        return self.now

    def localtime(self) -> time.struct_time:
        return time.struct_time((2026, 1, 1, self.hour, 0, 0, 0, 1, 0))

    def after(self, seconds: float) -> None:
        self.now += seconds
        self.keeper.look()


def test_nothing_goes_outside_the_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    disk.after(61)
    assert disk.core.drops == []
    disk.hour = 4
    disk.after(5)
    assert disk.core.drops == []  # no round yet: one is due every 10 s
    disk.after(6)
    before_ms, count, force = disk.core.drops[0]
    assert abs(time.time() * 1000 - 72 * 3_600_000 - before_ms) < 60_000
    assert (count, force) == (10, 0)


def test_above_75_percent_old_files_go_at_any_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    disk.ratio = 0.76
    disk.after(61)
    assert [drop[2] for drop in disk.core.drops] == [0]
    assert disk.core.writable == (1, b"")


def test_above_85_percent_any_file_goes_if_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    disk.ratio = 0.86
    disk.after(61)
    assert [drop[2] for drop in disk.core.drops] == [1]
    shy = Disk(monkeypatch, cleanFileForciblyEnable="false")
    shy.ratio = 0.86
    shy.after(61)
    assert [drop[2] for drop in shy.core.drops] == [0]


def test_a_full_disk_stops_writes_until_it_is_below_the_forcible_ratio(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = Disk(monkeypatch)
    disk.ratio = 0.91
    disk.after(1)  # at once, not only after a minute
    assert disk.core.writable[0] == 0
    assert b"91.0%" in disk.core.writable[1]
    assert [drop[2] for drop in disk.core.drops] == [1]
    disk.ratio = 0.87
    disk.after(1)
    assert disk.core.writable[0] == 0
    disk.ratio = 0.84
    disk.after(1)
    assert disk.core.writable == (1, b"")


def test_sends_are_taken_again_when_nobody_has_a_reason_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = Disk(monkeypatch)
    disk.ratio = 0.91
    disk.after(1)
    disk.stops.stop("another", b"its reason")
    assert b"91.0%" in disk.core.writable[1]
    disk.ratio = 0.84
    disk.after(1)
    assert disk.core.writable == (0, b"its reason")
    disk.stops.resume("another")
    assert disk.core.writable == (1, b"")


def test_ratios_stay_within_rocketmqs_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch, diskSpaceWarningLevelRatio="100", diskSpaceCleanForciblyRatio="100")
    disk.ratio = 0.905
    disk.after(1)
    assert disk.core.writable[0] == 0
    low = Disk(monkeypatch, diskSpaceWarningLevelRatio="1", diskSpaceCleanForciblyRatio="1")
    low.ratio = 0.34
    low.after(1)
    assert low.core.writable[0] == 1


def test_a_ratio_beyond_them_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk(monkeypatch, diskSpaceWarningLevelRatio="95")
    disk.after(1)
    disk.after(1)
    told = "diskSpaceWarningLevelRatio=95 counts as 90: from 35 to 90 does, as with RocketMQ"
    assert [each.message for each in caplog.records] == [told]
    disk.settings.change({"diskSpaceWarningLevelRatio": "90"})
    disk.after(1)
    disk.settings.change({"diskSpaceWarningLevelRatio": "95"})
    disk.after(1)
    assert [each.message for each in caplog.records] == [told] * 2


@in_loop
async def test_deletion_by_hand_runs_for_20_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    disk.keeper.delete_by_hand()
    for _ in range(30):
        disk.after(10)
    assert len(disk.core.drops) == 20
    async with control(tmp_path) as broker:
        assert (await broker.core.client().call(329)).code == 0
        for code in (306, 316):
            assert (await broker.core.client().call(code)).code == 0


def test_hours_are_a_list() -> None:
    at_four = time.struct_time((2026, 1, 1, 4, 59, 0, 0, 1, 0))
    assert is_hour("04", at_four)
    assert is_hour("16; 4", at_four)
    assert not is_hour("5;x;", at_four)


def test_the_ratio_of_a_missing_directory_is_that_of_the_one_above(tmp_path: Path) -> None:
    assert 0 < disk_ratio(tmp_path / "a" / "b") < 1
    (tmp_path / "file").touch()
    assert 0 < disk_ratio(tmp_path / "file" / "b") < 1


def test_a_directory_that_cannot_be_asked_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert disk_ratio(loop) == 0
    assert f"{loop}: disk usage cannot be read" in caplog.text
