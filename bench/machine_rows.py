"""Machine rows: several shards on one machine, and the store pool.

Two shards share one core here when the machine has two cores: the rows compare CPU per message,
which does not depend on the number of cores. Latencies of a sibling are measured with one shard on
each core, and with the generator, which is paced and needs little, on the same cores.

    outcomes = MACHINE_ROWS["shard_faults"](Bench(root=Path("/tmp/x"), rounds=5, seconds=2.0))
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from rounds import Outcome, interleaved, middle
from rows import Bench, Row, compare_cpu, in_rounds, sends, topic_queues
from servers import ROOT, START_SECONDS_MAX, Ours, StartError

from cext.load.producer import Producer
from cext.load.template import FrameSet
from rmq.client.blocking.connection import Connection
from rmq.codes import PERM_READ, PERM_WRITE, RequestCode
from rmq.errors import RmqError
from rmq.format import remoting
from rmq.load.cpu import CpuMeter, resident_bytes, tick_seconds
from rmq.load.frames import Queue, SendShape, send_frames
from rmq.load.latency import percentile_ns
from rmq.load.run import measure, open_producer
from rmq.names import AUTO_CREATE_TOPIC
from shards.command_client import CommandClient
from shards.messages import AllStats, AllStatsReply, ShardStatus, Status, StatusReply

SPREAD, NARROW = (32, 16), (2, 64)  # connections, window
POOL_BODY_BYTES = 4096
POOL_FILE_BYTES = 64 << 20  # a log file; the pool has 5 of them, rounded down to a power of two
POOL_RATE = 10_000.0
PACED = 1000.0  # sends a second on the shard whose latency is watched
SETTLE_S = 0.5
POLL_S = 0.01  # between two checks whether the killed shard is back; a check takes processor time
LOAD = 5000.0  # sends a second to the shard that is killed
MESSAGES_A_QUESTION = 6  # command -> supervisor -> 2 shards -> supervisor -> command


def shards(bench: Bench) -> Outcome:
    """The same connections, either all to one shard or half of them to each of two.

    All servers have the same cores. The ratio includes the cost of the supervisor and of the second
    control thread. It also includes that each shard has half as many messages in a turn, over which
    the fixed cost of a turn is spread: with only two connections (see the note) that is most of it.
    """
    outcome = Outcome("shards", "two shards against one, same load: CPU-s/M", 1.1)
    with bench.ours() as one, bench.ours(name="two", shards=2) as two:
        few, spread = (of_first_broker(topic_queues(each)) for each in (one, two))
        rounds = in_rounds(
            bench,
            sends(bench, one, few, *SPREAD).slice,
            sends(bench, two, spread, *SPREAD).slice,
            sends(bench, one, few, *NARROW).slice,
            sends(bench, two, spread, *NARROW).slice,
        )
    compare_cpu(outcome, [totals[:2] for totals in rounds], "one two")
    narrow = [totals[3].cpu_per_million / totals[2].cpu_per_million for totals in rounds]
    outcome.notes.append(f"with {NARROW[0]} connections {middle(narrow):.2f}x")
    outcome.details["narrow"] = narrow
    return outcome


def of_first_broker(queues: list[Queue]) -> list[Queue]:
    """The queues of one shard. The other shards have the same queues, so the same frames can go
    to any shard."""
    return [queue for queue in queues if queue.broker_name == queues[0].broker_name]


# ---- the bus


def bus(bench: Bench) -> list[Outcome]:
    cost = Outcome("bus", "bus: CPU of a control message, all processes", None, unit=" us")
    crossing = Outcome("bus", "bus messages/s under full load, above those at rest", 1.0)
    crossing.unit = "/s"
    with bench.ours() as alone, bench.ours(name="two", shards=2) as two:
        queues = of_first_broker(topic_queues(two))
        topic_queues(alone)
        for _ in range(bench.rounds):
            cost.values.append(question_cost(two, bench.control_messages))
            for name, server in (("one_shard", alone), ("two_shards", two)):
                cost.details.setdefault(name, []).append(
                    change_cost(server, bench.control_messages)
                )
            crossing.values.append(bus_messages_of_sends(bench, two, queues, crossing))
        cost.details["messages_a_change"] = bus_messages_of_changes(two, bench.control_messages)
    both = [middle(cost.details[name]) for name in ("one_shard", "two_shards")]
    cost.notes.append(
        f"a topic change: {both[0]:.0f} us on one shard, {both[1]:.0f} us on two, "
        f"{cost.details['messages_a_change']:.1f} messages at the shards' ends"
    )
    sent = sum(crossing.details["sends"])
    crossing.notes.append(f"{sent:,.0f} sends, {middle(crossing.details['rest']):.1f}/s at rest")
    return [cost, crossing]


def question_cost(server: Ours, count: int) -> float:
    """Microseconds of CPU of one bus message, measured by asking for all shards' numbers again
    and again."""
    with CommandClient(server.store) as client:
        meter = CpuMeter(server.pids())
        for _ in range(count):
            client.ask(AllStats(), AllStatsReply)
        return meter.seconds() / (count * MESSAGES_A_QUESTION) * 1e6


def change_cost(server: Ours, count: int) -> float:
    """Microseconds of CPU of one change of a topic, which is written to the disk, shared with the
    siblings and registered."""
    meter = CpuMeter(server.pids())
    change_topics(server, count)
    return meter.seconds() / count * 1e6


def change_topics(server: Ours, count: int) -> None:
    with Connection(server.address) as connection:
        for number in range(count):
            fields = {
                "topic": "changing", "defaultTopic": AUTO_CREATE_TOPIC,
                "readQueueNums": 4 + number % 2, "writeQueueNums": 4,
                "perm": PERM_READ | PERM_WRITE, "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": 0, "order": "false",
            }  # fmt: skip
            connection.call(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


def bus_messages_of_changes(server: Ours, count: int) -> float:
    """Bus messages at the shards' ends for each change, when changes come one after the other."""
    with CommandClient(server.store) as client:
        before = bus_messages(client)
        change_topics(server, count)
        return (bus_messages(client) - before) / count


