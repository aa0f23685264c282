"""Rows: those of `make bench`; each starts its servers, measures in rounds, and gives an Outcome.

All sends carry 256-byte bodies and JSON headers as a Java client writes them. CPU-s/M is CPU
seconds of the server's processes per million messages; those of the generator are not included.

    outcome = ROWS["single"](Bench(root=Path("/tmp/x"), rounds=5, seconds=2.0, cpus=[1]))
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from rounds import Outcome, Slice, in_slices, interleaved, middle
from servers import Floor, Ours, Probe, Server

from cext.load.consumer import Consumer
from cext.load.producer import Producer
from rmq.cli.bench import measure_pingpong
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.format.message import decode_message, decode_properties
from rmq.load import control
from rmq.load.cpu import CpuMeter, resident_bytes
from rmq.load.frames import Queue, SendShape, pull_frames, send_frames
from rmq.load.latency import percentile_ns
from rmq.load.run import Result, connect, measure, open_producer

TOPIC = "bench"
QUEUES = 8
SLICE_SECONDS = 0.1  # length of a turn of our broker, and of the floor
REQUEST_BYTES, REPLY_BYTES = 660, 230  # of a send and its answer, for the ping-pong


@dataclass
class Bench:
    """How long, how often and where rows measure."""

    root: Path
    rounds: int = 5
    seconds: float = 2.0
    warmup: float = 0.3
    warm_s_max: float = 60.0  # the longest warm-up of a peer, whatever it asks for
    cpus: list[int] = field(default_factory=list)  # for servers; the generator has its own
    all_cpus: list[int] = field(default_factory=list)
    floor_file_mb: int = 1024
    restart_messages: int = 10_000_000
    query_messages: int = 10_000_000
    filter_messages: int = 1_000_000
    popped_messages: int = 160_000
    popped_s: float = 1.5  # before pops count: their timed messages begin to come due meanwhile
    control_messages: int = 200  # changes of a topic, and questions, one after the other
    pending_timers: int = 50_000_000
    many_topics: int = 100
    clients: int = 1_000  # that are mostly idle
    body_bytes: int = 256
    catch_up_bytes: int = 10 << 30
    cold_messages: int = 4_000_000
    touched_bytes: int = 8 << 30  # of free memory, touched before large bodies are stored
    table_rows: int = 500_000
    browsed_messages: int = 50_000_000
    console_topics: int = 1_000
    console_groups: int = 200
    command_runs: int = 5  # of a command, in a round

    def places(self, sync: bool) -> list[int]:
        """CPUs of a server. With `sync` it is not pinned: group commit needs the disk to work while
        the CPU does."""
        return self.all_cpus if sync else self.cpus

    def floor(self, sync: bool = False) -> Floor:
        return Floor(self.root / "floor", sync, self.floor_file_mb, self.places(sync))

    def ours(
        self, flush: str = "async", name: str = "ours", shards: int = 1, **settings: str
    ) -> Ours:
        ours = Ours(self.root / name, flush, self.places(flush == "sync"), settings, shards)
        ours.await_ack()
        return ours


class Addressed(Protocol):
    """A broker that can be asked for what its queues hold."""

    @property
    def address(self) -> str: ...


class Sliced:
    """A load in slices, with pauses between them, on a server that has no other load."""

    def __init__(self, bench: Bench, server: Server, loop: Producer | Consumer):
        self.server = server
        self.loop = loop
        loop.run(int(bench.warmup * 1e6))
        self.meter = CpuMeter(server.pids())
        self.answered = self.total()

    def total(self) -> float:
        stats = self.loop.stats()
        if stats["failures"] or stats.get("skipped"):
            raise RuntimeError(f"{type(self.server).__name__}: {stats}")
        return float(stats["messages"])

    def slice(self, seconds: float) -> Slice:
        # Requests that the last slice left open were answered in the pause; they are taken out
        # here, so that the rate does not include them.
        self.loop.run(2_000)
        before = self.total()
        start = time.monotonic()
        self.loop.run(int(seconds * 1e6))
        took = time.monotonic() - start
        cpu_seconds = self.meter.seconds()
        self.meter.start()
        self.server.check_alive()
        now, last = self.total(), self.answered
        self.answered = now
        return Slice(now - before, took, now - last, cpu_seconds)


def sends(
    bench: Bench,
    server: Floor | Ours,
    queues: list[Queue],
    connections: int = 1,
    window: int = 1,
    batch: int = 1,
    keys: tuple[str, ...] = (),
    more: str = "",
) -> Sliced:
    """Sends to one server, to its shards in turn. A refusal is an error here, not a count."""
    shape = SendShape(bench.body_bytes, batch=batch, keys=keys, more=more)
    frames = send_frames(queues, shape)
    own = server.addresses if isinstance(server, Ours) else [server.address]
    addresses = [own[number % len(own)] for number in range(connections)]
    in_order = isinstance(server, Floor)
    return Sliced(bench, server, open_producer(frames, addresses, window, in_order=in_order))


def in_rounds(bench: Bench, *loads: Callable[[float], Slice]) -> list[list[Slice]]:
    """The counts of each load in each round, in slices taken in turns."""
    slices = max(1, round(bench.seconds / SLICE_SECONDS))
    results = []
    for _ in range(bench.rounds):
        results.append(in_slices(slices, SLICE_SECONDS, *loads))
        if not all(total.count for total in results[-1]):
            raise RuntimeError(f"nothing was answered: {results[-1]}")
    return results


def topic_queues(
    ours: Ours, topics: int = 1, queues: int = QUEUES, name: str = TOPIC
) -> list[Queue]:
    """The queues of `topics` topics on our broker, which are created if necessary."""
    names = [name if i == 0 else f"{name}-{i}" for i in range(topics)]
    return [target.queue for target in control.find_queues(ours.name_server, names, queues)]


def compare_cpu(outcome: Outcome, rounds: list[list[Slice]], names: str) -> Outcome:
    """Sets the outcome's values: the ratios second / first of the CPU per message, by round."""
    outcome.values = [b.cpu_per_million / a.cpu_per_million for a, b in rounds]
    for which, name in reversed(list(enumerate(names.split()))):
        costs = [totals[which].cpu_per_million for totals in rounds]
        rates = [totals[which].rate for totals in rounds]
        outcome.notes.append(
            f"{name} {middle(costs):.3g} CPU-s/M at {middle(rates) / 1e3:,.0f} k/s"
        )
        outcome.details[name] = {"cpu_per_million": costs, "messages_per_second": rates}
    return outcome


