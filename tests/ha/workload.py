"""Workload: clients of a cluster that write down what they do and are told (history.py).

    python -m tests.ha.workload KIND.. --namesrv HOST:PORT[;..] --folder DIR --name NAME --seed N

Each KIND of KINDS runs in a thread with a history of its own. The first line on the standard input
ends the sends; its end, which comes with that of who started it, ends all. Producers never send a
message again: one that got no answer is a question, not an error. The exit code is 1 when a client
ended by an exception that is none of rmq's.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from rmq import (
    Admin,
    LocalTransactionState,
    Message,
    MessageExt,
    MessageQueue,
    PopConsumer,
    Producer,
    PullConsumer,
    PushConsumer,
    RmqError,
    SendResult,
    TransactionProducer,
)
from tests.ha.history import (
    ELSEWHERE,
    Assigned,
    Committed,
    Decided,
    Delivered,
    OffsetRead,
    Reset,
    Sending,
    Subscribed,
    Worked,
    Writer,
)
from tests.ha.keeper import Keeper
from tests.ha.sends import body, send, send_batch
from tests.ha.setting import (
    BATCH_MOST,
    BATCH_PAUSE_S,
    COMMITS,
    DELAYED,
    FIRST,
    KEYS,
    LATER,
    ORDERED,
    PAUSE_S,
    PLAIN,
    PULL,
    QUICK,
    RESETS,
    TIMED,
    TOPICS,
    TRANSACTED,
    WORK_S,
    Setting,
)
from tests.ha.topic_maker import TopicMaker

# ---- producers


def produce(setting: Setting, topic: str, kind: str) -> None:
    """Sends messages one after the other until it is time to rest."""
    with Producer(
        f"{topic}-producers", namesrv_addr=setting.namesrv, retry_times_when_send_failed=0, **QUICK
    ) as producer:
        number = 0
        while not setting.resting.wait(PAUSE_S):
            number += 1
            name = f"{setting.name}/{number}"
            key = setting.random.choice(KEYS) if kind == "ordered" else ""
            message = Message(topic, body(name, setting.random), **dues(kind, setting.random))
            if key:
                message = Message(topic, body(name, setting.random), sharding_key=key)
            sending = Sending(message=name, topic=topic, kind=kind, key=key)
            if send(setting, sending, partial(producer.send, message)) is None:
                setting.resting.wait(0.02)


def produce_batches(setting: Setting, topic: str) -> None:
    """Sends a few messages in one request, one request after the other."""
    with Producer(
        f"{topic}-batches", namesrv_addr=setting.namesrv, retry_times_when_send_failed=0, **QUICK
    ) as producer:
        number = 0
        while not setting.resting.wait(BATCH_PAUSE_S):
            number += 1
            batch = f"{setting.name}/{number}"
            names = [f"{batch}.{place}" for place in range(setting.random.randint(2, BATCH_MOST))]
            sendings = [Sending(message=name, topic=topic, batch=batch) for name in names]
            messages = [Message(topic, body(name, setting.random)) for name in names]
            if not send_batch(setting, sendings, partial(producer.send_batch, messages)):
                setting.resting.wait(0.02)


def name_of(message: MessageExt) -> str:
    return message.body.split(b" ", 1)[0].decode(errors="replace")


def dues(kind: str, maker: random.Random) -> dict[str, Any]:
    if kind == "delayed":
        return {"delay_level": 1}
    return {"delay_seconds": maker.uniform(0.2, 2.0)} if kind == "timed" else {}


class Transactions:
    """Local transactions: the end of each is chosen at random, written down, and repeated when a
    broker checks back."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.ends: dict[str, bool] = {}

    def execute_local_transaction(self, message: Message, name: str) -> LocalTransactionState:
        self.ends[name] = self.setting.random.random() < 0.8
        self.setting.history.add(Decided(message=name, commit=self.ends[name]))
        if self.setting.random.random() < 0.1:
            return LocalTransactionState.UNKNOWN  # the broker will ask
        return self._state(name)

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        return self._state(name_of(message))

    def never_ran(self, name: str) -> None:
        """The local transaction did not run, and never will: it counts as rolled back."""
        if name not in self.ends:
            self.ends[name] = False
            self.setting.history.add(Decided(message=name, commit=False))

    def _state(self, name: str) -> LocalTransactionState:
        """UNKNOWN before the transaction began: a broker may check back while the half message's
        answer is still on its way."""
        if name not in self.ends:
            return LocalTransactionState.UNKNOWN
        return LocalTransactionState.COMMIT if self.ends[name] else LocalTransactionState.ROLLBACK


