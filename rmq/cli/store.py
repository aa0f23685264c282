"""`rmq store`: what a store directory holds and whether it is sound, without a broker.

    rmq store check DIR     every record, queue entry and index entry; shards of DIR too
    rmq store dump DIR      its parts at a glance;  dump FILE: what a file holds, row by row
    rmq store dump DIR/consumequeue/T/0 --columns queue.npz         a queue as columns
    rmq store backup, restore       store_backup.py

check and dump only read a store. While a check reads, no broker can start on the store. A store
that a broker holds is refused (exit code 4), except with --live.
"""

from __future__ import annotations

import itertools
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmq.cli.output import Output, output_option
from rmq.cli.store_backup import backup, restore
from rmq.cli.store_places import (
    config_option,
    load_settings,
    log_of,
    progress_bar,
    stores_under,
)
from rmq.cli.table import columns
from rmq.errors import ConfigError, StoreError, StoreLockedError
from rmq.node.store_lock import StoreReadLock

if TYPE_CHECKING:
    from rmq.config import Settings
    from rmq.offline.index_check import Shape
    from rmq.offline.report import Report
    from rmq.progress import Progress


@click.group()
def store() -> None:
    """Check, show, back up and restore a store directory."""


store.add_command(backup)
store.add_command(restore)


@store.command()
@click.argument("root", metavar="DIR", type=click.Path(path_type=Path))
@config_option
@click.option("--limit", default=100, show_default=True, type=click.IntRange(0),
              help="Show at most this many problems of each store.")  # fmt: skip
@click.option("--strict", "strict", flag_value=True, type=bool, default=None,
              help="Require complete queue files, as after a clean stop.")  # fmt: skip
@click.option("--crashed", "strict", flag_value=False, type=bool,
              help="Accept queue files that are behind, as after kill -9.")  # fmt: skip
@click.option("--live", is_flag=True, help="Check even if a broker uses the store.")
@output_option
def check(
    root: Path, config: Path | None, limit: int, strict: bool | None, live: bool, output: Output
) -> None:
    """Check that a store is sound: log, queues, key index, checkpoint.

    Names each damaged place by file and byte. The stores of further shards (DIR/shard-1, ..) are
    checked, too. Exit code 0: sound; 1: problems; 2: not a store; 4: a broker uses it.
    """
    settings, shape = load_settings(config)
    reports = {}
    for each in stores_under(root):
        reports[str(each)] = check_one(each, log_of(settings, root, each), strict, live, shape)
    if output.is_data:
        output.value(reports)
    else:
        for name, report in reports.items():
            _show(name, report, limit, output)
    if any(report.problems for report in reports.values()):
        sys.exit(1)


@store.command()
@click.argument("path", metavar="DIR|FILE", type=click.Path(path_type=Path))
@config_option
@click.option("--from", "start", default=0, help="Show a file from this offset on.")
@click.option("--count", type=click.IntRange(0), help="Show at most this many rows.")
@click.option("--bodies", is_flag=True, help="Show the beginning of each message body.")
@click.option(
    "--columns",
    "out",
    metavar="OUT",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a queue's columns to OUT.npz, .csv or .parquet; - prints them.",
)
@output_option
def dump(
    path: Path,
    config: Path | None,
    start: int,
    count: int | None,
    bodies: bool,
    out: Path | None,
    output: Output,
) -> None:
    """Show the contents of a store.

    For a directory, its parts are shown; for a file (log segment, queue file, index file,
    checkpoint) its contents, row by row. Nothing is changed, and a broker may run on the store.

    With --columns, PATH is the directory of a queue. Its columns are offset (in the queue),
    physical_offset (of the record in the log), size (of the record, bytes), tags_code, store_time
    (UTC) and body_size (bytes, as stored). The last two are missing if the log no longer has the
    message:

    \b
      rmq store dump STORE/consumequeue/TOPIC/0 --columns queue.parquet
      rmq store dump STORE/consumequeue/TOPIC/0 --columns - --from 1000 --count 20
    """
    from rmq.offline.dump import dump_file, line
    from rmq.offline.overview import overview

    settings, shape = load_settings(config)
    try:
        if out is not None:
            _dump_columns(path, settings, start, count, out, output)
            return
        if path.is_dir():
            parts = list(itertools.islice(overview(path, log_of(settings, path, path)), count))
            if output.is_data:
                output.value([part._asdict() for part in parts])
            else:
                output.rows(
                    columns("PART", "FILES", "MIB", "FIRST", "LAST", "SINCE"),
                    [(part.what, part.files, part.size / 2**20, *part[3:]) for part in parts],
                )
            return
        for row in itertools.islice(dump_file(path, start, bodies, shape), count):
            if output.is_data:
                output.value(row)
            else:
                click.echo(line(row))
    except (OSError, ValueError) as error:
        raise ConfigError(str(error)) from None


def _dump_columns(
    path: Path, settings: Settings, start: int, count: int | None, out: Path, output: Output
) -> None:
    """Writes the columns of the queue with the directory `path` to the file `out` or, if that is -,
    to standard output."""
    from rmq.offline.column_files import ending, text_rows, write_columns
    from rmq.offline.queue_columns import read_columns

    printed = str(out) == "-"
    if not printed:
        ending(out)
    queue = path.absolute()
    if len(queue.parts) < 4 or queue.parents[1].name != "consumequeue" or not queue.is_dir():
        raise ConfigError(f"{path}: --columns needs a queue, STORE/consumequeue/TOPIC/QUEUE")
    store = queue.parents[2]
    root = store.parent if store.name.startswith("shard-") else store
    log = log_of(settings, root, store) or store / "commitlog"
    found = read_columns(queue, log, start, count)
    if not printed:
        write_columns(found, out)
        rows = len(found.offset)
        if output.is_data:
            output.value({"rows": rows, "file": str(out)})
        else:
            click.echo(f"{rows} rows written to {out}")
    elif output.is_data:
        by_name = zip(*text_rows(found), strict=True) if len(found.offset) else [()] * len(found)
        output.value(dict(zip(found._fields, by_name, strict=True)))
    else:
        output.rows(columns(*(name.upper() for name in found._fields)), list(text_rows(found)))


def check_one(
    root: Path, log: Path | None, strict: bool | None, live: bool, shape: Shape,
    shown: Progress | None = None,
) -> Report:  # fmt: skip
    """The report about one store. shown: a progress bar that exists already."""
    from rmq.offline.checker import check_store

    look = None
    try:
        look = StoreReadLock(root)
    except StoreLockedError as error:
        if not live:
            raise StoreLockedError(
                f"{error}, or check it as it is: rmq store check --live"
            ) from None
        strict = False
    try:
        with nullcontext(shown) if shown else progress_bar(str(root)) as progress:
            return check_store(root, log, strict, shape, progress)
    except NotADirectoryError as error:
        raise ConfigError(str(error)) from None
    except OSError as error:
        raise StoreError(f"{root}: {error}") from None
    finally:
        if look is not None:
            look.release()


def _show(name: str, report: Report, limit: int, output: Output) -> None:
    if report.problems:
        rows = [(each.file, each.offset, each.what) for each in report.problems[:limit]]
        output.rows(columns("FILE", "BYTE", "WHAT"), rows)
        if len(report.problems) > limit:
            click.echo(f"... and {len(report.problems) - limit} more")
    for note in report.notes:
        click.echo(f"note: {note}")
    counts = ", ".join(
        f"{number} {what.replace('_', ' ')}" for what, number in sorted(report.counts.items())
    )
    click.echo(f"{name}: {counts}")
    click.echo(f"{len(report.problems)} problems" if report.problems else "sound")
