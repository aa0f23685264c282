"""Tables of many topics and offsets: creation, a restart, what a change costs, memory of deletion.

    python bench/topics.py                  all of the rows below; `make bench-topics`
    python bench/topics.py create           10,000 topics of 8 queues one by one, then a restart
    python bench/topics.py lists            the same by requests for 225 topics (18)
    python bench/topics.py offsets          1,000,000 consumer offsets, of which 10 change
    python bench/topics.py churn            10,000 topics created and deleted in turn; not in `all`
    python bench/topics.py churn --used     the same, each with a group, a pull and a pop

A broker with its name server is a process of its own. Topics are created one by one as mqadmin does
it: the client waits for each answer. `broker` asks the broker alone, over one connection
(updateTopic -b); `cluster` is our Admin, which each time first asks the name server for the brokers
(-c).

Each create is one sync of the disk, one after the other. So each of these rows also shows how long
as many appends of 300 bytes with an fsync take alone, in a file beside the store, in the same
minute: on a disk that others use that is most of the time. CPU seconds are those of the broker with
its name server, and of this client. The time of a change is the median of 300 calls; `begin` is
that of the first calls, `end` that of the last ones. A restart is the time from the start of the
process to its ready line; the best of three counts.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from rmq import Admin
from rmq.base.journal_file import OFFSETS_NAME
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.load.cpu import CpuMeter, resident_bytes
from rmq.names import AUTO_CREATE_TOPIC

READY = re.compile(r"name server (?P<namesrv>\S+), broker \S+ at (?P<address>\S+),")
SAMPLE = 300
RESTARTS = 3
SYNC_SAMPLE = 500
MEMORY_ROUNDS = 10
QUEUES_OF_PAIR = 8
INTERVAL_MS = 1000
INTERVALS = 5


@contextlib.contextmanager
def broker(store: Path, prefix: list[str], *options: str) -> Iterator[tuple[str, int, float]]:
    """A running broker: (name server, process id, seconds to its ready line)."""
    began = time.monotonic()
    with (store.parent / "broker.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, *prefix, "-m", "rmq", "standalone", "--store", str(store),
             "--namesrv-port", "0", "--port", "0", *options],
            stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    assert process.stdout is not None
    found = READY.search(process.stdout.readline())
    if found is None:
        raise RuntimeError(f"no broker: see {store.parent / 'broker.log'}")
    try:
        yield found["namesrv"], process.pid, time.monotonic() - began
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        process.stdout.close()


def restart_seconds(store: Path) -> float:
    times = []
    for _ in range(RESTARTS):
        with broker(store, []) as (_, _, seconds):
            times.append(seconds)
    return min(times)


def sync_seconds(directory: Path, count: int) -> float:
    """How long `count` synced appends take, estimated from a sample."""
    with (directory / "syncs").open("ab", buffering=0) as file:
        began = time.monotonic()
        for _ in range(SYNC_SAMPLE):
            file.write(bytes(300))
            os.fsync(file.fileno())
        return (time.monotonic() - began) / SYNC_SAMPLE * count


# ---- creation

Calls = Iterator[float]  # the seconds of each call


def by_cluster(namesrv: str, topics: int, queues: int) -> Calls:
    with Admin(namesrv_addr=namesrv) as admin:
        for number in range(topics):
            began = time.monotonic()
            admin.create_topic(f"cluster-{number:06}", queues)
            yield time.monotonic() - began


def by_broker(namesrv: str, topics: int, queues: int) -> Calls:
    fields = {
        "defaultTopic": AUTO_CREATE_TOPIC, "readQueueNums": queues, "writeQueueNums": queues,
        "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
    }  # fmt: skip
    with Cluster(namesrv) as cluster:
        link = cluster.connect(cluster.masters()[0].master or "")
        for number in range(topics):
            began = time.monotonic()
            link.call(RequestCode.UPDATE_AND_CREATE_TOPIC, {**fields, "topic": f"t-{number:06}"})
            yield time.monotonic() - began


def by_lists(length: int) -> Callable[[str, int, int], Calls]:
    def create(namesrv: str, topics: int, queues: int) -> Calls:
        with Cluster(namesrv) as cluster:
            link = cluster.connect(cluster.masters()[0].master or "")
            for first in range(0, topics, length):
                items = [
                    {"topicName": f"list-{number:06}", "readQueueNums": queues,
                     "writeQueueNums": queues, "perm": 6}
                    for number in range(first, min(first + length, topics))
                ]  # fmt: skip
                body = json.dumps({"topicConfigList": items}).encode()
                began = time.monotonic()
                link.call(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {}, body=body)
                yield time.monotonic() - began

    return create


def created(
    name: str, arguments: argparse.Namespace, way: Callable[[str, int, int], Calls]
) -> None:
    """Measures a row of creation: a new store, topics, restarts."""
    with tempfile.TemporaryDirectory(prefix="rmq-topics-") as directory:
        store = Path(directory) / "store"
        empty = restart_seconds(store)
        with broker(store, arguments.python) as (namesrv, pid, _):
            meter, own = CpuMeter([pid]), time.process_time()
            began = time.monotonic()
            times = list(way(namesrv, arguments.topics, arguments.queues))
            seconds, cpu = time.monotonic() - began, meter.seconds()
            own = time.process_time() - own
            syncs = sync_seconds(Path(directory), len(times))
        sample = min(SAMPLE, max(1, len(times) // 3))
        begin, end = median(times[:sample]), median(times[-sample:])
        full = restart_seconds(store)
    print(
        f"{name:<8} {arguments.topics:,} topics of {arguments.queues} queues: {seconds:.1f} s; "
        f"their {len(times):,} syncs alone {syncs:.1f} s; CPU {cpu:.1f} s broker, {own:.1f} s "
        f"client\n         a call: begin {begin * 1000:.2f} ms, end {end * 1000:.2f} ms, "
        f"{end / begin:.2f}x; restart {full:.2f} s, without topics {empty:.2f} s",
        flush=True,
    )


# ---- consumer offsets


def written_bytes(pid: int) -> int:
    """The bytes that the process has given to write calls since its start."""
    text = Path(f"/proc/{pid}/io").read_text()
    return int(text.partition("wchar: ")[2].split()[0])


def offsets(arguments: argparse.Namespace) -> None:
    """A file of offsets as Apache's broker writes it; then a few commits in each interval."""
    pairs = arguments.offsets // QUEUES_OF_PAIR
    table = {
        f"topic-{number % 1000:03}@group-{number // 1000:04}": dict.fromkeys(
            map(str, range(QUEUES_OF_PAIR)), number
        )
        for number in range(pairs)
    }
    interval = ["--set", f"flushConsumerOffsetInterval={INTERVAL_MS}"]
    with tempfile.TemporaryDirectory(prefix="rmq-topics-") as directory:
        store = Path(directory) / "store"
        file = store / "config" / "consumerOffset.json"
        journal = file.with_name(OFFSETS_NAME)
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"offsetTable": table}))
        with (
            broker(store, arguments.python, *interval) as (namesrv, pid, seconds),
            Admin(namesrv_addr=namesrv) as admin,
            Cluster(namesrv) as cluster,
        ):
            admin.create_topic("topic-000", QUEUES_OF_PAIR)
            for number in range(arguments.changes):
                admin.create_group(f"group-{number:04}")
            link = cluster.connect(cluster.masters()[0].master or "")
            place = {"topic": "topic-000", "queueId": 0}
            rows = []
            for round_ in range(INTERVALS + 1):  # the whole file is written in the first interval
                meter, before = CpuMeter([pid]), written_bytes(pid)
                for number in range(arguments.changes):
                    link.call(
                        RequestCode.UPDATE_CONSUMER_OFFSET,
                        {**place, "consumerGroup": f"group-{number:04}", "commitOffset": round_},
                    )
                time.sleep(2 * INTERVAL_MS / 1000)
                while not journal.exists():
                    time.sleep(0.05)
                rows.append((written_bytes(pid) - before, meter.seconds()))
            size = file.stat().st_size
        again = restart_seconds(store)
    wrote, cpu = (median(column) for column in zip(*rows[1:], strict=True))
    print(
        f"offsets  {pairs * QUEUES_OF_PAIR:,} in {size / 2**20:.1f} MiB of JSON, "
        f"{arguments.changes} change: {wrote / 1024:.1f} KiB written, {cpu:.3f} s CPU in two "
        f"intervals of {INTERVAL_MS} ms\n         first start {seconds:.2f} s, "
        f"restart {again:.2f} s",
        flush=True,
    )


