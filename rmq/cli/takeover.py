"""`rmq takeover`: replaces a running master by a broker of rmq, with its name and all its data."""

from __future__ import annotations

import os
import shlex
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmq.cli.addresses import with_port
from rmq.cli.options import parse_pairs
from rmq.cli.server import bind_options, set_option
from rmq.cli.signals import end_as_ctrl_c
from rmq.errors import ConfigError

if TYPE_CHECKING:
    from rmq.takeover.old_master import OldMaster
    from rmq.takeover.slave import Slave
    from rmq.takeover.switch import Switch

PORT = 10911
NEAR_BYTES = 1 << 20  # a copy that is no further behind may be switched to
POLL_S = 0.2
SAID_S = 5.0
MIB = 1 << 20
FILE = "takeover.conf"
# Settings of files that the slave makes and the new master uses as they are.
SHAPES = ("mappedFileSizeConsumeQueue",)
# Settings that --set must not have, each with the option that settles it; "": the takeover does.
SETTLED = {
    "brokerRole": "", "brokerId": "", "brokerName": "", "brokerClusterName": "",
    "mappedFileSizeCommitLog": "", "rmqMasterAddress": "", "haMasterAddress": "",
    "enableControllerMode": "", "storePathCommitLog": "", "storePathRootDir": "--store",
    "listenPort": "--port", "bindAddress": "--bind", "namesrvAddr": "--namesrv",
}  # fmt: skip


@click.command()
@click.option("--from", "master", metavar="HOST[:PORT]", required=True,
              help="Master to replace.")  # fmt: skip
@click.option("--store", type=click.Path(file_okay=False, path_type=Path), default=Path("store"),
              show_default=True,
              help="Directory of the new store. An earlier try is continued.")  # fmt: skip
@click.option("--port", type=click.IntRange(1, 65535),
              help="Port of the new master.  [default: the old one's]")  # fmt: skip
@click.option("-n", "--namesrv", metavar="HOST:PORT[;...]",
              help="Name servers.  [default: the old master's]")  # fmt: skip
@bind_options
@set_option
@click.option("--stop-command", metavar="COMMAND",
              help="Command that ends the old master. Without it, you are asked to.")  # fmt: skip
@click.option("--old-is-off", is_flag=True,
              help="Believe that the old master has ended if it does not answer.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Switch without asking as soon as the copy is complete.")
def takeover(
    master: str,
    store: Path,
    port: int | None,
    namesrv: str | None,
    bind: str | None,
    insecure: bool,
    pairs: tuple[str, ...],
    stop_command: str | None,
    old_is_off: bool,
    yes: bool,
) -> None:
    """Replace a running master of Apache RocketMQ or of rmq.

    Its clients go on working:

    \b
      copy      a slave of the old master is started on --store and copies all of it
      switch    the old master refuses sends, and you stop it (mqshutdown broker)
      serve     this process becomes the broker, with the name, port and data of the old one

    Producers repeat their sends during the switch: for a second or two, and as long as you take to
    stop the old master. Consumers go on where they were; messages that they had not committed are
    delivered again, as usual.

    Until the old master has ended, you can end this command (Ctrl-C): the old master then goes on
    as before. Run the command again to continue with what is copied.

    The settings of the new master are in STORE/takeover.conf. To start it later, run: rmq broker -c
    STORE/takeover.conf (with --insecure, if that was given here)
    """
    from rmq.takeover import earlier_copy
    from rmq.takeover.old_master import OldMaster
    from rmq.takeover.switch import Switch

    settings = _checked(parse_pairs(pairs, "--set"))
    end_as_ctrl_c()  # so that the old master takes sends again, whatever ends this command
    old = OldMaster(with_port(master, PORT))
    for note in old.check():
        _say(f"note: {note}")
    root = store.expanduser().absolute()
    servers = namesrv or old.name_servers
    if not servers:
        raise click.UsageError(f"{old.address} does not name its name servers: give them with -n")
    port = port or old.port
    _check_address(bind, port, old)
    own = {"storePathRootDir": str(root), "listenPort": str(port), "namesrvAddr": servers}
    if bind is not None:
        own["bindAddress"] = bind
    settings = _new_settings(old, own | settings)
    earlier_copy.check(root, old.name, old.address)
    slave = _slave(old, root, servers, bind, insecure, pairs)
    switch = Switch(old, slave, root / "commitlog", _say, _is_off(old, old_is_off))
    try:
        slave.start()
        _say(f"{old.name} at {old.address} is copied to {root}, by a slave at {slave.address}")
        _copy(switch, slave, old)
        if not yes and not click.confirm(
            "The copy is complete. Switch now? The old master refuses sends from then on",
            err=True,
        ):
            raise click.Abort
        switch.run(lambda: _end(old, stop_command))
    finally:
        slave.stop()
    _become(root, _ha_port(bind or "127.0.0.1", port) | settings, insecure, switch)


def _say(text: str) -> None:
    click.echo(f"rmq takeover: {text}", err=True)


def _checked(settings: dict[str, str]) -> dict[str, str]:
    for key in settings:
        if key in SETTLED:
            instead = f": use {SETTLED[key]}" if SETTLED[key] else " is set by the takeover itself"
            raise click.BadParameter(f"{key}{instead}", param_hint="--set")
    return settings


