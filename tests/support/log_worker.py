"""Log worker: a process that writes a commit log, driven line by line; fault tests kill it.

    start_worker("support.log_worker", directory, mode, end, environment=faults.environment())

It opens the log at `end` (0), with flusher and preparer, and prints the state after opening. Then
it answers each line on stdin with one JSON line: `append N SIZE` (N records, one write-out), `wait`
(until durable = written, or poison), `state`, `flush`, `stop`. The records are those of
support.logs.record_at, so that a reader can check every byte of them.
"""

import json
import sys

from support.logs import append_rolling, make_log
from support.waiting import wait_until

from cext.store.log.flusher import Flusher
from cext.store.log.preparer import Preparer
from cext.testing.store_probe import (
    flusher_counters,
    log_new_turn,
    log_watermarks,
    log_write_out,
    preparer_counters,
)
from rmq.errors import StoreError


def is_durable(marks: dict[str, int]) -> bool:
    return marks["durable"] == marks["written"]


def main() -> None:
    directory, mode = sys.argv[1:3]
    end = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    log = make_log(directory, end, ahead_bytes=16384 if mode == "ahead" else 0)
    flusher = Flusher(log, sync_mode=mode != "async", interval_ms=20)
    preparer = Preparer(log)

    def state(**more):
        return {
            **log_watermarks(log),
            "poison": log.poison_cause(),
            "flusher": flusher_counters(flusher),
            "preparer": preparer_counters(preparer),
            **more,
        }

    def append(count, size):
        offsets = []
        for _ in range(count):
            log_new_turn(log)
            offset, _ = append_rolling(log, size)
            offsets.append(offset)
            if offset < 0:
                break
        return state(offsets=offsets, status=log_write_out(log))

    def wait():
        wait_until(lambda: log.poison_cause() or is_durable(log_watermarks(log)))
        return state()

    def flush():
        try:
            return state(flushed=flusher.flush(60))
        except StoreError as error:
            return state(error=str(error))

    flusher.start()
    preparer.start()
    print(json.dumps(state()), flush=True)
    for line in sys.stdin:
        command, *arguments = line.split()
        answer = {"append": append, "wait": wait, "state": state, "flush": flush}.get(command)
        if answer is None:
            break
        print(json.dumps(answer(*map(int, arguments))), flush=True)
    preparer.stop()
    flusher.stop()
    print(json.dumps(state()), flush=True)
    log.close()


if __name__ == "__main__":
    main()
