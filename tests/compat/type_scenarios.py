"""What rmq's Python client does with messages that come later, in transactions, filtered, again and
traced, on any broker, as plain values that can be compared.

Like python_scenarios.py, whose tools this file uses. test_python_types.py holds the values that rmq
and Apache RocketMQ 5.5.0 both give. The broker of timed messages and transactions has the settings
TYPES_SETTINGS of conftest.py.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import Any

from click.testing import CliRunner
from compat.consumer_scenarios import LATER, Kept, consumer, send
from compat.python_scenarios import WAIT_S, awaited, topic_of
from support.reading import read_all
from support.waiting import wait_until

from rmq import (
    Admin,
    LocalTransactionState,
    Message,
    MessageExt,
    PopConsumer,
    Producer,
    PullConsumer,
    RemoteError,
    TransactionProducer,
)
from rmq.cli.main import cli
from rmq.codes import RequestCode
from rmq.format import fastjson

COMMIT, ROLLBACK, UNKNOWN = (
    LocalTransactionState.COMMIT,
    LocalTransactionState.ROLLBACK,
    LocalTransactionState.UNKNOWN,
)


def refused(action: Any) -> int | None:
    """The broker's code if it refuses; None if it does what it is asked for."""
    try:
        action()
    except RemoteError as error:
        return error.code
    return None


def timed(address: str, run: str) -> dict[str, Any]:
    """Timed messages by each way to give the time; some are recalled."""
    group = f"tm-{run}"
    with Admin(namesrv_addr=address) as admin, Producer(group, namesrv_addr=address) as sender:
        topic = topic_of(admin, "timed", run)
        now = time.time_ns() // 1_000_000  # brokers count whole ms
        ways: dict[str, dict[str, Any]] = {
            "at": {"deliver_at": now + 6_000},
            "date": {"deliver_at": datetime.now(timezone.utc) + timedelta(seconds=4)},
            "after": {"delay_seconds": 2},
            "level": {"delay_level": 5},
            "recalled": {"delay_seconds": 4},
        }
        due = {"at": 6_000, "date": 4_000, "after": 2_000, "level": 3_000}
        results = {name: sender.send(Message(topic, name, "Tag", f"k-{name}", **way))
                   for name, way in ways.items()}  # fmt: skip
        handles = {name: result.recall_handle for name, result in results.items()}
        recalled = sender.recall(topic, str(handles["recalled"]))
        found = awaited(address, topic, 4)
        time.sleep(2)
        came = {each.body.decode(): each.store_timestamp - now for each in found}
        return {
            "order": [each.body.decode() for each in found],
            "tags, keys": [(each.tags, each.keys) for each in found],
            # Apache delivers in the right second of its wheel; messages with a level have no
            # handle.
            "not early": all(came[name] >= ms for name, ms in due.items()),
            "not late": all(came[name] < ms + 10_000 for name, ms in due.items()),
            "handles": sorted(name for name, handle in handles.items() if handle is not None),
            "recalled": recalled == results["recalled"].message_id,
            "later": len(read_all(address, topic)),
            "too late": refused(lambda: sender.recall(topic, str(handles["after"]))),
            "four days": refused(lambda: sender.send(
                Message(topic, "far", delay_seconds=4 * 86400))),
        }  # fmt: skip


