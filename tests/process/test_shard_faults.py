"""Shards and supervisors die, stand still or cannot start: the other shards serve on, and nothing
that was acknowledged is lost.

Method: real processes under load, kill -9 and SIGSTOP. Times are asserted with much room for busy
machines. Cannot prove: power cuts (tests/fault), and what only 500 rounds would show.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
import zmq
from support.ack_history import AckHistory, Load
from support.broker_client import BrokerClient
from support.calm_clock import calm_seconds
from support.command_line import rmq
from support.driven_clock import DrivenClock, process_clock
from support.popping import pop
from support.sharded_broker import ShardedBroker, is_shard, sharded_broker
from support.stopping import stand_still
from support.stored_table import stored
from support.terminal import rmq_on_terminal
from support.waiting import HANG_S, until, until_is, wait_until

from rmq.demo.ports import free_port
from rmq.format import fastjson
from shards.command_client import CommandClient
from shards.messages import (
    BusError,
    Done,
    Drain,
    HelloCommand,
    ShardStatus,
    Status,
    StatusReply,
    Welcome,
    encode,
)

TOPIC_CONFIG, DELETE_TOPIC, UPDATE_OFFSET, MAX_OFFSET = 351, 215, 15, 30
NO_TOPIC = 17
SILENT_S = 30


LIMITS = ("--set", "rmqShardFailuresMax=3", "--set", "rmqShardCrashesMax=3",
          "--set", "rmqShardCrashMinutes=30")  # fmt: skip


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShardedBroker]:
    """Two shards, for tests that leave both serving. They are not given up for being killed."""
    limits = ("--set", "rmqShardCrashesMax=1000", "--set", "rmqShardSilentSeconds=3600")
    with sharded_broker(tmp_path_factory.mktemp("two"), 2, limits) as broker:
        yield broker


@pytest.fixture(scope="module")
def hasty_clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrivenClock]:
    with process_clock(tmp_path_factory.mktemp("clock")) as clock:
        yield clock


@pytest.fixture(scope="module")
def hasty(
    tmp_path_factory: pytest.TempPathFactory, hasty_clock: DrivenClock
) -> Iterator[ShardedBroker]:
    """Two shards of which a silent one is replaced after SILENT_S of a clock that the tests drive,
    so that a busy machine does not keep a shard silent for so long."""
    silence = ("--set", f"rmqShardSilentSeconds={SILENT_S}")
    with contextlib.ExitStack() as stack:
        with patch.dict(os.environ, hasty_clock.environment):
            folder = tmp_path_factory.mktemp("hasty")
            broker = stack.enter_context(sharded_broker(folder, 2, silence))
        yield broker


@pytest.fixture(scope="module")
def strict_clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrivenClock]:
    with process_clock(tmp_path_factory.mktemp("strict_clock")) as clock:
        yield clock


@pytest.fixture(scope="module")
def strict(
    tmp_path_factory: pytest.TempPathFactory, strict_clock: DrivenClock
) -> Iterator[ShardedBroker]:
    """Two shards that are soon given up if they fail to start or crash. `rmq broker restart` begins
    to count again."""
    with contextlib.ExitStack() as stack:
        with patch.dict(os.environ, strict_clock.environment):
            broker = stack.enter_context(
                sharded_broker(tmp_path_factory.mktemp("strict"), 2, LIMITS)
            )
        yield broker


async def sends(port: int, topic: str, count: int) -> list[float]:
    """Sends one message after the other. Returns the seconds that each acknowledged send took,
    without those in which a process of the machine waited for a processor."""
    took = []
    async with BrokerClient(port) as client:
        for _ in range(count):
            began = calm_seconds()
            assert (await client.send(topic)).code == 0
            took.append(calm_seconds() - began)
    return took


async def has_topic(port: int, topic: str) -> bool:
    async with BrokerClient(port) as client:
        return (await client.call(TOPIC_CONFIG, topic=topic)).code == 0


async def eventually_topic(port: int, topic: str, there: bool = True) -> None:
    await until_is(lambda: has_topic(port, topic), lambda found: found is there)


async def keep_sending(port: int, took: list[float], stop: asyncio.Event) -> None:
    """Appends the seconds of each acknowledged send to `took` until `stop` is set. It is not
    cancelled, because wait_for() of Python 3.11 may lose a cancellation."""
    async with BrokerClient(port) as client:
        while not stop.is_set():
            began = time.monotonic()
            assert (await client.send("sibling")).code == 0
            took.append(time.monotonic() - began)
            await asyncio.sleep(0.002)


def test_killed_shard_is_back_and_has_lost_nothing_acked(two: ShardedBroker) -> None:
    async def rounds(broker: ShardedBroker) -> None:
        journal, took, stop, meanwhile = AckHistory(), [], asyncio.Event(), []
        restarts = (await asyncio.to_thread(broker.shards))[1].restarts
        sending = asyncio.create_task(keep_sending(broker.ports[0], took, stop))
        for number in range(2):
            pid = (await asyncio.to_thread(broker.shards))[1].pid
            async with Load(broker.ports[1], journal, number, producers=2):
                acked = len(journal.acked)
                await until(lambda acked=acked: len(journal.acked) > acked + 100)
                before = len(took)
                os.kill(pid, signal.SIGKILL)
                began = time.monotonic()
                shard = await asyncio.to_thread(broker.until_serving, 1, pid)
                away_s = time.monotonic() - began
                print(f"shard 1 serves again after {away_s:.2f} s")
                meanwhile.append((took[before:], away_s))
            assert shard.reason == "killed by signal 9 (SIGKILL)"
            assert shard.restarts == restarts + number + 1
            assert await journal.check(broker.ports[1])
            journal.forget_before_this()
        stop.set()
        await sending
        # The sibling went on: none of its sends waited until the killed shard was back.
        assert any(len(sent) > 1 and max(sent) < away_s for sent, away_s in meanwhile)
        assert len(journal.acked) > 0
        async with BrokerClient(broker.ports[0]) as client:
            end = await client.call(MAX_OFFSET, topic="sibling", queueId=0)
            assert int(end.fields["offset"]) >= len(took)

    asyncio.run(rounds(two))


def test_stopped_shard_delays_no_send_on_another(two: ShardedBroker) -> None:
    async def run(broker: ShardedBroker) -> None:
        await sends(broker.ports[0], "known", 5)
        pids = await asyncio.to_thread(lambda: broker.pids)
        stand_still(pids[1])
        try:
            known = await sends(broker.ports[0], "known", 300)
            new = []
            for number in range(5):  # the stopped shard is told of each topic in vain
                new += await sends(broker.ports[0], f"new{number}", 1)
            print(f"known: {max(known):.3f} s at most; new: {[round(each, 3) for each in new]}")
            assert sorted(known)[len(known) // 2] < 0.05
            assert min(new[1:]) < 0.2  # only the first waits 0.1 s for that shard
            assert sorted(new)[-2] < 1.5  # a machine may stand still once
            assert max(new) < 20
        finally:
            os.kill(pids[1], signal.SIGCONT)
        for number in range(5):
            await eventually_topic(broker.ports[1], f"new{number}")

    asyncio.run(run(two))


def test_shard_that_says_nothing_for_long_is_replaced(
    hasty: ShardedBroker, hasty_clock: DrivenClock
) -> None:
    broker = hasty
    pid = broker.pids[1]
    stand_still(pid)
    states = set()

    def replaced(shards: list[ShardStatus]) -> bool:
        states.add(shards[1].state)
        if shards[1].pid == pid:
            asyncio.run(has_topic(broker.ports[0], "t"))  # its sibling shows that it lives
            hasty_clock.advance(0.5)  # after more the supervisor would seem to have stood still
        return shards[1].state == "serving" and shards[1].pid != pid

    broker.until(replaced)
    assert "silent" in states
    wait_until(lambda: "says nothing on the bus" in broker.log())
    asyncio.run(sends(broker.ports[1], "t", 1))


def test_supervisor_that_stood_still_itself_takes_no_shard_for_dead(
    hasty: ShardedBroker, hasty_clock: DrivenClock
) -> None:
    broker = hasty
    pids = broker.pids
    stand_still(broker.process.pid)
    asyncio.run(sends(broker.ports[0], "meanwhile", 5))
    before = broker.log()
    hasty_clock.advance(SILENT_S + 10)
    broker.process.send_signal(signal.SIGCONT)
    asyncio.run(eventually_topic(broker.ports[1], "meanwhile"))
    # The supervisor logs this before it looks at its shards, and answers nobody in between.
    stalls = before.count("the supervisor itself stood still")
    wait_until(lambda: broker.log().count("the supervisor itself stood still") > stalls)
    assert broker.pids == pids
    assert broker.log().count("and is killed") == before.count("and is killed")


def test_shards_outlive_their_supervisor_and_the_next_one_adopts_them(tmp_path: Path) -> None:
    with sharded_broker(tmp_path, 2) as broker:
        pids = broker.pids
        broker.process.kill()
        broker.process.wait()
        asyncio.run(sends(broker.ports[0], "alone", 3))
        assert all(is_shard(pid) for pid in pids)
        assert not asyncio.run(has_topic(broker.ports[1], "alone"))
        with pytest.raises(BusError, match="no supervisor answers"):
            CommandClient(broker.store, connect_s=0.3)
        ports = broker.ports
        broker.start(None)
        assert broker.pids == pids
        assert broker.ports == ports
        asyncio.run(eventually_topic(ports[1], "alone"))
        asyncio.run(sends(ports[1], "alone", 3))
        os.kill(pids[0], signal.SIGKILL)  # no child of this supervisor
        broker.until_serving(0, other_than=pids[0])
        assert broker.stop() == 0
        assert not any(is_shard(pid) for pid in pids)


def test_adopted_shard_with_other_settings_is_started_anew(tmp_path: Path) -> None:
    with sharded_broker(tmp_path, 2) as broker:
        pids = broker.pids
        broker.process.kill()
        broker.process.wait()
        broker.options += ["--set", "fileReservedTime=5"]
        broker.start(2)
        assert not set(pids) & set(broker.pids)
        assert not any(is_shard(pid) for pid in pids)


def test_second_supervisor_on_a_store_is_told_who_holds_it(
    two: ShardedBroker, tmp_path: Path
) -> None:
    broker = two
    own, broker.namesrv_port = broker.namesrv_port, str(free_port())
    command, single = broker.command(2), broker.command(None)
    broker.namesrv_port = own
    second = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert second.returncode == 4
    assert f"store {broker.store} is held by process {broker.process.pid} (" in second.stderr
    (broker.store / "config" / "shards.json").rename(tmp_path / "aside")
    third = subprocess.run(single, capture_output=True, text=True, timeout=HANG_S)
    assert third.returncode == 4
    assert f"is held by process {broker.pids[0]} (" in third.stderr
    (tmp_path / "aside").rename(broker.store / "config" / "shards.json")
    asyncio.run(sends(broker.ports[0], "still", 1))


def test_shard_that_cannot_live_is_given_up_and_the_others_serve_on(strict: ShardedBroker) -> None:
    broker = strict
    asyncio.run(sends(broker.ports[0], "t", 1))
    config = broker.store / "shard-1" / "config"
    # Shard 1 heard of the topic from its sibling, and may be late to write that down.
    wait_until((config / "rmqMetadata.journal").exists)  # made when both copies are written
    wait_until(lambda: "t" in stored(config.parent)["topicConfigTable"])
    wait_until(lambda: not list(config.glob("*.tmp")))
    kept = {path: path.read_bytes() for path in config.glob("topics.json*")}
    for path in kept:
        path.write_text("{ damaged")
    os.kill(broker.pids[1], signal.SIGKILL)

    def given_up(shards: list[ShardStatus]) -> bool:
        return shards[1].state == "given up"

    reason = broker.until(given_up)[1].reason
    assert "given up after 3 failed starts in a row" in reason
    assert "topics.json" in reason
    shown = rmq("broker", "status", "--json", "--store", str(broker.store))
    assert shown.returncode == 1
    assert [row["state"] for row in json.loads(shown.stdout)] == ["serving", "given up"]
    assert json.loads(shown.stdout)[1]["reason"] == reason
    asyncio.run(sends(broker.ports[0], "t", 5))
    for path, content in kept.items():
        path.write_bytes(content)
    done = rmq("broker", "restart", "broker-a-1", "--store", str(broker.store))
    assert "serves at" in done.stdout, done.stderr
    asyncio.run(sends(broker.ports[1], "t", 1))


def until_stable(broker: ShardedBroker, clock: DrivenClock) -> ShardStatus:
    """Waits until shard 1 has served so long that its start does not count as failed (STABLE_S)."""

    def is_stable(shards: list[ShardStatus]) -> bool:
        if 0 < shards[1].up_s <= 1.1:
            clock.advance(0.4)  # after more the supervisor would seem to have stood still
        return shards[1].up_s > 1.1

    return broker.until(is_stable)[1]


def test_shard_that_keeps_crashing_after_it_served_is_given_up(
    strict: ShardedBroker, strict_clock: DrivenClock
) -> None:
    broker = strict
    restarts = broker.shards()[1].restarts
    for number in range(3):
        shard = until_stable(broker, strict_clock)
        assert shard.restarts == restarts + number
        os.kill(shard.pid, signal.SIGABRT)
        broker.until(lambda shards, pid=shard.pid: shards[1].pid != pid)
    shown = rmq("broker", "shards", "--json", "--store", str(broker.store))
    assert shown.returncode == 1
    rows = json.loads(shown.stdout)
    assert [row["state"] for row in rows] == ["serving", "given up"]
    assert rows[1]["reason"] == (
        "given up after 3 crashes within 30 minutes; last: killed by signal 6 (SIGABRT)"
    )
    asyncio.run(sends(broker.ports[0], "t", 5))
    done = rmq("broker", "restart", "1", "--json", "--store", str(broker.store))
    told = json.loads(done.stdout)
    assert "serves at" in told.pop("text"), done.stderr
    assert told == {"done": "restarted", "shard": 1, "broker": "broker-a-1"}
    for _ in range(2):  # the count has begun again
        pid = until_stable(broker, strict_clock).pid
        os.kill(pid, signal.SIGKILL)
        broker.until_serving(1, other_than=pid)


def test_topic_deleted_on_a_shard_stays_away_whoever_is_killed_or_started(tmp_path: Path) -> None:
    """A topic that was deleted on one shard does not come back there from another shard that still
    has it. A new shard begins without it, too."""

    async def delete(port: int, topic: str) -> None:
        async with BrokerClient(port) as client:
            assert (await client.call(DELETE_TOPIC, topic=topic)).code == 0

    def has(port: int) -> list[str]:
        return [topic for topic in ("gone", "kept") if asyncio.run(has_topic(port, topic))]

    with sharded_broker(tmp_path, 2) as broker:
        for topic in ("gone", "kept"):
            asyncio.run(sends(broker.ports[1], topic, 1))
        wait_until(lambda: has(broker.ports[0]) == ["gone", "kept"])
        pid = broker.pids[1]
        stand_still(pid)
        asyncio.run(delete(broker.ports[0], "gone"))
        os.kill(pid, signal.SIGKILL)
        broker.until_serving(1, other_than=pid)
        assert has(broker.ports[1]) == ["gone", "kept"]  # it was not deleted there
        assert has(broker.ports[0]) == ["kept"]
        pid = broker.pids[0]
        os.kill(pid, signal.SIGKILL)
        broker.until_serving(0, other_than=pid)
        assert has(broker.ports[0]) == ["kept"]
        broker.stop()
        broker.start(3)  # the new shard begins with the topics of the first
        asyncio.run(sends(broker.ports[1], "later", 1))
        for port in broker.ports:  # a shard may start before it is on the bus
            asyncio.run(eventually_topic(port, "later"))
            wait_until(lambda port=port: "kept" in has(port))
        assert [has(port) for port in broker.ports] == [["kept"], ["gone", "kept"], ["kept"]]


def test_shard_goes_only_when_nothing_unconsumed_is_in_it(tmp_path: Path) -> None:
    async def consume(port: int) -> None:
        async with BrokerClient(port) as client:
            await client.heartbeat("g", "t")
            reply = await client.call(
                UPDATE_OFFSET, consumerGroup="g", topic="t", queueId=0, commitOffset=4
            )
            assert reply.code == 0, reply.remark

    with sharded_broker(tmp_path, 2) as broker:
        asyncio.run(sends(broker.ports[1], "t", 3))
        refused = rmq("broker", "shrink", "--shards", "1", "--store", str(broker.store))
        assert refused.returncode == 1
        assert "messages nobody has consumed would be out of reach: 3 of t" in refused.stderr
        asyncio.run(sends(broker.ports[1], "t", 1))  # it takes sends again
        asyncio.run(consume(broker.ports[1]))
        words = ("shrink", "--shards", "1", "--wait", "60", "--store", str(broker.store))
        done = rmq_on_terminal("broker", *words)
        assert "seconds of waiting for consumers" in done.text, "a bar"
        assert str(broker.store / "shard-1") in done.text.replace("\r\n", "")
        assert [shard.index for shard in broker.shards()] == [0]
        asyncio.run(sends(broker.ports[0], "t", 1))
        broker.stop()
        broker.start(None)
        assert len(broker.ports) == 1


def test_shard_stays_while_something_is_on_its_way_in_it(tmp_path: Path) -> None:
    """A popped message without an ack, a timed message or an open transaction keeps a shard from
    being removed: they are in no group's lag, and would be lost with the shard."""

    async def pop_one(client: BrokerClient) -> None:
        assert (await client.send("popped")).code == 0
        assert len(await pop(client, "g", "popped", invisibleTime=3_600_000)) == 1

    async def send_timed(client: BrokerClient) -> None:
        due_ms = int(time.time() * 1000) + 3_600_000
        sent = await client.send("timed", i=f"TIMER_DELIVER_MS\x01{due_ms}\x02")
        assert sent.code == 0, sent.remark

    async def send_half(client: BrokerClient) -> None:
        marks = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01k\x02"
        sent = await client.send("half", i=marks, f=4)
        assert sent.code == 0, sent.remark

    async def ask(port: int, work: Callable[[BrokerClient], Awaitable[None]]) -> None:
        async with BrokerClient(port) as client:
            await work(client)

    timed = "of rmq_sys_wheel_timer (timed, or popped and perhaps to come again)"
    with sharded_broker(tmp_path, 2) as broker:
        for work, what in (
            (pop_one, f"1 {timed}"),
            (send_timed, f"2 {timed}"),
            (send_half, "1 of RMQ_SYS_TRANS_HALF_TOPIC (open transactions)"),
        ):
            asyncio.run(ask(broker.ports[1], work))
            refused = rmq("broker", "shrink", "--shards", "1", "--store", str(broker.store))
            assert refused.returncode == 1
            assert what in refused.stderr
        words = ("shrink", "--shards", "1", "--discard", "--json", "--store", str(broker.store))
        done = rmq("broker", *words)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert str(broker.store / "shard-1") in told.pop("text")
        assert told == {"done": "shrunk", "shards": 1}


