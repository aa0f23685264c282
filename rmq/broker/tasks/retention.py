"""Retention: deletes old segments of the commit log, and stops writes while the disk is full.

    every second    checks how full the disks of the log and the queues are (statvfs, no I/O)
    every 10 s      (cleanResourceInterval; at once when the disk is too full) deletes:

    when                                          what
    at the hours of deleteWhen ("04;16")          segments not changed for fileReservedTime hours
    used > diskMaxUsedSpaceRatio (75 %)           the same, at any hour
    used > diskSpaceCleanForciblyRatio (85 %)     the oldest, whatever their age, if
                                                  cleanFileForciblyEnable
    used > diskSpaceWarningLevelRatio (90 %)      the same, and sends are refused with 14 until the
                                                  ratio is below the forcible one
    request 329                                   as deleteWhen, 20 rounds

A round deletes at most deleteFileBatchMax segments, and never the last one. RocketMQ's limits of
the ratios apply: warning 35-90 %, forcible 30-85 %; a setting beyond its limit counts as the limit,
which is logged once.

Example: at 91 % sends are refused and the oldest segments go, 10 a round, every round; at 84 %
sends are taken again, within a second.
"""

import asyncio
import logging
import time
from pathlib import Path

from rmq.base import clock
from rmq.base.clock import now_ms
from rmq.broker.core_seam import RetentionCalls
from rmq.broker.tasks.write_stops import WriteStops
from rmq.config import Settings
from rmq.system.disk_use import space_of, used_part

log = logging.getLogger("rmq.broker.retention")

POLL_S = 1.0
FIRST_CLEAN_S = 60.0
MANUAL_ROUNDS = 20
DISK = "disk"  # the name under which retention stops sends
# Setting -> the least and the most that it may mean, in percent of the disk in use.
LIMITS = {"diskSpaceWarningLevelRatio": (35, 90), "diskSpaceCleanForciblyRatio": (30, 85)}


class Retention:
    """Owned by the control thread."""

    def __init__(
        self, settings: Settings, core: RetentionCalls, directories: list[Path], stops: WriteStops
    ) -> None:
        self._settings = settings
        self._core = core
        self._stops = stops
        self._directories = directories
        self._writable = True
        self._manual_rounds = 0
        self._next_clean = clock.monotonic() + FIRST_CLEAN_S
        self._warned: dict[str, int] = {}  # setting -> its value beyond the limit, as logged

    async def run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(POLL_S)

    def delete_by_hand(self) -> None:
        """Request 329: lets the next rounds delete by age, whatever the hour."""
        self._manual_rounds = MANUAL_ROUNDS
        self._next_clean = clock.monotonic()

    def look(self) -> None:
        """One check of the disk, and a round of deletion when it is due."""
        ratio = max(disk_ratio(directory) for directory in self._directories)
        warning = self._level("diskSpaceWarningLevelRatio")
        forcible = self._level("diskSpaceCleanForciblyRatio")
        self._guard(ratio, warning, forcible)
        now = clock.monotonic()
        if now >= self._next_clean or not self._writable:
            self._next_clean = now + self._settings.cleanResourceInterval / 1000
            self._clean(ratio, forcible)

    def _level(self, key: str) -> float:
        """The effective value of this setting, 0..1."""
        low, high = LIMITS[key]
        given: int = getattr(self._settings, key)
        percent = max(low, min(high, given))
        if percent == given:
            self._warned.pop(key, None)
        elif self._warned.get(key) != given:
            self._warned[key] = given
            log.warning(
                "%s=%d counts as %d: from %d to %d does, as with RocketMQ",
                key, given, percent, low, high,
            )  # fmt: skip
        return percent / 100

    def _guard(self, ratio: float, warning: float, forcible: float) -> None:
        if self._writable and ratio > warning:
            self._writable = False
            reason = f"the broker's disk is full [{ratio:.1%}], writes stop above {warning:.0%}"
            self._stops.stop(DISK, f"service not available now: {reason}".encode())
            log.error("%s; sends are refused until it is below %.0f%%", reason, forcible * 100)
        elif not self._writable and ratio < forcible:
            self._writable = True
            self._stops.resume(DISK)
            log.warning("the disk has room again: %.1f%% used, sends are taken", ratio * 100)

    def _clean(self, ratio: float, forcible: float) -> None:
        settings = self._settings
        force = ratio > forcible and settings.cleanFileForciblyEnable
        due = (
            force
            or ratio > settings.diskMaxUsedSpaceRatio / 100
            or self._manual_rounds > 0
            or is_hour(settings.deleteWhen)
        )
        if not due:
            return
        self._manual_rounds = max(0, self._manual_rounds - 1)
        before_ms = now_ms() - settings.fileReservedTime * 3_600_000
        count = self._core.drop_segments(before_ms, settings.deleteFileBatchMax, int(force))
        if count:
            log.info(
                "%d segments of the commit log deleted (%s, disk %.1f%% used)",
                count, "whatever their age" if force else "by age", ratio * 100,
            )  # fmt: skip


def is_hour(hours: str, now: time.struct_time | None = None) -> bool:
    """Whether the local hour is one of "04;16"."""
    current = (now or time.localtime()).tm_hour
    return any(part.strip().isdecimal() and int(part) == current for part in hours.split(";"))


def disk_ratio(directory: Path) -> float:
    """Used part of the file system that holds it, or will, 0..1; 0 when it cannot be read."""
    try:
        return used_part(space_of(directory))
    except OSError as error:
        log.warning("%s: disk usage cannot be read: %s", directory, error)
        return 0.0