class Knowing:
    """A transaction listener that answers what the message says; `asked` counts the questions."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        first, _, _ = message.body.decode().partition(" ")
        return LocalTransactionState[first.upper()]

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        name = message.body.decode()
        self.asked[name] += 1
        answers = name.split(" ")[1:]
        return LocalTransactionState[answers[min(self.asked[name], len(answers)) - 1].upper()]


PLANS = ["commit", "rollback", "unknown commit", "unknown rollback", "unknown unknown commit",
         "unknown unknown unknown rollback"]  # fmt: skip


def checked(address: str, run: str) -> dict[str, Any]:
    """Every end that a transaction can have, and how often the broker asks before it."""
    listener = Knowing()
    group = f"ck-{run}"
    with (
        Admin(namesrv_addr=address) as admin,
        TransactionProducer(group, listener, namesrv_addr=address) as sender,
    ):
        topic = topic_of(admin, "checked", run)
        results = {
            plan: sender.send_in_transaction(Message(topic, plan, "Tag", f"k{number}"))
            for number, plan in enumerate(PLANS)
        }
        wait_until(lambda: len(listener.asked) == 4 and sum(listener.asked.values()) == 7, WAIT_S)
        found = awaited(address, topic, 3)
        time.sleep(4)
        return {
            "states": [result.state.name for result in results.values()],
            "asked": dict(sorted(listener.asked.items())),
            "seen": sorted(each.body.decode() for each in found),
            "times": {each.body.decode(): each.get_property("TRANSACTION_CHECK_TIMES")
                      for each in found},
            "group": {each.get_property("PGROUP") == group for each in found},
            "ids": {each.message_id == results[each.body.decode()].message_id for each in found},
            "flags": {each.sys_flag & 12 for each in found},
            "tags": {each.tags for each in found},
            "prepared": all(each.prepared_transaction_offset < each.commit_log_offset
                            for each in found),
            "later": len(read_all(address, topic)),
        }  # fmt: skip


def orphaned(address: str, run: str) -> dict[str, Any]:
    """The producer has gone, so another producer of its group is asked."""
    first, second = Knowing(), Knowing()
    group = f"or-{run}"
    with Admin(namesrv_addr=address) as admin:
        topic = topic_of(admin, "orphaned", run)
        with TransactionProducer(group, first, namesrv_addr=address) as gone:
            for plan in ("unknown commit", "unknown rollback"):
                gone.send_in_transaction(Message(topic, plan))
        asked = sum(first.asked.values())
        with TransactionProducer(group, second, namesrv_addr=address) as other:
            other.send_in_transaction(Message(topic, "commit"))
            wait_until(lambda: len(second.asked) + asked >= 2, WAIT_S)
            found = awaited(address, topic, 2)
        return {"asked": dict(sorted((first.asked + second.asked).items())),
                "seen": sorted(each.body.decode() for each in found)}  # fmt: skip


def by_sql(address: str, run: str) -> dict[str, Any]:
    """One expression for each kind of consumer, and a wrong one."""
    expression = "n BETWEEN 10 AND 19 AND TAGS = 'A' OR n IN ('40', '41')"
    expected = [*range(10, 20, 2), 40, 41]
    with Admin(namesrv_addr=address) as admin:
        topic = topic_of(admin, "sql", run, 2)
    send(address, topic, 60)
    kept = Kept()
    with consumer(address, f"sql-{run}", kept) as member:
        member.subscribe(topic, sql=expression)
        pushed = sorted(map(int, kept.wait(len(expected))))
        send(address, topic, 20)
        kept.wait(len(expected) + 5)
        time.sleep(0.5)
    pulled: list[MessageExt] = []
    with PullConsumer(
        f"sqlp-{run}", namesrv_addr=address, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    ) as reader:
        reader.subscribe(topic, sql=expression)
        until = time.monotonic() + WAIT_S
        while len(pulled) < len(expected) + 5 and time.monotonic() < until:
            pulled += reader.poll(500)
    popped: list[MessageExt] = []
    with PopConsumer(
        f"sqlo-{run}", namesrv_addr=address, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    ) as popper:
        popper.subscribe(topic, sql=expression)
        until = time.monotonic() + WAIT_S
        while len(popped) < len(expected) + 5 and time.monotonic() < until:
            got = popper.poll(500)
            popper.ack(got)
            popped += got

    def numbers(messages: list[MessageExt]) -> list[int]:
        return sorted(int(each.body) for each in messages)

    return {
        "pushed": pushed == expected,
        "later": numbers(kept.messages) == sorted([*expected, *range(10, 20, 2)]),
        "pulled": numbers(pulled) == numbers(kept.messages),
        "popped": numbers(popped) == numbers(kept.messages),
    }


def wrong_sql(address: str, run: str) -> dict[str, Any]:
    """The answers to a heartbeat that checks an expression (46), by code."""
    with Admin(namesrv_addr=address) as admin:
        topic = topic_of(admin, "wrong", run)
        broker = admin._instance.routes.address_of(admin.route(topic).readable()[0].broker_name)
        codes = {}
        for expression in ("a > 5", "a > 'five'", "a BETWEEN 9 AND", "a IN ()", ""):
            body = fastjson.dumps({
                "clientId": "c", "group": f"wr-{run}", "subscriptionData": {
                    "topic": topic, "subString": expression, "expressionType": "SQL92",
                    "classFilterMode": False, "codeSet": [], "tagsSet": [], "subVersion": 1,
                },
            })  # fmt: skip
            reply = admin._instance.ask(broker, RequestCode.CHECK_CLIENT_CONFIG, {}, body)
            codes[expression] = reply.code
        return codes


def back_in_time(address: str, run: str) -> dict[str, Any]:
    """A group's offsets are reset to an earlier time while it consumes."""
    with Admin(namesrv_addr=address) as admin:
        topic = topic_of(admin, "back", run, 2)
        group = f"back-{run}"
        kept = Kept()
        with consumer(address, group, kept, persist_consumer_offset_interval=500) as member:
            member.subscribe(topic)
            send(address, topic, 20)
            kept.wait(20)
            time.sleep(1.2)
            moment = int(time.time() * 1000)
            time.sleep(0.2)
            send(address, topic, 10)
            kept.wait(30)
            queues = admin.route(topic).readable()
            wait_until(
                lambda: sum(admin.committed_offset(group, each) or 0 for each in queues) == 30,
                WAIT_S,
            )
            went = admin.reset_offset(group, topic, moment)
            kept.wait(40)
            time.sleep(1)
            counts = Counter(int(each.body) for each in kept.messages)
        begin = [admin.offset_at(each, moment) for each in queues]
    return {
        "went": sum(went.values()),
        "same as by time": sorted(went.values()) == sorted(begin),
        "counts": dict(sorted(Counter(counts.values()).items())),
        "three times": sorted(number for number, count in counts.items() if count == 3),
    }