def test_drained_shard_leaves_the_routes_for_sends_also_after_a_restart(tmp_path: Path) -> None:
    async def permission(broker: ShardedBroker) -> dict[str, int]:
        async with BrokerClient(int(broker.namesrv_port)) as client:
            route = fastjson.loads_object((await client.call(105, topic="t")).body)
            return {row["brokerName"]: row["perm"] for row in route["queueDatas"]}

    with sharded_broker(tmp_path, 2) as broker:
        asyncio.run(sends(broker.ports[0], "t", 1))
        done = rmq("broker", "drain", "1", "--store", str(broker.store))
        assert done.stdout == "broker-a-1: it takes no sends\n", done.stderr
        wait_until(lambda: asyncio.run(permission(broker)) == {"broker-a": 6, "broker-a-1": 4})
        broker.until(lambda shards: shards[1].state == "drained")
        old = broker.pids[1]
        os.kill(old, signal.SIGKILL)
        broker.until(lambda shards: shards[1].pid not in (0, old) and shards[1].up_s > 0)
        wait_until(lambda: asyncio.run(permission(broker)) == {"broker-a": 6, "broker-a-1": 4})
        broker.ask(Drain(1, on=False), Done)
        wait_until(lambda: asyncio.run(permission(broker)) == {"broker-a": 6, "broker-a-1": 6})


