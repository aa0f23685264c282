"""Tables: topics (17, 18, 215), static topics (513), groups (200, 225, 207), groups that may not
read a topic (353), request modes (401) and locks (41, 42) are as they were changed last. A topic
that was deleted and made again has only its new messages."""

import functools
import json
from collections.abc import Awaitable, Callable
from typing import Any

from support.broker_client import BrokerClient
from support.power_cuts.promise import (
    SUCCESS,
    Promise,
    Register,
    bodies,
    change_topic,
    make_topic,
)

from rmq.format import fastjson
from rmq.format.remoting import Command

TOPICS, DELETE_TOPIC, TOPIC, STATIC = 18, 215, 351, 513
GROUP_UPDATE, GROUPS, DELETE_GROUP, GROUP = 200, 225, 207, 352
FORBID, MODE, ALL_MODES, LOCK, UNLOCK = 353, 401, 402, 41, 42
NAMES = 4  # names of each kind that a worker uses
QUEUES = 8


class Tables(Promise):
    workers = 3

    def __init__(self, number: int, seed: str) -> None:
        super().__init__(number, seed)
        self.topic, self.group = self.name("locked"), self.name("locked-group")
        self.register = Register()

    async def prepare(self, client: BrokerClient) -> None:
        await make_topic(client, self.topic, QUEUES)
        body = json.dumps({"groupName": self.group}).encode()
        assert (await client.call(GROUP_UPDATE, body)).code == SUCCESS

    async def step(self, client: BrokerClient, worker: int) -> bool:
        kinds = (self.change_topic, self.change_static, self.change_group, self.forbid,
                 self.set_mode, self.lock)  # fmt: skip
        change = self.random.choice(kinds)
        asks = change(client, worker)
        for thing, value, _ in asks:
            self.register.asked(thing, value)
        reply = await asks[0][2]()
        if reply.code == SUCCESS:
            for thing, value, _ in asks:
                self.register.answered(thing, value)
            self.kept += 1
        return reply.code == SUCCESS

    # Each returns a list of (thing, value, what sends the request); one request sets all of them.
    Asks = list[tuple[tuple[str, str], Any, Callable[[], Awaitable[Command]]]]

    def own(self, kind: str, worker: int) -> str:
        return f"{self.name(kind)}-{worker}-{self.random.randrange(NAMES)}"

    def change_topic(self, client: BrokerClient, worker: int) -> Asks:
        name, queues = self.own("table-topic", worker), self.random.randrange(1, QUEUES)
        how = self.random.randrange(4)
        if how == 0:
            return [(("topic", name), None, lambda: client.call(DELETE_TOPIC, topic=name))]
        if how == 1:
            names = sorted({name, self.own("table-topic", worker)})
            rows = [{"topicName": each, "readQueueNums": queues, "writeQueueNums": queues,
                     "perm": 6, "topicFilterType": "SINGLE_TAG"} for each in names]  # fmt: skip
            body = json.dumps({"topicConfigList": rows}).encode()
            ask = functools.partial(client.call, TOPICS, body)
            return [(("topic", each), queues, ask) for each in names]
        return [(("topic", name), queues, lambda: change_topic(client, name, queues))]

    def change_static(self, client: BrokerClient, worker: int) -> Asks:
        """Sends a newer mapping, with one queue more than before."""
        name, epoch = self.own("static-topic", worker), self.next()
        item = {"gen": 0, "queueId": 0, "bname": "broker-a"}
        body = {"topic": name, "bname": "broker-a", "totalQueues": epoch, "epoch": epoch,
                "hostedQueues": {0: [item]}}  # fmt: skip
        fields = {"topic": name, "defaultTopic": "TBW102", "readQueueNums": 1,
                  "writeQueueNums": 1, "perm": 6, "topicFilterType": "SINGLE_TAG",
                  "topicSysFlag": 0, "order": False}  # fmt: skip
        return [(("static", name), epoch,
                 lambda: client.call(STATIC, fastjson.dumps(body), **fields))]  # fmt: skip

    def change_group(self, client: BrokerClient, worker: int) -> Asks:
        name, queues = self.own("table-group", worker), self.random.randrange(1, QUEUES)
        how = self.random.randrange(4)
        if how == 0:
            return [(("group", name), None, lambda: client.call(DELETE_GROUP, groupName=name))]
        row = {"groupName": name, "retryQueueNums": queues}
        if how == 1:
            body = json.dumps({"groupConfigList": [row]}).encode()
            return [(("group", name), queues, lambda: client.call(GROUPS, body))]
        body = json.dumps(row).encode()
        return [(("group", name), queues, lambda: client.call(GROUP_UPDATE, body))]

    def forbid(self, client: BrokerClient, worker: int) -> Asks:
        topic, readable = self.own("forbidden", worker), self.random.random() < 0.5
        return [(("forbidden", topic), None if readable else True,
                 lambda: client.call(FORBID, group=self.group, topic=topic,
                                     readable=readable))]  # fmt: skip

    def set_mode(self, client: BrokerClient, worker: int) -> Asks:
        group, share = self.own("mode-group", worker), self.random.randrange(1, 9)
        body = json.dumps({"topic": self.topic, "consumerGroup": group, "mode": "POP",
                           "popShareQueueNum": share}).encode()  # fmt: skip
        return [(("mode", group), share, lambda: client.call(MODE, body))]

    def lock(self, client: BrokerClient, worker: int) -> Asks:
        queue, take = worker, self.random.random() < 0.5
        body = self.lock_body(f"owner-{worker}", queue)
        code, value = (LOCK, True) if take else (UNLOCK, None)
        return [(("lock", str(queue)), value, lambda: client.call(code, body))]

    def lock_body(self, client_id: str, queue: int) -> bytes:
        row = {"topic": self.topic, "brokerName": "broker-a", "queueId": queue}
        body = {"consumerGroup": self.group, "clientId": client_id, "mqSet": [row]}
        return json.dumps(body).encode()

    # ---- after the restart

    async def check(self, client: BrokerClient) -> list[str]:
        reply = await client.call(ALL_MODES)
        self.modes = fastjson.loads_object(reply.body)["messageRequestModeMap"].get(self.topic, {})
        losses = []
        for (kind, name), possible in self.register.possible.items():
            found = await getattr(self, f"find_{kind}")(client, name)
            if found not in possible:
                losses.append(f"{kind} {name} is {found} and not {possible}")
        return losses

    async def find_topic(self, client: BrokerClient, name: str) -> int | None:
        reply = await client.call(TOPIC, topic=name)
        if reply.code != SUCCESS:
            return None
        return int(fastjson.loads_object(reply.body)["writeQueueNums"])

    async def find_static(self, client: BrokerClient, name: str) -> int | None:
        reply = await client.call(TOPIC, topic=name, lo=True)
        if reply.code != SUCCESS:
            return None
        return int(fastjson.loads_object(reply.body)["mappingDetail"]["epoch"])

    async def find_group(self, client: BrokerClient, name: str) -> int | None:
        from_all = await client.call(201)
        row = fastjson.loads_object(from_all.body)["subscriptionGroupTable"].get(name)
        return row["retryQueueNums"] if row is not None else None

    async def find_forbidden(self, client: BrokerClient, topic: str) -> bool | None:
        reply = await client.call(FORBID, group=self.group, topic=topic)
        return None if fastjson.loads_object(reply.body)["readable"] else True

    async def find_mode(self, client: BrokerClient, group: str) -> int | None:
        row = self.modes.get(group)
        return row["popShareQueueNum"] if row is not None else None

    async def find_lock(self, client: BrokerClient, queue: str) -> bool | None:
        reply = await client.call(LOCK, self.lock_body("somebody-else", int(queue)))
        assert reply.code == SUCCESS, reply.remark
        return None if fastjson.loads_object(reply.body)["lockOKMQSet"] else True


