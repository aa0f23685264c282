"""Lost end: notes that this replica's log has lost its end, so that it does not lead without it.

    <storePathRootDir>/rmqLostEnd    exists from the start at which the loss was found until the log
                                     has everything that a master had when this replica followed it

The end of an epoch is missing after a new disk under the log or under the whole store, or after
damage at which the log was cut. The epoch file cannot show that: by its epochs the replica counts
as up to date. If it were elected, the other replicas would have to cut messages that only they
have.

    <storePathRootDir>/rmqDoubtedEnd    the same from a start at which nobody knows whether the end
                                        is missing: the machine was started again without a clean
                                        stop, and what the broker had acknowledged was written, but
                                        perhaps not synced (note_doubt() in bootstrap.py)

A replica in doubt that finds its master's log to be longer notes a lost end. Until it finds a
master, others are elected before it (rmq/controller/decisions.py).

Example: the checkpoint says 5000, the log ends at 0: note(). Then a master is followed whose log
ends at 7000: follows(7000); has_lost(6000) is true, has_lost(7000) is false from then on.
"""

from __future__ import annotations

import logging
from pathlib import Path

from rmq.base import atomic_file
from rmq.config import Settings

log = logging.getLogger("rmq.broker.lost_end")


class LostEnd:
    """Owned by the control thread, except that note() may be called before that thread starts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_noted = path.exists()
        self._said = ""
        self._whole_at: int | None = None  # log offset up to which the followed master had the log

    def note(self, why: str, level: int = logging.ERROR) -> None:
        """Notes the loss, on the disk when it returns. OSError."""
        if not self._is_noted:
            log.log(level, "%s; this replica is elected after those that have it", why)
            atomic_file.replace(self._path, f"{why}\n".encode())
        self._is_noted, self._whole_at = True, None

    def follows(self, master_end: int) -> None:
        """Notes that this log is the beginning of a master's log that ends at `master_end`, or by
        now later."""
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
        """Forgets the loss, because nobody has more of the log. A power cut may bring the file
        back, until a master is followed. OSError: the file is still there."""
        self._path.unlink(missing_ok=True)
        self._is_noted = False


def lost_end_path(settings: Settings) -> Path:
    return Path(settings.storePathRootDir).expanduser() / "rmqLostEnd"


def doubted_end_path(settings: Settings) -> Path:
    return Path(settings.storePathRootDir).expanduser() / "rmqDoubtedEnd"