def test_foreign_process_is_not_heard(two: ShardedBroker, tmp_path: Path) -> None:
    broker = two
    assert (broker.store / "bus").stat().st_mode & 0o777 == 0o700
    with CommandClient(broker.store) as bus, pytest.raises(BusError, match="wrong token"):
        bus.ask(HelloCommand("x" * 43, os.getpid()), Welcome)
    (broker.store / "bus" / "token").rename(tmp_path / "token")
    with pytest.raises(BusError, match="holds no token"):
        CommandClient(broker.store)
    (tmp_path / "token").rename(broker.store / "bus" / "token")
    assert len(broker.ask(Status(), StatusReply).shards) == 2


# Events of ZeroMQ for a connection that is not let in.
TURNED_AWAY = zmq.EVENT_CONNECT_RETRIED | zmq.EVENT_CLOSED | zmq.EVENT_DISCONNECTED


def is_answered(address: str, token: str, user: int) -> bool:
    """Whether a process of that user gets an answer to its Hello, or is turned away."""
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            if user:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            socket = zmq.Context().socket(zmq.DEALER)
            socket.setsockopt(zmq.LINGER, 0)
            turned_away = socket.get_monitor_socket(TURNED_AWAY)
            socket.connect(address)
            hello = HelloCommand(token, os.getpid())
            socket.send_multipart([b"Q" + bytes(8), encode(hello)])
            poller = zmq.Poller()
            poller.register(socket, zmq.POLLIN)
            poller.register(turned_away, zmq.POLLIN)
            found = dict(poller.poll(HANG_S * 1000))
            if found:
                code = 0 if socket in found else 1
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, 1)
    return code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_process_of_another_user_is_not_heard_even_with_the_token() -> None:
    root = Path(tempfile.mkdtemp(prefix="rmq-bus-"))  # others may not enter pytest's
    root.chmod(0o755)
    try:
        with sharded_broker(root, 2) as broker:
            token = (broker.store / "bus" / "token").read_text()
            address = f"ipc://{broker.store}/bus/requests"
            assert is_answered(address, token, 0)
            assert not is_answered(address, token, 65534)  # the directory is closed
            broker.store.chmod(0o755)
            (broker.store / "bus").chmod(0o777)
            for path in (broker.store / "bus").iterdir():
                path.chmod(0o777)
            assert not is_answered(address, token, 65534)  # the kernel says who connects
            assert is_answered(address, token, 0)
    finally:
        shutil.rmtree(root)


