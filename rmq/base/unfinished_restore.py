"""Unfinished restore: detects a directory in which `rmq store restore` was interrupted.

    check_none(Path("store"))       StoreError: a restore was interrupted there

The restore makes the parts of the new store in STORE/restoring and then moves them to their places,
the log last (rmq/backup/restore.py). A directory with that folder and no log is no store yet: if a
broker began an empty log in it, it would serve none of the messages, and the restore could not be
run again.
"""

from pathlib import Path

from rmq.errors import StoreError

FOLDER = "restoring"


def check_none(root: Path) -> None:
    """To be called before a broker opens the store."""
    if (root / FOLDER).exists() and not (root / "commitlog").exists():
        raise StoreError(
            f"{root}: a restore has not ended, and this is no store yet: run it again "
            f"(rmq store restore --from BACKUP --store {root})"
        )