def transact(setting: Setting) -> None:
    """Sends transactions, and then stays until it is closed, as brokers check back on open ones."""
    ends = Transactions(setting)
    with TransactionProducer(
        f"{TRANSACTED}-producers", ends, namesrv_addr=setting.namesrv,
        retry_times_when_send_failed=0, **QUICK,
    ) as producer:  # fmt: skip
        number = 0
        while not setting.resting.wait(5 * PAUSE_S):
            number += 1
            name = f"{setting.name}/{number}"
            message = Message(TRANSACTED, body(name, setting.random))
            sending = Sending(message=name, topic=TRANSACTED, kind="transaction")
            if send(setting, sending, partial(_end_to_end, producer, message, name)) is None:
                ends.never_ran(name)
                setting.resting.wait(0.05)
        setting.closing.wait()


def _end_to_end(producer: TransactionProducer, message: Message, name: str) -> SendResult:
    return producer.send_in_transaction(message, name).result


# ---- consumers


def delivered(message: MessageExt, group: str, how: str) -> Delivered:
    """The event for a message. If it came again through a retry topic, its place is in that
    topic."""
    again = how == "any" and message.reconsume_times > 0
    return Delivered(
        message=name_of(message), group=group, topic=message.topic, broker=message.broker_name,
        queue_id=message.queue_id, offset=ELSEWHERE if again else message.queue_offset, how=how,
        log_offset=ELSEWHERE if again else message.commit_log_offset,
    )  # fmt: skip


def consume(setting: Setting, topics: Iterable[str], how: str) -> None:
    """A push consumer, in order or not."""
    group = f"ha-{'ordered' if how == 'push' else 'later'}"

    def listener(messages: list[MessageExt], context: object) -> None:
        began = time.monotonic_ns()
        for message in messages:
            setting.history.add(delivered(message, group, how))
        if how == "push":  # it takes a while, so that another one at work would be seen
            setting.closing.wait(setting.random.uniform(0, WORK_S))
            last = messages[-1]
            setting.history.add(
                Worked(group=group, topic=last.topic, broker=last.broker_name, began=began,
                       queue_id=last.queue_id, offset=last.queue_offset)
            )  # fmt: skip

    for topic in topics:
        setting.history.add(Subscribed(group=group, topic=topic))
    with PushConsumer(
        group, listener, namesrv_addr=setting.namesrv, consume_orderly=how == "push",
        consume_message_batch_max_size=8, subscription=dict.fromkeys(topics, "*"), **QUICK, **FIRST,
    ):  # fmt: skip
        setting.closing.wait()


def pop(setting: Setting, topic: str, how: str) -> None:
    """A pop consumer, in order or not."""
    group = "ha-pop-ordered" if how == "push" else "ha-pop"
    setting.history.add(Subscribed(group=group, topic=topic))
    with PopConsumer(
        group, namesrv_addr=setting.namesrv, pop_invisible_time=5000, **QUICK,
        consume_orderly=how == "push", consume_from_where="CONSUME_FROM_FIRST_OFFSET",
    ) as consumer:  # fmt: skip
        consumer.subscribe(topic)
        while not setting.closing.is_set():
            with contextlib.suppress(RmqError):
                for message in consumer.poll(500):
                    setting.history.add(delivered(message, group, how))
                    consumer.ack_async(message)


class Reader:
    """The one pull reader of its group: it asks where the group is, begins there, and commits."""

    group = PULL

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.positions: dict[MessageQueue, int] = {}
        self.since = 0  # when the consumer of now was made

    def run(self) -> None:
        """Reads, and begins anew every other second."""
        self.setting.history.add(Subscribed(group=self.group, topic=PLAIN))
        while not self.setting.closing.is_set():
            try:
                self._read(time.monotonic() + self.setting.random.uniform(1, 3))
            except RmqError:
                self.setting.closing.wait(0.1)

    def _read(self, until: float) -> None:
        self.positions.clear()
        self.since = time.monotonic_ns()
        with PullConsumer(
            self.group, namesrv_addr=self.setting.namesrv, auto_commit=False, **QUICK, **FIRST
        ) as consumer:
            queues = consumer.queues(PLAIN)
            begins = {queue: self._begin(consumer, queue) for queue in queues}
            consumer.assign(queues)
            for queue, offset in begins.items():
                consumer.seek(queue, offset)
                self._add(Assigned, queue, offset)
                self.positions[queue] = offset
            while time.monotonic() < until and not self.setting.closing.is_set():
                for message in consumer.poll(200):
                    event = delivered(message, self.group, "pull")
                    self.setting.history.add(event)
                    self.positions[message.queue] = message.queue_offset + 1
                self._commit(consumer)

    def _begin(self, consumer: PullConsumer, queue: MessageQueue) -> int:
        asked = time.monotonic_ns()
        offset = consumer.committed(queue)
        told = ELSEWHERE if offset is None else offset
        self._add(OffsetRead, queue, told, asked=asked, since=self.since)
        return offset or 0

    def _commit(self, consumer: PullConsumer) -> None:
        for queue, offset in self.positions.items():
            asked, acked = time.monotonic_ns(), False
            try:
                consumer.commit({queue: offset})
                acked = True
            finally:
                self._add(Committed, queue, offset, asked=asked, acked=acked, since=self.since)

    def _add(self, kind: Callable[..., Any], queue: MessageQueue, offset: int, **more: Any) -> None:
        self.setting.history.add(
            kind(group=self.group, topic=queue.topic, broker=queue.broker_name,
                 queue_id=queue.queue_id, offset=offset, **more)
        )  # fmt: skip


