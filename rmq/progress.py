"""Progress: long work says how far it is, to whoever wants to know.

def read(path: Path, progress: Progress = no_progress) -> None:
    progress("the log", 17, 100)
"""

from __future__ import annotations

from collections.abc import Callable

# Called while it works: (what is being done, how much is done, of how much).
Progress = Callable[[str, int, int], None]


def no_progress(stage: str, done: int, total: int) -> None:
    """For those who do not want to know."""