def against_floor(bench: Bench, outcome: Outcome, connections: int, window: int) -> Outcome:
    with bench.floor() as floor, bench.ours() as ours:
        queues = topic_queues(ours)
        rounds = in_rounds(
            bench,
            sends(bench, floor, queues, connections, window).slice,
            sends(bench, ours, queues, connections, window).slice,
        )
    return compare_cpu(outcome, rounds, "floor ours")


def single(bench: Bench) -> Outcome:
    outcome = Outcome("single", "1 connection, window 64: CPU-s/M to floor", 2.0)
    return against_floor(bench, outcome, 1, 64)


def many(bench: Bench) -> Outcome:
    outcome = Outcome("many", "64 connections, window 1: CPU-s/M to floor", 1.25)
    return against_floor(bench, outcome, 64, 1)


def latency_pairs(bench: Bench) -> list[tuple[Result, Result]]:
    with bench.ours() as ours:
        queues = topic_queues(ours)
        server_cpu = bench.cpus[0] if bench.cpus else None
        return interleaved(
            bench.rounds,
            lambda: measure_pingpong(REQUEST_BYTES, REPLY_BYTES, bench.seconds, server_cpu),
            lambda: one_by_one(bench, ours, queues),
        )


def one_by_one(bench: Bench, ours: Ours, queues: list[Queue]) -> Result:
    loop = open_producer(send_frames(queues, SendShape(bench.body_bytes)), [ours.address])
    result = measure(loop, bench.seconds, bench.warmup)
    ours.check_alive()
    if result.failures or result.unanswered or not result.messages:
        raise RuntimeError(f"{result.messages} acked, {result.details}")
    return result