class TopicsMadeAnew(Promise):
    """Topics that are made, filled, deleted and made again have the messages sent since, and no
    older ones."""

    def __init__(self, number: int, seed: str) -> None:
        super().__init__(number, seed)
        self.sent: dict[str, list[bytes] | None] = {}  # None: a change of it has no answer yet

    async def step(self, client: BrokerClient, worker: int) -> bool:
        topic = f"{self.name('anew')}-{worker}"
        self.sent[topic] = None
        if (await client.call(DELETE_TOPIC, topic=topic)).code != SUCCESS:
            return False
        if (await change_topic(client, topic, 1)).code != SUCCESS:
            return False
        sent = self.sent[topic] = []
        for _ in range(self.random.randrange(1, 20)):
            reply = await client.send(topic, body := b"%d" % self.next())
            if reply.code != SUCCESS:
                return False
            assert reply.fields["queueOffset"] == str(len(sent)), f"{topic}: {reply.fields}"
            sent.append(body)
            self.kept += 1
        return True

    async def check(self, client: BrokerClient) -> list[str]:
        losses = []
        for topic, sent in self.sent.items():
            if sent is not None:
                found = await bodies(client, topic)
                if not sent and len(found) > 1:
                    losses.append(f"{topic} was deleted, {len(found)} messages came back")
                elif found[: len(sent)] != sent or len(found) > len(sent) + 1:
                    losses.append(f"{topic} holds {found[:30]} and not {sent}")
        return losses
