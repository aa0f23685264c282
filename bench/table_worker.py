"""Table worker: one measured read of many rows, in a process of its own; prints a line of JSON.

    python bench/table_worker.py read 127.0.0.1:9876 500000 body 1         rmq.read_table
    python bench/table_worker.py scan STORE 500000 queueOffset,body 2      rmq.scan_store
    python bench/table_worker.py parquet FILE 500000 queueOffset,body 2    pyarrow.parquet

Arguments: WHAT PLACE ROWS COLUMNS THREADS. First only the offsets are read, so that modules are
imported and connections open. Then all is read into a table twice. The first read takes its memory
from the kernel, page by page, as in a program that reads once (first_rate, first_cpu_per_million);
the second read gets the memory that the first one gave back. The lengths of the bodies are added
up, and must be those of ROWS bodies of ROW_BYTES. pyarrow has one thread, or as many as it chooses.
CPU is that of this process (all its threads).
"""

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from client_worker import cpu_seconds

TOPIC = "bench-tables"
ROW_BYTES = 1024
WARM_UP = ("queueOffset",)


def read(place: str, columns: Sequence[str], threads: int) -> Any:
    import rmq

    return rmq.read_table(TOPIC, namesrv_addr=place, columns=columns, threads=threads)


def scan(place: str, columns: Sequence[str], threads: int) -> Any:
    import rmq

    return rmq.scan_store(place, TOPIC, columns=columns, threads=threads).read_all()


def parquet(place: str, columns: Sequence[str], threads: int) -> Any:
    from pyarrow.parquet import read_table

    return read_table(place, columns=list(columns), use_threads=threads > 1)


def body_bytes(table: Any) -> int:
    from pyarrow import compute

    return int(compute.sum(compute.binary_length(table["body"])).as_py())


if __name__ == "__main__":
    what, place, rows, columns, threads = sys.argv[1:6]
    way = {"read": read, "scan": scan, "parquet": parquet}[what]
    way(place, WARM_UP, int(threads))
    found = {}
    for name in ("first_", ""):
        cpu, began = cpu_seconds(), time.perf_counter()
        table = way(place, columns.split(","), int(threads))
        size = body_bytes(table)
        seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu
        if (table.num_rows, size) != (int(rows), int(rows) * ROW_BYTES):
            raise SystemExit(f"{table.num_rows} rows of {rows}, {size} bytes")
        found |= {
            f"{name}rate": int(rows) / seconds,
            f"{name}cpu_per_million": cpu / int(rows) * 1e6,
        }
        del table
    print(json.dumps(found))