def latency(bench: Bench) -> list[Outcome]:
    pairs = latency_pairs(bench)
    outcomes = []
    for percent, goal in ((50.0, 1.6), (99.0, 2.5)):
        outcome = Outcome("latency", f"send p{percent:g}, 1 connection: to ping-pong", goal)
        echo = [percentile_ns(a.latency, percent) / 1e3 for a, _ in pairs]
        ours = [percentile_ns(b.latency, percent) / 1e3 for _, b in pairs]
        outcome.values = [b / a for a, b in zip(echo, ours, strict=True)]
        outcome.notes.append(f"ours {middle(ours):.1f} us; ping-pong {middle(echo):.1f} us")
        outcome.details = {"ours_us": ours, "pingpong_us": echo}
        outcomes.append(outcome)
    return outcomes


def sync_one(bench: Bench) -> Outcome:
    """With one open request each ack needs a sync of its own: more acks than syncs are
    impossible."""
    outcome = Outcome("sync_one", "SYNC_FLUSH, 1 producer: acks/s to fdatasyncs/s", 0.85, ">=")
    outcome.possible = 1.05
    with (
        bench.floor(sync=True) as floor,
        bench.ours("sync") as ours,
        Probe(bench.root / "probe", bench.places(sync=True)) as probe,
    ):
        names = topic_queues(ours)
        rounds = in_rounds(
            bench, probe.slice, sends(bench, ours, names).slice, sends(bench, floor, names).slice
        )
    syncs, acks, floors = ([totals[which].rate for totals in rounds] for which in range(3))
    outcome.values = [a / s for a, s in zip(acks, syncs, strict=True)]
    outcome.notes.append(
        f"ours {middle(acks):,.0f}/s; disk {middle(syncs):,.0f}/s; "
        f"floor --sync {middle(floors):,.0f}/s"
    )
    outcome.details = {"ours": acks, "disk": syncs, "floor": floors}
    return outcome


def sync_many(bench: Bench) -> Outcome:
    outcome = Outcome("sync_many", "SYNC_FLUSH, 64 producers: acks/s to floor --sync", 0.9, ">=")
    with bench.floor(sync=True) as floor, bench.ours("sync") as ours:
        names = topic_queues(ours)
        rounds = in_rounds(
            bench, sends(bench, floor, names, 64).slice, sends(bench, ours, names, 64).slice
        )
    floors, acks = ([totals[which].rate for totals in rounds] for which in range(2))
    outcome.values = [b / a for a, b in zip(floors, acks, strict=True)]
    outcome.notes.append(f"ours {middle(acks):,.0f}/s; floor {middle(floors):,.0f}/s")
    outcome.details = {"floor": floors, "ours": acks}
    return outcome


def batch(bench: Bench) -> Outcome:
    outcome = Outcome("batch", "batch of 32: CPU-s/M to the single send's", 0.4)
    with bench.ours() as ours, bench.ours(name="batch") as other:
        rounds = in_rounds(
            bench,
            sends(bench, ours, topic_queues(ours), 1, 64).slice,
            sends(bench, other, topic_queues(other), 1, 4, batch=32).slice,
        )
    return compare_cpu(outcome, rounds, "single batch")


def pull(bench: Bench) -> Outcome:
    outcome = Outcome("pull", "pull of 32 at the tail: CPU-s/M to the floor's send", 1.0)
    with bench.floor() as floor, bench.ours() as ours:
        queues = topic_queues(ours)
        sends(bench, ours, queues, 1, 64).slice(SLICE_SECONDS)
        with Connection(ours.address) as control_connection:
            # The connection of the heartbeat stays open while the pulls run.
            offsets = subscribed_tails(control_connection, queues)
            rounds = in_rounds(
                bench,
                sends(bench, floor, queues, 1, 64).slice,
                pulls(bench, ours, queues, offsets).slice,
            )
    return compare_cpu(outcome, rounds, "floor pull")


def subscribed_tails(connection: Connection, queues: list[Queue]) -> list[tuple[int, int]]:
    """The offset ranges of each queue's last messages, for a consumer that is a member of its group
    as long as this connection is open."""
    control.subscribe(connection, "bench-consumer", [TOPIC])
    ends = [control.queue_range(connection, queue)[1] for queue in queues]
    return [(max(0, end - 1024), end) for end in ends]


