"""`rmq store backup` and `rmq store restore`: a copy of a store, made while its broker runs.

rmq store backup --store store --to /backup/a       may be repeated: only what is new is copied
rmq store backup --check /backup/a
rmq store restore --from /backup/a --store store
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmq.cli.output import Output, output_option
from rmq.cli.store_places import config_option, load_settings, log_of, progress_bar, stores_under
from rmq.cli.table import columns
from rmq.errors import ConfigError

if TYPE_CHECKING:
    from rmq.backup.backup import Result
    from rmq.offline.report import Report

DIRECTORY = click.Path(path_type=Path)
PROBLEMS_SHOWN = 100


@click.command()
@click.option("--store", "root", metavar="DIR", type=DIRECTORY, default=Path("store"),
              show_default=True, help="Directory of the store, with all its shards.")  # fmt: skip
@click.option("--to", "target", metavar="DIR", type=DIRECTORY,
              help="Directory of the backup, a new or an existing one.")  # fmt: skip
@click.option("--check", "checked", metavar="DIR", type=DIRECTORY,
              help="Check this backup instead: its checksums and every record.")  # fmt: skip
@click.option("--keep", is_flag=True, help="Keep log files that the store has deleted since.")
@config_option
@output_option
def backup(
    root: Path, target: Path | None, checked: Path | None, keep: bool, config: Path | None,
    output: Output,
) -> None:  # fmt: skip
    """Copy a store while its broker runs, or bring such a copy up to date.

    The copy has everything that was acknowledged before the command began: messages, topics, groups
    and offsets, of all shards. To bring it up to date, run the command again with the same
    directory, for example by cron or a systemd timer: only what is new in the log is copied. If a
    backup is interrupted, or its disk is full, the one before it stays as it was.

    \b
      rmq store backup --store ./store --to /backup/a
      rmq store backup --check /backup/a
      rmq store restore --from /backup/a --store ./new

    Log files that the store has deleted (fileReservedTime) are deleted from the copy, too, unless
    --keep is given. A backup belongs to one store. If the log does not continue the copied one (it
    lost its end in a power cut, or is another store), the copy is not changed and the error says
    so: use a new directory then.

    Exit code 0: done, or the backup is sound; 1: nothing could be copied, or there is damage in the
    backup or in the store (copied as it is, and named); 2: not a store, or not a backup; 4: the
    backup is in use.
    """
    if (target is None) == (checked is None):
        raise click.UsageError("give --to DIR to make a backup, or --check DIR to check one")
    if checked is not None:
        _check(checked, output)
        return
    assert target is not None
    from rmq.backup.backup import Backup

    settings, _ = load_settings(config)
    logs = {each: log_of(settings, root, each) or each / "commitlog" for each in stores_under(root)}
    with progress_bar(str(root)) as progress:
        result = Backup(root, target, logs, keep, progress).run()
    if output.is_data:
        output.value(result)
    else:
        _show(result, output)
    if any(each.problems for each in result.stores):
        sys.exit(1)


@click.command()
@click.option("--from", "source", metavar="DIR", type=DIRECTORY, required=True,
              help="Directory of the backup.")  # fmt: skip
@click.option("--store", "root", metavar="DIR", type=DIRECTORY, required=True,
              help="Directory of the new store. It must be empty or not exist.")  # fmt: skip
@output_option
def restore(source: Path, root: Path, output: Output) -> None:
    """Make a new store from a backup.

    All files are checked against the checksums of the backup, and every record against its own. If
    the backup is damaged, nothing is restored, and each damaged place is named by file and byte. If
    a restore is interrupted, run the same command again.

    The first start reads the whole log and rebuilds queues and key index. Start the broker with the
    settings that it had: name, mappedFileSizeCommitLog, number of shards. If storePathCommitLog is
    another directory, move the restored commitlog directory there.

    \b
      rmq store restore --from /backup/a --store ./new
      rmq broker --store ./new

    Exit code 0: done; 1: the backup is damaged, or the disk is full; 2: not a backup, or the
    directory is not empty; 4: a broker uses the directory, or the backup is being written.
    """
    from rmq.backup import manifest
    from rmq.backup.restore import Restore, check_target
    from rmq.node.store_lock import StoreLock, StoreReadLock

    if root.is_dir():
        StoreReadLock(root).release()  # its error names the broker that holds the directory
    check_target(root)
    manifest.required(source)
    with ExitStack() as held:
        held.callback(StoreLock(root).release)
        progress = held.enter_context(progress_bar(str(root)))
        result = Restore(source, root, progress).run()
    if output.is_data:
        output.value(result)
    else:
        click.echo(
            f"{root}: backup {result.number} of {result.source}: {result.records} records in "
            f"{result.segments} log files of {result.stores} stores"
        )


def _check(directory: Path, output: Output) -> None:
    from rmq.backup.verification import verify

    if not directory.is_dir():
        raise ConfigError(f"{directory} is not a directory")
    with progress_bar(str(directory)) as progress:
        report = verify(directory, progress)
    if output.is_data:
        output.value(report)
    else:
        _show_report(directory, report, output)
    if report.problems:
        sys.exit(1)


def _show_report(directory: Path, report: Report, output: Output) -> None:
    if report.problems:
        rows = [(each.file, each.offset, each.what) for each in report.problems[:PROBLEMS_SHOWN]]
        output.rows(columns("FILE", "BYTE", "WHAT"), rows)
    for note in report.notes:
        click.echo(f"note: {note}")
    counts = ", ".join(f"{number} {what}" for what, number in sorted(report.counts.items()))
    click.echo(f"{directory}: {counts}")
    click.echo(f"{len(report.problems)} problems" if report.problems else "sound")


def _show(result: Result, output: Output) -> None:
    output.rows(
        columns("STORE", "LOG FILES", "FROM", "TO", "COPIED MIB", "RECORDS"),
        [
            (each.directory, each.segments, each.log_begin, each.log_end,
             each.copied_bytes / 2**20, each.copied_records)
            for each in result.stores
        ],
    )  # fmt: skip
    for each in result.stores:
        for problem in each.problems:
            click.echo(f"damage in the store: {problem}")
    click.echo(f"backup {result.number} in {result.directory} is complete")