def _new_settings(old: OldMaster, own: dict[str, str]) -> dict[str, str]:
    """The settings of the new master; prints those of the old one that are not carried over.
    ConfigError: the new master would not start with them."""
    from rmq.takeover import carried

    settings = carried.carried(old.settings) | {"brokerRole": "ASYNC_MASTER", "brokerId": "0"} | own
    try:
        carried.check(settings)
    except ConfigError as error:
        raise ConfigError(
            f"the new master would not start with these settings, some of which are those of "
            f"{old.address}: {error}. Give another value with --set"
        ) from None
    if others := carried.left_behind(old.settings, settings):
        _say(f"note: not carried over: {', '.join(others)}. To keep some, give them with --set")
    return settings


def _is_off(old: OldMaster, is_known: bool) -> Callable[[str], bool]:
    """A function that tells whether the old master's machine has been off since a moment: the
    operator knows it, or is asked if there is a terminal."""

    def is_off(seen: str) -> bool:
        _say(f"{old.address} has not answered since {seen}, but may still serve other clients")
        if is_known:
            return True
        if sys.stdin.isatty():
            return click.confirm(f"Is its machine off, and has it been off since {seen}?", err=True)
        _say("waiting for it; next time give --old-is-off if you know that its machine is off")
        return False

    return is_off


def _check_address(bind: str | None, port: int, old: OldMaster) -> None:
    """UsageError: clients could not reach the new master at this address, or its port is in use.
    On the old master's machine its own port may be in use, because the old master still runs."""
    from rmq.base.server_address import split_address
    from rmq.cli.addresses import is_loopback

    host = split_address(old.address)[0]
    if bind is None and not is_loopback(host):
        raise click.UsageError(
            f"clients of {host} would not reach a new master at 127.0.0.1: give --bind"
        )
    if (port != old.port or not _is_here(host)) and not _is_free(bind or "127.0.0.1", port):
        raise click.UsageError(f"port {port} is in use here: give another one with --port")


def _is_here(host: str) -> bool:
    """Whether that is an address of this machine."""
    return _is_free(host, 0)


def _ha_port(host: str, port: int) -> dict[str, str]:
    """haListenPort if the usual port is in use, else no setting. RocketMQ's broker keeps that port
    for some seconds after it has ended for its clients. Slaves ask the master for the number."""
    ports = (port + 1, *range(port + 3, min(port + 100, 65536)))
    found = next((each for each in ports if _is_free(host, each)), port + 1)
    if found == port + 1:
        return {}
    _say(f"port {port + 1} is in use: slaves are served at {found} (haListenPort)")
    return {"haListenPort": str(found)}


def _is_free(host: str, port: int) -> bool:
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            attempt.bind((host, port))
    except OSError:
        return False
    return True


def _slave(
    old: OldMaster, store: Path, servers: str, bind: str | None, insecure: bool,
    pairs: tuple[str, ...],
) -> Slave:  # fmt: skip
    from rmq.client.blocking.cluster import Cluster
    from rmq.takeover.slave import Slave, keeping

    cluster = Cluster(servers)
    try:
        found = next((each for each in cluster.brokers() if each.name == old.name), None)
    finally:
        cluster.close()
    taken = set(found.addresses) if found is not None else {0}
    role = ("--set", "brokerRole=SLAVE", "--set", f"brokerId={max(taken) + 1}")
    options = ["--namesrv", servers, *role]
    if bind is not None:
        options += ["--bind", bind]
    if insecure:
        options.append("--insecure")
    shapes = [f"--set={key}={old.settings[key]}" for key in SHAPES if old.settings.get(key)]
    given = [f"--set={pair}" for pair in pairs]
    return Slave(old.address, store, [*options, *shapes, *given, *keeping(old.settings)])


def _copy(switch: Switch, slave: Slave, old: OldMaster) -> None:
    """Waits until the copy is at most NEAR_BYTES behind, and shows how far it is."""
    from rmq.cli.store_places import progress_bar

    begin = min(old.log_range()[0], slave.log_range()[0])
    said_at = time.monotonic()
    with progress_bar("copying") as progress:
        while (lag := switch.lag()) > NEAR_BYTES:
            end = old.log_range()[1]
            progress("the log", end - lag - begin, end - begin)
            if time.monotonic() - said_at > SAID_S:
                said_at = time.monotonic()
                problem = slave.problem()
                _say(f"{lag / MIB:,.0f} MiB behind{f': {problem}' if problem else ''}")
            time.sleep(POLL_S)


def _end(old: OldMaster, command: str | None) -> Callable[[], None]:
    from rmq.takeover.stop_command import StopCommand

    if command is not None:
        return StopCommand(command).check
    _say(f"stop the old master now (mqshutdown broker): {old.address} refuses sends")
    return lambda: None


def _become(root: Path, settings: dict[str, str], insecure: bool, switch: Switch) -> None:
    """This process becomes the broker."""
    from rmq.takeover.carried import write

    path = root / FILE
    words = ["broker", "-c", str(path), *(["--insecure"] if insecure else [])]
    write(path, settings)
    _say(
        f"the copy is complete, {time.monotonic() - switch.frozen_at:.1f} s after the last send. "
        "This process becomes the broker now. To start it later, or if it fails: "
        + shlex.join(["rmq", *words])
    )
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", "rmq", *words])