def pulls(bench: Bench, ours: Ours, queues: list[Queue], offsets: list[tuple[int, int]]) -> Sliced:
    """Reads of the last messages of each queue over and over; these are in the write buffer."""
    frames = pull_frames(queues, suspend_ms=0)
    loop = Consumer(frames, [connect(ours.address) for _ in queues], list(offsets), rewind=True)
    return Sliced(bench, ours, loop)


def queues(bench: Bench) -> Outcome:
    outcome = Outcome("queues", "10,000 queues: CPU-s/M to 8 queues", 1.1)
    with bench.ours() as ours, bench.ours(name="many") as other:
        few = topic_queues(ours)
        spread = topic_queues(other, bench.many_topics, 100)
        rounds = in_rounds(
            bench,
            sends(bench, ours, few, 1, 64).slice,
            sends(bench, other, spread, 1, 64).slice,
        )
    outcome.title = f"{len(spread):,} queues: CPU-s/M to {len(few)} queues"
    return compare_cpu(outcome, rounds, "few many")


def start(bench: Bench) -> list[Outcome]:
    first = Outcome("start", "exec to first ack, new store", 0.5, unit=" s")
    idle = Outcome("start", "resident memory, idle (with name server)", 64.0, unit=" MiB")
    for number in range(bench.rounds):
        with Ours(bench.root / f"start-{number}", "async", bench.cpus) as ours:
            first.values.append(ours.await_ack())
            idle.values.append(sum(resident_bytes(pid) for pid in ours.pids()) / (1 << 20))
    return [first, idle]


def restart(bench: Bench) -> Outcome:
    """In every round the broker is killed during sends, so that each start recovers a torn end.

    A broker that forgot its messages would start fastest. So after each restart the queues must
    still hold every message that was acked.
    """
    millions = bench.restart_messages / 1e6
    outcome = Outcome("restart", f"kill -9 with {millions:g} M messages: exec to first ack", 1.0)
    outcome.unit = " s"
    held: list[int] = []
    with bench.ours(name="restart") as ours:
        names = topic_queues(ours)
        acked = fill(bench, ours, names, bench.restart_messages)
        for _ in range(bench.rounds):
            frames = send_frames(names, SendShape(bench.body_bytes))
            loop = open_producer(frames, [ours.address], 64)
            loop.run(300_000)
            acked += loop.stats()["acked"]
            ours.kill()
            ours.restart()
            outcome.values.append(ours.await_ack())
            held.append(messages_held(ours, names))
            if held[-1] < acked:
                raise RuntimeError(f"{acked:,} messages were acked, {held[-1]:,} are held")
    outcome.notes.append(f"{held[-1]:,} messages held, {acked:,} acked")
    outcome.details = {"held": held, "acked": acked}
    return outcome


def messages_held(ours: Addressed, names: list[Queue]) -> int:
    with Connection(ours.address) as connection:
        ranges = [control.queue_range(connection, queue) for queue in names]
    return sum(most - least for least, most in ranges)