def skipped(address: str, run: str) -> dict[str, Any]:
    """Messages that came while no member was there are passed over."""
    with Admin(namesrv_addr=address) as admin:
        topic = topic_of(admin, "skip", run, 2)
        group = f"skip-{run}"
        kept = Kept()
        with consumer(address, group, kept, subscription={topic: "*"}):
            send(address, topic, 4)
            kept.wait(4)
        send(address, topic, 10)
        went = admin.reset_offset(group, topic)
        again = Kept()
        with consumer(address, group, again, subscription={topic: "*"}) as member:
            wait_until(lambda: len(member.assignment()) == 2, WAIT_S)
            time.sleep(2)
            before = len(again.messages)
            send(address, topic, 2)
            again.wait(2)
    return {
        "went": sum(went.values()), "before": before,
        "after": sorted(each.body.decode() for each in again.messages),
    }  # fmt: skip


def instructed(address: str, run: str) -> dict[str, Any]:
    """What a broker passes on to a consumer: report your state, report your offsets, consume this
    message now."""
    with Admin(namesrv_addr=address) as admin:
        topic = topic_of(admin, "told", run, 2)
        group = f"told-{run}"
        kept = Kept(lambda messages, context: LATER if messages[0].body == b"fail" else None)
        with consumer(address, group, kept) as member:
            member.subscribe(topic, "A || B")
            send(address, topic, 8)
            kept.wait(8)
            queue = admin.route(topic).readable()[0]
            broker = admin._instance.routes.address_of(queue.broker_name)

            def ask(code: int, **fields: Any) -> tuple[int, dict[str, Any]]:
                reply = admin._instance.ask(broker, code, fields)
                return reply.code, fastjson.loads_object(reply.body) if reply.body else {}

            place = {"consumerGroup": group, "clientId": member.client_id}
            code, info = ask(RequestCode.GET_CONSUMER_RUNNING_INFO, **place, jstackEnable=True)
            status_code, status = ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
                                      topic=topic, group=group, clientAddr="")  # fmt: skip
            with Producer(f"told-{run}-p", namesrv_addr=address) as sender:
                # Its tag is not one of the consumer's.
                failing = sender.send(Message(topic, "fail", "C"))
            first = next(each for each in kept.messages if each.body == b"3")
            direct = []
            for message_id in (first.offset_message_id, failing.offset_message_id):
                _, result = ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, **place, msgId=message_id,
                                brokerName=queue.broker_name, topic=topic)  # fmt: skip
                direct.append((result["consumeResult"], result["order"], result["autoCommit"]))
            gone = ask(RequestCode.GET_CONSUMER_RUNNING_INFO,
                       **{**place, "clientId": "nobody@1"})[0]  # fmt: skip
            tables = list(status.get("consumerTable", {}).values())
            return {
                "code": code,
                "type": info["properties"]["PROP_CONSUME_TYPE"],
                "subscriptions": sorted((each["topic"] == topic, each["subString"])
                                        for each in info["subscriptionSet"]),
                "queues": sum(name.topic == topic for name in info["mqTable"]),
                "stacks": "consume" in info["jstack"],
                "status": (status_code, len(tables),
                           sum(sum(table.values()) for table in tables)),
                "direct": direct,
                "again": Counter(each.body for each in kept.messages)[b"3"],
                "gone": gone,
            }  # fmt: skip


