"""Timed messages: timed and delayed messages come; recalled ones (370) never do."""

import asyncio

from support.broker_client import BrokerClient
from support.power_cuts.promise import (
    SUCCESS,
    Promise,
    bodies,
    bodies_with,
    make_topic,
    now_ms,
    some,
)

RECALL = 370
DUE_MS = 4000  # how long after the first message they are due
MARGIN_MS = 500
DELAY_LEVEL_2 = "DELAY\x012\x02"  # 2 s with the test's settings


class TimedMessages(Promise):
    def __init__(self, number: int, seed: str) -> None:
        super().__init__(number, seed)
        self.topic = self.name("timed")
        self.due_ms = 0
        self.waiting: set[bytes] = set()
        self.recalled: set[bytes] = set()
        self.unknown: set[bytes] = set()

    async def prepare(self, client: BrokerClient) -> None:
        await make_topic(client, self.topic)

    async def step(self, client: BrokerClient, worker: int) -> bool:
        if not self.due_ms:
            self.due_ms = now_ms() + DUE_MS
        body = b"%d" % self.next()
        is_delayed = self.random.random() < 0.2
        key = f"UNIQ_KEY\x01{self.topic}-{body.decode()}\x02"
        marks = DELAY_LEVEL_2 if is_delayed else f"TIMER_DELIVER_MS\x01{self.due_ms}\x02"
        sent = await client.send(self.topic, body, i=key + marks)
        if sent.code != SUCCESS:
            return False
        self.waiting.add(body)
        self.kept += 1
        if is_delayed or self.random.random() < 0.5 or "recallHandle" not in sent.fields:
            return True  # without a recall handle, because it was due when it arrived
        self.unknown.add(body)
        reply = await client.call(
            RECALL, producerGroup="P", topic=self.topic, recallHandle=sent.fields["recallHandle"]
        )
        if reply.code == SUCCESS and now_ms() < self.due_ms - MARGIN_MS:
            self.unknown.remove(body)
            self.recalled.add(body)
            self.kept += 1
        return reply.code == SUCCESS

    async def check(self, client: BrokerClient) -> list[str]:
        expected = self.waiting - self.recalled - self.unknown
        found = await bodies_with(client, self.topic, expected)
        losses = some("timed or delayed messages that are lost", expected - set(found))
        await asyncio.sleep(max(0, self.due_ms + MARGIN_MS - now_ms()) / 1000)
        found = await bodies(client, self.topic)
        return losses + some("messages that came although recalled", self.recalled & set(found))
