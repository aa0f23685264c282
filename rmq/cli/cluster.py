"""`rmq cluster list | plan | apply`; the latter two are in cluster_plan."""

from __future__ import annotations

import click

from rmq.cli.cluster_plan import apply, plan
from rmq.cli.options import json_option, namesrv_option
from rmq.cli.output import show_rows
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import BrokerEntry, Cluster
from rmq.errors import UnreachableError
from rmq.operations.broker_samples import first_number, recent_rates


@click.group()
def cluster() -> None:
    """List brokers; add, drain and remove them."""


cluster.add_command(plan)
cluster.add_command(apply)


@cluster.command("list")
@namesrv_option
@json_option
def list_brokers(namesrv: str, as_json: bool) -> None:
    """List every registered broker with its version and rates."""
    with Cluster(namesrv) as found:
        rows = [
            (entry.cluster, entry.name, broker_id, address, *_figures(found, entry, address))
            for entry in found.brokers()
            for broker_id, address in sorted(entry.addresses.items())
        ]
    columns = ("CLUSTER", "BROKER", "ID", "ADDRESS", "VERSION", "IN/S", "OUT/S", "DISK")
    show_rows(columns, rows, as_json)


def _figures(
    found: Cluster, entry: BrokerEntry, address: str
) -> tuple[str, float | None, float | None, str | None]:
    """(version, messages in and out per second over 10 s, share of the disk in use)."""
    try:
        info = admin.runtime_info(found, BrokerEntry(entry.name, entry.cluster, {0: address}))
    except UnreachableError:
        return "unreachable", None, None, None
    ratio = first_number(info.get("commitLogDiskRatio", ""))
    return (
        f"rmq {ours}" if (ours := info.get("rmqVersion")) else info.get("brokerVersionDesc", "?"),
        *recent_rates(info),
        None if ratio is None else f"{ratio:.0%}",
    )
