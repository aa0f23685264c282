"""Consumers that pop, and a broker process that is killed under them.

Method: one connection sends numbered messages. Others pop them with short invisible times,
acknowledge most, make some invisible for longer and leave some alone. Now and then the process is
killed and started again on its store. At the end there are no more kills, and every message is
acknowledged. Then each stored message must have been acknowledged, and none may come any more. An
ack that a kill left without an answer may count or not.

A message that was acknowledged within its time does not come again, whatever is killed. Acks, check
points and revived messages are in the log when they are answered, and after a kill they say what
consumerOffset.json does not know yet. (A write that a kill cuts in two may bring some twice.)
"""

import asyncio
import contextlib
import math
import random
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.broker_client import BrokerClient
from support.broker_process import BrokerProcess, start_broker
from support.popping import (
    ACK,
    CHANGE,
    POP,
    Popped,
    ack,
    ack_fields,
    now_ms,
    pop,
    pop_all,
    pop_fields,
    popped,
)
from support.stored_table import stored
from support.waiting import HANG_S, until, wait_until

from rmq.client.blocking.cluster import Cluster
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.scaling.survey import Survey
from rmq.scaling.unconsumed import Unconsumed

DELETE_GROUP, MAX_OFFSET, ALL_GROUPS, TABLE = 207, 30, 201, "subscriptionGroupTable"
OPTIONS = ["--set", "mappedFileSizeCommitLog=16777216", "--set", "mappedFileSizeConsumeQueue=60000",
           "--set", "flushConsumerOffsetInterval=200"]  # fmt: skip
LATE = [*OPTIONS[:-1], "flushConsumerOffsetInterval=600000"]
ROUNDS = 4
PAUSE_S = 0.01  # between twenty sends, so that the consumers keep up
INVISIBLE_MS, HOUR_MS = 1500, 3_600_000
TORN_MAX = 32  # messages of a check point
QUIET_S = 2 * INVISIBLE_MS / 1000


class PatientCluster(Cluster):
    """Waits longer for answers than it is told to, because a busy machine answers late."""

    def ask(
        self, address: str, code: int, fields: Mapping[str, Any] | None = None, body: bytes = b"",
        timeout_s: float | None = None,
    ) -> Command:  # fmt: skip
        return super().ask(address, code, fields, body, HANG_S)