def bus_messages_of_sends(
    bench: Bench, server: Ours, queues: list[Queue], outcome: Outcome
) -> float:
    """How many more bus messages a second there are while both shards are loaded."""
    frames = send_frames(queues, SendShape(bench.body_bytes))
    with CommandClient(server.store) as client:
        before = bus_messages(client)
        time.sleep(bench.seconds)
        rest = (bus_messages(client) - before) / bench.seconds
        loop = open_producer(frames, server.addresses, 64)
        before = bus_messages(client)
        loop.run(int(bench.seconds * 1e6))
        loaded = (bus_messages(client) - before) / bench.seconds
        loop.finish(1_000_000)
    outcome.details.setdefault("rest", []).append(rest)
    outcome.details.setdefault("sends", []).append(loop.stats()["acked"])
    return loaded - rest


def bus_messages(client: CommandClient) -> float:
    names = ("bus_messages_sent", "bus_messages_received")
    stats = client.ask(AllStats(), AllStatsReply).stats
    return sum(each.gauges[name] for each in stats for name in names)


# ---- faults


def shard_faults(bench: Bench) -> list[Outcome]:
    """Shard 1 is killed, then stopped, under load; shard 0's sends are timed from when they were
    due. Two more measurements of the same length are for comparison. One without a fault shows the
    noise of the machine. In the other a process on the same core imports and computes as long as a
    starting shard does; it shows the effect of any process that starts, because the caches and the
    kernel are shared even by processes with cores of their own.

    The generator runs on shard 0's core; the code that kills, waits and checks on that of shard 1.
    """
    back = Outcome("shard_faults", "shard killed under load: serves again after", 1.0, unit=" s")
    killed = Outcome("shard_faults", "sibling's p99 meanwhile: to the p99 without", 1.25)
    alike = Outcome("shard_faults", "sibling's p99 meanwhile: to that of such a process", 1.25)
    stopped = Outcome("shard_faults", "sibling's p99 while a shard is stopped: to without", 1.25)
    noise: list[float] = []
    free = replace(bench, cpus=bench.all_cpus)
    with free.ours(name="faults", shards=2, rmqShardCrashesMax="1000") as ours:
        frames = send_frames(of_first_broker(topic_queues(ours)), SendShape(bench.body_bytes))
        paced = open_producer(frames, ours.addresses[:1], 1000, rate=PACED)
        paced.run(500_000)
        place = shard_status(ours)[1].cores
        with ThreadPoolExecutor(2) as threads:
            for _ in range(bench.rounds):
                with load_on(threads, ours, frames, 3 * bench.seconds + SETTLE_S):
                    settle(paced)
                    first, calm = p99_us(bench, paced), p99_us(bench, paced)
                    noise.append(calm / first)
                    watched = threads.submit(p99_us, bench, paced)
                    with on_cpus(place):
                        back.values.append(kill_and_wait(ours, 1))
                        cpu = tick_seconds(shard_status(ours)[1].pid)
                    during = watched.result()
                    killed.values.append(during / calm)
                    back.details.setdefault("calm_us", []).append(calm)
                    back.details.setdefault("start_cpu", []).append(cpu)
                settle(paced)
                watched = threads.submit(p99_us, bench, paced)
                with on_cpus(place):
                    compute(cpu)
                alike.values.append(during / watched.result())
                with load_on(threads, ours, frames, 2 * bench.seconds + SETTLE_S):
                    settle(paced)
                    calm = p99_us(bench, paced)
                    with stopped_shard(ours, 1):
                        stopped.values.append(p99_us(bench, paced) / calm)
        paced.finish(1_000_000)
        if paced.stats()["failures"]:
            raise RuntimeError(f"sends to the sibling failed: {paced.stats()['failures']}")
    killed.notes.append(
        f"without any fault {middle(noise):.2f} ({min(noise):.2f} .. {max(noise):.2f}); "
        f"p99 {middle(back.details['calm_us']):.0f} us"
    )
    killed.details = {"without_fault": noise}
    alike.notes.append(f"a start takes {middle(back.details['start_cpu']):.2f} CPU-s")
    return [back, killed, alike, stopped]


