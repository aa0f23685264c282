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
              show_default=True, help="The store, with those of further shards in it.")  # fmt: skip
@click.option("--to", "target", metavar="DIR", type=DIRECTORY, help="The backup, new or not.")
@click.option("--check", "checked", metavar="DIR", type=DIRECTORY,
              help="Check a backup, without a store: checksums, and every record.")  # fmt: skip
@click.option("--keep", is_flag=True, help="Keep log files that the store has deleted since.")
@config_option
@output_option
def backup(
    root: Path, target: Path | None, checked: Path | None, keep: bool, config: Path | None,
    output: Output,
) -> None:  # fmt: skip
    """Copy a store while its broker runs, or bring such a copy up to date.

    The copy has all that was acknowledged before the command began: messages, topics, groups and
    offsets, of all shards. Run it again into the same directory, by cron or a systemd timer: log
    files that are in it already are not read or copied again, and of the one in use only what is
    new. A backup that is interrupted, or finds its disk full, leaves the one before it as it was.

    \b
      rmq store backup --store ./store --to /backup/a
      rmq store backup --check /backup/a
      rmq store restore --from /backup/a --store ./new

    Log files that the store has deleted (fileReservedTime) go from the copy too, but with --keep.
    A backup belongs to one store: when the log has gone another way (it lost its end in a power
    cut, it is another store) the copy is left alone, and the error says so. Then take a new
    directory.

    Exit code 0: done, sound; 1: damage in the store (copied as it is, and named) or in the backup;
    nothing could be copied; 2: not a store, not a backup; 4: the backup is in use.
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
@click.option("--from", "source", metavar="DIR", type=DIRECTORY, required=True, help="The backup.")
@click.option("--store", "root", metavar="DIR", type=DIRECTORY, required=True,
              help="The new store: a directory that is empty, or not there.")  # fmt: skip
@output_option
def restore(source: Path, root: Path, output: Output) -> None:
    """Make a store of a backup.

    Every byte is checked against the backup's checksums, and every record against its own. Of a
    damaged backup nothing is restored; what is wrong is named by file and byte. An interrupted
    restore is begun anew by the same command.

    The first start reads all of the log and makes queues and key index of it. Start the broker with
    the settings that it had: name, mappedFileSizeCommitLog, number of shards. A broker whose
    storePathCommitLog is elsewhere wants the restored commitlog directory there.

    \b
      rmq store restore --from /backup/a --store ./new
      rmq broker --store ./new

    Exit code 0: done; 1: the backup is damaged, or the disk is full; 2: not a backup, or the
    directory is not empty; 4: a broker holds the directory, or the backup is being written.
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
        raise ConfigError(f"{directory} is no directory")
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
    click.echo(f"backup {result.number} in {result.directory} is whole")
