"""`rmq debug bundle`: one file with everything that is needed to look into a problem."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from rmq.cli.options import namesrv_option, parse_pairs
from rmq.cli.output import Output, output_option
from rmq.cli.secrets_mask import SecretsMask, secrets_in
from rmq.cli.store_places import progress_bar
from rmq.cli.table import columns
from rmq.client.blocking.cluster import Cluster
from rmq.config import Settings

MIB = 1 << 20
COLUMNS = columns("FILE", "BYTES", "WHAT", "NOTE")
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
# Variables of the environment that hold secrets for commands.
VARIABLES = ("RMQ_SECRET_KEY", "RMQ_NEW_PASSWORD", "RMQ_TLS_KEY_PASSWORD")


@click.group()
def debug() -> None:
    """Collect information for troubleshooting."""


@debug.command("bundle")
@click.option("--to", "path", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="File to write.  [default: rmq-debug-TIME.tar.gz]")  # fmt: skip
@click.option("--store", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Include the store of a broker on this machine: a list of its parts, and a "
              "check.")  # fmt: skip
@click.option("--no-store-check", is_flag=True,
              help="Do not check the store: the check reads all of it.")  # fmt: skip
@click.option("-c", "config", type=FILE, metavar="FILE",
              help="Property file of the broker on this machine.")  # fmt: skip
@click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help="Override one setting.")
@click.option("--log", "logs", type=FILE, multiple=True, metavar="FILE",
              help="Include the end of this log. May be given several times. Logs of brokers on "
              "this machine (rmqLogFile) are included anyway.")  # fmt: skip
@click.option("--max-mib", type=click.IntRange(1, 1024), default=32, show_default=True,
              help="Limit in MiB for all files together, before compression.")  # fmt: skip
@namesrv_option
@output_option
def make_bundle(
    path: Path | None,
    store: Path | None,
    no_store_check: bool,
    config: Path | None,
    pairs: tuple[str, ...],
    logs: tuple[Path, ...],
    max_mib: int,
    namesrv: str,
    output: Output,
) -> None:
    """Collect information for troubleshooting in one archive.

    The archive has versions, settings, the state of brokers and groups, routes, metrics, the ends
    of logs, facts about this machine and, with --store, about a store. What cannot be collected is
    left out and named.

    Passwords, keys and messages are not in it; names of topics and groups are. The command lists
    what it has put in: look through it before you give it away.
    """
    from rmq.cli import bundle_parts as parts
    from rmq.cli.bundle import Bundle
    from rmq.config import load_properties

    settings = load_properties(config, parse_pairs(pairs, "--set"))
    target = path or Path(f"rmq-debug-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz")
    with progress_bar("bundle") as progress:
        bundle = Bundle(SecretsMask(list(_known(settings, store))), max_mib * MIB, progress)
        parts.add_machine(bundle, settings, store)
        if config is not None or pairs:
            parts.add_settings_file(bundle, settings)
        with Cluster(namesrv) as cluster:
            found = parts.add_cluster(bundle, cluster)
        if store is not None:
            parts.add_store(bundle, settings, store, with_check=not no_store_check)
        parts.add_logs(bundle, logs, found)
        bundle.write(target)
    if output.is_data:
        output.value({"file": str(target), "files": bundle.entries})
        return
    output.rows(COLUMNS, [(each.file, each.bytes, each.what, each.note)
                          for each in bundle.entries])  # fmt: skip
    click.echo(f"{target}: {target.stat().st_size} bytes. Look through it before you give it away")


def _known(settings: Settings, store: Path | None) -> Iterator[str]:
    """The secrets that this process can know: of its environment and its account, of the settings,
    and of the accounts in the store."""
    from rmq.client.blocking import credentials

    yield from (os.environ.get(name, "") for name in VARIABLES)
    asker = credentials.present()
    if asker is not None:
        yield asker.secret_key
    for key, text in settings.items():
        if text and settings.setting(key).secret:
            yield text
            yield from _in_json(text)
            if Path(text).is_file():
                yield from _in_file(Path(text))
    if store is not None:
        yield from _in_file(store / "config" / "rmqAccounts.json")
    if settings.rmqAccountsPath:
        yield from _in_file(Path(settings.rmqAccountsPath).expanduser())


def _in_file(path: Path) -> Iterator[str]:
    try:
        yield from _in_json(path.read_text("utf-8", "replace"))
    except OSError:
        return


def _in_json(text: str) -> Iterator[str]:
    try:
        yield from secrets_in(msgspec.json.decode(text))
    except msgspec.DecodeError:
        return
