"""Transactions: half messages and their ends (37). Committed ones are delivered, rolled back ones
are not, and the broker checks back about open ones.

After the restart, committed messages must be there without any request. Then a producer of the
group connects and notes which transactions it is asked about (39). A half message that is sent last
ends this check: by the time that it is asked about, so were all open ones before it.
"""

import asyncio

from support.broker_client import BrokerClient
from support.power_cuts.promise import (
    SUCCESS,
    Promise,
    bodies,
    bodies_with,
    log_offset,
    make_topic,
    now_ms,
    some,
)
from support.waiting import until

from rmq.format import fastjson
from rmq.format.message import decode_message

END, CHECK, CONFIG = 37, 39, 25
COMMIT, ROLLBACK = 8, 12
MARKS = "TRAN_MSG\x01true\x02PGROUP\x01{}\x02UNIQ_KEY\x01{}\x02"
HALF = 4  # sysFlag of a half message
NEVER = "transactionTimeOut=600000\n"
AT_ONCE = "transactionTimeOut=0\n"
QUIET_S = 0.6  # several rounds of check backs (transactionCheckInterval of the test)
TIMEOUT_S = 40.0


class Transactions(Promise):
    def __init__(self, number: int, seed: str) -> None:
        super().__init__(number, seed)
        self.topic, self.group = self.name("trans"), self.name("TP")
        self.stored: set[bytes] = set()
        self.committed: set[bytes] = set()
        self.rolled_back: set[bytes] = set()
        self.unknown: set[bytes] = set()  # ends that were requested and not answered
        self.asked: set[bytes] = set()

    async def prepare(self, client: BrokerClient) -> None:
        await make_topic(client, self.topic)
        assert (await client.call(CONFIG, NEVER.encode())).code == SUCCESS

    async def step(self, client: BrokerClient, worker: int) -> bool:
        half = await self.half(client, body := b"%d" % self.next())
        if half is None:
            return False
        self.stored.add(body)
        self.kept += 1
        how = self.random.choice((COMMIT, COMMIT, ROLLBACK, None))
        if how is None:
            return True
        self.unknown.add(body)
        reply = await client.call(END, **half, commitOrRollback=how)
        if reply.code == SUCCESS:
            self.unknown.remove(body)
            (self.committed if how == COMMIT else self.rolled_back).add(body)
            self.kept += 1
        return reply.code == SUCCESS

    async def half(self, client: BrokerClient, body: bytes) -> dict[str, object] | None:
        """Sends a half message; returns the fields that name it in its end, or None if it was
        refused."""
        marks = MARKS.format(self.group, f"{self.topic}-{body.decode()}")
        reply = await client.send(self.topic, body, i=marks, f=HALF, g=now_ms())
        if reply.code != SUCCESS:
            return None
        return {
            "producerGroup": self.group, "tranStateTableOffset": reply.fields["queueOffset"],
            "commitLogOffset": log_offset(reply), "msgId": reply.fields["msgId"],
        }  # fmt: skip

    async def check(self, client: BrokerClient) -> list[str]:
        found = await bodies_with(client, self.topic, self.committed)
        losses = some("commits that are lost", self.committed - set(found))
        losses += some("messages that came after a rollback", self.rolled_back & set(found))
        losses += some("commits that came twice", {each for each in found if found.count(each) > 1})
        await self.ask_about_open_ones(client)
        ended = self.committed | self.rolled_back
        losses += some("ended transactions that were asked about", self.asked & ended)
        losses += some("open transactions nobody asked about",
                       self.stored - ended - self.unknown - self.asked)  # fmt: skip
        again = set(await bodies(client, self.topic)) - set(found)
        return losses + some("messages that came in the end", again)

    async def ask_about_open_ones(self, client: BrokerClient) -> None:
        """Notes the transactions that the broker asks about, and rolls them back."""
        last = b"%d" % self.next()
        assert await self.half(client, last) is not None
        body = {"clientID": client.client_id, "consumerDataSet": [],
                "producerDataSet": [{"groupName": self.group}]}  # fmt: skip
        assert (await client.call(34, fastjson.dumps(body))).code == SUCCESS
        assert (await client.call(CONFIG, AT_ONCE.encode())).code == SUCCESS
        answering = asyncio.create_task(self.answer(client))
        try:
            await until(lambda: last in self.asked or answering.done(), TIMEOUT_S)
            await asyncio.sleep(QUIET_S)
        finally:
            answering.cancel()
        self.asked.remove(last)
        assert (await client.call(CONFIG, NEVER.encode())).code == SUCCESS

    async def answer(self, client: BrokerClient) -> None:
        while True:
            ask = await client.asked(CHECK)
            message = decode_message(ask.body)[0]
            self.asked.add(message.body)
            client.post(
                END, producerGroup=self.group, commitOrRollback=ROLLBACK, fromTransactionCheck=True,
                tranStateTableOffset=ask.fields["tranStateTableOffset"],
                commitLogOffset=ask.fields["commitLogOffset"], msgId="x",
            )  # fmt: skip