class PopLoad:
    """What was sent and what has become of it, over all rounds."""

    def __init__(self) -> None:
        self.next = 0
        self.stored: set[int] = set()
        self.acked: dict[int, int] = {}  # number: how often
        self.unanswered: set[int] = set()  # their acks had no answer when the broker was killed
        self.came = 0
        self.came_again = 0  # in the retry topic
        self.came_after_ack = 0
        self.done: set[int] = set()  # acknowledged before their time was over
        self.came_after_done: list[int] = []
        self.is_over = False  # consumers end once their last request is answered

    async def send(self, client: BrokerClient) -> None:
        while True:
            posts = {}
            for _ in range(20):
                posts[self.next] = client.post_send("t", b"%d" % self.next, self.next % 3)
                self.next += 1
            for number, post in posts.items():
                if (await client.reply_or_end(post, HANG_S)).code == 0:
                    self.stored.add(number)
            await asyncio.sleep(PAUSE_S)

    async def consume(self, client: BrokerClient, chance: random.Random, careful: bool) -> None:
        """`careful`: acknowledges everything."""
        while not self.is_over:
            fields = pop_fields("g", "t", invisibleTime=INVISIBLE_MS, pollTime=300)
            reply = await client.reply_or_end(client.post(POP, **fields), HANG_S)
            assert reply.code in (0, 2, 14, 17, 210), (reply.code, reply.remark)
            for one in popped(reply, "g", "t") if reply.code == 0 else ():
                self.came += 1
                self.came_again += one.topic != "t"
                self.came_after_ack += int(one.body) in self.acked
                if int(one.body) in self.done:
                    self.came_after_done.append(int(one.body))
                await self.treat(client, one, 1.0 if careful else chance.random())

    async def treat(self, client: BrokerClient, one: Popped, fate: float) -> None:
        number = int(one.body)
        if fate > 0.25:
            self.unanswered.add(number)
            done = await client.reply_or_end(client.post(ACK, **ack_fields("g", one)), HANG_S)
            self.unanswered.discard(number)
            if done.code == 0:
                self.acked[number] = self.acked.get(number, 0) + 1
                if now_ms() < one.visible_ms:
                    self.done.add(number)
        elif fate > 0.15:
            fields = {**ack_fields("g", one), "invisibleTime": 300}
            await client.reply_or_end(client.post(CHANGE, **fields), HANG_S)

    async def until_killed(self, broker: BrokerProcess, chance: random.Random) -> None:
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(BrokerClient(broker.port)) for _ in range(4)]
            tasks = [asyncio.create_task(self.send(clients[0]))]
            tasks += [
                asyncio.create_task(self.consume(client, chance, False)) for client in clients[1:]
            ]
            await asyncio.sleep(chance.uniform(0.8, 2.2))
            broker.process.kill()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            assert isinstance(end, ConnectionError), repr(end)

    def left(self) -> set[int]:
        """The numbers of stored messages that must still come."""
        return self.stored - set(self.acked) - self.unanswered

    async def finish(self, broker: BrokerProcess) -> None:
        """Acknowledges everything, and waits until nothing has come for QUIET_S. That time begins
        when the broker has nothing more to give, and nothing given out that could come again. A
        busy machine may need long for that."""
        self.is_over = False
        with PatientCluster(broker.namesrv) as view:
            wait_until(view.brokers)
            survey = Survey(view)
            system = survey.state().system
            async with BrokerClient(broker.port) as client:
                task = asyncio.create_task(self.consume(client, random.Random(0), True))
                seen, quiet_since = (-1, Unconsumed()), now_ms()

                async def is_quiet() -> bool:
                    nonlocal seen, quiet_since
                    assert not task.done(), task.exception()
                    held = await asyncio.to_thread(survey.unconsumed, "broker-a", system)
                    if (self.came, held) != seen or held.waited_for:
                        seen, quiet_since = (self.came, held), now_ms()
                    quiet_ms = now_ms() - quiet_since
                    assert quiet_ms < HANG_S * 1000, self.left()
                    return quiet_ms >= QUIET_S * 1000 and not self.left()

                await until(is_quiet, math.inf)
                self.is_over = True
                await task


def end(broker: BrokerProcess) -> None:
    broker.process.kill()
    broker.process.wait(HANG_S)
    broker.process.stdout.close()


def test_kills_lose_no_message_and_let_none_come_for_ever(tmp_path: Path) -> None:
    load = PopLoad()

    async def play() -> None:
        for number in range(ROUNDS):
            broker = start_broker(tmp_path, OPTIONS)
            try:
                await load.until_killed(broker, random.Random(number))
            finally:
                end(broker)
        broker = start_broker(tmp_path, OPTIONS)
        try:
            await load.finish(broker)
            before = load.came
            assert broker.stop(signal.SIGTERM) == 0
        finally:
            end(broker)
        broker = start_broker(tmp_path, OPTIONS)
        try:
            await load.finish(broker)
        finally:
            end(broker)
        assert load.came == before, "after a clean stop what is acknowledged came again"

    asyncio.run(asyncio.wait_for(play(), HANG_S))
    assert not load.left()
    assert len(load.unanswered) <= 3 * ROUNDS  # one for each consumer and kill
    assert load.came_again > 0
    assert len(load.stored) > 100
    assert len(load.done) > len(load.stored) // 2
    assert len(load.came_after_done) <= TORN_MAX, load.came_after_done[:100]
    print(f"{len(load.stored)} stored, {load.came} came, {load.came_again} again, "
          f"{load.came_after_ack} after their ack")  # fmt: skip


async def send(client: BrokerClient, first: int, end: int) -> None:
    for number in range(first, end):
        await client.send("t", b"%d" % number, number % 3)


