"""`rmq controller`: makes settings of the options; `rmq.node.controller_process` runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rmq.cli.options import parse_pairs
from rmq.cli.server import (
    bind_options,
    file_option,
    log_options,
    log_settings,
    server_settings,
    set_option,
)


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on.  [default: 9878]")
@click.option(
    "--etcd", metavar="URL[;...]",
    help="Keep all state in this etcd (such as http://10.0.0.1:2379), so that any number of "
         "controllers can run.  [default: a file, and this is the only controller]",
)  # fmt: skip
@click.option(
    "--store", type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the state, if there is no etcd.  [default: ~/controller]",
)  # fmt: skip
@click.option("--name", help="Name, unique among the controllers.  [default: its address]")
@click.option(
    "--address", metavar="HOST:PORT", help="Address for brokers.  [default: the one it listens on]"
)
@click.option(
    "--lease", "lease_ms", type=click.IntRange(500, 600_000), metavar="MS",
    help="How long a master works without a controller, in ms.  [default: 5000]",
)  # fmt: skip
@bind_options
@log_options
@file_option
@set_option
def controller(
    port: int | None,
    etcd: str | None,
    store: Path | None,
    name: str | None,
    address: str | None,
    lease_ms: int | None,
    bind: str | None,
    insecure: bool,
    config: Path | None,
    pairs: tuple[str, ...],
    **log_given: Any,
) -> None:
    """Run a controller, which elects masters among replicas.

    Three machines, each with an etcd member and a controller:

    \b
        rmq controller --insecure --bind 10.0.0.1 --etcd "http://10.0.0.1:2379;http://10.0.0.2:2379"

    Give each broker all controllers: controllerAddr=10.0.0.1:9878;10.0.0.2:9878;10.0.0.3:9878
    """
    from rmq.node.controller_process import run_controller

    given = {
        "listenPort": port,
        "rmqEtcd": etcd,
        "controllerStorePath": store,
        "rmqControllerName": name,
        "rmqControllerAddress": address,
        "rmqLeaseMillis": lease_ms,
        "bindAddress": bind,
    }
    overrides = parse_pairs(pairs, "--set") | log_settings(log_given)
    overrides |= {key: str(value) for key, value in given.items() if value is not None}
    run_controller(server_settings("controller", config, overrides, insecure))