def operate(setting: Setting) -> None:
    """Now and then resets the pull group to an early offset."""
    with Admin(namesrv_addr=setting.namesrv, **QUICK) as admin:
        began = time.time()
        while not setting.resting.wait(setting.random.uniform(1, 3)):
            when = int(1000 * (began + (time.time() - began) * setting.random.uniform(0, 0.25)))
            queues = admin.route(PLAIN).readable()
            expected = {queue: admin.offset_at(queue, when) for queue in queues}
            asked, acked = time.monotonic_ns(), False
            try:
                found = admin.reset_offset(Reader.group, PLAIN, when)
                acked = found == expected
            finally:
                for queue, offset in expected.items():
                    setting.history.add(
                        Reset(group=Reader.group, topic=PLAIN, broker=queue.broker_name,
                              queue_id=queue.queue_id, offset=offset, asked=asked, acked=acked)
                    )  # fmt: skip
            if not acked:
                raise AssertionError(f"reset to {found}, expected {expected}")


KINDS: dict[str, Callable[[Setting], None]] = {
    "plain": lambda setting: produce(setting, PLAIN, "plain"),
    "batches": lambda setting: produce_batches(setting, PLAIN),
    "ordered": lambda setting: produce(setting, ORDERED, "ordered"),
    "delayed": lambda setting: produce(setting, DELAYED, "delayed"),
    "timed": lambda setting: produce(setting, TIMED, "timed"),
    "transacted": transact,
    "read-plain": lambda setting: Reader(setting).run(),
    "read-ordered": lambda setting: consume(setting, [ORDERED], "push"),
    "read-later": lambda setting: consume(setting, LATER, "any"),
    "pop": lambda setting: pop(setting, PLAIN, "any"),
    "pop-ordered": lambda setting: pop(setting, ORDERED, "push"),
    "operator": operate,
    "topics": lambda setting: TopicMaker(setting).run(),
    "commits": lambda setting: Keeper(setting, COMMITS).run(),
    "resets": lambda setting: Keeper(setting, RESETS).run(),
}


def run(kind: str, setting: Setting, failures: list[str]) -> None:
    """A client that cannot begin, as nobody is there, tries again."""
    with setting.history:
        while not setting.closing.is_set():
            try:
                KINDS[kind](setting)
                return
            except RmqError as error:
                logging.info("%s: %s", kind, error)
                setting.closing.wait(0.2)
                if setting.resting.is_set() and kind in TOPICS:
                    return
            except Exception:
                failures.append(traceback.format_exc())
                return


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ha.workload", description=__doc__)
    parser.add_argument("kinds", nargs="+", choices=KINDS, metavar="KIND")
    for name in ("--namesrv", "--folder", "--name", "--seed"):
        parser.add_argument(name, required=True)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    resting, closing = threading.Event(), threading.Event()
    failures: list[str] = []
    threads = []
    for kind in given.kinds:
        name = f"{given.name}-{kind}"
        history = Writer(Path(given.folder), name)
        maker = random.Random(f"{given.seed} {name}")
        setting = Setting(name, given.namesrv, history, maker, resting, closing)
        threads.append(threading.Thread(target=run, args=(kind, setting, failures), name=kind))
        threads[-1].start()
    sys.stdin.readline()
    resting.set()
    sys.stdin.read()
    closing.set()
    for thread in threads:
        thread.join(60)
    stuck = [thread.name for thread in threads if thread.is_alive()]
    for text in [*failures, *(f"{name} does not end" for name in stuck)]:
        print(text, file=sys.stderr, flush=True)
    if stuck:
        os._exit(1)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
