"""What rmq's Python client does against any broker, as plain values that can be compared.

Each scenario takes the name server's address and a session id that is part of all its names, and
returns what a user sees, without ids, times and addresses. test_python_client.py holds the values
that rmq and Apache RocketMQ 5.5.0 both give.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

from support.reading import read_all

from cext.client.message import MessageExt, decode_messages
from rmq import (
    Admin,
    LocalTransactionState,
    Message,
    Producer,
    RemoteError,
    RouteError,
    TransactionProducer,
)
from rmq.codes import RequestCode

HIDDEN = {"UNIQ_KEY", "CLUSTER", "MSG_REGION", "TRACE_ON", "WAIT", "REAL_TOPIC", "REAL_QID",
          "__transactionId__", "TRANSACTION_CHECK_TIMES"}  # fmt: skip
WAIT_S = 40.0


def shown(message: MessageExt) -> dict[str, Any]:
    """What a user gave: body, flag, and the properties that are not the broker's own."""
    properties = {name: text for name, text in sorted(message.properties.items())
                  if name not in HIDDEN}  # fmt: skip
    return {"body": message.body.decode(), "flag": message.flag, **properties}


def topic_of(admin: Admin, name: str, run: str, queues: int = 1) -> str:
    topic = f"{name}-{run}"
    create_topic(admin, topic, queues)
    return topic


def create_topic(admin: Admin, topic: str, queues: int) -> None:
    """Creates a topic, and waits until it has a route."""
    admin.create_topic(topic, queues)
    until = time.monotonic() + WAIT_S
    while True:
        try:
            if len(admin.route(topic).writable()) >= queues:
                return
        except RouteError:
            pass
        assert time.monotonic() < until, f"no route for {topic}"
        time.sleep(0.1)


def awaited(address: str, topic: str, count: int) -> list[MessageExt]:
    until = time.monotonic() + WAIT_S
    while len(found := read_all(address, topic)) < count and time.monotonic() < until:
        time.sleep(0.2)
    return found


def ways_of_sending(address: str, run: str) -> dict[str, Any]:
    with Admin(namesrv_addr=address) as admin, Producer(f"w-{run}", namesrv_addr=address) as sender:
        topic = topic_of(admin, "ways", run)
        results = [sender.send(Message(topic, b"one", "TagA", ["k1", "k2"], flag=7,
                                       properties={"colour": "gr\u00fcn"}))]  # fmt: skip
        results += sender.send_batch([Message(topic, f"batch{i}", "TagB") for i in range(3)])
        results.append(sender.send_async(Message(topic, b"two", keys="k3")).result(10))
        results.append(sender.send(Message(topic, b"large " * 2000, wait_store_msg_ok=False)))
        sender.send_oneway(Message(topic, b"oneway"))
        found = awaited(address, topic, 7)
        by_key = [shown(each)["body"] for each in admin.messages(topic, "k2")]
        first = admin.message(results[0].offset_message_id)
        ids = {each.offset_message_id: each.message_id for each in found}
        return {
            "statuses": [each.status for each in results],
            "offsets": [each.queue_offset for each in results],
            "ids match": all(ids[each.offset_message_id] == each.message_id for each in results),
            "messages": [shown(each) for each in found if len(each.body) < 100],
            "large": [(len(each.body), each.sys_flag & 1) for each in found if len(each.body) > 99],
            "by key": by_key,
            "by id": shown(first),
            "times": all(0 <= each.store_timestamp - each.born_timestamp < 60_000
                         for each in found),
        }  # fmt: skip


def many_gathered(address: str, run: str) -> dict[str, Any]:
    count = 5000
    with Admin(namesrv_addr=address) as admin:
        topic = topic_of(admin, "many", run, 4)
        ends: Counter[str] = Counter()
        with Producer(f"m-{run}", namesrv_addr=address, auto_batch=True) as sender:
            for i in range(count):
                sender.send_async(
                    Message(topic, b"%05d" % i),
                    lambda result, error: ends.update([result.status if result else repr(error)]),
                )
        found = awaited(address, topic, count)
        by_queue = [[each.body for each in found if each.queue_id == queue] for queue in range(4)]
        return {
            "ends": dict(ends),
            "found": len({each.body for each in found}),
            "queues used": sum(bool(bodies) for bodies in by_queue),
            "doubled": len(found) - len({each.body for each in found}),
        }


