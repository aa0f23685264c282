"""Replica rows: the cost of a slave that every send waits for, to its master and of its own.

In the rows that compare CPU per message, both brokers have the same cores: on a machine of two
cores they share one, and the rates in the notes are those of that core. In the row that compares
rates (replica_rate) the master has a core to itself, with a slave and without.

    outcomes = REPLICA_ROWS["replica"](Bench(root=Path("/tmp/x"), rounds=5, seconds=2.0))
"""

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

from rounds import Outcome, Slice, interleaved, middle
from rows import (
    REPLY_BYTES,
    REQUEST_BYTES,
    Bench,
    Row,
    Sliced,
    compare_cpu,
    in_rounds,
    one_by_one,
    sends,
    topic_queues,
)
from servers import START_SECONDS_MAX, Ours, Server, StartError

from rmq.cli.bench import measure_pingpong
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.format import fastjson
from rmq.load.cpu import CpuMeter
from rmq.load.latency import percentile_ns


@contextlib.contextmanager
def pair(bench: Bench, slave_cpus: list[int] | None = None) -> Iterator[tuple[Ours, Server]]:
    """A master whose sends wait for its slave, and that slave; on the same processors, unless
    slave_cpus are given."""
    settings = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "1", "slaveTimeout": "60000"}
    with bench.ours(name="master", **settings) as master:
        command = [sys.executable, "-m", "rmq", "broker", "--replica-of", master.address]
        directory = bench.root / "slave"
        command += ["--store", str(directory / "store"), "--port", "0"]
        with Server(command, directory, slave_cpus or bench.places(sync=False)) as slave:
            await_slave(master, slave)
            with Connection(master.address) as connection:
                connection.call(RequestCode.UPDATE_BROKER_CONFIG, {}, b"inSyncReplicas=2")
            yield master, slave


def await_slave(master: Ours, slave: Server) -> None:
    until = time.monotonic() + START_SECONDS_MAX
    with Connection(master.address) as connection:
        while time.monotonic() < until:
            slave.check_alive()
            body = connection.call(RequestCode.GET_BROKER_HA_STATUS).body
            rows = fastjson.loads_object(body)["haConnectionInfo"]
            if rows and rows[0]["diff"] == 0:
                return
            time.sleep(0.05)
    raise StartError(f"the slave does not follow; see {slave.log}")


class SlaveCost:
    """A load on the master, with the CPU seconds of the slave meanwhile: a sum for each round."""

    def __init__(self, slave: Server, load: Sliced) -> None:
        self.slave = slave
        self.load = load
        self.meter = CpuMeter(slave.pids())
        self.sums: list[float] = []

    def slice(self, seconds: float) -> Slice:
        """The load's slice; the slave's CPU seconds are added to the last of the sums."""
        found = self.load.slice(seconds)
        self.sums[-1] += self.meter.seconds()
        self.meter.start()
        self.slave.check_alive()
        return found


def replica(bench: Bench) -> list[Outcome]:
    return cost(bench, "replica", "1 connection, window 64", 1, 64)


def replica_many(bench: Bench) -> list[Outcome]:
    return cost(bench, "replica_many", "64 connections, window 1", 64, 1)


def cost(bench: Bench, name: str, load: str, connections: int, window: int) -> list[Outcome]:
    of_master = Outcome(name, f"sync replica, {load}: master's CPU-s/M to alone", 1.15)
    of_slave = Outcome(name, f"sync replica, {load}: slave's CPU-s/M to master's", 0.3)
    with bench.ours() as alone, pair(bench) as (master, slave):
        by_itself = sends(bench, alone, topic_queues(alone), connections, window)
        replicated = sends(bench, master, topic_queues(master), connections, window)
        of_pair = SlaveCost(slave, replicated)
        rounds = []
        for _ in range(bench.rounds):
            of_pair.sums.append(0.0)
            rounds += in_rounds(replace(bench, rounds=1), by_itself.slice, of_pair.slice)
    compare_cpu(of_master, rounds, "alone master")
    rates = [b.rate / a.rate for a, b in rounds]
    of_master.notes.append(f"rate {middle(rates):.2f}x, all on the same core")
    of_master.details["rates"] = rates
    pairs = list(zip(of_pair.sums, (b for _, b in rounds), strict=True))
    of_slave.values = [seconds / total.cpu_seconds for seconds, total in pairs]
    costs = [seconds / total.billed * 1e6 for seconds, total in pairs]
    of_slave.notes.append(f"slave {middle(costs):.3g} CPU-s/M")
    return [of_master, of_slave]


def replica_rate(bench: Bench) -> Outcome:
    """With one processor the master has no core to itself: the row is then shown, but not
    judged."""
    outcome = Outcome("replica_rate", "sync replica, 1 connection, window 64: rate to alone", 0.85)
    outcome.better = ">="
    master_cpus, slave_cpus = apart(bench)
    if slave_cpus == master_cpus:
        outcome.goal = None
    bench = replace(bench, cpus=master_cpus)
    with bench.ours() as alone, pair(bench, slave_cpus) as (master, _):
        rounds = in_rounds(
            bench,
            sends(bench, alone, topic_queues(alone), 1, 64).slice,
            sends(bench, master, topic_queues(master), 1, 64).slice,
        )
    compare_cpu(outcome, rounds, "alone master")
    outcome.notes.append(f"CPU-s/M {outcome.median:.2f}x")
    outcome.values = [b.rate / a.rate for a, b in rounds]
    return outcome


def apart(bench: Bench) -> tuple[list[int], list[int]]:
    """Processors of a master and of its slave. When there is no third processor the slave runs on
    that of the load, which has more time left than the master's."""
    others = bench.cpus[1:] or [cpu for cpu in bench.all_cpus if cpu not in bench.cpus]
    return bench.cpus[:1], others or bench.cpus


def replica_latency(bench: Bench) -> Outcome:
    outcome = Outcome("replica_latency", "sync replica, p50: to alone and a round trip", 1.3)
    with bench.ours() as alone, pair(bench) as (master, _):
        queues = topic_queues(alone), topic_queues(master)
        server_cpu = bench.cpus[0] if bench.cpus else None
        results = interleaved(
            bench.rounds,
            lambda: (
                one_by_one(bench, alone, queues[0]),
                measure_pingpong(REQUEST_BYTES, REPLY_BYTES, bench.seconds, server_cpu),
            ),
            lambda: one_by_one(bench, master, queues[1]),
        )
    p50 = [
        (percentile_ns(a.latency, 50.0), percentile_ns(trip.latency, 50.0),
         percentile_ns(b.latency, 50.0))
        for (a, trip), b in results
    ]  # fmt: skip
    outcome.values = [b / (a + trip) for a, trip, b in p50]
    us = [middle([row[which] / 1e3 for row in p50]) for which in range(3)]
    outcome.notes.append(f"alone {us[0]:.0f} us; trip {us[1]:.0f} us; with a slave {us[2]:.0f} us")
    return outcome


REPLICA_ROWS: dict[str, Row] = {
    "replica": replica,
    "replica_many": replica_many,
    "replica_rate": replica_rate,
    "replica_latency": replica_latency,
}
