"""`rmq export`: writes the messages of a topic to a file: Parquet, Arrow or JSON lines.

A file gets its name when it is complete. Until then it has another one, and an export that fails,
is interrupted or killed (but not by SIGKILL) leaves no file. The JSON lines are those of `rmq
consume --json`; `rmq import` and `rmq send` take them.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import click

from rmq.cli.options import namesrv_option
from rmq.cli.output import Output, output_option
from rmq.cli.signals import ended_as_ctrl_c
from rmq.cli.starts import start_option
from rmq.cli.store_places import progress_bar
from rmq.cli.times import MOMENT
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.tail import Start, span
from rmq.errors import ConfigError, RmqError
from rmq.operations.texts import counted

FORMS = {"parquet": "parquet", "arrow": "arrow", "feather": "arrow", "jsonl": "jsonl",
         "ndjson": "jsonl"}  # fmt: skip
PART = ".part"
_JSON_COLUMNS = ("topic", "brokerName", "queueId", "queueOffset", "storeTimestamp", "bornTimestamp",
                 "bornHost", "reconsumeTimes", "properties", "body")  # fmt: skip
Offsets = dict[str, dict[str, dict[str, int]]]
Command = TypeVar("Command", bound=Callable[..., Any])


def form_of(path: str, given: str | None) -> str:
    """The form that is given, else that of the file's ending. ConfigError: no form has this
    ending."""
    if given is not None:
        return given
    if path == "-":
        return "jsonl"
    ending = Path(path).suffix.removeprefix(".")
    if ending not in FORMS:
        raise ConfigError(f"{path}: unknown ending: use .parquet, .arrow or .jsonl, or give the "
                          "format with --format")  # fmt: skip
    return FORMS[ending]


def form_option(*names: str) -> Callable[[Command], Command]:
    return click.option(
        *names, "form", type=click.Choice(["parquet", "arrow", "jsonl"]),
        help="Format of the file.  [default: by its ending; jsonl for -]",
    )  # fmt: skip


@click.command()
@click.argument("topic")
@click.argument("path", metavar="FILE")
@form_option("--format", "--to")
@start_option(Start("first"))
@click.option("--until", type=MOMENT, help="Only messages stored before this time.")
@click.option("--tag", "tags", multiple=True, help="Only this tag. May be given several times.")
@click.option("--sql", help="Only messages for which this SQL92 expression is true.")
@click.option("--column", "columns", multiple=True, help="Only this column (not for jsonl).")
@click.option("--text", is_flag=True, help="Write bodies as UTF-8 text, not bytes (not for jsonl).")
@namesrv_option
@output_option
def export(
    topic: str,
    path: str,
    form: str | None,
    start: Start,
    until: int | None,
    tags: tuple[str, ...],
    sql: str | None,
    columns: tuple[str, ...],
    text: bool,
    namesrv: str,
    output: Output,
) -> None:
    """Write the messages of a topic to a file.

    With - as FILE, JSON lines go to standard output. Messages that are stored when the command
    begins are written, queue after queue. No group is disturbed. The columns are those of the Spark
    source.
    """
    form = form_of(path, form)
    if form == "jsonl" and (columns or text):
        raise click.UsageError("--column and --text are for parquet and arrow")
    if form != "jsonl" and path == "-":
        raise click.UsageError("only JSON lines can go to standard output: name a file")
    need_pyarrow()
    with Cluster(namesrv) as cluster:
        starts, ends, total = offsets_of(cluster, topic, start)
    given: dict[str, Any] = {
        "starting_offsets": starts, "ending_offsets": ends, "tags": tags or None, "sql": sql,
        "columns": _JSON_COLUMNS if form == "jsonl" else columns or None,
        "ending_timestamp": until, **reader_access(namesrv),
    }  # fmt: skip
    with progress_bar(f"export {topic}") as progress:
        from rmq.arrow.tables import read_batches

        reader = read_batches(topic, text=text, **given)

        def batches() -> Iterator[Any]:
            done = 0
            for batch in reader:
                yield batch
                done += batch.num_rows
                progress("messages", done, total)

        if path == "-":
            _write_json(sys.stdout.buffer, batches())
            return
        with whole_file(Path(path)) as part:
            count = _WRITERS[form](part, reader.schema, batches())
    said = f"{path}: {counted(count, 'message')} of {topic}"
    output.result("exported", said, topic=topic, file=path, format=form, messages=count)


def reader_access(namesrv: str) -> dict[str, Any]:
    """Account, TLS and name servers, as parameters of read_batches() and write_table()."""
    from rmq.arrow.arguments import BROKER
    from rmq.operations.client_keywords import client_keywords

    given = {word: value for word, value in client_keywords().items() if word in BROKER}
    return {**given, "namesrv_addr": namesrv}


def offsets_of(cluster: Cluster, topic: str, start: Start) -> tuple[Offsets, Offsets, int]:
    """The first offset of each queue to be read, the present end of each, and how many messages
    that are at most."""
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    total = 0
    for queue in cluster.route(topic).readable():
        first, end = span(cluster, queue, start)
        starts.setdefault(queue.broker_name, {})[str(queue.queue_id)] = first
        ends.setdefault(queue.broker_name, {})[str(queue.queue_id)] = end
        total += end - first
    return {topic: starts}, {topic: ends}, total


@contextmanager
def whole_file(path: Path, mode: int | None = None) -> Iterator[Path]:
    """Yields the file to write to. It replaces `path` at the end of the block; if the block fails
    it is deleted. If `path` is a pipe or a device, that is written to directly. `mode`: of the new
    file; None: that of the file before, or the usual one. ConfigError: `path` is a directory."""
    target = Path(os.path.realpath(path))  # the file that a link leads to
    if target.is_dir():
        raise ConfigError(f"{path} is a directory: name a file")
    with ended_as_ctrl_c(), _part_of(path, target, mode) as part:
        yield part


@contextmanager
def _part_of(path: Path, target: Path, mode: int | None) -> Iterator[Path]:
    try:
        if target.exists() and not target.is_file():
            yield target
            return
        if mode is None:
            mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        descriptor, name = tempfile.mkstemp(PART, f".{target.name[:200]}.", target.parent)
    except OSError as error:
        raise _unwritten(path, error) from None
    part = Path(name)
    try:
        yield part
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
        part.replace(target)
    except OSError as error:
        raise _unwritten(path, error) from None
    finally:
        os.close(descriptor)
        part.unlink(missing_ok=True)


def _unwritten(path: Path, error: OSError) -> RmqError:
    return RmqError(f"{path}: {error.strerror or error}; nothing was written")


def _umask() -> int:
    """The process's umask. Read from /proc, because os.umask() would change it for a moment."""
    text = Path("/proc/self/status").read_text()
    found = re.search(r"^Umask:\s*([0-7]+)", text, re.MULTILINE)
    return int(found[1], 8) if found else 0o022


