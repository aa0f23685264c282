"""Unwritable: a configuration file that cannot be written, as on a full disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rmq.base.journal_file import METADATA_NAME


@contextmanager
def not_saved(directory: Path, name: str = "topics.json") -> Iterator[None]:
    """Puts a directory where the file would be written first, and makes the journal unusable."""
    config = directory / "config"
    (way := config / f"{name}.tmp").mkdir()
    journal, aside = config / METADATA_NAME, config / "aside"
    if journal.exists():
        journal.rename(aside)
    try:
        yield
    finally:
        way.rmdir()
        if aside.exists():
            aside.rename(journal)
