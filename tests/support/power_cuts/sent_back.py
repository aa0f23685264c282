"""Sent back: messages that consumers send back (36) are in their retry topic or dead letters."""

from support.broker_client import BrokerClient
from support.power_cuts.promise import SUCCESS, Promise, bodies_with, log_offset, make_topic, some

SEND_BACK = 36


class SentBack(Promise):
    def __init__(self, number: int, seed: str) -> None:
        super().__init__(number, seed)
        self.topic, self.group = self.name("failing"), self.name("failing-group")
        self.retried: set[bytes] = set()
        self.dead: set[bytes] = set()

    async def prepare(self, client: BrokerClient) -> None:
        await make_topic(client, self.topic)
        assert (await client.heartbeat(self.group, self.topic)).code == SUCCESS

    async def step(self, client: BrokerClient, worker: int) -> bool:
        body = b"%d" % self.next()
        sent = await client.send(self.topic, body)
        if sent.code != SUCCESS:
            return False
        is_dead = self.random.random() < 0.25
        reply = await client.call(
            SEND_BACK, offset=log_offset(sent), group=self.group, originTopic=self.topic,
            originMsgId=sent.fields["msgId"], unitMode=False, delayLevel=-1 if is_dead else 1,
            maxReconsumeTimes=16,
        )  # fmt: skip
        if reply.code == SUCCESS:
            (self.dead if is_dead else self.retried).add(body)
            self.kept += 1
        return reply.code == SUCCESS

    async def check(self, client: BrokerClient) -> list[str]:
        retried = await bodies_with(client, f"%RETRY%{self.group}", self.retried)
        dead = await bodies_with(client, f"%DLQ%{self.group}", self.dead)
        return some("messages sent back that are lost", self.retried - set(retried)) + some(
            "dead letters that are lost", self.dead - set(dead)
        )
