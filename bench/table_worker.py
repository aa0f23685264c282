"""One measured read of many rows, in a process of its own; prints one line of JSON.

    python bench/table_worker.py read 127.0.0.1:9876 500000 body 1         rmq.read_table
    python bench/table_worker.py scan STORE 500000 queueOffset,body 2      rmq.scan_store
    python bench/table_worker.py parquet FILE 500000 queueOffset,body 2    pyarrow.parquet

WHAT PLACE ROWS COLUMNS THREADS. All that is there is read twice into a table, and the second time
counts: what is imported, connected to and taken of memory is there then. The lengths of the bodies
are added up, and must be that of ROWS bodies of ROW_BYTES. pyarrow has one thread, or as many as it
likes. CPU is this process' (all its threads).
"""

import json
import sys
from typing import Any

from client_worker import measured

TOPIC = "bench-tables"
ROW_BYTES = 1024


def read(place: str, columns: list[str], threads: int) -> Any:
    import rmq

    return rmq.read_table(TOPIC, namesrv_addr=place, columns=columns, threads=threads)


def scan(place: str, columns: list[str], threads: int) -> Any:
    import rmq

    return rmq.scan_store(place, TOPIC, columns=columns, threads=threads).read_all()


def parquet(place: str, columns: list[str], threads: int) -> Any:
    from pyarrow.parquet import read_table

    return read_table(place, columns=columns, use_threads=threads > 1)


def body_bytes(table: Any) -> int:
    from pyarrow import compute

    return int(compute.sum(compute.binary_length(table["body"])).as_py())


if __name__ == "__main__":
    what, place, rows, columns, threads = sys.argv[1:6]
    way = {"read": read, "scan": scan, "parquet": parquet}[what]
    done = [0]

    def read_all(_: int) -> None:
        table = way(place, columns.split(","), int(threads))
        if body_bytes(table) != table.num_rows * ROW_BYTES:
            raise SystemExit(f"{table.num_rows} rows, not all of {ROW_BYTES} bytes")
        done[0] = table.num_rows

    print(json.dumps(measured(read_all, done, int(rows))))
