"""`rmq spark`: starts a Spark session to try things in, or lists the options of rmq's source and
sink."""

from __future__ import annotations

import sys
from typing import Any

import click

from rmq.cli.options import namesrv_option, parse_pairs
from rmq.cli.output import Output, output_option
from rmq.cli.table import Column, columns

BANNER = """Spark {version} with rmq, name server {namesrv}. You can use
    spark                    the session
    topic("orders")          a topic as a DataFrame; options as arguments: topic("t", tags="a")
    stream("orders")         the same as a stream
    send(frame, "orders")    sends rows to a topic: columns body, tags, keys, properties, ..
`rmq spark options` lists the options."""


@click.group()
def spark() -> None:
    """Read and write topics with Apache Spark."""


@spark.command()
@namesrv_option
@click.option("--master", default="local[*]", show_default=True, help="Spark's master URL.")
@click.option("--conf", "pairs", multiple=True, metavar="KEY=VALUE",
              help="Spark setting. May be given several times.")  # fmt: skip
@click.option("-c", "--command", metavar="CODE", help="Run this code and exit.")
def shell(namesrv: str, master: str, pairs: tuple[str, ...], command: str | None) -> None:
    """Start Python with a Spark session that can use this cluster.

    Code comes from the keyboard, from a pipe or from -c. topic, stream, send and the commits of
    streams use the account and the TLS options that are given here.
    """
    session = _session(master, parse_pairs(pairs, "--conf"))
    names = _names(session, _access(namesrv))
    try:
        if command is not None:
            exec(compile(command, "<command>", "exec"), names)
        elif not sys.stdin.isatty():
            exec(compile(sys.stdin.read(), "<stdin>", "exec"), names)
        else:
            _interact(names, namesrv)
    finally:
        names["spark"].stop()


@spark.command()
@output_option
def options(output: Output) -> None:
    """List the options of the source and the sink."""
    _need_pyspark()
    from rmq.arrow.options import TABLE

    output.rows(
        (*columns("OPTION", "DEFAULT"), Column("COUNTS FOR", "where"), Column("WHAT", "about")),
        [(each.name, _shown(each.default), each.where, each.about) for each in TABLE],
    )


def _need_pyspark() -> None:
    from importlib.util import find_spec

    from rmq.errors import ConfigError

    for name in ("pyspark", "pyarrow"):
        if find_spec(name) is None:
            raise ConfigError(f"{name} is not installed: pip install 'rmq[spark]'")


def _session(master: str, settings: dict[str, str]) -> Any:
    _need_pyspark()
    from rmq.operations.client_keywords import client_keywords
    from rmq.spark.session import build_session

    settings.setdefault("spark.ui.showConsoleProgress", "false")
    asker = {"tls" if word == "use_tls" else word: said for word, said in client_keywords().items()}
    session = build_session("rmq spark shell", master, settings, asker)
    session.sparkContext.setLogLevel("ERROR")
    return session


def _access(namesrv: str) -> dict[str, str]:
    """Account, TLS and name servers, as options of the source and the sink."""
    from rmq.arrow.arguments import BROKER, texts_of
    from rmq.cli.export import reader_access

    return texts_of(reader_access(namesrv), BROKER)


def _names(session: Any, access: dict[str, str]) -> dict[str, Any]:
    """The names that the user of the shell finds."""

    def topic(name: str, **options: object) -> Any:
        reader = session.read.format("rmq").options(**access).option("pushdown", "true")
        return reader.option("topic", name).options(**options).load()

    def stream(name: str, **options: object) -> Any:
        reader = session.readStream.format("rmq").options(**access)
        return reader.option("topic", name).options(**options).load()

    def send(frame: Any, name: str, **options: object) -> None:
        writer = frame.write.format("rmq").mode("append").options(**access)
        writer.option("topic", name).options(**options).save()

    return {"spark": session, "topic": topic, "stream": stream, "send": send,
            "__name__": "__main__"}  # fmt: skip


def _interact(names: dict[str, Any], namesrv: str) -> None:
    import code
    import readline  # noqa: F401  (arrow keys and history)

    banner = BANNER.format(version=names["spark"].version, namesrv=namesrv)
    code.interact(banner=banner, local=names, exitmsg="")


def _shown(value: Any) -> str | None:
    if value is None or value == ():
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
