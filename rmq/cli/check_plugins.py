"""`rmq check machine | brokers | group`: checks for monitoring; plugin.py has what they share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from rmq.cli.options import namesrv_option, parse_pairs
from rmq.cli.output import Output, output_option
from rmq.cli.plugin import Number, PluginCommand, Result, Status
from rmq.client.blocking.admin import QueueRange
from rmq.client.blocking.cluster import Cluster
from rmq.codes import ResponseCode
from rmq.errors import RemoteError
from rmq.operations.texts import counted

# States of brokers that go on serving, and of those of which that is not known. In all other states
# a broker refuses something, or does not answer.
STATUSES = {"detached": Status.WARNING, "no controller": Status.WARNING,
            "refused": Status.UNKNOWN}  # fmt: skip
THRESHOLD = click.FloatRange(0)


@click.command(cls=PluginCommand)
@click.option("--store", type=click.Path(file_okay=False, path_type=Path),
              help="Directory of the store.  [default: storePathRootDir]")  # fmt: skip
@click.option("-c", "config", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              metavar="FILE", help="Property file of the broker.")  # fmt: skip
@click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help="Override one setting.")
@output_option
def machine(
    store: Path | None, config: Path | None, pairs: tuple[str, ...], output: Output
) -> None:
    """Check this machine, for monitoring.

    CRITICAL: there is no space for the store. WARNING: a kernel setting or a limit is not as
    advised. `rmq check` shows both in detail.
    """
    from rmq.config import load_properties
    from rmq.system.checks import SPACE, check
    from rmq.system.kernel_files import KernelFiles

    settings = load_properties(config, parse_pairs(pairs, "--set"))
    root = store if store is not None else Path(settings.storePathRootDir).expanduser()
    findings = check(KernelFiles(), root, settings)
    found = Result("MACHINE")
    for each in findings:
        if each.good is False:
            status = Status.CRITICAL if each.name == SPACE else Status.WARNING
            found.problem(status, f"{each.name}: {each.now}, advised is {each.advised}")
    good = sum(each.good is not False for each in findings)
    found.numbers.append(Number("not_as_advised", len(findings) - good))
    found.rest = f"{good} of {len(findings)} need no change"
    found.show(output)


@click.command(cls=PluginCommand)
@click.option("--expect", type=click.IntRange(1), metavar="N",
              help="CRITICAL if fewer than N brokers run.")  # fmt: skip
@click.option("--disk-warning", type=THRESHOLD, default=75, show_default=True, metavar="PERCENT",
              help="WARNING if a broker's disk is at least this full.")  # fmt: skip
@click.option("--disk-critical", type=THRESHOLD, default=90, show_default=True, metavar="PERCENT",
              help="CRITICAL if a broker's disk is at least this full.")  # fmt: skip
@namesrv_option
@output_option
def brokers(
    expect: int | None, disk_warning: float, disk_critical: float, namesrv: str, output: Output
) -> None:
    """Check all brokers, for monitoring.

    CRITICAL: a broker does not answer or refuses sends, or no name server answers. WARNING: a
    broker does not reach its controller, or a slave does not get its master's log. UNKNOWN: a
    broker refuses to tell this account. The states are those of `rmq broker status`.
    """
    from rmq.cli.broker_figures import refusal
    from rmq.operations.broker_samples import BrokerSamples

    with Cluster(namesrv) as cluster:
        rows = BrokerSamples(cluster, refusal).poll()
    found = Result("BROKERS")
    for row in rows:
        if row.state != "running":
            status = STATUSES.get(row.state, Status.CRITICAL)
            why = f" ({row.problem})" if row.problem else ""
            found.problem(status, f"{row.broker} at {row.address}: {row.state}{why}")
        if row.disk is not None:
            percent = round(row.disk * 100, 1)
            found.number(
                Number(f"disk_{row.broker}_{row.address}", percent, "%", disk_warning,
                       disk_critical),
                f"{row.broker} at {row.address}: {percent:g}% of its disk is used",
            )  # fmt: skip
    running = sum(row.state == "running" for row in rows)
    found.numbers.insert(0, Number("brokers_running", running))
    if running + sum(row.state == "refused" for row in rows) < (expect or 1):
        found.problem(Status.CRITICAL, f"{running} of {expect or 1} expected brokers run")
    found.rest = f"{running} of {counted(len(rows), 'broker')} run"
    found.show(output)


@click.command(cls=PluginCommand)
@click.argument("name")
@click.option("--lag-warning", type=THRESHOLD, metavar="N",
              help="WARNING if at least N messages wait to be consumed.")  # fmt: skip
@click.option("--lag-critical", type=THRESHOLD, metavar="N",
              help="CRITICAL if at least N messages wait to be consumed.")  # fmt: skip
@click.option("--dead-letters-warning", type=THRESHOLD, default=1, show_default=True, metavar="N",
              help="WARNING if at least N dead letters were not sent again.")  # fmt: skip
@click.option("--dead-letters-critical", type=THRESHOLD, metavar="N",
              help="CRITICAL if at least N dead letters were not sent again.")  # fmt: skip
@click.option("--members", type=click.IntRange(1), metavar="N",
              help="CRITICAL if fewer than N members are online.")  # fmt: skip
@namesrv_option
@output_option
def group(
    name: str,
    lag_warning: float | None,
    lag_critical: float | None,
    dead_letters_warning: float,
    dead_letters_critical: float | None,
    members: int | None,
    namesrv: str,
    output: Output,
) -> None:
    """Check a consumer group, for monitoring.

    The lag counts messages that the group has not consumed yet, retries and delayed retries
    included. Dead letters count until `rmq dlq resend` has sent them again or `rmq dlq dismiss` has
    put them aside. UNKNOWN: there is no such group. CRITICAL: a broker does not answer.
    """
    from rmq.client.blocking import admin
    from rmq.client.blocking.group_lag import group_lag
    from rmq.client.blocking.partial import Missing
    from rmq.client.blocking.waiting_retries import waiting_retries

    missing: Missing = {}
    with Cluster(namesrv) as cluster:
        groups = admin.groups(cluster, missing)
        if name not in groups and not missing:
            raise admin.no_group(name)
        found_lag = group_lag(cluster, name, set(cluster.topics()), groups, missing)
        delayed = waiting_retries(cluster, missing).of(name)
        sent_again = _sent_again(cluster, found_lag.dead_letter_queues)
        online = len(admin.online_members(cluster, name, missing))
    found = Result("GROUP")
    for broker, why in sorted(missing.items()):
        text = f"{broker} does not answer ({why}): what lies there alone is not counted"
        found.problem(Status.CRITICAL, text)
    lag = found_lag.lag + found_lag.retry_lag + (delayed or 0)
    found.number(Number("lag", lag, "", lag_warning, lag_critical), f"{name}: lag {lag}")
    if delayed is not None:
        found.numbers.append(Number("delayed_retries", delayed))
    found.numbers.append(Number("dead_letters", found_lag.dead_letters))
    waiting = found_lag.dead_letters - (sent_again or 0)
    which = "not sent again" if sent_again is not None else (
        "in all (to see which were sent again, this account needs Get of Group:TOOLS_CONSUMER)"
    )  # fmt: skip
    found.number(
        Number("not_sent_again", waiting, "", dead_letters_warning, dead_letters_critical),
        f"{name}: {counted(waiting, 'dead letter')} {which}: use `rmq dlq resend {name}` or "
        f"`rmq dlq dismiss {name}`",
    )
    found.numbers.append(Number("members", online))
    if members is not None and online < members:
        found.problem(Status.CRITICAL, f"{name}: {online} of {counted(members, 'member')} online")
    found.rest = f"lag {lag}, {counted(online, 'member')} online"
    found.show(output)


def _sent_again(cluster: Cluster, queues: Sequence[QueueRange]) -> int | None:
    """How many of these dead letters were sent again or put aside. None: the account may not see
    it."""
    from rmq.operations.dead_letters import letters_in

    try:
        return sum(each.count - each.waiting for each in letters_in(cluster, queues))
    except RemoteError as error:
        if error.code != ResponseCode.NO_PERMISSION:
            raise
        return None
