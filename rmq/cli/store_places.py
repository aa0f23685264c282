"""Store places: the directories of a store, and other things that commands about stores share.

stores_under(Path("store"))     [store, store/shard-1, ..]
log_of(settings, root, each)    the directory of a store's log; None: it is in the store
progress_bar("store")           a bar on a terminal, else nothing
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rmq.config import Settings
    from rmq.offline.index_check import Shape
    from rmq.progress import Progress

config_option = click.option(
    "-c", "config", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="Property file of the broker, for storePathCommitLog, maxHashSlotNum, maxIndexNum.",
)  # fmt: skip


def load_settings(config: Path | None) -> tuple[Settings, Shape]:
    from rmq.config import load_properties
    from rmq.offline.index_check import Shape

    settings = load_properties(config)
    return settings, Shape(settings.maxHashSlotNum, settings.maxIndexNum)


def stores_under(root: Path) -> list[Path]:
    """The store, and the stores of further shards under it, in the order of the shards."""
    shards = [
        path for path in root.glob("shard-*")
        if path.name.removeprefix("shard-").isdecimal() and path.is_dir()
    ]  # fmt: skip
    return [root, *sorted(shards, key=lambda path: int(path.name.removeprefix("shard-")))]


def log_of(settings: Settings, root: Path, each: Path) -> Path | None:
    """The directory of the store's log; None: it is in the store. Logs of further shards are in
    directories under that of shard 0's log."""
    if not settings.storePathCommitLog:
        return None
    log = Path(settings.storePathCommitLog)
    return log if each == root else log / each.name


@contextmanager
def progress_bar(name: str, *, is_wanted: bool = True) -> Iterator[Progress]:
    """Yields the function that shows the progress: a bar on a terminal, else nothing. A total of 0
    means that it is not known."""
    from rmq.progress import no_progress

    if not is_wanted or not sys.stderr.isatty():  # without the cost of importing rich
        yield no_progress
        return
    try:
        from rich.console import Console
        from rich.progress import Progress as Bars
    except ImportError:
        yield no_progress
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield no_progress
        return
    shown_at = 0.0
    with Bars(console=console, transient=True) as bars:
        bar = bars.add_task(name, total=None)

        def progress(stage: str, done: int, total: int) -> None:
            nonlocal shown_at
            if time.monotonic() - shown_at >= 0.1:
                shown_at = time.monotonic()
                bars.update(bar, description=f"{name}: {stage}", completed=done,
                            total=total or None)  # fmt: skip

        yield progress