def test_a_shard_starts_on_its_own_core_and_spreads_when_it_serves(two: ShardedBroker) -> None:
    """The start of a shard takes no time from its siblings, because their reactors have other
    cores."""
    everywhere = os.sched_getaffinity(0)
    if len(everywhere) < 2:
        pytest.skip("one processor: nothing is bound")

    def places(pid: int) -> dict[str, tuple[set[int], int]]:
        """{thread name: the processors that it may use, its scheduling policy}"""
        found = {}
        for path in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                name = (path / "comm").read_text().strip()
                thread = int(path.name)
                found[name] = (os.sched_getaffinity(thread), os.sched_getscheduler(thread))
        return found

    broker = two
    before = broker.until_serving(1)
    own = set(before.cores)
    assert own < everywhere
    looks: list[set[tuple[frozenset[int], int]]] = []
    for _ in range(10):  # a start may be over before it is looked at
        os.kill(before.pid, signal.SIGKILL)
        end = time.monotonic() + HANG_S
        while (shard := broker.shards()[1]).state != "serving" or shard.pid == before.pid:
            if shard.state == "starting" and shard.pid not in (0, before.pid):
                found = places(shard.pid).values()
                # It spreads after its reactor runs, and before the supervisor hears that it serves.
                if "rmq-reactor" not in places(shard.pid):
                    looks.append({(frozenset(cpus), policy) for cpus, policy in found})
            assert time.monotonic() < end, broker.log()
        if any(looks):
            break
        before = shard
    assert any(looks) and all(look <= {(frozenset(own), os.SCHED_BATCH)} for look in looks)
    wait_until(lambda: {p for _, p in places(shard.pid).values()} == {os.SCHED_OTHER})
    threads = places(shard.pid)
    assert threads.pop("rmq-reactor")[0] == own
    assert all(cpus == everywhere for cpus, _ in threads.values())
