"""`rmq`: the command line's root. Every subcommand's module is imported when it is called.

`rmq --help` must answer in less than 100 ms, so the list of commands with their one-line help
stands here, and importing this module loads click and nothing else. A test compares these lines
with the help of the commands themselves.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from rmq import __version__
from rmq.cli.streams import fill, is_unwritten, leave, say

NAMESRV_VARIABLE = "NAMESRV_ADDR"
# Commands that serve, or work on files: they do not use the cluster that a context names.
WITHOUT_CONTEXT = {"standalone", "namesrv", "broker", "controller", "demo", "store", "check",
                   "setup", "generate", "context", "completion"}  # fmt: skip
# Keys of click's meta: the name given with --context; whether -n stands before the command; the
# environment's values before the context replaced them.
NAMED, IS_ADDRESSED, BEFORE = "rmq.context", "rmq.addressed", "rmq.before"

# name: (module, attribute, one-line help)
COMMANDS = {
    "standalone": ("rmq.cli.server", "standalone", "Run a name server with a broker."),
    "namesrv": ("rmq.cli.server", "namesrv", "Run a name server."),
    "broker": ("rmq.cli.server", "broker", "Run a broker."),
    "controller": (
        "rmq.cli.controller", "controller", "Run a controller, which elects masters among replicas."
    ),
    "topic": ("rmq.cli.topic", "topic", "List, create, change, copy and delete topics."),
    "group": ("rmq.cli.group", "group", "Manage consumer groups, their settings and offsets."),
    "user": ("rmq.cli.user", "user", "Create, change, delete and list users (accounts)."),
    "acl": ("rmq.cli.acl", "acl", "Allow and deny actions of users (access control lists)."),
    "audit": (
        "rmq.cli.audit", "audit", "Show the audit log: who changed what, and who was refused."
    ),
    "setup": ("rmq.cli.setup", "setup", "Create the files that a secured server needs."),
    "generate": (
        "rmq.cli.generate", "generate",
        "Generate files for systemd, containers, Kubernetes and Grafana."
    ),
    "replica": (
        "rmq.cli.replica", "replica", "Show replicas, switch masters, add and remove replicas."
    ),
    "takeover": (
        "rmq.cli.takeover", "takeover", "Replace a running master of Apache RocketMQ or of rmq."
    ),
    "cluster": ("rmq.cli.cluster", "cluster", "List brokers; add, drain and remove them."),
    "top": ("rmq.cli.top", "top", "Watch what the brokers are doing."),
    "check": (
        "rmq.cli.check", "check", "Check this machine, or brokers and groups for monitoring."
    ),
    "store": ("rmq.cli.store", "store", "Check, show, back up and restore a store directory."),
    "send": ("rmq.cli.send", "send", "Send messages to a topic."),
    "consume": ("rmq.cli.consume", "consume", "Print the messages of a topic."),
    "dlq": ("rmq.cli.dlq", "dlq", "List, show, resend, dismiss and export dead letters."),
    "config": (
        "rmq.cli.config", "config", "Show, change and compare settings of running servers."
    ),
    "export": ("rmq.cli.export", "export", "Write the messages of a topic to a file."),
    "import": ("rmq.cli.import_file", "import_file", "Send the rows of a file to a topic."),
    "message": (
        "rmq.cli.message", "message", "Find messages by key, tag or id; send one again."
    ),
    "trace": ("rmq.cli.trace", "trace", "Show the trace of a message, by its id or key."),
    "console": ("rmq.cli.console", "console", "Run the web console."),
    "context": (
        "rmq.cli.context", "context", "Name clusters, and choose the one that commands use."
    ),
    "completion": (
        "rmq.cli.completion", "completion",
        "Print the script that completes commands in your shell."
    ),
    "spark": ("rmq.cli.spark", "spark", "Read and write topics with Apache Spark."),
    "debug": ("rmq.cli.debug", "debug", "Collect information for troubleshooting."),
    "demo": ("rmq.cli.demo", "demo", "Run a demo cluster on this machine."),
    "bench": ("rmq.cli.bench", "bench", "Measure a RocketMQ broker: throughput, CPU, latency."),
}  # fmt: skip


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports them one at a time."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[name]
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def make_context(self, *arguments: Any, **more: Any) -> click.Context:
        with _while_output_is_read():
            return super().make_context(*arguments, **more)

    def invoke(self, context: click.Context) -> Any:
        with _while_output_is_read():
            return super().invoke(context)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, row[2]) for name, row in COMMANDS.items()])

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]}?" if near else " See rmq --help."
            context.fail(f"no such command: {args[0]}.{hint}")
        return super().resolve_command(context, args)


@contextmanager
def _while_output_is_read() -> Iterator[None]:
    """In the block a reader of standard output that ends early, as in `rmq consume .. | head`, ends
    the command with exit code 0: it has read what it wanted."""
    try:
        yield
    except BrokenPipeError:
        if _is_output_read():
            raise
        leave(sys.stdout)
        raise click.exceptions.Exit(0) from None


def _is_output_read() -> bool:
    """False if standard output is a pipe that nobody reads any more."""
    looked = select.poll()
    looked.register(sys.stdout.fileno(), 0)
    return not any(events & select.POLLERR for _, events in looked.poll(0))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rmq")
@click.option(
    "-n",
    "--namesrv",
    metavar="HOST:PORT[;...]",
    help="Addresses of name servers. Can also be given after the command.",
)
@click.option(
    "--context",
    "named",
    metavar="NAME",
    help="Use this cluster and its account: a name from `rmq context list`.  [env: RMQ_CONTEXT]",
)
@click.pass_context
def cli(context: click.Context, namesrv: str | None, named: str | None) -> None:
    """A RocketMQ-compatible message broker and its tools.

    Start with `rmq standalone`; then, in another terminal, `rmq send greetings hello` and
    `rmq consume greetings`. RocketMQ's remoting clients connect to 127.0.0.1:9876 unchanged.
    """
    if namesrv is not None and named is not None:
        raise click.UsageError("--namesrv and --context cannot be used together")
    context.meta[NAMED], context.meta[IS_ADDRESSED] = named, namesrv is not None
    if namesrv is not None:
        context.with_resource(variables({NAMESRV_VARIABLE: namesrv}))
    if context.invoked_subcommand not in WITHOUT_CONTEXT:
        enter_context(context)
    elif named is not None and context.invoked_subcommand not in ("context", "broker", "check"):
        raise click.UsageError(f"rmq {context.invoked_subcommand} cannot be used with --context")


def enter_context(context: click.Context) -> None:
    """Lets the command ask the cluster of --context, or else of the context in use
    (rmq/cli/context_file.py). With -n before the command no context counts."""
    from rmq.cli.context_file import chosen_environment

    if not context.meta.get(IS_ADDRESSED):
        found = chosen_environment(context.meta.get(NAMED), os.environ)
        context.meta[BEFORE] = {name: os.environ.get(name) for name in found}
        context.with_resource(variables(found))


def leave_context(context: click.Context) -> None:
    """Takes the context's values out of the environment: the command asks another address, where
    account and TLS of the context do not belong. UsageError: --context was given as well."""
    if context.meta.get(NAMED) is not None:
        raise click.UsageError("--namesrv and --context cannot be used together")
    _set(context.meta.pop(BEFORE, {}))


@contextmanager
def variables(values: dict[str, str]) -> Iterator[None]:
    """In the block the environment has these values."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: dict[str, str | None]) -> None:
    """Sets variables of the environment, and removes those whose value is None."""
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _tell_of_waits(words: list[str]) -> None:
    from rmq.base import patience

    def tell(text: str) -> None:
        from rmq.cli.errors import wants_json

        if not wants_json(words):
            say(f"rmq: {text}", err=True)

    patience.say_by(tell)


def main(arguments: list[str] | None = None) -> Any:
    """The console script: runs a command; turns errors of rmq into a message and an exit code."""
    from rmq.errors import RmqError

    fill()
    words = sys.argv[1:] if arguments is None else arguments
    if sys.stderr.isatty():
        _tell_of_waits(words)
    try:
        code = cli.main(args=words, prog_name="rmq", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except (click.ClickException, click.Abort, RmqError) as error:
        from rmq.cli.errors import show_error

        sys.exit(show_error(error, words))
    except BrokenPipeError:  # of the flush
        leave(sys.stdout)
        sys.exit(0)
    except OSError as error:
        if not is_unwritten(sys.stdout):
            raise
        from rmq.cli.errors import show_error

        leave(sys.stdout)
        sys.exit(show_error(RmqError(f"standard output: {error.strerror}"), words))
