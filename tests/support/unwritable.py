"""A configuration file that cannot be written, as on a full disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def not_saved(directory: Path, name: str = "topics.json") -> Iterator[None]:
    """A directory stands where the file is written first."""
    (way := directory / "config" / f"{name}.tmp").mkdir()
    try:
        yield
    finally:
        way.rmdir()
