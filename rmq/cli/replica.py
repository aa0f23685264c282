"""`rmq replica status|promote|remove|add`: shows which replica copies which, and changes that.

    rmq replica status                       every replica: role, in sync, how far its log is
    rmq replica promote broker-a 2           makes replica 2 the master (a planned switch)
    rmq replica remove broker-a 3            forgets replica 3, which is gone for good
    rmq replica add broker-a                 the settings of one more replica

The controllers to ask are those of --controller. Without it, the brokers that the name servers know
are asked for the names of their controllers (controllerAddr).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from rmq.cli.options import namesrv_option
from rmq.cli.output import Output, output_option
from rmq.cli.replica_switch import acks_of_all, elect_soon
from rmq.cli.store_places import progress_bar
from rmq.cli.table import columns
from rmq.client.blocking.cluster import BrokerEntry, Cluster
from rmq.client.blocking.replicas import Replica, Replicas, ReplicaSet
from rmq.codes import ResponseCode
from rmq.errors import ConfigError, ProtocolError, RemoteError, RmqError, UnreachableError
from rmq.operations.replica_sets import controllers_of, replica_sets
from rmq.progress import Progress
from rmq.scaling.replacement import command_of_master

COLUMNS = columns("BROKER", "ID", "ADDRESS", "ROLE", "ALIVE", "IN SYNC", "EPOCH", "LOG END",
                  "LAG", "BEHIND MS")  # fmt: skip
POLL_S = 0.01

F = TypeVar("F", bound=Callable[..., Any])


def places(function: F) -> F:
    option = click.option(
        "--controller", metavar="HOST:PORT[;...]",
        help="Addresses of controllers.  [default: those in the brokers' settings]",
    )  # fmt: skip
    return option(namesrv_option(function))


@click.group()
def replica() -> None:
    """Show replicas, switch masters, add and remove replicas."""


@replica.command()
@click.argument("broker_names", nargs=-1, metavar="[BROKER_NAME]...")
@places
@output_option
def status(
    broker_names: tuple[str, ...], controller: str | None, namesrv: str, output: Output
) -> None:
    """Show which replica is master, which are in sync, and how far each one is.

    LAG is how many bytes of the master's log a replica lacks, BEHIND MS how long ago it had
    everything, EPOCH the last mastership in its log. Exit code 1 if a broker has no master, or a
    replica is down, not in sync, or does not answer its master; 3 if no server answers.
    """
    with _found(namesrv, controller) as (replicas, entries):
        sets = replica_sets(replicas, entries, broker_names)
        states = replicas.states()
    missing = sorted(set(broker_names) - {each.name for each in sets})
    if output.is_data:
        output.value({"controllers": states, "brokers": sets})
    else:
        output.rows(COLUMNS, [_cells(found, each) for found in sets for each in found.replicas])
        for found in sets:
            click.echo(_summary(found))
        for state in states:
            leads = {True: "leads", False: "does not lead", None: "does not answer"}[state.leads]
            click.echo(f"controller {state.address}: {leads}")
    if missing:
        raise ConfigError(f"no broker {', '.join(missing)}; `rmq replica status` lists all")
    if any(_is_ill(found) for found in sets):
        sys.exit(1)


def _is_ill(found: ReplicaSet) -> bool:
    return found.master_id is None or not all(
        each.alive and each.in_sync and each.answers is not False for each in found.replicas
    )


def _cells(found: ReplicaSet, each: Replica) -> tuple[object, ...]:
    return (
        found.name, each.id, each.address, each.role, each.alive, each.in_sync, each.epoch,
        each.log_end, each.lag_bytes, each.behind_ms,
    )  # fmt: skip


def _summary(found: ReplicaSet) -> str:
    if not found.controlled:
        return f"{found.name}: no controller; brokerRole decides which one is master"
    if found.master_id is None:
        return f"{found.name}: no master (epoch {found.master_epoch}); no replica in sync is up"
    in_sync = sorted(each.id for each in found.replicas if each.in_sync)
    silent = sorted(each.id for each in found.replicas if each.answers is False)
    told = f", of which {silent} do not answer their master" if silent else ""
    return (
        f"{found.name}: master {found.master_id} of epoch {found.master_epoch}; "
        f"in sync {in_sync} (set epoch {found.sync_state_set_epoch}){told}"
    )


@replica.command()
@click.argument("broker_name")
@click.argument("broker_id", type=click.IntRange(1), metavar="ID")
@places
@click.option("--timeout", "timeout_s", type=click.FloatRange(0.1), default=30.0, metavar="SECONDS",
              show_default=True, help="How long to wait for the switch.")  # fmt: skip
@output_option
def promote(
    broker_name: str,
    broker_id: int,
    controller: str | None,
    namesrv: str,
    timeout_s: float,
    output: Output,
) -> None:
    """Make a replica the master: a planned switch.

    The replica must be in sync. Sends during the switch are refused, and clients send them again.
    No acknowledged message is lost.
    """
    with _found(namesrv, controller) as (replicas, _):
        found = _controlled(replicas, broker_name)
        target = _promotable(found, broker_id)
        if found.master_id == broker_id:
            _say(output, f"{broker_name}: {broker_id} is the master already", elected_ms=0)
            return
        with progress_bar(f"promote {broker_name}") as progress:
            elected_s, ready_s = _switch(replicas, found, target, timeout_s, output, progress)
    text = (
        f"{broker_name}: {broker_id} at {target.address} is master, elected after "
        f"{elected_s * 1000:.0f} ms and taking sends after {ready_s * 1000:.0f} ms"
    )
    _say(output, text, elected_ms=round(elected_s * 1000), ready_ms=round(ready_s * 1000))


def _switch(
    replicas: Replicas, found: ReplicaSet, target: Replica, timeout_s: float, output: Output,
    progress: Progress,
) -> tuple[float, float]:  # fmt: skip
    """Returns the seconds until the replica was elected, and until it took sends."""
    name, broker_id = found.name, target.id
    with acks_of_all(replicas, found, broker_id, timeout_s, progress) as is_told:
        began = time.monotonic()
        if is_told:
            reply = elect_soon(replicas, name, broker_id)
        else:
            reply = replicas.elect(name, broker_id)
        waits = ResponseCode.CONTROLLER_MASTER_STILL_EXIST
        if reply.code not in (ResponseCode.SUCCESS, waits):
            raise RemoteError(reply.code, reply.remark or "no reason given")
        if reply.code == waits and not output.is_data:
            click.echo(f"{reply.remark}; waiting")
        until = began + timeout_s
        while _master_of(replicas, name) != broker_id:
            progress("seconds until it is elected", int(time.monotonic() - began), int(timeout_s))
            _check(until, f"{broker_id} is not master after {timeout_s:g} s: {reply.remark or ''}")
            time.sleep(POLL_S)
        elected_s = time.monotonic() - began
    while not _takes_sends(replicas, target.address):
        progress("seconds until it takes sends", int(time.monotonic() - began), int(timeout_s))
        _check(until, f"{broker_id} is master, but takes no sends after {timeout_s:g} s: fewer "
                      "brokers are in sync than minInSyncReplicas demands")  # fmt: skip
        time.sleep(POLL_S)
    return elected_s, time.monotonic() - began


def _check(until: float, text: str) -> None:
    if time.monotonic() > until:
        raise RmqError(f"{text}. `rmq replica status` shows what it waits for")


def _say(output: Output, text: str, **fields: int) -> None:
    if output.is_data:
        output.value({"text": text, **fields})
    else:
        click.echo(text)


def _promotable(found: ReplicaSet, broker_id: int) -> Replica:
    target = found.replica(broker_id)
    if target is None:
        ids = ", ".join(str(each.id) for each in found.replicas)
        raise ConfigError(f"{found.name} has no replica {broker_id}; its replicas are {ids}")
    if not target.alive:
        raise RmqError(f"replica {broker_id} ({target.address}) is down: start it first")
    if not target.in_sync:
        raise RmqError(
            f"replica {broker_id} ({target.address}) is not in sync: it may lack acknowledged "
            "messages. Wait until `rmq replica status` shows it in sync"
        )
    return target


def _master_of(replicas: Replicas, name: str) -> int | None:
    try:
        return replicas.sets([name], details=False)[0].master_id
    except (UnreachableError, RemoteError, IndexError):
        return None  # the controller does not lead any more, or not yet


def _takes_sends(replicas: Replicas, address: str) -> bool:
    try:
        return replicas.takes_sends(address)
    except (UnreachableError, RemoteError, ProtocolError):
        return False


@replica.command()
@click.argument("broker_name")
@click.argument("broker_id", type=click.IntRange(1), metavar="ID")
@places
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@output_option
def remove(
    broker_name: str, broker_id: int, controller: str | None, namesrv: str, yes: bool,
    output: Output,
) -> None:  # fmt: skip
    """Remove a replica that is gone for good from the controller.

    The replica is no longer elected, and the master no longer waits for it. Nothing is deleted on
    its disk. If it is started again, it joins as a replica whose log is compared with the master's.
    """
    with _found(namesrv, controller) as (replicas, entries):
        found = _controlled(replicas, broker_name)
        found.cluster = next((each.cluster for each in entries if each.name == broker_name), "")
        target = found.replica(broker_id)
        if target is None:
            ids = ", ".join(str(each.id) for each in found.replicas)
            raise ConfigError(f"{broker_name} has no replica {broker_id}; its replicas are {ids}")
        if target.alive:
            raise RmqError(
                f"replica {broker_id} ({target.address}) of {broker_name} is running: stop it first"
            )
        if not yes:
            left = len(found.replicas) - 1
            click.echo(
                f"Replica {broker_id} ({target.address}) of {broker_name} will not be elected any "
                f"more; replicas left: {left}. Its disk is not touched.",
                err=output.is_data,
            )
            output.confirm("Remove it?")
        replicas.remove(found, broker_id)
    text = f"{broker_name}: replica {broker_id} is removed"
    output.result("removed", text, broker=broker_name, id=broker_id)


@replica.command()
@click.argument("broker_name")
@places
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write the settings to this file, for `rmq broker -c FILE`.")  # fmt: skip
@click.option("--store", type=click.Path(file_okay=False, path_type=Path),
              help="Directory of the new store.  [default: ~/store]")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=10911, show_default=True,
              help="Port of the new broker.")  # fmt: skip
@output_option
def add(
    broker_name: str,
    controller: str | None,
    namesrv: str,
    write: Path | None,
    store: Path | None,
    port: int,
    output: Output,
) -> None:
    """Print settings for one more replica of a broker, and check its connections.

    Run it on the machine of the new replica: it tries to reach the controllers and the master.
    """
    from rmq.cli.replica_settings import checked_settings, settings_text

    with _found(namesrv, controller) as (replicas, _):
        found = _controlled(replicas, broker_name)
        settings, notes = checked_settings(replicas, found, namesrv, port)
    if store is not None:
        settings["storePathRootDir"] = str(store.expanduser().absolute())
    for note in notes:
        click.echo(f"rmq: {note}", err=True)
    if write is not None:
        try:
            write.write_text(settings_text(settings))
        except OSError as error:
            raise ConfigError(f"{write} cannot be written: {error.strerror}") from None
        click.echo(f"written to {write}. Start it with: rmq broker -c {write}")
    elif output.is_data:
        output.value(settings)
    else:
        click.echo(settings_text(settings), nl=False)


# ---- who is asked


@contextmanager
def _found(namesrv: str, controller: str | None) -> Iterator[tuple[Replicas, list[BrokerEntry]]]:
    """Yields the replicas, and the brokers that the name servers know."""
    with Cluster(namesrv) as cluster:
        given = [each.strip() for each in (controller or "").split(";") if each.strip()]
        replicas = Replicas(cluster, given)
        try:
            entries = cluster.brokers()
        except UnreachableError:
            if not given:
                raise
            entries = []
        if not given:
            replicas.controllers = controllers_of(replicas, entries)
        yield replicas, entries


def _controlled(replicas: Replicas, name: str) -> ReplicaSet:
    if not replicas.controllers:
        raise ConfigError(
            f"{name} has no controller: brokerRole decides which one is master. To switch by hand, "
            f"stop the slave and start its store as the master: {command_of_master(name)}. Then "
            "empty the store of the old master, and make it a slave: rmq broker --replica-of HOST. "
            "With `rmq broker --controller HOST:PORT` a controller does it; if there is one, give "
            "its address: --controller"
        )
    found = replicas.sets([name])
    if not found:
        known = ", ".join(each.name for each in replicas.sets(details=False)) or "none"
        raise ConfigError(f"the controller does not know broker {name}; it knows {known}")
    return found[0]
