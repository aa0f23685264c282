"""`rmq import`: sends the rows of a file to a topic: Parquet, Arrow or JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import click

from rmq.cli.export import form_of, form_option, need_pyarrow, reader_access
from rmq.cli.options import namesrv_option
from rmq.cli.output import Output, output_option
from rmq.cli.store_places import progress_bar
from rmq.errors import MessageError, RmqError
from rmq.names import SHARDING_KEY
from rmq.operations.json_lines import DELIVER_AT, message_of
from rmq.operations.texts import counted

LINES_AT_ONCE = 4096


@click.command("import")
@click.argument("path", metavar="FILE")
@click.argument("topic")
@form_option("--format")
@click.option("--id-prefix",
              help="Make unique keys of this, so that they are the same each time.")  # fmt: skip
@namesrv_option
@output_option
def import_file(
    path: str, topic: str, form: str | None, id_prefix: str | None, namesrv: str, output: Output
) -> None:
    """Send the rows of a file to a topic.

    With - as FILE, JSON lines are read from standard input; they are those of `rmq consume --json`.
    Parquet and Arrow files must have a column body, and may have tags, keys, properties,
    shardingKey, delay and deliverAt, as for the Spark sink. Files of `rmq export` are accepted;
    what brokers added to a message is left out.

    Each row is sent at least once. The row that an error names was not sent; rows before it may
    have been.
    """
    form = form_of(path, form)
    need_pyarrow()
    from rmq.arrow.table_writer import write_table

    access = reader_access(namesrv)
    with progress_bar(f"import {path}") as progress:
        try:
            schema, rows, total = _READERS[form](path, topic)
        except (OSError, ValueError) as error:  # pyarrow's errors are subclasses of these
            raise RmqError(f"{path}: not a {form} file: {error}") from None

        done = 0

        def batches() -> Iterator[Any]:
            nonlocal done
            try:
                for batch in rows:
                    yield batch
                    done += batch.num_rows
                    progress("messages", done, total or done)
            except OSError as error:  # from the file, not from a broker
                raise RmqError(f"{path}: {error.strerror or error}") from None

        import pyarrow as pa

        source = pa.RecordBatchReader.from_batches(schema, batches())
        try:
            count = write_table(source, topic, id_prefix=id_prefix, **access)
        except (RmqError, KeyboardInterrupt):
            if done:
                click.echo(f"of the {done} rows before, some or all may be stored", err=True)
            raise
    said = f"{topic}: {counted(count, 'message')} from {path}"
    output.result("imported", said, topic=topic, file=path, format=form, messages=count)


Rows = tuple[Any, Iterator[Any], int]  # schema, batches, number of rows (0: not known)


def _read_parquet(path: str, _: str) -> Rows:
    import pyarrow.parquet as parquet

    file = parquet.ParquetFile(path)
    return file.schema_arrow, file.iter_batches(), file.metadata.num_rows


def _read_arrow(path: str, _: str) -> Rows:
    """Reads both formats of Arrow, that of files and that of streams."""
    import pyarrow as pa

    source = pa.memory_map(path)
    try:
        file = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        stream = pa.ipc.open_stream(source)
        return stream.schema, iter(stream), 0
    batches = (file.get_batch(number) for number in range(file.num_record_batches))
    return file.schema, batches, 0


def _read_lines(path: str, topic: str) -> Rows:
    import pyarrow as pa

    schema = pa.schema([
        ("body", pa.binary()), ("tags", pa.string()), ("keys", pa.string()),
        ("properties", pa.map_(pa.string(), pa.string())), ("shardingKey", pa.string()),
        ("deliverAt", pa.timestamp("ms", "UTC")),
    ])  # fmt: skip

    def batches() -> Iterator[Any]:
        with _lines_of(path) as lines:
            rows = _rows(lines, topic)
            while some := list(islice(rows, LINES_AT_ONCE)):
                yield pa.RecordBatch.from_pylist(some, schema)

    return schema, batches(), 0


def _lines_of(path: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if path == "-" else Path(path).open("rb")


def _rows(lines: Iterable[bytes], topic: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            message = message_of(line, topic)
        except MessageError as error:
            raise MessageError(f"line {number}: {error}") from None
        properties = dict(message.properties)
        due_ms = properties.pop(DELIVER_AT, None)
        yield {
            "body": message.body, "tags": message.tags or None, "keys": message.keys or None,
            "shardingKey": properties.pop(SHARDING_KEY, None),
            "properties": list(properties.items()),
            "deliverAt": None if due_ms is None else int(due_ms),
        }  # fmt: skip


_READERS = {"parquet": _read_parquet, "arrow": _read_arrow, "jsonl": _read_lines}