# ---- deletion


def use(link: Connection, topic: str, group: str) -> None:
    """Makes the group, pulls and pops once each, and deletes the group."""
    config = {"groupName": group, "consumeEnable": True}
    at = {"consumerGroup": group, "topic": topic, "queueId": 0, "maxMsgNums": 32}
    pull = {**at, "queueOffset": 0, "commitOffset": 0, "sysFlag": 4, "suspendTimeoutMillis": 0,
            "subscription": "*", "subVersion": 0}  # fmt: skip
    pop = {**at, "invisibleTime": 60_000, "pollTime": 0, "bornTime": 0, "initMode": 0}
    for code, fields, body, expected in (
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps(config).encode(), 0),
        (RequestCode.PULL_MESSAGE, pull, b"", 19),
        (RequestCode.POP_MESSAGE, pop, b"", 210),
        (RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": group}, b"", 0),
    ):
        reply = link.ask(code, fields, body=body)
        assert reply.code == expected, (code, reply.code, reply.remark)


def churn(arguments: argparse.Namespace) -> None:
    """Each topic is deleted before the next one is made; memory is that of the broker process."""
    with (
        tempfile.TemporaryDirectory(prefix="rmq-topics-") as directory,
        broker(Path(directory) / "store", arguments.python) as (namesrv, pid, _),
        Admin(namesrv_addr=namesrv) as admin,
        Cluster(namesrv) as cluster,
    ):
        link = cluster.connect(cluster.masters()[0].master or "")
        step = max(1, arguments.topics // MEMORY_ROUNDS)
        for number in range(arguments.topics + 1):
            if number % step == 0:
                files = sum(1 for _ in (Path(directory) / "store").rglob("*"))
                print(
                    f"churn    {number:>8,} created and deleted: "
                    f"{resident_bytes(pid) / 2**20:.1f} MiB, {files} files and directories",
                    flush=True,
                )
            admin.create_topic(f"topic-{number:06}", arguments.queues)
            if arguments.used:
                use(link, f"topic-{number:06}", f"group-{number:06}")
            admin.delete_topic(f"topic-{number:06}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", nargs="?", default="all",
                        choices=("all", "create", "lists", "offsets", "churn"))  # fmt: skip
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--list", type=int, default=225, help="topics of a request, in `lists`")
    parser.add_argument("--offsets", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=10, help="of offsets, an interval")
    parser.add_argument("--used", action="store_true", help="in `churn`: pull and pop from each")
    parser.add_argument(
        "--python",
        type=shlex.split,
        default=[],
        help='words behind the interpreter\'s name, as "-m cProfile -o broker.prof"',
    )
    arguments = parser.parse_args()
    if arguments.what in ("all", "create"):
        created("broker", arguments, by_broker)
        created("cluster", arguments, by_cluster)
    if arguments.what in ("all", "lists"):
        created("lists", arguments, by_lists(arguments.list))
    if arguments.what in ("all", "offsets"):
        offsets(arguments)
    if arguments.what == "churn":
        churn(arguments)


if __name__ == "__main__":
    main()