@contextlib.contextmanager
def on_cpus(cpus: list[int]) -> Iterator[None]:
    """Puts this thread, and what it starts, on these CPUs for the block; an empty list changes
    nothing."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def compute(seconds: float) -> None:
    """Runs a process that imports what a shard imports and then computes, until it has used this
    much CPU time in all."""
    work = f"import time, shards.shard_process\nwhile time.process_time() < {seconds}: pass"
    subprocess.run([sys.executable, "-c", work], cwd=ROOT, check=True)


def settle(loop: Producer) -> None:
    """Sends what has become due since the last window, while the loop did not run."""
    loop.run(int(SETTLE_S * 1e6))


def p99_us(bench: Bench, loop: Producer) -> float:
    """The p99, in microseconds, of the sends that were due in bench.seconds, unanswered ones
    included.

    When the machine gave the loop no time at all, nothing was measured, and the loop runs longer.
    """
    loop.reset_stats()
    until = time.monotonic() + START_SECONDS_MAX
    while not loop.latency.count:
        if time.monotonic() > until:
            raise RuntimeError(f"no send was answered within {START_SECONDS_MAX} s")
        loop.run(int(bench.seconds * 1e6))
    return percentile_ns(loop.latency, 99.0) / 1e3


@contextlib.contextmanager
def load_on(
    threads: ThreadPoolExecutor, server: Ours, frames: FrameSet, seconds: float
) -> Iterator[None]:
    """Sends LOAD messages a second to shard 1 during the block, or until its connection ends."""
    loop = open_producer(frames, server.addresses[1:], 1000, rate=LOAD)
    running = threads.submit(loop.run, int(seconds * 1e6))
    yield
    running.result()
    loop.finish(1_000_000)


def kill_and_wait(server: Ours, index: int) -> float:
    """Kills the shard; returns the seconds from kill -9 to the first acknowledged send to the
    same port."""
    os.kill(shard_status(server)[index].pid, signal.SIGKILL)
    began = time.monotonic()
    frame = send_frames([Queue("first-ack", 0)], SendShape()).render_one(0, 10_000_000, 1)
    request = remoting.decode(frame[4:])
    while time.monotonic() - began < START_SECONDS_MAX:
        with contextlib.suppress(OSError, RmqError):
            with Connection(server.addresses[index]) as connection:
                connection.call(RequestCode.SEND_MESSAGE_V2, request.fields, request.body)
            return time.monotonic() - began
        time.sleep(POLL_S)
    raise StartError(f"shard {index} is not back; see {server.log}")


@contextlib.contextmanager
def stopped_shard(server: Ours, index: int) -> Iterator[None]:
    pid = shard_status(server)[index].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def shard_status(server: Ours) -> list[ShardStatus]:
    with CommandClient(server.store) as client:
        return client.ask(Status(), StatusReply).shards


# ---- memory


def idle(bench: Bench) -> Outcome:
    title = "resident memory, idle: two shards, supervisor, name server"
    outcome = Outcome("idle", title, 128.0, unit=" MiB")
    for number in range(bench.rounds):
        with bench.ours(name=f"idle-{number}", shards=2) as ours:
            each = [resident_bytes(pid) / (1 << 20) for pid in ours.pids()]
            outcome.values.append(sum(each))
            outcome.details.setdefault("processes", []).append(each)
    outcome.notes.append(" + ".join(f"{part:.1f}" for part in outcome.details["processes"][-1]))
    return outcome


def store_pool(bench: Bench) -> Outcome:
    """With the store pool a second thread does the writing, so the reactor does not wait for the
    kernel; docs/design/log.md says why that costs CPU. The load is paced, because a pool that the
    disk does not empty in time refuses sends."""
    outcome = Outcome("store_pool", "transientStorePool on to off, 4 KiB bodies: CPU-s/M", None)
    free = replace(bench, cpus=bench.all_cpus)
    files = {"mappedFileSizeCommitLog": str(POOL_FILE_BYTES)}
    with (
        free.ours(name="off", **files) as off,
        free.ours(name="on", transientStorePoolEnable="true", **files) as on,
    ):
        frames = send_frames(topic_queues(off), SendShape(POOL_BODY_BYTES))
        topic_queues(on)
        pairs = interleaved(
            bench.rounds,
            lambda: paced_cost(bench, off, frames),
            lambda: paced_cost(bench, on, frames),
        )
    outcome.values = [b / a for a, b in pairs]
    outcome.details = {"off": [a for a, _ in pairs], "on": [b for _, b in pairs]}
    outcome.notes.append(
        f"on {middle(outcome.details['on']):.3g}, off {middle(outcome.details['off']):.3g} CPU-s/M "
        f"at {POOL_RATE / 1e3:g} k/s; a second thread to wake, a ring larger than the caches"
    )
    return outcome


def paced_cost(bench: Bench, server: Ours, frames: FrameSet) -> float:
    loop = open_producer(frames, [server.address], 1000, rate=POOL_RATE)
    result = measure(loop, bench.seconds, bench.warmup, server.pids())
    server.check_alive()
    if result.failures or result.cpu_per_million is None:
        raise RuntimeError(f"{result.messages} acked, failures {result.failures}")
    return result.cpu_per_million


MACHINE_ROWS: dict[str, Row] = {
    row.__name__: row for row in (shards, bus, shard_faults, idle, store_pool)
}
