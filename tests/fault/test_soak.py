"""Goal: whatever dies or stands still on a machine of two shards, nothing acknowledged is lost, no
queue changes its order, and everything is up again without help.

Method: a supervisor with two shards, and a name server, are processes of their own, started again
when they end, as a service manager does. Producers and consumers on both shards write down what
they are promised (support/compact_ack_history.py). Then come rounds of faults; producers send as
fast as they can during kills. After each round all must serve and be found within UP_S. Every
CHECK_EVERY rounds, and at the end from the beginning, both shards are read and compared with the
ledgers; at the end the offline checker looks at both stores. Cannot prove: a power cut, and what
several machines do.

`make soak` runs 500 rounds (RMQ_SOAK_ROUNDS), which takes a quarter of an hour, and reports each.
"""

import asyncio
import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pytest
from support.broker_client import BrokerClient
from support.compact_ack_history import CompactAckHistory
from support.lasting_load import IN_FLIGHT_MAX, TOPICS, LastingLoad
from support.managed_machine import ManagedMachine
from support.waiting import HANG_S, until, until_is

from rmq.offline.checker import check_store

SHARDS = 2
SILENT_S = 5  # rmqShardSilentSeconds
SIBLING_SENDS = 25  # a shard stands still for at least so many sends to the other one
CHECK_EVERY = 10
ACK_S = HANG_S  # until both shards acknowledge again
TOPIC_S = HANG_S  # until a topic made during a fault is everywhere
Fault = Callable[[], Awaitable[None]]
KILL, STOP = signal.SIGKILL, signal.SIGSTOP


