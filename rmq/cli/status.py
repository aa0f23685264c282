"""`rmq broker status`: a line for each broker, with its role, its state and its figures."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rmq.cli import broker_figures
from rmq.cli.options import namesrv_option
from rmq.cli.output import Output, output_option
from rmq.cli.table import Column, columns
from rmq.client.blocking.cluster import Cluster
from rmq.errors import UnreachableError
from rmq.observe.sample import Sample
from rmq.operations.broker_samples import BrokerSamples

COLUMNS = broker_figures.columns((
    "broker", "address", "state", "role", "epoch", "in_sync", "version", "pid", "up_s",
    "connections", "lag", "unsynced_mb", "behind_mb", "rss_mb", "disk_used_percent",
))  # fmt: skip
POOL_COLUMNS = (
    *columns("BROKER", "POOL"), Column("BUFFER", "buffer_bytes"),
    *columns("BUFFERS", "IN USE", "MOST", "REFUSED"),
)  # fmt: skip


@click.command()
@namesrv_option
@click.option("--pools", is_flag=True, help="Show the buffer pools of each broker instead.")
@click.option(
    "--store",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Show the shards of the broker with this store, asked of its supervisor.",
)
@output_option
def status(namesrv: str, pools: bool, store: Path | None, output: Output) -> None:
    """Show the state of the brokers.

    BEHIND is how much of a master's log the slave furthest behind lacks. Exit code 1 if a broker
    does not answer or refuses to tell, was poisoned by a failed write, has a full disk, gets no log
    from its master (detached), waits for more slaves than follow it or are in sync (alone), or does
    not reach its controller (no controller); 3 if no broker is registered.
    """
    if store is not None:
        from rmq.cli.shards import show_shards

        show_shards(store, output)
        return
    with Cluster(namesrv) as cluster:
        samples = BrokerSamples(cluster, broker_figures.refusal)
        rows = samples.poll()
    if pools:
        output.rows(POOL_COLUMNS, [row for each in samples.newest() for row in _pools(each)])
    else:
        output.rows(COLUMNS, map(broker_figures.values, rows))
        if not output.is_data:
            broker_figures.show_problems(rows)
    if not rows:
        raise UnreachableError(f"no broker is registered at {namesrv}")
    if any(row.state != "running" for row in rows):
        sys.exit(1)


def _pools(sample: Sample) -> list[tuple[object, ...]]:
    """A row for each pool, first those that were ever fullest; the last row is the arena in which
    all of them are."""
    ranked = sorted(sample.pools.items(), key=lambda item: -item[1][3] / max(1, item[1][1]))
    rows: list[tuple[object, ...]] = [(sample.broker, name, *pool) for name, pool in ranked]
    arena = {name: sample.counters.get(f"memory_{name}", 0) for name in ("bytes", "used")}
    refused = sample.counters.get("memory_refusals")
    return [*rows, (sample.broker, "(arena)", 1, arena["bytes"], arena["used"], None, refused)]
