"""Tables of many topics: creation, a restart, what a change costs at the end, memory of deletion.

    python bench/topics.py                   10,000 topics of 8 queues, by Admin, one by one
    python bench/topics.py --list 225        the same by requests for 225 topics (18)
    python bench/topics.py --churn 100000    as many topics created and deleted in turn
    python bench/topics.py --churn 100000 --used     the same, each with a group, a pull and a pop

A broker with its name server is a process of its own. The time of a change is the median of 300
calls; `begin` is that of the first ones, `end` that of the last. A restart is the time from the
start of the process to its ready line, less that of a broker with no topic of its own.
"""

import argparse
import contextlib
import json
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from rmq import Admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.load.cpu import resident_bytes

READY = re.compile(r"name server (?P<namesrv>\S+), broker \S+ at (?P<address>\S+),")
SAMPLE = 300
MEMORY_ROUNDS = 10


@contextlib.contextmanager
def broker(store: Path, prefix: list[str]) -> Iterator[tuple[str, int, float]]:
    """(name server, process id, seconds to its ready line)."""
    began = time.monotonic()
    with (store.parent / "broker.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, *prefix, "-m", "rmq", "standalone", "--store", str(store),
             "--namesrv-port", "0", "--port", "0"],
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


def create_one_by_one(namesrv: str, topics: int, queues: int) -> list[float]:
    """Seconds of each call."""
    times = []
    with Admin(namesrv_addr=namesrv) as admin:
        for number in range(topics):
            began = time.monotonic()
            admin.create_topic(f"topic-{number:06}", queues)
            times.append(time.monotonic() - began)
    return times


def create_lists(namesrv: str, topics: int, queues: int, length: int) -> list[float]:
    times = []
    with Cluster(namesrv) as cluster:
        link = cluster.connect(cluster.masters()[0].master or "")
        for first in range(0, topics, length):
            items = [
                {"topicName": f"topic-{number:06}", "readQueueNums": queues,
                 "writeQueueNums": queues, "perm": 6}
                for number in range(first, min(first + length, topics))
            ]  # fmt: skip
            body = json.dumps({"topicConfigList": items}).encode()
            began = time.monotonic()
            reply = link.call(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {}, body=body)
            assert reply.code == 0, reply.remark
            times.append(time.monotonic() - began)
    return times


def creation(directory: Path, arguments: argparse.Namespace) -> None:
    store = directory / "store"
    with broker(store, []) as (_, _, empty):
        pass
    with broker(store, arguments.python) as (namesrv, _, _):
        began = time.monotonic()
        if arguments.list:
            times = create_lists(namesrv, arguments.topics, arguments.queues, arguments.list)
        else:
            times = create_one_by_one(namesrv, arguments.topics, arguments.queues)
        seconds = time.monotonic() - began
    sample = min(SAMPLE, max(1, len(times) // 3))
    begin, end = median(times[:sample]), median(times[-sample:])
    print(f"create {arguments.topics:,} topics of {arguments.queues} queues: {seconds:.1f} s")
    print(f"a call: begin {begin * 1000:.2f} ms, end {end * 1000:.2f} ms, {end / begin:.2f}x")
    with broker(store, []) as (_, _, full):
        print(f"restart: {full:.2f} s; without topics {empty:.2f} s")


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


def churn(directory: Path, arguments: argparse.Namespace) -> None:
    """Each topic is deleted before the next one is made; memory is that of the broker process."""
    with (
        broker(directory / "store", arguments.python) as (namesrv, pid, _),
        Admin(namesrv_addr=namesrv) as admin,
        Cluster(namesrv) as cluster,
    ):
        link = cluster.connect(cluster.masters()[0].master or "")
        step = max(1, arguments.churn // MEMORY_ROUNDS)
        for number in range(arguments.churn + 1):
            if number % step == 0:
                files = sum(1 for _ in (directory / "store").rglob("*"))
                print(
                    f"{number:>8,} created and deleted: {resident_bytes(pid) / 2**20:.1f} MiB, "
                    f"{files} files and directories", flush=True,
                )  # fmt: skip
            admin.create_topic(f"topic-{number:06}", arguments.queues)
            if arguments.used:
                use(link, f"topic-{number:06}", f"group-{number:06}")
            admin.delete_topic(f"topic-{number:06}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--list", type=int, default=0, help="topics a request; 0: Admin, one each")
    parser.add_argument("--churn", type=int, default=0, help="create and delete so many in turn")
    parser.add_argument("--used", action="store_true", help="with --churn: pull and pop from each")
    parser.add_argument(
        "--python",
        type=shlex.split,
        default=[],
        help='words behind the interpreter\'s name, as "-m cProfile -o broker.prof"',
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rmq-topics-") as directory:
        (churn if arguments.churn else creation)(Path(directory), arguments)


if __name__ == "__main__":
    main()
