"""Shard worker: a shard in a process of its own, for tests that give it a faulty disk.

    start_worker("support.shard_worker", directory, options_json, environment=faults.environment())

It has topics t and u (1 queue each) and group g, and prints its port. It answers each line on stdin
(`stats`, `pools`, `ranges`, `renew`, `stop`) with one JSON line; when stdin ends, it stops cleanly.
With the option `transactions` it also takes half messages, with `timed` timed messages.
"""

import json
import sys
from pathlib import Path

from support.shard import Shard


def main() -> None:
    options = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
    transactions = options.pop("transactions", False)
    timed = options.pop("timed", False)
    with Shard(Path(sys.argv[1]), **options) as shard:
        shard.topic("t")
        shard.topic("u")
        shard.group("g", "t", "u")
        if transactions:
            shard.topic("RMQ_SYS_TRANS_HALF_TOPIC")
            shard.topic("RMQ_SYS_TRANS_OP_HALF_TOPIC")
            shard.core.start_transactions(0, 1)
        if timed:
            shard.topic("rmq_sys_wheel_timer")
        print(shard.core.port, flush=True)
        for line in sys.stdin:
            command = line.strip()
            if command == "stats":
                answer: object = shard.core.stats()
            elif command == "stop":  # while clients are connected
                shard.stop()
                answer = {}
            elif command == "renew":  # deletes topic t and makes it again; deletes topic u
                shard.core.remove_topic(b"t")
                shard.core.remove_topic(b"u")
                shard.topic("t")
                answer = {}
            elif command == "pools":
                answer = shard.core.pools()
            else:
                answer = {name: shard.core.queue_range(name.encode(), 0) for name in ("t", "u")}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