def sharded(address: str, run: str, keys: list[str]) -> dict[str, Any]:
    with Admin(namesrv_addr=address) as admin, Producer(f"s-{run}", namesrv_addr=address) as sender:
        topic = topic_of(admin, "sharded", run, 4)
        return {
            key: sorted({sender.send(Message(topic, b"x", sharding_key=key)).queue_id
                         for _ in range(3)}) for key in keys
        }  # fmt: skip


def delays(address: str, run: str) -> dict[str, Any]:
    with Admin(namesrv_addr=address) as admin, Producer(f"d-{run}", namesrv_addr=address) as sender:
        topic = topic_of(admin, "delays", run)
        sender.send(Message(topic, b"level", delay_level=1, properties={"p": "1"}))
        sender.send(Message(topic, b"timer", delay_seconds=2))
        sender.send(Message(topic, b"now"))
        found = awaited(address, topic, 3)
        waited = {each.body.decode(): each.store_timestamp - each.born_timestamp for each in found}
        return {
            "order": [each.body.decode() for each in found],
            "level waits 1 s": 950 <= waited["level"] < 10_000,
            "timer waits 2 s": 1000 <= waited["timer"] < 10_000,
            "property": found[1].get_property("p"),
        }


class Listener:
    def __init__(self) -> None:
        self.asked: set[str] = set()

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        return LocalTransactionState[arg]

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        self.asked.add(message.body.decode())
        return LocalTransactionState.COMMIT


def transactions(address: str, run: str) -> dict[str, Any]:
    listener = Listener()
    with (
        Admin(namesrv_addr=address) as admin,
        TransactionProducer(f"t-{run}", listener, namesrv_addr=address) as sender,
    ):
        topic = topic_of(admin, "tx", run)
        states = [sender.send_in_transaction(Message(topic, how, "Tag"), how).state.name
                  for how in ("COMMIT", "ROLLBACK", "UNKNOWN")]  # fmt: skip
        found = awaited(address, topic, 2)
        time.sleep(1)
        return {
            "states": states,
            "seen": sorted(each.body.decode() for each in found),
            "asked": sorted(listener.asked),
            "tags": sorted(str(each.tags) for each in found),
            "later": len(read_all(address, topic)),
        }


def requests(address: str, run: str) -> dict[str, Any]:
    with Admin(namesrv_addr=address) as admin, Producer(f"q-{run}", namesrv_addr=address) as asker:
        topic = topic_of(admin, "rpc", run)
        asker.queues(topic)

        def answer() -> None:
            with Producer(f"a-{run}", namesrv_addr=address) as answerer:
                answerer.queues(topic)
                (name,) = {each.broker_name for each in answerer.queues(topic)}
                until = time.monotonic() + WAIT_S
                while not (found := read_all(address, topic)) and time.monotonic() < until:
                    time.sleep(0.05)
                found[0].broker_name = name
                answerer.reply(found[0], b"re: " + found[0].body)

        thread = threading.Thread(target=answer)
        thread.start()
        reply = asker.request(Message(topic, b"question"), 20_000)
        thread.join()
        return {"reply": reply.body.decode(), "type": reply.get_property("MSG_TYPE")}


def refusals(address: str, run: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with Admin(namesrv_addr=address) as admin, Producer(f"r-{run}", namesrv_addr=address) as sender:
        topic = topic_of(admin, "refused", run)
        queue = sender.queues(topic)[0]
        address_of = admin._instance.routes.address_of(queue.broker_name)
        for name, code, fields in (
            ("unknown topic", RequestCode.GET_TOPIC_STATS_INFO, {"topic": f"none-{run}"}),
            ("unknown code", 7777, {}),
            ("no such message", RequestCode.VIEW_MESSAGE_BY_ID, {"offset": 1 << 50}),
        ):
            found[name] = admin._instance.ask(address_of, code, fields).code
        try:
            sender.send(Message("SCHEDULE_TOPIC_XXXX", b"x"))
        except RemoteError as error:
            found["system topic"] = error.code
        found["min, max"] = (admin.min_offset(queue), admin.max_offset(queue))
        pulled = admin._instance.ask(address_of, RequestCode.PULL_MESSAGE, {
            "consumerGroup": f"readers-{run}", "topic": topic, "queueId": 0, "queueOffset": 5,
            "maxMsgNums": 1, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0,
            "subscription": "*", "subVersion": 0,
        })  # fmt: skip
        found["beyond the end"] = (pulled.code, len(decode_messages(pulled)))
    return found