def traced(address: str, run: str) -> dict[str, Any]:
    """Three messages, of which the consumer fails the second one once."""

    def decide(messages: list[MessageExt], context: Any) -> Any:
        context.delay_level_when_next_consume = 1
        return LATER if messages[0].body == b"1" and not messages[0].reconsume_times else None

    kept = Kept(decide)
    with Admin(namesrv_addr=address) as admin:
        topic = topic_of(admin, "traced", run)
    group = f"traced-{run}"
    with (
        consumer(address, group, kept, enable_trace=True, subscription={topic: "*"}),
        Producer(f"traced-{run}-p", namesrv_addr=address, enable_trace=True) as sender,
    ):
        ids = [sender.send(Message(topic, str(i), "Tag", f"k{i}")).message_id for i in range(3)]
        kept.wait(4)
        time.sleep(1)
    until = time.monotonic() + WAIT_S
    while True:
        shown = CliRunner().invoke(cli, ["trace", ids[1], "--namesrv", address, "--json"])
        records = json.loads(shown.output) if shown.exit_code == 0 else []
        if len(records) == 3 or time.monotonic() > until:
            break
        time.sleep(0.3)
    return {
        "kinds": [each["kind"] for each in records],
        "groups": [each["group"].replace(run, "") for each in records],
        "success": [each.get("success") for each in records],
        "retries": [each.get("retries") for each in records],
        "what": {name: records[0][name] for name in ("tags", "keys", "message_type")},
        "topic": records[0]["topic"] == topic,
    }


class Unended:
    """Twenty half messages whose end is unknown until `ended` is called."""

    def __init__(self, address: str, run: str) -> None:
        self.address = address
        self.asked: set[int] = set()
        self.knows = False
        with Admin(namesrv_addr=address) as admin:
            self.topic = topic_of(admin, "unended", run, 2)
        self.producer = TransactionProducer(f"ue-{run}", self, namesrv_addr=address)

    def __enter__(self) -> Unended:
        self.producer.start()
        for number in range(20):
            self.producer.send_in_transaction(Message(self.topic, str(number)))
        return self

    def __exit__(self, *_: object) -> None:
        self.producer.close()

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        return UNKNOWN

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        if not self.knows:
            return UNKNOWN
        number = int(message.body)
        self.asked.add(number)
        return ROLLBACK if number % 2 else COMMIT

    def ended(self, once: bool) -> dict[str, Any]:
        self.knows = True
        wait_until(lambda: len(self.asked) == 20, WAIT_S)
        awaited(self.address, self.topic, 10)
        time.sleep(2)
        found = [int(each.body) for each in read_all(self.address, self.topic)]
        return {
            "seen": sorted(found if once else set(found)),
            "all were asked about": self.asked == set(range(20)),
        }
