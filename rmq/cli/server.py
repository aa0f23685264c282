"""`rmq standalone | namesrv | broker`: makes settings of the options; `rmq.node.process` runs the
servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from rmq.cli.main import IS_ADDRESSED, NAMESRV_VARIABLE, enter_context
from rmq.cli.options import parse_pairs, together
from rmq.config import format_value

# Settings that the name server of `rmq standalone` has in common with its broker.
ARMED = ("authenticationEnabled", "authorizationEnabled", "aclEnable", "rmqPlainAclPath",
         "tls.server.mode", "tls.test.mode.enable", "tls.server.certPath", "tls.server.keyPath",
         "tls.server.keyPassword", "tls.server.trustCertPath",
         "tls.server.need.client.auth", "rmqTlsUser", "rmqProxyProtocolFrom",
         "rmqProxyProtocol", "rmqMaxConnectionsPerAddress", "rmqMaxHandshakesPerAddress",
         "rmqHandshakeRatePerAddress")  # fmt: skip
# Settings with which RocketMQ's broker finds its name servers by itself; rmq's does not.
NOT_ASKED = ("fetchNamesrvAddrByAddressServer", "fetchNameSrvAddrByDnsLookup")
LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR"]
FLUSH = {"async": "ASYNC_FLUSH", "sync": "SYNC_FLUSH"}

file_option = click.option(
    "-c", "config", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="Property file, with RocketMQ's names of settings.",
)  # fmt: skip
set_option = click.option(
    "--set", "pairs", multiple=True, metavar="KEY=VALUE",
    help="Override one setting. May be given several times.",
)  # fmt: skip
bind_options = together(
    click.option("--bind", metavar="ADDRESS", help="Address to listen on.  [default: 127.0.0.1]"),
    click.option("--insecure", is_flag=True,
                 help="Allow other machines to connect without accounts."),
)  # fmt: skip
log_options = together(
    click.option("--log-file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                 help="Write the log to this file; if it is moved away, a new one is made.  "
                      "[default: rmqLogFile, standard error]"),
    click.option("--log-level", type=click.Choice(LEVELS, case_sensitive=False),
                 help="Lowest level that is logged.  [default: rmqLogLevel, INFO]"),
    click.option("--log-format", type=click.Choice(["text", "json"]),
                 help="json: one object per line.  [default: rmqLogFormat, text]"),
)  # fmt: skip
_broker_options = together(
    click.option("--port", type=click.IntRange(0, 65535),
                 help="Port of the broker.  [default: 10911]"),
    click.option("--flush",
                 type=click.Choice(["async", "sync", "ASYNC_FLUSH", "SYNC_FLUSH"],
                                   case_sensitive=False),
                 help="When a send is acknowledged: async, once it is in the file (survives "
                      "kill -9); sync, once it is on the disk (survives power loss).  "
                      "[default: async]"),
    click.option("--shards", metavar="N|auto",
                 help="Number of processes, each with its own part of every topic; auto: one for "
                      "each core.  [default: as many as the store has; 1 for a new one]"),
)  # fmt: skip


@click.command()
@click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the store.  [default: ./store]",
)
@click.option("--namesrv-port", type=click.IntRange(0, 65535), default=9876, show_default=True,
              help="Port of the name server.")  # fmt: skip
@_broker_options
@click.option(
    "-n", "--namesrv", metavar="HOST:PORT[;...]", help="Other name servers to register at, too."
)
@bind_options
@log_options
@file_option
@set_option
def standalone(store: Path | None, namesrv_port: int, namesrv: str | None, **options: Any) -> None:
    """Run a name server with a broker."""
    settings = _broker_settings(store, "store", namesrv, options)
    root = settings.storePathRootDir
    names = server_settings(
        "namesrv",
        None,
        {
            "listenPort": str(namesrv_port),
            "bindAddress": settings.bindAddress,
            "kvConfigPath": f"{root}/namesrv/kvConfig.json",
            "configStorePath": f"{root}/namesrv/namesrv.properties",
            **{key: format_value(getattr(settings, key)) for key in ARMED},
        },
        options["insecure"],
    )
    # The broker's limit for an address may be above what the name server allows in all.
    if names.rmqMaxConnectionsPerAddress >= names.rmqMaxConnections:
        names.set("rmqMaxConnectionsPerAddress", "0")
    _run(names, settings, options["shards"])


class _BrokerGroup(click.Group):
    """`rmq broker` runs a broker; its subcommands speak to running brokers, and their modules are
    imported when they are called."""

    _MODULES = {  # noqa: RUF012
        "status": ("rmq.cli.status", "Show the state of the brokers."),
        "shards": ("rmq.cli.shards", "Show the shards of a broker and their state."),
        "drain": ("rmq.cli.shards", "Stop sends to a shard."),
        "restart": ("rmq.cli.shards", "Stop a shard cleanly and start it again."),
        "shrink": ("rmq.cli.shards", "Remove the last shards of a broker."),
    }

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self._MODULES)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        from importlib import import_module

        if name not in self._MODULES:
            return None
        command = getattr(import_module(self._MODULES[name][0]), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, row[1]) for name, row in self._MODULES.items()])


@click.group(cls=_BrokerGroup, invoke_without_command=True)
@click.pass_context
@click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the store.  [default: storePathRootDir, ~/store]",
)
@_broker_options
@click.option(
    "-n",
    "--namesrv",
    envvar=NAMESRV_VARIABLE,
    show_envvar=True,
    metavar="HOST:PORT[;...]",
    help="Name servers to register at.  [default: namesrvAddr, NAMESRV_ADDR, 127.0.0.1:9876]",
)
@click.option(
    "--replica-of",
    metavar="HOST[:PORT]",
    help="Run as a slave of this master: copy its log and tables, and use its settings.",
)
@click.option(
    "--controller",
    metavar="HOST:PORT[;...]",
    help="Controllers that decide which broker of this name is master (enableControllerMode, "
    "controllerAddr).",
)
@bind_options
@log_options
@file_option
@set_option
def broker(
    context: click.Context,
    store: Path | None,
    namesrv: str | None,
    replica_of: str | None,
    controller: str | None,
    **options: Any,
) -> None:
    """Run a broker.

    Without a command, a broker is started. The commands below are for brokers that run already.
    """
    if context.invoked_subcommand is not None:
        enter_context(context)
        return
    if controller is not None:
        if replica_of is not None:
            raise click.UsageError("--controller and --replica-of cannot be used together")
        mode = (f"controllerAddr={controller}", "enableControllerMode=true")
        options["pairs"] = (*options["pairs"], *mode)
    is_said = (
        context.get_parameter_source("namesrv") is not ParameterSource.ENVIRONMENT
        or context.meta.get(IS_ADDRESSED)  # `rmq -n .. broker` passes it in the environment
    )
    settings = _broker_settings(store, None, namesrv if is_said else None, options)
    if namesrv and not settings.namesrvAddr:  # the shell's value counts less than the broker's file
        settings.set("namesrvAddr", namesrv)
    if replica_of is not None:
        from rmq.auth.options import AuthOptions
        from rmq.cli.replica_of import slave_settings
        from rmq.client.blocking import credentials, encryption
        from rmq.serving.tls import client_context

        who = AuthOptions.of(settings)
        credentials.use(who.inner or who.first_user)  # the account with which the master is asked
        if client_context(settings) is not None:
            said = {
                name: str(getattr(settings, f"tls.client.{key}") or "")
                for name, key in (
                    (encryption.AUTHORITY, "trustCertPath"), (encryption.CERTIFICATE, "certPath"),
                    (encryption.KEY, "keyPath"), (encryption.PASSWORD, "keyPassword"),
                )
            }  # fmt: skip
            checks = getattr(settings, "tls.client.authServer") == "true"
            encryption.use(RMQ_TLS="1", RMQ_TLS_VERIFY="1" if checks else "0", **said)
        taken = slave_settings(replica_of, Path(settings.storePathRootDir))
        for key, text in taken.items():
            if not settings.given(key):
                settings.set(key, text)
        settings.check()
    if not settings.namesrvAddr:
        settings.set("namesrvAddr", "127.0.0.1:9876")
        for key in NOT_ASKED:
            if getattr(settings, key):
                click.echo(f"rmq: {key}=true has no effect: this broker registers at "
                           "127.0.0.1:9876. Give its name servers as namesrvAddr or with -n",
                           err=True)  # fmt: skip
    _run(None, settings, options["shards"])


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on.  [default: 9876]")
@bind_options
@log_options
@file_option
@set_option
def namesrv(
    port: int | None,
    bind: str | None,
    insecure: bool,
    config: Path | None,
    pairs: tuple[str, ...],
    **log_given: Any,
) -> None:
    """Run a name server."""
    from rmq.node.process import run_node

    overrides = parse_pairs(pairs, "--set") | log_settings(log_given)
    if port is not None:
        overrides["listenPort"] = str(port)
    if bind is not None:
        overrides["bindAddress"] = bind
    run_node(server_settings("namesrv", config, overrides, insecure), None)


def _run(names: Any, settings: Any, shards: str | None) -> None:
    """Runs the broker in this process; with several shards this process becomes their
    supervisor."""
    store = Path(settings.storePathRootDir)
    if shards in (None, "1") and not (store / "config" / "shards.json").exists():
        from rmq.node.process import run_node

        run_node(names, settings)
        return
    from shards.supervisor_process import run_shards

    run_shards(names, settings, shards)


def log_settings(given: dict[str, Any]) -> dict[str, str]:
    """The settings of those log options that were given."""
    path = given["log_file"]
    found = {
        "rmqLogFile": None if path is None else path.expanduser().absolute(),
        "rmqLogLevel": given["log_level"],
        "rmqLogFormat": given["log_format"],
    }
    return {key: str(value) for key, value in found.items() if value is not None}


def server_settings(
    server: str, config: Path | None, overrides: dict[str, str], insecure: bool
) -> Any:
    """The settings of a "namesrv" or "controller". --insecure without an address means that the
    server listens at all addresses."""
    from rmq.cli.addresses import settle_addresses
    from rmq.config import load_properties

    settings = load_properties(config, overrides, server=server)
    if insecure and not settings.given("bindAddress"):
        settings.set("bindAddress", "0.0.0.0")
    settle_addresses(settings, insecure)
    return settings


def _broker_settings(
    store: Path | None, default_store: str | None, namesrv: str | None, options: dict[str, Any]
) -> Any:
    """The settings of the file, of --set and of the other options: what comes later in this order
    counts more."""
    from rmq.cli.addresses import settle_addresses
    from rmq.config import load_properties

    overrides = parse_pairs(options["pairs"], "--set") | log_settings(options)
    flush = options["flush"]
    given = {
        "storePathRootDir": store,
        "listenPort": options["port"],
        "bindAddress": options["bind"],
        "namesrvAddr": namesrv,
        "flushDiskType": FLUSH.get(flush.lower(), flush) if flush else None,
    }
    overrides |= {key: str(value) for key, value in given.items() if value is not None}
    settings = load_properties(options["config"], overrides)
    if default_store is not None and not settings.given("storePathRootDir"):
        settings.set("storePathRootDir", default_store)
    root = Path(settings.storePathRootDir).expanduser().absolute()
    settings.set("storePathRootDir", str(root))
    settle_addresses(settings, options["insecure"])
    return settings
