"""Peer pairs: our master with a slave that every send waits for, against Apache RocketMQ's.

Both pairs run at once and take turns in slices, on the same cores; the generator has a core of its
own. CPU is that of master and slave together. Apache's JVMs have 3 GiB each and the JVM's defaults.

    outcomes = apache_pair(Bench(root=Path("/tmp/x"), rounds=5, seconds=2.0))
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

from replica_rows import SlaveCost, pair
from rounds import Outcome, interleaved, middle
from rows import Bench, in_rounds, one_by_one, sends, topic_queues
from servers import Ours, Server, placed_on

from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.demo.ports import free_port
from rmq.format import fastjson
from rmq.load.latency import percentile_ns
from tools.peers.apache import ApacheStandalone

HEAP = "3g"
READY_S = 120.0
WARM_S = 20.0  # of each load before it counts, in which the JVM compiles what it runs often
LOADS = (("1x64", 1, 64), ("64x1", 64, 1))


class ApacheServer:
    """An Apache broker with the interface that the rows expect of a server."""

    def __init__(self, servers: ApacheStandalone) -> None:
        self.servers = servers
        self.address = f"127.0.0.1:{servers.broker_port}"
        self.addresses = [self.address]
        self.name_server = f"127.0.0.1:{servers.name_server_port}"
        self.log = servers.folder / "broker.log"

    def pids(self) -> list[int]:
        return [self.servers.broker.pid]

    def check_alive(self) -> None:
        if not self.servers.broker.running:
            raise RuntimeError(f"Apache's broker has ended: see {self.log}")


@contextlib.contextmanager
def theirs(bench: Bench) -> Iterator[tuple[ApacheServer, ApacheServer]]:
    """An Apache master, whose sends wait for its slave, and that slave."""
    port = free_port()
    of_master = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "slaveTimeout": "60000"}
    of_slave = {"brokerRole": "SLAVE", "brokerId": "1"}
    both = [
        ApacheStandalone(bench.root / name, port, free_port(2, 1), settings, heap=HEAP, jvm=())
        for name, settings in (("apache-master", of_master), ("apache-slave", of_slave))
    ]
    try:
        with placed_on(bench.places(sync=False)):
            both[0].start()
            both[1].start_broker()
        master, slave = map(ApacheServer, both)
        until = time.monotonic() + READY_S
        while not follows(master.address):
            if time.monotonic() > until:
                raise RuntimeError(f"Apache's slave does not follow: see {slave.log}")
            time.sleep(0.1)
        yield master, slave
    finally:
        both[1].kill_broker()
        both[0].kill()


def follows(address: str) -> bool:
    with Connection(address) as connection:
        body = connection.call(RequestCode.GET_BROKER_HA_STATUS).body
    rows = fastjson.loads_object(body)["haConnectionInfo"]
    return bool(rows) and int(rows[0]["diff"]) == 0


def apache_pair(bench: Bench) -> list[Outcome]:
    outcomes = []
    with pair(bench) as ours, theirs(bench) as apache:
        for load, connections, window in LOADS:
            outcomes += costs(bench, load, connections, window, apache, ours)
        outcomes.append(latency(bench, apache[0], ours[0]))
    return outcomes


Pair = tuple[Ours, Server] | tuple[ApacheServer, ApacheServer]


def costs(
    bench: Bench, load: str, connections: int, window: int, apache: Pair, ours: Pair
) -> list[Outcome]:
    rate = Outcome("apache_pair", f"{load}: rate to Apache's pair", 4.0, ">=")
    cpu = Outcome("apache_pair", f"{load}: CPU of both nodes to Apache's", 0.1)
    of_both = []
    for master, slave in (apache, ours):
        queues = topic_queues(master, name=f"bench-{load}")
        load_of = sends(bench, master, queues, connections, window)
        if isinstance(master, ApacheServer):
            load_of.slice(WARM_S)
        of_both.append(SlaveCost(slave, load_of))
    for _ in range(bench.rounds):
        for each in of_both:
            each.sums.append(0.0)
        one = replace(bench, rounds=1)
        a, b = in_rounds(one, *(each.slice for each in of_both))[0]
        per_million = [
            (total.cpu_seconds + each.sums[-1]) / total.billed * 1e6
            for each, total in zip(of_both, (a, b), strict=True)
        ]
        rate.values.append(b.rate / a.rate)
        cpu.values.append(per_million[1] / per_million[0])
        rate.details.setdefault("rates", []).append((a.rate, b.rate))
        cpu.details.setdefault("cpu", []).append(per_million)
    for outcome, key, unit in ((rate, "rates", "/s"), (cpu, "cpu", " CPU-s/M")):
        two = [middle([row[which] for row in outcome.details[key]]) for which in range(2)]
        outcome.notes.append(f"Apache {two[0]:,.4g}{unit}; ours {two[1]:,.4g}{unit}")
    return [rate, cpu]


def latency(bench: Bench, apache: ApacheServer, ours: Ours) -> Outcome:
    outcome = Outcome("apache_pair", "1x1: p50 to Apache's pair", 0.33)
    queues = topic_queues(apache), topic_queues(ours)
    one_by_one(replace(bench, seconds=WARM_S), apache, queues[0])
    results = interleaved(
        bench.rounds,
        lambda: one_by_one(bench, apache, queues[0]),
        lambda: one_by_one(bench, ours, queues[1]),
    )
    p50 = [tuple(percentile_ns(each.latency, 50.0) / 1e3 for each in row) for row in results]
    outcome.values = [b / a for a, b in p50]
    two = [middle([row[which] for row in p50]) for which in range(2)]
    outcome.notes.append(f"Apache {two[0]:.0f} us; ours {two[1]:.0f} us")
    return outcome
