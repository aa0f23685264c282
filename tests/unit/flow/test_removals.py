"""Goal: a topic or group that is deleted is freed, with everything that was kept for it, but not
before the last pull or pop that still has its address.

Method: a real core, driven by requests and by the calls that the control thread would make; the
number of removed objects that were freed, and the bytes of malloc that this process uses.
`make debug` runs the same under AddressSanitizer, which ends the process at a use of freed memory.
For a disk fetch that is under way: tests/fault/test_disk_fetches.py.
"""

import ctypes
import itertools
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.driven_clock import DrivenClock
from support.live_broker import served
from support.name_server import in_loop
from support.popping import POP, REVIVE_LOG, pop, pop_fields
from support.shard import HELD_MS, Client, Shard, bodies, pull, request, send
from support.waiting import pass_seconds, until, wait_until

from rmq.broker.broker import Broker
from rmq.load.cpu import resident_bytes

pytestmark = pytest.mark.still_clock

NOTIFICATION, DELETE_TOPIC, DELETE_GROUP = 200054, 215, 207
SUCCESS, NO_TOPIC, NOTHING, NO_GROUP = 0, 17, 19, 26


class MallocInfo(ctypes.Structure):
    """mallinfo2 of glibc 2.33 and later, see mallinfo(3)."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    ]  # fmt: skip


def malloced_bytes() -> int:
    """The bytes that this process has from malloc now. The number of pages in memory says less:
    they come and go with mapped files, and with what other tests left in the process."""
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = MallocInfo
    info = ask()
    return info.uordblks + info.hblkhd


@pytest.fixture
def shard(clock: DrivenClock, tmp_path: Path) -> Iterator[Shard]:
    with Shard(tmp_path) as shard:
        started(shard)
        shard.topic("t")
        shard.group("g", "t")
        yield shard


def started(shard: Shard) -> None:
    """Makes the core accept requests of consumers that pop."""
    shard.core.set_delay_levels([1000], [0])
    shard.topic(REVIVE_LOG)


def notification(group: str, topic: str, opaque: int, wait_ms: int = 0) -> bytes:
    """A request that makes the pair of group and topic."""
    return request(
        NOTIFICATION, opaque, consumerGroup=group, topic=topic, queueId=-1, pollTime=wait_ms,
        bornTime=0,
    )  # fmt: skip


def freed(shard: Shard, count: int) -> None:
    """Waits until so many topics, pairs and counters in all were freed, and no more wait for it."""
    wait_until(lambda: shard.core.stats()["removed_waiting"] == 0)
    assert shard.core.stats()["removed_freed"] == count


def live_through(shard: Shard, client: Client, numbers: range) -> None:
    """For each number a new topic and a new group live from their first request to their deletion.
    All requests are sent in one write, because a switch of threads for each would be most of the
    cost."""
    pairs = [(f"topic-{number:06}", f"group-{number:06}", 2 * number) for number in numbers]
    for topic, group, _ in pairs:
        shard.topic(topic, 8, 8)
        shard.group(group, topic)
    pulls = [pull(group, topic, 0, opaque) for topic, group, opaque in pairs]
    client.put(*pulls, *(notification(group, topic, opaque + 1) for topic, group, opaque in pairs))
    replies = client.replies(2 * len(pairs))
    for topic, group, opaque in pairs:
        assert replies[opaque].code == NOTHING
        assert replies[opaque + 1].code == SUCCESS
        shard.core.remove_topic(topic.encode())
        shard.core.remove_group(group.encode())


@pytest.mark.usefixtures("clock")
def test_what_topics_and_groups_take_is_given_back(tmp_path: Path) -> None:
    with Shard(tmp_path) as shard:
        started(shard)
        client = shard.connect()
        marks = []
        for number in range(0, 5000, 10):
            live_through(shard, client, range(number, number + 10))
            if number % 250 == 240:
                freed(shard, 3 * (number + 10))
            if number % 1000 == 990:
                marks.append((malloced_bytes(), resident_bytes(os.getpid())))
        stats = shard.core.stats()
        assert (stats["topics"], stats["pop_pairs"]) == (1, 0), "the revive log's topic alone"
        # A leak of each topic shows in each thousand topics. Memory that another part of this
        # process takes once shows in one of them only.
        # process that takes memory once, in one.
        malloced = [after[0] - before[0] for before, after in itertools.pairwise(marks)]
        assert min(malloced) < 1 << 14, f"{malloced} bytes for 1,000 topics each"
        in_memory = [after[1] - before[1] for before, after in itertools.pairwise(marks)]
        assert min(in_memory) < 1 << 20, f"{in_memory} bytes of pages for 1,000 topics each"


def test_who_waits_is_answered_and_the_topic_is_made_again_at_once(shard: Shard) -> None:
    client = shard.connect()
    client.put(pull("g", "t", 0, 1, HELD_MS), notification("g", "t", 2, HELD_MS))
    shard.until(lambda stats: stats["pulls_waiting"] == 2)
    shard.core.remove_topic(b"t")
    shard.topic("t")
    assert {reply.code for reply in client.replies(2).values()} == {NO_TOPIC}
    client.put(pull("g", "t", 0, 3, HELD_MS), notification("g", "t", 4, HELD_MS))
    shard.until(lambda stats: stats["pulls_waiting"] == 2)
    freed(shard, 3)
    assert shard.connect().ask(send("t", b"x")).code == SUCCESS
    replies = client.replies(2)
    assert bodies(replies[3]) == [b"x"]
    assert replies[4].fields["hasMsg"] == "true"
    assert shard.core.deliveries()[b"g", b"t"][0] == 1, "counted for the new one"


def test_a_group_goes_while_its_consumers_wait(shard: Shard) -> None:
    client = shard.connect()
    client.put(pull("g", "t", 0, 1, HELD_MS), notification("g", "t", 2, HELD_MS))
    shard.until(lambda stats: stats["pulls_waiting"] == 2)
    shard.core.remove_group(b"g")
    assert client.reply().code == NO_GROUP
    wait_until(lambda: shard.core.stats()["removed_freed"] == 1)  # the pair of group and topic
    assert shard.core.stats()["removed_waiting"] == 1, "the pull uses the counter"
    shard.group("g", "t")
    assert shard.connect().ask(send("t", b"x")).code == SUCCESS
    assert bodies(client.reply()) == [b"x"]
    freed(shard, 2)


def test_who_does_not_take_answers_keeps_what_it_asked_of(shard: Shard) -> None:
    """A deferred pull goes on when the client reads: it finds that its topic is gone, and the topic
    is freed after that."""
    sender = shard.connect()
    for number in range(20):
        assert sender.ask(send("t", bytes(50_000), number)).code == SUCCESS
    deaf = shard.connect(receive_buffer=4096)
    deaf.put(*(pull("g", "t", 0, opaque) for opaque in range(50)))
    shard.until(lambda stats: stats["pulls_found"] > 0)
    wait_until(lambda: shard.core.pools()["pull"][2] > 0)
    shard.core.remove_topic(b"t")
    shard.topic("other")
    shard.core.remove_topic(b"other")
    wait_until(lambda: shard.core.stats()["removed_freed"] >= 1)
    assert shard.core.stats()["removed_waiting"] == 2, "topic and counter"
    shard.topic("t")
    codes = {reply.code for reply in deaf.replies(50).values()}
    assert codes <= {SUCCESS, NO_TOPIC, NOTHING} and {SUCCESS, NO_TOPIC} <= codes
    freed(shard, 3)


def has_delivered(core: Any, count: int) -> bool:
    return core.stats()["timers_delivered"] >= count


def is_held_or_answered(broker: Broker, client: BrokerClient, opaque: int) -> bool:
    return broker.core.stats()["pulls_waiting"] == 1 or client.has_reply(opaque)


@in_loop
@pytest.mark.parametrize("code", [DELETE_TOPIC, DELETE_GROUP])
async def test_pops_in_flight(clock: DrivenClock, tmp_path: Path, code: int) -> None:
    async with served(tmp_path) as (broker, client):
        core = broker.core
        for turn in itertools.count():
            topic, revived = f"t{turn}", core.stats()["pop_revived"]
            for number in range(5):
                assert (await client.send(topic, b"%d" % number)).code == SUCCESS
            assert len(await pop(client, "g", topic, invisibleTime=3000)) == 5
            delivered = core.stats()["timers_delivered"]
            clock.advance(2.1)  # the check point comes to memory a second before its time
            await until(partial(has_delivered, core, delivered + 1), still=True)
            await pass_seconds(core, 0.1)
            waiting = client.post(POP, **pop_fields("g", topic, pollTime=60_000))
            await until(partial(is_held_or_answered, broker, client, waiting), still=True)
            fields, refusal = (
                ({"topic": topic}, NO_TOPIC) if code == DELETE_TOPIC
                else ({"groupName": "g"}, NO_GROUP)
            )  # fmt: skip
            assert (await client.call(code, **fields)).code == SUCCESS
            if core.stats()["pop_revived"] == revived:
                # On a busy machine the messages may have come again before: then try once more.
                break
            await client.reply(waiting)
        assert (await client.reply(waiting)).code == refusal
        assert (await client.send(topic, b"newer")).code == SUCCESS
        await until(lambda: core.stats()["removed_waiting"] == 0)
        await pass_seconds(core, 5)
        assert broker.topics.get(f"%RETRY%g_{topic}") is None, "nothing came again"
        assert core.stats()["pop_revived"] == revived


@pytest.mark.parametrize("seed", range(4))
def test_a_random_walk(tmp_path: Path, clock: DrivenClock, seed: int) -> None:
    """Random requests and removals in random order. At its end Shard checks that everything is
    given back."""
    random = Random(seed)
    names, groups = ["a", "b", "c"], ["g", "h"]
    with Shard(tmp_path, pool_bytes=random.choice([0, 1 << 25])) as shard:
        started(shard)
        clients = [shard.connect() for _ in range(3)]
        for opaque in range(1500):
            topic, group = random.choice(names), random.choice(groups)
            client = random.choice(clients)
            step = random.randrange(8)
            if step == 0:
                shard.core.remove_topic(topic.encode())
            elif step == 1:
                shard.core.remove_group(group.encode())
            elif step == 2:
                shard.topic(topic, 2, 2)
            elif step == 3:
                shard.group(group, *names)
            elif step == 4:
                client.put(send(topic, b"%d" % opaque, opaque, one_way=True, queue=opaque % 2))
            elif step == 5:
                client.put(pull(group, topic, 0, opaque, random.choice([0, 400, 60_000])))
            elif step == 6:
                client.put(notification(group, topic, opaque, random.choice([0, 400, 60_000])))
            elif random.randrange(10) == 0:
                clock.advance(random.choice([0.3, 1.1]))
        for name in names:
            shard.core.remove_topic(name.encode())