def need_pyarrow() -> None:
    """ConfigError: pyarrow is not installed."""
    if find_spec("pyarrow") is None:
        raise ConfigError("pyarrow is not installed: pip install 'rmq[arrow]'")


def _write_parquet(path: Path, schema: Any, batches: Iterator[Any]) -> int:
    import pyarrow.parquet as parquet

    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        return _each(writer.write_batch, batches)


def _write_arrow(path: Path, schema: Any, batches: Iterator[Any]) -> int:
    import pyarrow as pa

    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        return _each(writer.write_batch, batches)


def _each(write: Callable[[Any], object], batches: Iterator[Any]) -> int:
    count = 0
    for batch in batches:
        write(batch)
        count += batch.num_rows
    return count


def _write_lines(path: Path, schema: Any, batches: Iterator[Any]) -> int:
    with path.open("wb") as file:
        return _write_json(file, batches)


def _write_json(file: Any, batches: Iterator[Any]) -> int:
    import msgspec

    encoder = msgspec.json.Encoder()
    count = 0
    for batch in batches:
        file.write(encoder.encode_lines([_members(row) for row in _rows(batch)]))
        count += batch.num_rows
    file.flush()
    return count


def _rows(batch: Any) -> Iterator[dict[str, Any]]:
    """Yields the rows, with times in microseconds, because a sender may give a time that is in no
    calendar."""
    import pyarrow as pa

    columns = [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for column in batch.columns
    ]
    for row in zip(*columns, strict=True):
        yield dict(zip(batch.schema.names, row, strict=True))


def _members(row: dict[str, Any]) -> dict[str, Any]:
    """What json_lines.members() returns for the same message."""
    from rmq.operations.json_lines import body_members, property_members
    from rmq.operations.times import moment_members

    properties = dict(row["properties"] or ())
    return {
        "topic": row["topic"],
        "broker": row["brokerName"],
        "queue": row["queueId"],
        "offset": row["queueOffset"],
        **moment_members("stored", row["storeTimestamp"] // 1000),
        **moment_members("born", row["bornTimestamp"] // 1000),
        "born_host": row["bornHost"],
        **property_members(properties),
        "reconsume_times": row["reconsumeTimes"],
        "properties": properties,
        **body_members(row["body"]),
    }


_WRITERS = {"parquet": _write_parquet, "arrow": _write_arrow, "jsonl": _write_lines}
