"""Promise cases: a function that makes a request for each row of docs/promises.md.

async with world(port) as w:
    post, code = CASES[37, "commit"]
    opaque = await post(w)                  # sent by w.tool, not answered yet
    reply = await w.tool.reply(opaque)      # has this `code`; None: any but 0

Everything that a request needs (a half message, a popped message, a lock to take) is made
beforehand, while the disk is well, for ROUNDS of all cases.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from support.broker_client import BrokerClient
from support.popping import Popped, ack_fields, batch_of, pop, pop_fields
from support.waiting import until
from support.wire_frames import batch_body

from rmq.codes import RequestCode
from rmq.format import fastjson
from rmq.format.message import encode_properties
from rmq.format.remoting import Command

ROUNDS = 6
# Settings of the broker. It has accounts, but every request may be sent without one.
OPTIONS = (
    "--set", "recallMessageEnable=true", "--set", "authenticationEnabled=true",
    "--set", 'initAuthenticationUser={"username":"admin","password":"admin"}',
    "--set", f"authenticationWhitelist={','.join(str(int(code)) for code in RequestCode)}",
)  # fmt: skip
HALF = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01U\x02"
REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
LOCKED, LOCKS = "locked", 256  # a topic, and its number of queues, which are locked one by one
COMMIT, ROLLBACK = 8, 12

Post = Callable[["World"], Awaitable[int]]


class World:
    """Three clients of a broker, and what they have made there."""

    def __init__(self, port: int) -> None:
        self.tool = BrokerClient(port, "tool@1")
        self.consumer = BrokerClient(port, "consumer@1")
        self.producer = BrokerClient(port, "producer@1")
        self.numbers = itertools.count()
        self.halves: list[Command] = []
        self.handles: list[str] = []
        self.popped: list[Popped] = []
        self.ordered: list[Popped] = []
        self.gone = list(range(ROUNDS))  # numbers of topics and groups that will be deleted
        self.locked = list(range(ROUNDS))  # queues that "holder" has locked
        self.users = list(range(ROUNDS))  # numbers of users that will be deleted
        self.acls = list(range(ROUNDS))
        self.exported = itertools.count()  # offsets in topic p
        self.pushes = 0  # replies that the producer has taken
        self.stored: Command  # the answer to a send

    @property
    def log_offset(self) -> int:
        """The log offset of the stored message."""
        return int(self.stored.fields["msgId"][-16:], 16)

    async def well(self, code: int, body: bytes = b"", **fields: Any) -> Command:
        reply = await self.tool.call(code, body, **fields)
        assert reply.code == 0, (code, reply.code, reply.remark)
        return reply

    async def fence(self) -> None:
        """Waits until the broker has answered all earlier requests that it can answer."""
        for client in (self.tool, self.producer, self.tool):
            assert (await client.call(30, topic="t", queueId=0)).code == 0

    async def make(self) -> None:
        await self.well(3001, fastjson.dumps({"password": "x"}), username="kept")
        for topic, queues in (("t", 4), ("p", 1), (LOCKED, LOCKS)):
            await self.well(17, **topic_fields(topic, queues))
        for number in range(ROUNDS):
            await self.well(17, **topic_fields(f"gone{number}", 1))
            for clean in ("", "-clean"):
                group = f"gone{clean}{number}"
                await self.well(200, fastjson.dumps({"groupName": group}))
                await self.well(15, consumerGroup=group, topic=f"gone{number}", queueId=0,
                                commitOffset=0)  # fmt: skip
            await self.well(41, lock_body("holder", number))
            password = fastjson.dumps({"password": "x"})
            await self.well(3001, password, username=f"gone{number}")
            await self.well(3006, acl(f"gone{number}"), subject="User:admin")
        assert (await self.consumer.heartbeat("g", "t")).code == 0
        producer = {"clientID": self.producer.client_id, "consumerDataSet": [],
                    "producerDataSet": [{"groupName": "P"}]}  # fmt: skip
        assert (await self.producer.call(34, fastjson.dumps(producer))).code == 0
        self.stored = await self.tool.send("t", b"stored", i="KEYS\x01k\x02")
        assert self.stored.code == 0
        await self.well(15, consumerGroup="g", topic="t", queueId=0, commitOffset=0)
        for level in (0, -1):  # makes the retry topic and the dead letters
            await self.well(36, **self.back(level))
        for _ in range(4 * ROUNDS):
            half = await self.tool.send("t", b"half", i=HALF, f=4)
            assert half.code == 0
            self.halves.append(half)
        for number in range(ROUNDS):
            due = {"TIMER_DELIVER_MS": str(now_ms() + 3_600_000), "UNIQ_KEY": f"R{number}"}
            later = await self.tool.send("t", b"later", i=encode_properties(due).decode())
            self.handles.append(later.fields["recallHandle"])
        for number in range(8 * ROUNDS):
            assert (await self.tool.send("p", b"%d" % number)).code == 0
        for _ in range(2):
            self.popped += await pop(self.tool, "pg", "p", invisibleTime=3_600_000)
        await self.pop_ordered()

    async def pop_ordered(self) -> None:
        order = {"order": "true", "maxMsgNums": 32, "invisibleTime": 3_600_000}
        self.ordered += await pop(self.tool, "og", "p", **order)
        assert len(self.ordered) >= 2 * ROUNDS

    def back(self, level: int) -> dict[str, Any]:
        return {"offset": self.log_offset, "group": "g", "delayLevel": level, "originTopic": "t",
                "originMsgId": "U", "unitMode": False}  # fmt: skip

    def end(self, half: Command, decision: int) -> dict[str, Any]:
        return {
            "producerGroup": "P", "tranStateTableOffset": half.fields["queueOffset"],
            "commitLogOffset": int(half.fields["msgId"][-16:], 16), "commitOrRollback": decision,
            "fromTransactionCheck": False, "msgId": "U",
        }  # fmt: skip


@asynccontextmanager
async def world(port: int) -> AsyncIterator[World]:
    w = World(port)
    async with AsyncExitStack() as stack:
        for client in (w.tool, w.consumer, w.producer):
            await stack.enter_async_context(client)
        answering = asyncio.create_task(_answer(w))
        try:
            await w.make()
            yield w
        finally:
            answering.cancel()


async def _answer(w: World) -> None:
    """Answers the broker's requests to the clients. The tool gets some after its heartbeat."""
    while True:
        for client in (w.consumer, w.producer, w.tool):
            requests, client.requests = client.requests, []
            for request in requests:
                if not request.is_oneway:
                    client.answer(request, body=b"{}")
                    w.pushes += request.code == 326
        await asyncio.sleep(0.002)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def topic_fields(topic: str, queues: int = 4) -> dict[str, Any]:
    return {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues,
            "writeQueueNums": queues, "perm": 6, "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0, "order": False}  # fmt: skip


def acl(topic: str) -> bytes:
    entry = {"resource": f"Topic:{topic}", "actions": ["Pub"], "decision": "Allow"}
    return fastjson.dumps({"policies": [{"policyType": "Custom", "entries": [entry]}]})


def mapping(topic: str) -> dict[str, Any]:
    """A mapping of one logical queue, which is queue 0 of the broker."""
    item = {"gen": 0, "queueId": 0, "bname": "broker-a", "logicOffset": 0, "startOffset": 0,
            "endOffset": -1}  # fmt: skip
    return {"topic": topic, "bname": "broker-a", "totalQueues": 1, "epoch": 1,
            "hostedQueues": {0: [item]}}  # fmt: skip


def long_send(topic: str, properties: str = "", **change: Any) -> dict[str, Any]:
    return {"producerGroup": "P", "topic": topic, "defaultTopic": "TBW102",
            "defaultTopicQueueNums": 4, "queueId": 0, "sysFlag": 0, "bornTimestamp": 1, "flag": 0,
            "properties": properties, "reconsumeTimes": 0, "unitMode": False, **change}  # fmt: skip


# ------------------------------------------------------------------- functions that make requests


def ask(code: int, body: Any = None, **fields: Any) -> Post:
    """Sends the same request each time. Fields and bodies that are functions are called with a new
    number."""

    async def post(w: World) -> int:
        number = next(w.numbers)
        given = {name: value(number) if callable(value) else value
                 for name, value in fields.items()}  # fmt: skip
        content = body(number) if callable(body) else body
        if content is None or isinstance(content, bytes):
            return w.tool.post(code, content or b"", **given)
        return w.tool.post(code, fastjson.dumps(content), **given)

    return post


async def export(w: World) -> int:
    """Exports tables (355), one of which has changed since the last export."""
    await w.well(15, consumerGroup="g", topic="p", queueId=0, commitOffset=next(w.exported))
    return w.tool.post(355, configType="topics;subscriptionGroups;consumerOffsets")


def send(properties: str = "", topic: str = "t", code: int = 310, **fields: Any) -> Post:
    if code == 310:
        short = {"a": "P", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0,
                 "i": properties, "j": 0, "k": False, **fields}  # fmt: skip
        return ask(310, b"x", **short)
    return ask(code, b"x", **long_send(topic, properties, **fields))


def end(decision: int) -> Post:
    async def post(w: World) -> int:
        return w.tool.post(37, **w.end(w.halves.pop(), decision))

    return post


async def end_again(w: World) -> int:
    """Ends a transaction twice; the first end is not on the disk yet."""
    half = w.halves.pop()
    w.tool.post(37, one_way=True, **w.end(half, COMMIT))
    return w.tool.post(37, **w.end(half, COMMIT))


def back(level: int) -> Post:
    async def post(w: World) -> int:
        return w.tool.post(36, **w.back(level))

    return post


async def timed(w: World) -> int:
    due = encode_properties({"TIMER_DELIVER_MS": str(now_ms() + 3_600_000)}).decode()
    return w.tool.post_send("t", i=due)


async def batch(w: World) -> int:
    return w.tool.post(320, batch_body([(0, b"1", b""), (0, b"2", b"")]), a="P", b="t", c="TBW102",
                       d=4, e=0, f=0, g=1, h=0, i="", j=0, k=False, m=True)  # fmt: skip


def reply(code: int) -> Post:
    async def post(w: World) -> int:
        properties = encode_properties({
            "CORRELATION_ID": str(next(w.numbers)), "REPLY_TO_CLIENT": w.producer.client_id,
            "MSG_TYPE": "reply", "TTL": "30000",
        }).decode()  # fmt: skip
        fields = long_send(REPLY_TOPIC, properties)
        if code == 325:
            fields = dict(zip("abcdefghijk", fields.values(), strict=True))
        before = w.pushes
        opaque = w.tool.post(code, b"reply", **fields)
        await until(lambda: w.pushes > before)
        return opaque

    return post


async def reply_not_stored(w: World) -> int:
    await w.well(25, b"storeReplyMessageEnable=false")
    opaque = await reply(324)(w)
    await w.well(25, b"storeReplyMessageEnable=true")
    return opaque


async def recall(w: World) -> int:
    return w.tool.post(370, producerGroup="P", topic="t", recallHandle=w.handles.pop())


async def resume(w: World) -> int:
    return w.tool.post(323, msgId=w.halves[0].fields["msgId"])


async def ack(w: World) -> int:
    return w.tool.post(200051, **ack_fields("pg", w.popped.pop()))


async def batch_ack(w: World) -> int:
    one = w.popped.pop()
    return w.tool.post(200151, batch_of((one, "pg", [one.message.queue_offset])))


async def change(w: World) -> int:
    return w.tool.post(200053, **ack_fields("pg", w.popped.pop()), invisibleTime=7_200_000)


async def ack_in_order(w: World) -> int:
    return w.tool.post(200051, **ack_fields("og", w.ordered.pop(0)))


def lock_body(client: str, queue_id: int) -> bytes:
    queue = {"brokerName": "broker-a", "topic": LOCKED, "queueId": queue_id}
    return fastjson.dumps({"clientId": client, "consumerGroup": "lockers", "mqSet": [queue]})


async def lock(w: World) -> int:
    return w.tool.post(41, lock_body("locker", LOCKS - 1 - next(w.numbers) % (LOCKS // 2)))


async def unlock(w: World) -> int:
    return w.tool.post(42, lock_body("holder", w.locked.pop()))


async def change_in_order(w: World) -> int:
    return w.tool.post(200053, **ack_fields("og", w.ordered[-1]), invisibleTime=7_200_000)


def pull(code: int) -> Post:
    return ask(code, consumerGroup="g", topic="t", queueId=0, queueOffset=0, maxMsgNums=32,
               sysFlag=0, commitOffset=0, suspendTimeoutMillis=0, subVersion=1)  # fmt: skip


def pop_case(code: int, group: str | Callable[[int], str], **fields: Any) -> Post:
    return ask(code, **{**pop_fields("", "p", invisibleTime=3_600_000), "consumerGroup": group,
                        **fields})  # fmt: skip


def viewed(code: int, **fields: Any) -> Post:
    async def post(w: World) -> int:
        given = {name: value(w) if callable(value) else value for name, value in fields.items()}
        return w.tool.post(code, **given)

    return post


def heartbeat(group: Callable[[int], str]) -> Post:
    def body(number: int) -> dict[str, Any]:
        data = {"groupName": group(number), "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING", "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                "subscriptionDataSet": []}  # fmt: skip
        return {"clientID": "tool@1", "consumerDataSet": [data], "producerDataSet": []}

    return ask(34, body)


PLACE = {"topic": "t", "queueId": 0}
SUBSCRIPTION = {"topic": "t", "subString": "*", "subVersion": 1}

# (request code, case) -> (the function that sends it, the code of its answer; None: any but 0)
CASES: dict[tuple[int, str], tuple[Post, int | None]] = {
    (10, ""): (send(code=10), 0),
    (10, "WAIT=false"): (send("WAIT\x01false\x02", code=10), 0),
    (10, "makes its topic"): (send(code=10, topic=lambda n: f"made{n}"), 0),  # type: ignore
    (310, ""): (send(), 0),
    (310, "WAIT=false"): (send("WAIT\x01false\x02"), 0),
    (310, "half message"): (send(HALF, f=4), 0),
    (310, "delayed"): (send("DELAY\x0118\x02"), 0),
    (310, "timed"): (timed, 0),
    (310, "dead letter"): (send(topic="%RETRY%g", j=17), 0),
    (320, ""): (batch, 0),
    (36, ""): (back(18), 0),
    (36, "dead letter"): (back(-1), 0),
    (37, "commit"): (end(COMMIT), 0),
    (37, "rollback"): (end(ROLLBACK), 0),
    (37, "again"): (end_again, 0),
    (323, ""): (resume, 0),
    (324, ""): (reply(324), 0),
    (324, "not stored"): (reply_not_stored, 0),
    (325, ""): (reply(325), 0),
    (370, ""): (recall, 0),
    (11, ""): (pull(11), 0),
    (361, ""): (pull(361), 0),
    (200050, ""): (pop_case(200050, lambda n: f"pg{n}"), 0),
    (200050, "in order"): (pop_case(200050, lambda n: f"og{n}", order="true"), 0),
    (200051, ""): (ack, 0),
    (200051, "in order"): (ack_in_order, 0),
    (200151, ""): (batch_ack, 0),
    (200053, ""): (change, 0),
    (200053, "in order"): (change_in_order, 0),
    (200052, ""): (pop_case(200052, "peekers"), 0),
    (200054, ""): (pop_case(200054, "noticed"), 0),
    (200055, ""): (pop_case(200055, "noticed"), 0),
    (15, ""): (ask(15, consumerGroup="g", commitOffset=1, **PLACE), 0),
    (314, ""): (ask(314, srcGroup="g", destGroup=lambda n: f"clone{n}", topic="t",
                    offline=True), 0),
    (222, ""): (ask(222, topic="t", group="g", timestamp=-1, isForce=True), 0),
    (14, ""): (ask(14, consumerGroup="g", **PLACE), 0),
    (43, ""): (ask(43), 0),
    (308, ""): (ask(308, topic="t", compareGroup="g"), 0),
    (17, ""): (ask(17, **{**topic_fields(""), "topic": lambda n: f"new{n}"}), 0),
    (18, ""): (ask(18, lambda n: {"topicConfigList": [
        {"topicName": f"many{n}", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}]}), 0),
    (513, ""): (ask(513, lambda n: mapping(f"static{n}"),
                    **{**topic_fields("", 1), "topic": lambda n: f"static{n}"}), 0),
    (215, ""): (viewed(215, topic=lambda w: f"gone{w.gone.pop()}"), 0),
    (200, ""): (ask(200, lambda n: {"groupName": f"new{n}"}), 0),
    (225, ""): (ask(225, lambda n: {"groupConfigList": [{"groupName": f"many{n}"}]}), 0),
    (207, ""): (viewed(207, groupName=lambda w: f"gone{w.gone.pop()}"), 0),
    (207, "cleanOffset=true"): (viewed(207, groupName=lambda w: f"gone-clean{w.gone.pop()}",
                                       cleanOffset=True), 0),
    (353, ""): (ask(353, group=lambda n: f"forbidden{n}", topic="t", readable=False), 0),
    (401, ""): (ask(401, lambda n: {"topic": "t", "consumerGroup": "g", "mode": "PULL",
                                    "popShareQueueNum": n}), 0),
    (41, ""): (lock, 0),
    (42, ""): (unlock, 0),
    (25, ""): (ask(25, b"fileReservedTime=71"), 0),
    (34, ""): (heartbeat(lambda _: "g"), 0),
    (34, "a new group"): (heartbeat(lambda n: f"fresh{n}"), 0),
    (35, ""): (ask(35, clientID="tool@1", producerGroup="Q", consumerGroup="Q"), 0),
    (329, ""): (ask(329), 0),
    (306, ""): (ask(306), 0),
    (316, ""): (ask(316), 0),
    (355, ""): (export, 0),
    (200056, ""): (ask(200056), 0),
    (5001, ""): (ask(5001, E_T="F"), 0),
    (12, ""): (ask(12, topic="t", key="k", maxNum=9, beginTimestamp=0, endTimestamp=2**62), 0),
    (29, ""): (ask(29, timestamp=1, **PLACE), 0),
    (30, ""): (ask(30, **PLACE), 0),
    (31, ""): (ask(31, **PLACE), 0),
    (32, ""): (ask(32, **PLACE), 0),
    (33, ""): (viewed(33, offset=lambda w: w.log_offset), 0),
    (321, ""): (ask(321, index=0, count=3, consumerGroup="g", **PLACE), 0),
    (38, ""): (ask(38, consumerGroup="g"), 0),
    (46, ""): (ask(46, {"clientId": "c", "group": "g", "namespace": "",
                        "subscriptionData": SUBSCRIPTION}), 0),
    (3001, ""): (ask(3001, {"password": "x"}, username=lambda n: f"new{n}"), 0),
    (3002, ""): (ask(3002, lambda n: {"password": f"x{n}"}, username="kept"), 0),
    (3003, ""): (viewed(3003, username=lambda w: f"gone{w.users.pop()}"), 0),
    (3004, ""): (ask(3004, username="admin"), 0),
    (3005, ""): (ask(3005), 0),
    (3006, ""): (ask(3006, lambda n: acl(f"new{n}"), subject="User:admin"), 0),
    (3007, ""): (ask(3007, lambda n: acl(f"new{n}"), subject="User:admin"), 0),
    (3008, ""): (viewed(3008, subject="User:admin", policyType="Custom",
                        resource=lambda w: f"Topic:gone{w.acls.pop()}"), 0),
    (3009, ""): (ask(3009, subject="User:admin"), 0),
    (3010, ""): (ask(3010), 0),
    (30001, ""): (ask(30001), None),  # this broker has no audit file
    (301, ""): (ask(301, filterServerAddr="a:1"), None),
    (302, ""): (ask(302, consumerGroup="g", topic="t", className="C", classCRC=0), None),
    (400, ""): (ask(400, {"topic": "t", "consumerGroup": "g", "clientId": "c"}), 0),
    (402, ""): (ask(402), 0),
    (21, ""): (ask(21), 0),
    (351, ""): (ask(351, topic="t"), 0),
    (305, ""): (ask(305), 0),
    (201, ""): (ask(201), 0),
    (352, ""): (ask(352, group="g"), 0),
    (203, ""): (ask(203, consumerGroup="g"), 0),
    (204, ""): (ask(204, producerGroup="P"), 0),
    (328, ""): (ask(328), 0),
    (300, ""): (ask(300, topic="t"), 0),
    (343, ""): (ask(343, group="g"), 0),
    (345, ""): (ask(345, group="g", topic="t"), 0),
    (28, ""): (ask(28), 0),
    (315, ""): (ask(315, statsName="BROKER_PUT_NUMS", statsKey="DefaultCluster"), 0),
    (45, ""): (ask(45), 0),
    (60, ""): (ask(60), 0),
    (61, ""): (ask(61), 0),
    (906, ""): (ask(906), 0),
    (907, ""): (ask(907), 0),
    (908, ""): (ask(908, masterFlushOffset=0), None),
    (1007, ""): (ask(1007), None),  # this broker has no controller
    (1008, ""): (ask(1008), None),
    (202, ""): (ask(202, topic="t"), 0),
    (208, ""): (ask(208, consumerGroup="g", topic="t"), 0),
    (317, ""): (ask(317, isOrder=False), 0),
    (303, ""): (ask(303, topic="t", group="g"), 0),
    (307, ""): (ask(307, consumerGroup="g", clientId="consumer@1"), 0),
    (309, ""): (viewed(309, consumerGroup="g", clientId="consumer@1", topic="t",
                       msgId=lambda w: w.stored.fields["msgId"]), 0),
    (223, ""): (ask(223, topic="t", group="g"), 0),
    (26, ""): (ask(26), 0),
}  # fmt: skip
