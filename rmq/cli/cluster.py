"""`rmq cluster list | plan | apply`; the latter two are in cluster_plan."""

from __future__ import annotations

from collections.abc import Mapping

import click

from rmq.cli.cluster_plan import apply, plan
from rmq.cli.options import namesrv_option
from rmq.cli.output import Output, output_option
from rmq.cli.table import Column, columns, moment, percent
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import BrokerEntry, Cluster
from rmq.errors import UnreachableError
from rmq.operations.broker_samples import first_number, recent_rates

COLUMNS = (
    *columns("CLUSTER", "BROKER", "ID", "ADDRESS", "VERSION"),
    Column("IN/S", "in_messages_per_second"),
    Column("OUT/S", "out_messages_per_second"),
    Column("DISK", "disk_used_percent", percent),
    moment("STARTED", is_wide=True),
    Column("IN TODAY", "in_messages_today", is_wide=True),
    Column("OUT TODAY", "out_messages_today", is_wide=True),
)


@click.group()
def cluster() -> None:
    """List brokers; add, drain and remove them."""


cluster.add_command(plan)
cluster.add_command(apply)


@cluster.command("list")
@namesrv_option
@output_option
def list_brokers(namesrv: str, output: Output) -> None:
    """List all registered brokers with their versions and rates."""
    with Cluster(namesrv) as found:
        rows = [
            (entry.cluster, entry.name, broker_id, address, *_figures(found, entry, address))
            for entry in found.brokers()
            for broker_id, address in sorted(entry.addresses.items())
        ]
    output.rows(COLUMNS, rows)


def _figures(found: Cluster, entry: BrokerEntry, address: str) -> tuple[object, ...]:
    """Version, messages in and out per second over 10 s, percentage of the disk in use, moment of
    the start, and messages in and out since midnight."""
    try:
        info = admin.runtime_info(found, BrokerEntry(entry.name, entry.cluster, {0: address}))
    except UnreachableError:
        return ("unreachable", *(None for _ in COLUMNS[5:]))
    ratio = first_number(info.get("commitLogDiskRatio", ""))
    return (
        f"rmq {ours}" if (ours := info.get("rmqVersion")) else info.get("brokerVersionDesc", "?"),
        *recent_rates(info),
        None if ratio is None else round(ratio * 100, 1),
        _count(info.get("bootTimestamp", "")),
        _today(info, "msgPutTotal"),
        _today(info, "msgGetTotal"),
    )


def _today(info: Mapping[str, str], name: str) -> int | None:
    now, morning = (
        _count(info.get(f"{name}TodayNow", "")),
        _count(info.get(f"{name}TodayMorning", "")),
    )
    return None if now is None or morning is None else now - morning


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 20 else None
