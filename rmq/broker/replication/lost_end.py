"""Lost end: this replica's log once had more than it has, and it must not lead until that is back.

    <storePathRootDir>/rmqLostEnd    is there from the start at which it was found
                                     until the log has all that a master had when it was followed

A new disk under the log, or under all, or damage that it was cut at, leaves the end of an epoch
missing, which the epoch file cannot say: the replica says that it is of the newest epoch. Elected
so, it would have the others cut what they have and it has not.

Example: the checkpoint says 5000, the log ends at 0: note(); a master that ends at 7000 is
followed: follows(7000); has_lost(6000) is true, has_lost(7000) false from then on.
"""

from __future__ import annotations

import logging
from pathlib import Path

from rmq.base import atomic_file
from rmq.config import Settings

log = logging.getLogger("rmq.broker.lost_end")


class LostEnd:
    """Owned by the control thread, but for note() before it starts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_noted = path.exists()
        self._said = ""
        self._whole_at: int | None = None  # log offset: what the master had that is followed

    def note(self, why: str, level: int = logging.ERROR) -> None:
        """On the disk when it returns. OSError."""
        if not self._is_noted:
            log.log(level, "%s; this replica is elected after those that have it", why)
            atomic_file.replace(self._path, f"{why}\n".encode())
        self._is_noted, self._whole_at = True, None

    def follows(self, master_end: int) -> None:
        """What it goes on from is the beginning of a log that ends there, or later by now."""
        self._whole_at = master_end

    def has_lost(self, log_end: int) -> bool:
        if self._is_noted and self._whole_at is not None and log_end >= self._whole_at:
            try:
                self.forget()
            except OSError as error:
                if str(error) != self._said:
                    self._said = str(error)
                    log.error("the log has all again that its master has, and the file that says "
                              "otherwise stays: %s", error)  # fmt: skip
            else:
                log.warning("the log has all again that its master has")
        return self._is_noted

    def forget(self) -> None:
        """Nobody has more. A power cut may bring the file back, until a master is followed.
        OSError: it is there still."""
        self._path.unlink(missing_ok=True)
        self._is_noted = False


def lost_end_path(settings: Settings) -> Path:
    return Path(settings.storePathRootDir).expanduser() / "rmqLostEnd"
