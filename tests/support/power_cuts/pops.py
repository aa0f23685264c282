"""Pops (200050): acknowledged messages (200051, 200151) never come again, those with a changed time
(200053) come at that time, and all others come again.

The answer to an ack is a promise if it came before the message was visible again. An ack that was
too late promises nothing.
"""

import asyncio
import time
from base64 import b64encode
from typing import Any

from support.broker_client import BrokerClient
from support.popping import (
    ACK,
    BATCH_ACK,
    CHANGE,
    POP,
    Popped,
    ack,
    ack_fields,
    pop,
    pop_fields,
    popped,
)
from support.power_cuts.promise import SUCCESS, Promise, make_topic, now_ms, some

from rmq.format import fastjson

INVISIBLE_MS, SHORT_MS, LONG_MS = 3000, 300, 3_600_000
MARGIN_MS = 500
TIMEOUT_S = 40.0
QUEUES = 2
BACKLOG = 60
FATES = ("ack", "ack", "batch", "batch", "short", "long", "left")


class Pops(Promise):
    workers = 3  # the first sends, the others pop

    def __init__(self, number: int, seed: str) -> None:
        super().__init__(number, seed)
        self.topic, self.group = self.name("popped"), self.name("pop-group")
        self.sent: set[bytes] = set()
        self.acked: set[bytes] = set()
        self.put_off: set[bytes] = set()  # made invisible for LONG_MS
        self.unknown: set[bytes] = set()  # one of these two was asked for, without an answer
        self.visible_ms = 0  # by this time everything that may come has come
        self.early: list[str] = []

    async def prepare(self, client: BrokerClient) -> None:
        await make_topic(client, self.topic, QUEUES)
        for _ in range(BACKLOG):
            assert await self.send(client)

    async def step(self, client: BrokerClient, worker: int) -> bool:
        if worker == 0:
            return await self.send(client)
        fields = pop_fields(self.group, self.topic, maxMsgNums=6, invisibleTime=INVISIBLE_MS,
                            pollTime=100, bornTime=now_ms())  # fmt: skip
        reply = await client.call(POP, **fields)
        self.visible_ms = max(self.visible_ms, now_ms() + INVISIBLE_MS)
        if reply.code != SUCCESS:
            return False
        came = popped(reply, self.group, self.topic)
        self.see(came)
        fates = [self.random.choice(FATES) for _ in came]
        for one, fate in zip(came, fates, strict=True):
            await self.treat(client, one, fate)
        if batch := [one for one, fate in zip(came, fates, strict=True) if fate == "batch"]:
            await self.ack_batch(client, batch)
        return True

    async def send(self, client: BrokerClient) -> bool:
        body = b"%d" % self.next()
        reply = await client.send(self.topic, body, self.random.randrange(QUEUES))
        if reply.code == SUCCESS:
            self.sent.add(body)
        return reply.code == SUCCESS

    async def treat(self, client: BrokerClient, one: Popped, fate: str) -> None:
        if fate == "ack":
            await self.ask(client, self.acked, [one], ACK, **ack_fields(self.group, one))
        elif fate == "long":
            await self.ask(client, self.put_off, [one], CHANGE, **ack_fields(self.group, one),
                           invisibleTime=LONG_MS)  # fmt: skip
        elif fate == "short":
            await client.call(CHANGE, **ack_fields(self.group, one), invisibleTime=SHORT_MS)

    async def ack_batch(self, client: BrokerClient, some_popped: list[Popped]) -> None:
        items = []
        for one in some_popped:
            start, popped_ms, invisible_ms, revive, retry, _, queue, offset = one.extra.split(" ")
            bits = 1 << (int(offset) - int(start))
            items.append({
                "c": self.group, "t": self.topic, "r": retry, "so": int(start), "q": int(queue),
                "rq": int(revive), "pt": int(popped_ms), "it": int(invisible_ms),
                "b": b64encode(bits.to_bytes(8, "little")).decode(),
            })  # fmt: skip
        body = fastjson.dumps({"brokerName": "broker-a", "acks": items})
        await self.ask(client, self.acked, some_popped, BATCH_ACK, body=body)

    async def ask(
        self, client: BrokerClient, promised: set[bytes], items: list[Popped], code: int,
        **fields: Any,
    ) -> None:  # fmt: skip
        bodies = {one.body for one in items}
        self.unknown |= bodies
        reply = await client.call(code, **fields)
        in_time = now_ms() < min(one.visible_ms for one in items) - MARGIN_MS
        if reply.code == SUCCESS and in_time:
            self.unknown -= bodies
            promised |= bodies
            self.kept += 1

    def see(self, came: list[Popped]) -> None:
        for one in came:
            if one.body in self.acked:
                self.early.append(f"{one.body!r} came again although it was acknowledged")
            if one.body in self.put_off:
                self.early.append(f"{one.body!r} came before its changed time")

    async def check(self, client: BrokerClient) -> list[str]:
        over = self.acked | self.put_off
        expected = self.sent - over - self.unknown
        came: set[bytes] = set()
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            late = now_ms() > self.visible_ms + MARGIN_MS
            found = await pop(client, self.group, self.topic, invisibleTime=60_000, pollTime=50,
                              bornTime=now_ms())  # fmt: skip
            self.see(found)
            await ack(client, self.group, *found)
            came |= {one.body for one in found}
            if not found and late and expected <= came:
                break
            await asyncio.sleep(0)
        losses = some("popped messages that never came again", expected - came)
        return losses + sorted(set(self.early))[:5]
