"""Sent messages: each message, sent alone or in a batch (310, 320), is at its offset with its body.
So is the topic, if it was made for its first message."""

from support.ack_history import IDENTITY, AckHistory, batch_entry
from support.broker_client import BrokerClient
from support.power_cuts.promise import SUCCESS, Promise, make_topic

TOPICS = (("sent-a", 4), ("sent-b", 1))


class SentMessages(Promise):
    workers = 3

    def __init__(self, number: int, seed: str, journal: AckHistory) -> None:
        super().__init__(number, seed)
        self.journal = journal  # shared by all rounds

    async def prepare(self, client: BrokerClient) -> None:
        for topic, queues in TOPICS:
            await make_topic(client, topic, queues)
        self.journal.forget_before_this()

    async def step(self, client: BrokerClient, worker: int) -> bool:
        topic, queues = self.random.choice((*TOPICS, (self.name("sent-auto"), 1)))
        queue = self.random.randrange(queues)
        count = self.random.choice((1, 1, 1, 4))
        bodies = [self.body(worker) for _ in range(count)]
        if count == 1:
            reply = await client.send(topic, bodies[0], queue)
        else:
            packed = b"".join(map(batch_entry, bodies))
            reply = await client.send(topic, packed, queue, m=True)
        self.journal.ack(topic, bodies, reply)
        self.kept += reply.code == SUCCESS
        return reply.code == SUCCESS

    def body(self, worker: int) -> bytes:
        size = self.random.choice((0, 100, 700, 3000))
        return IDENTITY.pack(self.number, worker, self.next()) + self.random.randbytes(size)

    async def check(self, client: BrokerClient) -> list[str]:
        try:
            await self.journal.check(client.port)
        except AssertionError as error:
            return [str(error)]
        return []