def test_after_a_kill_acknowledged_messages_do_not_come_again_and_others_do(
    tmp_path: Path,
) -> None:
    """consumerOffset.json is not written before the kill, so that the broker has only the log to
    tell what was acknowledged."""

    async def serve_and_kill() -> None:
        broker = start_broker(tmp_path, LATE)
        try:
            async with BrokerClient(broker.port) as client:
                await send(client, 0, 90)
                some = await pop_all(client, "g", "t", 90, invisibleTime=HOUR_MS)
                await ack(client, "g", *some)
                await send(client, 90, 110)
                soon: list[Popped] = []
                while {int(one.body) for one in soon} != set(range(90, 110)):
                    soon += await pop_all(client, "g", "t", 1, invisibleTime=300)
                again = await pop_all(client, "g", "t", 20, invisibleTime=HOUR_MS)
                assert {int(one.body) for one in again} == set(range(90, 110))
                for one in again:  # one more try than before, however many
                    before = [each for each in soon if each.body == one.body]
                    assert [each.message.reconsume_times for each in before] == (
                        list(range(len(before)))
                    )
                    assert one.message.reconsume_times == len(before)
                await ack(client, "g", *again)
                await send(client, 110, 150)
                acked.update(int(one.body) for one in some + again)
                held.update(int(one.body) for one in await pop(client, "g", "t", maxMsgNums=9,
                                                               invisibleTime=3000))  # fmt: skip
        finally:
            end(broker)

    async def come_back() -> list[int]:
        broker = start_broker(tmp_path, LATE)
        try:
            async with BrokerClient(broker.port) as client:
                left = set(range(150)) - acked
                found = [int(one.body) for one in await pop_all(
                    client, "g", "t", len(left), invisibleTime=HOUR_MS)]  # fmt: skip
                await send(client, 150, 153)  # after all that a queue could give again
                found += [int(one.body) for one in await pop_all(client, "g", "t", 3)]
                return found + [int(one.body) for one in await pop(client, "g", "t")]
        finally:
            end(broker)

    acked: set[int] = set()
    held: set[int] = set()
    asyncio.run(asyncio.wait_for(serve_and_kill(), HANG_S))
    found = asyncio.run(asyncio.wait_for(come_back(), HANG_S))
    assert sorted(found) == sorted(set(range(153)) - acked)
    assert held <= set(found)


def test_what_a_group_had_in_its_hands_comes_again_where_a_power_cut_took_the_group(
    tmp_path: Path,
) -> None:
    """The log was synced and the table of groups was not. After the start no request names the
    group before its messages come again."""
    config, before = tmp_path / "store" / "config", tmp_path / "before"

    async def serve_and_kill() -> None:
        broker = start_broker(tmp_path, LATE)
        try:
            async with BrokerClient(broker.port) as client:
                await send(client, 0, 6)
                await until(lambda: "t" in stored(broker.store)["topicConfigTable"])
                shutil.copytree(config, before)
                assert len(await pop_all(client, "g", "t", 6, invisibleTime=300)) == 6
        finally:
            end(broker)

    async def come_back() -> None:
        broker = start_broker(tmp_path, LATE)
        try:
            async with BrokerClient(broker.port) as client:
                await until(lambda: has_come_again(client))
                found = await pop_all(client, "g", "t", 6)
                assert {(int(one.body), one.message.reconsume_times) for one in found} == {
                    (number, 1) for number in range(6)
                }
                assert await client.call(DELETE_GROUP, groupName="g")
        finally:
            end(broker)

    async def has_come_again(client: BrokerClient) -> bool:
        reply = await client.call(MAX_OFFSET, topic="%RETRY%g_t", queueId=0)
        return reply.fields.get("offset") == "6"

    async def groups() -> list[str]:
        broker = start_broker(tmp_path, LATE)
        try:
            async with BrokerClient(broker.port) as client:
                return list(fastjson.loads((await client.call(ALL_GROUPS)).body)[TABLE])
        finally:
            end(broker)

    asyncio.run(asyncio.wait_for(serve_and_kill(), HANG_S))
    shutil.rmtree(config)
    before.rename(config)
    assert "g" not in stored(tmp_path / "store", "subscriptionGroup.json")[TABLE]
    asyncio.run(asyncio.wait_for(come_back(), HANG_S))
    assert "g" not in asyncio.run(asyncio.wait_for(groups(), HANG_S)), "deleted by an operator"
