"""Index worker: a process that writes a keyed log and indexes it, for kills at a chosen write.

    start_worker("support.index_worker", root, count, first, end, environment=faults.environment())

It opens the log at END with FIRST records in it and adds COUNT records. When a record is written,
it prints a JSON line with the record's fields and the end of the log behind it. The index is
flushed every few milliseconds.
"""

import json
import sys
from pathlib import Path

from support.keyed_log import KeyedLog


def main() -> None:
    root, count, first, end = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    with KeyedLog(root, end) as keyed:
        keyed.now += first * 500
        indexer = keyed.index(flush_ms=3, sync_ms=40, idle_max_ms=10)
        indexer.start()
        for number in range(first, first + count):
            record = keyed.add(
                (b"t", b"other")[number % 3 == 0], f"U{number:08X}", f"k{number % 11} n{number}",
                f"tag{number % 4}", pass_ms=500,
            )  # fmt: skip
            line = [record.topic.decode(), *record[1:], keyed.end]
            print(json.dumps(line), flush=True)
            if number % 16 == 0:
                keyed.ask(indexer, b"t", "k1")
        indexer.stop()


if __name__ == "__main__":
    main()