def fill(bench: Bench, ours: Ours, names: list[Queue], messages: int) -> int:
    """Sends at least `messages` messages in batches; returns how many were acked."""
    frames = send_frames(names, SendShape(bench.body_bytes, batch=32))
    loop = open_producer(frames, [ours.address], 8, limit=(messages + 31) // 32)
    while loop.run(200_000):
        ours.check_alive()
    stats = loop.stats()
    if stats["messages"] < messages or stats["failures"]:
        raise RuntimeError(f"filling the store: {stats}")
    return int(stats["messages"])


def indexed(bench: Bench) -> Outcome:
    """The cost of a key, the indexer's thread included.

    Every message also has a unique key, which is indexed in both cases; the note has the cost of
    the whole index.
    """
    keyed = tuple(f"order-{n * 2654435761 % 10**9:09d}" for n in range(16_384))
    outcome = Outcome("indexed", "sends with one key: CPU-s/M to the same without", 1.15)
    with (
        bench.ours() as unkeyed,
        bench.ours(name="keyed") as one_key,
        bench.ours(name="bare", messageIndexEnable="false") as bare,
    ):
        rounds = in_rounds(
            bench,
            sends(bench, unkeyed, topic_queues(unkeyed), 1, 64).slice,
            sends(bench, one_key, topic_queues(one_key), 1, 64, keys=keyed).slice,
            sends(bench, bare, topic_queues(bare), 1, 64).slice,
        )
    compare_cpu(outcome, [totals[:2] for totals in rounds], "unkeyed keyed")
    costs = [totals[2].cpu_per_million for totals in rounds]
    outcome.notes.append(f"without an index {middle(costs):.3g} CPU-s/M")
    outcome.details["no index"] = {"cpu_per_million": costs}
    return outcome


def query(bench: Bench) -> Outcome:
    """Queries by unique keys of messages that were read at random places: each key finds exactly
    one message.

    The note has the same figure for a view by id (33), which reads one record through the same
    threads, except the indexer's: on a busy machine it shows how much of the time is the machine's.
    """
    millions = bench.query_messages / 1e6
    title = f"query by key among {millions:g} M messages: p99"
    outcome = Outcome("query", title, 5.0, unit=" ms")
    with bench.ours(name="query") as ours, Connection(ours.address) as connection:
        names = topic_queues(ours)
        fill(bench, ours, names, bench.query_messages)
        keys = random_keys(connection, names, 500)
        for _ in range(bench.rounds):
            ours.check_alive()
            pairs = [(query_time(connection, key), view_time(connection)) for key in keys]
            (middle_ms, _), (p99_ms, view_p99_ms) = np.percentile(pairs, (50, 99), axis=0) * 1e3
            outcome.values.append(float(p99_ms))
            outcome.details.setdefault("median_ms", []).append(float(middle_ms))
            outcome.details.setdefault("view_p99_ms", []).append(float(view_p99_ms))
    outcome.notes.append(
        f"median {middle(outcome.details['median_ms']):.3f} ms; "
        f"view by id p99 {middle(outcome.details['view_p99_ms']):.2f} ms"
    )
    return outcome


def random_keys(connection: Connection, names: list[Queue], count: int) -> list[str]:
    control.subscribe(connection, "bench-query", [TOPIC])
    ranges = [control.queue_range(connection, queue) for queue in names]
    numbers = random.Random(1)
    keys: list[str] = []
    while len(keys) < count:
        queue = numbers.randrange(len(names))
        fields = {
            "consumerGroup": "bench-query", "topic": TOPIC, "queueId": names[queue].queue_id,
            "queueOffset": numbers.randrange(*ranges[queue]), "maxMsgNums": 1, "sysFlag": 0,
            "commitOffset": 0, "suspendTimeoutMillis": 0, "subVersion": 0,
        }  # fmt: skip
        reply = connection.call(RequestCode.PULL_MESSAGE, fields)
        message = decode_message(reply.body)[0]
        keys.append(decode_properties(message.properties_bytes)["UNIQ_KEY"])
    return keys


def query_time(connection: Connection, key: str) -> float:
    """Seconds of one query, which must find its one message."""
    fields = {
        "topic": TOPIC, "key": key, "maxNum": 32, "beginTimestamp": 0,
        "endTimestamp": 2**63 - 1, "_UNIQUE_KEY_QUERY": "true",
    }  # fmt: skip
    began = time.perf_counter()
    reply = connection.call(RequestCode.QUERY_MESSAGE, fields, timeout=60)
    took = time.perf_counter() - began
    found = decode_properties(decode_message(reply.body)[0].properties_bytes)["UNIQ_KEY"]
    if found != key:
        raise RuntimeError(f"asked for {key}, got {found}")
    return took


def view_time(connection: Connection) -> float:
    """Seconds of one view of the log's first record."""
    began = time.perf_counter()
    connection.call(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": 0}, timeout=60)
    return time.perf_counter() - began


Row = Callable[[Bench], "Outcome | list[Outcome]"]
ROWS: dict[str, Row] = {
    row.__name__: row
    for row in (
        single, many, latency, sync_one, sync_many, batch, pull, queues, start, restart,
        indexed, query,
    )
}  # fmt: skip
