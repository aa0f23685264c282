"""Offsets: those that an operator has reset (222) or copied (314) last; none is beyond its queue.

If messages are lost with the power, an offset behind them must go back: otherwise the group would
skip the messages that get the same queue offsets next.
"""

import json

from support.broker_client import BrokerClient
from support.power_cuts.promise import (
    MAX_OFFSET,
    SUCCESS,
    WITH_SUBSCRIPTION,
    Promise,
    Register,
    make_topic,
)

from rmq.format import fastjson

RESET, CLONE, QUERY, ALL_OFFSETS, UPDATE_GROUP = 222, 314, 14, 43, 200
MOVED = 21
WITH_COMMIT = 1
MESSAGES = 30


class Offsets(Promise):
    """The first worker resets offsets, the second copies them, the third consumes at the tail."""

    workers = 3

    def __init__(self, number: int, seed: str) -> None:
        super().__init__(number, seed)
        self.topic, self.tail = self.name("reset"), self.name("tail")
        self.group, self.source = self.name("reset-group"), self.name("source-group")
        self.register = Register()
        self.at = 0

    async def prepare(self, client: BrokerClient) -> None:
        await make_topic(client, self.topic)
        await make_topic(client, self.tail)
        for number in range(MESSAGES):
            assert (await client.send(self.topic, b"%d" % number)).code == SUCCESS
        for group in (self.group, self.source):
            body = json.dumps({"groupName": group}).encode()
            assert (await client.call(UPDATE_GROUP, body)).code == SUCCESS

    async def step(self, client: BrokerClient, worker: int) -> bool:
        if worker == 2:
            return await self.consume(client)
        group = self.group if worker == 0 else self.source
        offset = self.random.randrange(1, MESSAGES)
        if not await self.reset(client, group, offset):
            return False
        if worker == 0:
            return True
        target = f"{self.name('copy')}-{self.next()}"
        self.register.asked(target, offset)
        reply = await client.call(
            CLONE, srcGroup=group, destGroup=target, topic=self.topic, offline=True
        )
        if reply.code == SUCCESS:
            self.register.answered(target, offset)
            self.kept += 1
        return reply.code == SUCCESS

    async def reset(self, client: BrokerClient, group: str, offset: int) -> bool:
        self.register.asked(group, offset)
        reply = await client.call(RESET, topic=self.topic, group=group, timestamp=0, isForce=True,
                                  queueId=0, offset=offset)  # fmt: skip
        if reply.code == SUCCESS:
            self.register.answered(group, offset)
            self.kept += 1
        return reply.code == SUCCESS

    async def consume(self, client: BrokerClient) -> bool:
        """Pulls a message as soon as it is visible, and commits it."""
        await client.send(self.tail, b"x")
        reply = await client.pull("tail-group", self.tail, offset=self.at, commitOffset=self.at,
                                  sysFlag=WITH_SUBSCRIPTION | WITH_COMMIT, subscription="*",
                                  expressionType="TAG")  # fmt: skip
        if reply.code == SUCCESS:
            self.at = int(reply.fields["nextBeginOffset"])
            await client.call(15, consumerGroup="tail-group", topic=self.tail, queueId=0,
                              commitOffset=self.at)  # fmt: skip
        return reply.code == SUCCESS

    async def check(self, client: BrokerClient) -> list[str]:
        losses = []
        for group, possible in self.register.possible.items():
            reply = await client.call(QUERY, consumerGroup=group, topic=self.topic, queueId=0,
                                      setZeroIfNotFound=False)  # fmt: skip
            found = int(reply.fields["offset"]) if reply.code == SUCCESS else None
            if found not in possible:
                losses.append(f"group {group} is at {found} and not at {possible}")
            elif len(possible) == 1 and group == self.group:
                losses += await self.told(client, found)
        return losses + await self.beyond(client)

    async def told(self, client: BrokerClient, offset: int | None) -> list[str]:
        """Checks that a group that was reset is told so by its next pull."""
        reply = await client.pull(self.group, self.topic, sysFlag=WITH_SUBSCRIPTION,
                                  subscription="*", expressionType="TAG")  # fmt: skip
        said = reply.code, int(reply.fields.get("nextBeginOffset", -1))
        return [] if said == (MOVED, offset) else [f"a group reset to {offset} was told {said}"]

    async def beyond(self, client: BrokerClient) -> list[str]:
        reply = await client.call(ALL_OFFSETS)
        losses = []
        for key, queues in fastjson.loads_object(reply.body)["offsetTable"].items():
            topic, _, group = key.partition("@")
            for queue, offset in queues.items():
                end = await client.call(MAX_OFFSET, topic=topic, queueId=queue)
                if end.code == SUCCESS and offset > int(end.fields["offset"]):
                    losses.append(f"group {group} is at {offset} of {topic}/{queue}, which ends at "
                                  f"{end.fields['offset']}")  # fmt: skip
        return losses