class Soak:
    """One machine, its load, and what the rounds have shown so far."""

    def __init__(self, directory: Path, seed: int) -> None:
        silent = ("--set", f"rmqShardSilentSeconds={SILENT_S}")
        self.machine = ManagedMachine(directory, SHARDS, *silent)
        self.ledgers = [CompactAckHistory() for _ in range(SHARDS)]
        self.loads: list[LastingLoad] = []
        self.random = random.Random(seed)
        self.topics: list[str] = []
        self.up_s: dict[str, list[float]] = defaultdict(list)
        # Seconds of sends to a shard while the other one stood still.
        self.sibling_s: list[float] = []
        self.calm_s: list[float] = []

    # ---- faults

    def shard(self) -> str:
        return f"shard-{self.random.randrange(SHARDS)}"

    async def kill_shard(self) -> None:
        self.machine.signal(self.shard(), KILL)

    async def kill_all_shards(self) -> None:
        for index in range(SHARDS):
            self.machine.signal(f"shard-{index}", KILL)

    async def kill_supervisor(self) -> None:
        self.machine.signal("supervisor", KILL)

    async def kill_name_server(self) -> None:
        self.machine.signal("namesrv", KILL)

    async def kill_everything(self) -> None:
        for name in ("supervisor", "shard-1", "namesrv", "shard-0"):
            self.machine.signal(name, KILL)

    async def kill_shard_without_supervisor(self) -> None:
        self.machine.signal("supervisor", KILL)
        await asyncio.sleep(self.random.uniform(0, 0.3))
        self.machine.signal(self.shard(), KILL)

    async def kill_shard_while_supervisor_stands_still(self) -> None:
        stopped = self.machine.signal("supervisor", STOP)
        self.machine.signal(self.shard(), KILL)
        await asyncio.sleep(self.random.uniform(0.05, 1.0))
        self.machine.wake("supervisor", stopped)

    async def kill_stopped_shard(self) -> None:
        name = self.shard()
        self.machine.signal(name, STOP)
        await asyncio.sleep(self.random.uniform(0, 0.3))
        self.machine.signal(name, KILL)

    async def stop_shard(self) -> None:
        index = self.random.randrange(SHARDS)
        await self._stop(f"shard-{index}", self.random.uniform(0.05, 1.5), index)

    async def stop_supervisor(self) -> None:
        await self._stop("supervisor", self.random.uniform(0.05, 2.5))

    async def stop_name_server(self) -> None:
        await self._stop("namesrv", self.random.uniform(0.05, 2.0))

    async def stop_shard_for_good(self) -> None:
        """Stops a shard and does not wake it: the supervisor must replace it."""
        index = self.random.randrange(SHARDS)
        name = f"shard-{index}"
        stopped = self.machine.signal(name, STOP)
        began = time.monotonic()
        await until(lambda: self.machine.pid(name) != stopped, log=self.machine.log)
        self._note_siblings(index, began)

    async def _stop(self, name: str, seconds: float, index: int = -1) -> None:
        stopped = self.machine.signal(name, STOP)
        began = time.monotonic()
        await asyncio.sleep(seconds)
        if index >= 0:
            await until(lambda: len(self._sibling_sends(index, began)) >= SIBLING_SENDS, ACK_S)
            self._note_siblings(index, began)
        self.machine.wake(name, stopped)

    def _sibling_sends(self, stopped: int, began: float) -> list[float]:
        """Seconds of each send to another shard that has begun since `began`."""
        others = [load for index, load in enumerate(self.loads) if index != stopped]
        return [took for load in others for at, took in load.times if at - took >= began]

    def _note_siblings(self, stopped: int, began: float) -> None:
        self.sibling_s += self._sibling_sends(stopped, began)

    # ---- rounds

    async def start(self, stack: AsyncExitStack) -> None:
        await self.machine.start()
        for port in self.machine.ports:
            async with BrokerClient(port) as client:
                for topic, queues in TOPICS:
                    await make_topic(client, topic, queues)
        for port, ledger in zip(self.machine.ports, self.ledgers, strict=True):
            load = LastingLoad(port, ledger)
            self.loads.append(load)
            await stack.enter_async_context(load)
        await self.until_acked()

    async def round(self, fault: Fault, with_topic: bool) -> float:
        """Runs a fault; returns the seconds from its end until all is well."""
        name = fault.__name__
        await asyncio.sleep(self.random.uniform(0.05, 0.3))
        for load in self.loads:
            self.calm_s += [took for _, took in load.times[-200:]]
            load.times.clear()
            load.sprint = name.startswith("kill")
        await asyncio.sleep(self.random.uniform(0.02, 0.1))
        await (self.make_topic_amid(fault) if with_topic else fault())
        for load in self.loads:
            load.sprint = False
        began = time.monotonic()
        await self.until_acked()
        await self.machine.until_up(TOPICS[0][0])
        self.up_s[name].append(time.monotonic() - began)
        for load in self.loads:
            load.check()
            load.times.clear()
        return self.up_s[name][-1]

    async def until_acked(self) -> None:
        """Waits until each shard has acknowledged a send that begins now. It counts more acks than
        sends can be under way, because answers of a killed shard may still be read."""
        wanted = [load.acks + IN_FLIGHT_MAX + 1 for load in self.loads]

        def have_acked() -> bool:
            for load in self.loads:
                load.check()
            return all(load.acks >= goal for load, goal in zip(self.loads, wanted, strict=True))

        def told() -> str:
            return f"{self.machine.log()}\nrefused: {[load.refused for load in self.loads]}"

        await until(have_acked, ACK_S, log=told)

    async def make_topic_amid(self, fault: Fault) -> None:
        """Runs a fault while a send makes a topic at one of the shards: whatever happens to this
        shard, the others must get the topic."""
        topic = f"made-{len(self.topics)}"

        async def is_made() -> bool:
            try:
                async with BrokerClient(self.random.choice(self.machine.ports)) as client:
                    return (await client.send(topic)).code == 0
            except (OSError, EOFError, asyncio.TimeoutError):
                return False

        async def make() -> None:
            await asyncio.sleep(self.random.uniform(0, 0.2))
            await until(is_made, ACK_S)
            self.topics.append(topic)

        await asyncio.gather(fault(), make())

    async def until_topics_are_everywhere(self) -> None:
        end = time.monotonic() + TOPIC_S
        for topic in self.topics[-CHECK_EVERY:]:
            await until_is(
                lambda topic=topic: asyncio.to_thread(self.machine.routed, topic),
                lambda found: len(found) == SHARDS,
                max(0.0, end - time.monotonic()),
            )

    async def check(self, whole: bool = False) -> int:
        found = await asyncio.gather(
            *(ledger.check(port, whole) for ledger, port in zip(
                self.ledgers, self.machine.ports, strict=True))
        )  # fmt: skip
        return sum(found)

    def faults(self, long: bool) -> list[Fault]:
        """The faults of one turn: each kind once, or, if long, as often as machines meet them."""
        often = [self.kill_shard, self.stop_shard, self.kill_supervisor, self.stop_supervisor]
        rare = [
            self.kill_name_server, self.stop_name_server, self.kill_all_shards,
            self.kill_everything, self.kill_shard_without_supervisor, self.kill_stopped_shard,
            self.kill_shard_while_supervisor_stands_still,
        ]  # fmt: skip
        return [*often * 3, *rare, self.stop_shard_for_good] if long else [*often, *rare]


