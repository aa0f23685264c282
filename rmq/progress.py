"""Progress: long work tells its caller how far it is.

def read(path: Path, progress: Progress = no_progress) -> None:
    progress("the log", 17, 100)
"""

from __future__ import annotations

from collections.abc import Callable

# Called during the work: (what is being done, how much is done, of how much).
Progress = Callable[[str, int, int], None]


def no_progress(stage: str, done: int, total: int) -> None:
    """For callers that do not need the progress."""
