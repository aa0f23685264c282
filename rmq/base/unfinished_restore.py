"""Unfinished restore: what `rmq store restore` has made so far, in the directory of the new store.

    check_none(Path("store"))       StoreError: a restore was interrupted there

The parts of the new store are made in STORE/restoring, and then moved to their places, the log last
(rmq/backup/restore.py). A directory with that folder and no log is no store yet: a broker that
began an empty log in it would serve none of the messages, and the restore could not be run again.
"""

from pathlib import Path

from rmq.errors import StoreError

FOLDER = "restoring"


def check_none(root: Path) -> None:
    """Before a broker opens the store."""
    if (root / FOLDER).exists() and not (root / "commitlog").exists():
        raise StoreError(
            f"{root}: a restore has not ended, and this is no store yet: run it again "
            f"(rmq store restore --from BACKUP --store {root})"
        )