async def make_topic(client: BrokerClient, topic: str, queues: int) -> None:
    reply = await client.call(
        17, topic=topic, readQueueNums=queues, writeQueueNums=queues, perm=6, order="false"
    )
    assert reply.code == 0, reply.remark


def percentiles_text(values: list[float]) -> str:
    shown = np.percentile(values or [0.0], (50, 99, 100)) * 1e3
    return "p50 {:.1f}, p99 {:.1f}, most {:.1f} ms".format(*shown)


async def run_rounds(run: Soak, rounds: int, long: bool, tell: Callable[[str], None]) -> None:
    began = time.monotonic()
    kinds: list[Fault] = []
    for number in range(rounds):
        if not kinds:  # each fault as often as it stands in the list, in random order
            kinds = run.faults(long)
            run.random.shuffle(kinds)
        fault = kinds.pop()
        took = await run.round(fault, with_topic=number % 3 == 2)
        acks = [load.acks for load in run.loads]
        tell(
            f"{time.monotonic() - began:7.1f} s  round {number}: {fault.__name__}, "
            f"up {took:.2f} s after; {acks} acked"
        )
        if number % CHECK_EVERY == CHECK_EVERY - 1:
            await run.until_topics_are_everywhere()
            await run.check()


async def soak(directory: Path, rounds: int, long: bool, tell: Callable[[str], None]) -> Soak:
    run = Soak(directory, seed=rounds)
    try:
        async with AsyncExitStack() as stack:
            await run.start(stack)
            await run_rounds(run, rounds, long, tell)
        stored = await run.check(whole=True)
        acked = sum(ledger.acked for ledger in run.ledgers)
        assert stored >= acked > 0
        assert not any(load.refused for load in run.loads), [load.refused for load in run.loads]
        shards = await asyncio.to_thread(run.machine.shards)
        assert await run.machine.stop() == {"supervisor": 0, "namesrv": 0}
    finally:
        run.machine.end()
    for index in range(SHARDS):
        store = run.machine.store / (f"shard-{index}" if index else "")
        report = check_store(store, strict=True)
        assert not report.problems, "\n".join(map(str, report.problems[:5]))
    assert "Traceback" not in run.machine.log()
    tell(f"{rounds} rounds, {acked:,} acked, {stored:,} stored, {len(run.topics)} topics made; "
         f"restarts {run.machine.restarts}; {[shard.reason for shard in shards]}")  # fmt: skip
    tell(f"sends to a shard while the other one stands still: {percentiles_text(run.sibling_s)} "
         f"({len(run.sibling_s)}); before faults: {percentiles_text(run.calm_s)}")  # fmt: skip
    for name, times in sorted(run.up_s.items()):
        tell(f"up again after {name}: {len(times)} times, median {np.median(times):.2f} s, "
             f"most {max(times):.2f} s")  # fmt: skip
    return run


def test_a_round_of_each_fault_loses_nothing_and_needs_no_help(tmp_path: Path) -> None:
    run = asyncio.run(soak(tmp_path, 11, long=False, tell=print))
    assert len(run.up_s) == 11  # a round of each kind
    assert len(run.topics) >= 3
    # Sends that began and were answered while another shard stood still. How long they took says
    # more of the disk.
    assert len(run.sibling_s) >= SIBLING_SENDS


@pytest.mark.slow
@pytest.mark.timeout(6 * 3600)
def test_many_rounds_of_kills_and_stops_lose_nothing_and_need_no_help(tmp_path: Path) -> None:
    rounds = int(os.environ.get("RMQ_SOAK_ROUNDS", "500"))
    run = asyncio.run(soak(tmp_path, rounds, long=True, tell=lambda text: print(text, flush=True)))
    assert np.median(run.sibling_s) < np.median(run.calm_s) + 0.1
