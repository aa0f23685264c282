"""Column files: queue columns written as .npz, .csv or .parquet.

    write_columns(columns, Path("queue.npz"))       numpy.load("queue.npz")["offset"]
    write_columns(columns, Path("queue.csv"))       offset,physical_offset,size,tags_code,..
    write_columns(columns, Path("queue.parquet"))   needs pyarrow

Times are datetime64[ms] in .npz, timestamps in .parquet and 2026-11-21T12:00:00.000 in .csv; all
are UTC. Missing values are NaT and -1 in .npz, null in .parquet and empty in .csv.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rmq.errors import ConfigError
from rmq.offline.queue_columns import NO_SIZE, QueueColumns


def write_columns(columns: QueueColumns, path: Path) -> None:
    """Writes the kind of file that the path's ending names. ConfigError for any other ending, and
    for .parquet without pyarrow."""
    writers[ending(path)](columns, path)


def ending(path: Path) -> str:
    if path.suffix not in writers:
        raise ConfigError(f"{path}: columns are written to files named {', '.join(writers)}")
    return path.suffix


def text_rows(columns: QueueColumns) -> Iterator[tuple[Any, ...]]:
    """The rows as Python's numbers, with times as text, None where there is none."""
    times = np.datetime_as_string(columns.store_time, unit="ms").tolist()
    shown = [None if time == "NaT" else time for time in times]
    sizes = [None if size == NO_SIZE else size for size in columns.body_size.tolist()]
    return zip(*(column.tolist() for column in columns[:4]), shown, sizes, strict=True)


def _write_npz(columns: QueueColumns, path: Path) -> None:
    np.savez_compressed(path, **columns._asdict())


def _write_csv(columns: QueueColumns, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns._fields)
        writer.writerows(text_rows(columns))


def _write_parquet(columns: QueueColumns, path: Path) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ConfigError(f"{path}: needs pyarrow: pip install pyarrow") from None
    fields = columns._asdict()
    fields["store_time"] = pyarrow.array(columns.store_time, pyarrow.timestamp("ms", "UTC"))
    fields["body_size"] = pyarrow.array(columns.body_size, mask=columns.body_size == NO_SIZE)
    parquet.write_table(pyarrow.table(fields), path)


writers: dict[str, Callable[[QueueColumns, Path], None]] = {
    ".npz": _write_npz,
    ".csv": _write_csv,
    ".parquet": _write_parquet,
}
