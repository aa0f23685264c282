"""What rmq's Python consumers do against any broker, as plain values that can be compared.

Like python_scenarios.py, whose tools this file uses. test_python_consumers.py holds the values that
rmq and Apache RocketMQ 5.5.0 both give.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from compat.python_scenarios import WAIT_S, awaited, topic_of
from support.waiting import wait_until

from rmq import (
    Admin,
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyStatus,
    Message,
    MessageExt,
    PopConsumer,
    Producer,
    PullConsumer,
    PushConsumer,
    RouteError,
)

LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER
SUSPEND = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT


class Kept:
    """A listener that keeps what it gets."""

    def __init__(self, decide: Any = None) -> None:
        self.messages: list[MessageExt] = []
        self._lock = threading.Lock()
        self._decide = decide

    def __call__(self, messages: list[MessageExt], context: Any) -> Any:
        with self._lock:
            self.messages += messages
        return self._decide(messages, context) if self._decide is not None else None

    def wait(self, count: int) -> list[str]:
        wait_until(lambda: len(self.messages) >= count, WAIT_S)
        return [each.body.decode() for each in self.messages]


def consumer(address: str, group: str, listener: Any, **changes: Any) -> PushConsumer:
    changes = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET", "consume_thread_min": 4,
               "consume_thread_max": 4, **changes}  # fmt: skip
    return PushConsumer(group, listener, namesrv_addr=address, **changes)


def send(address: str, topic: str, count: int, **more: Any) -> None:
    with Producer("senders", namesrv_addr=address) as producer:
        for i in range(count):
            producer.send(Message(topic, f"{i}", "AB"[i % 2], properties={"n": str(i)}, **more))


def pushed(address: str, run: str) -> dict[str, Any]:
    """Two members of a group, then a third, with filters by tag."""
    with Admin(namesrv_addr=address) as admin:
        topic = topic_of(admin, "push", run, 4)
        group = f"push-{run}"
        kept = Kept()
        members = [consumer(address, group, kept, consume_message_batch_max_size=4).start()
                   for _ in range(3)]  # fmt: skip
        try:
            for each in members:
                each.subscribe(topic, "A")
            queues = admin.route(topic).readable()
            wait_until(lambda: sorted(queue for each in members for queue in each.assignment())
                       == queues, WAIT_S)  # fmt: skip
            shares = sorted(len(each.assignment()) for each in members)
            time.sleep(1)
            send(address, topic, 400)
            kept.wait(200)
            time.sleep(1)
        finally:
            for each in members:
                each.close()
        return {
            "shares": shares,
            "bodies": Counter(each.body for each in kept.messages)
            == Counter(b"%d" % i for i in range(0, 400, 2)),
            "tags": {each.tags for each in kept.messages},
            "properties": all(each.get_property("n") == each.body.decode()
                              for each in kept.messages),
            "committed": sum(admin.committed_offset(group, each) or 0 for each in queues) >= 200,
            "members": admin.members(group) is None,
        }  # fmt: skip


def retried(address: str, run: str) -> dict[str, Any]:
    """One message fails once, another one always."""

    def decide(messages: list[MessageExt], context: Any) -> Any:
        context.delay_level_when_next_consume = 1
        (message,) = messages
        if message.body == b"1" or (message.body == b"2" and message.reconsume_times == 0):
            return LATER
        return None

    with Admin(namesrv_addr=address) as admin:
        topic = topic_of(admin, "retry", run)
        group = f"retry-{run}"
        kept = Kept(decide)
        send(address, topic, 4)
        with consumer(address, group, kept, max_reconsume_times=2) as member:
            member.subscribe(topic)
            bodies = kept.wait(7)
            dead = dead_letters(admin, address, group)
        first = next(each for each in kept.messages if each.body == b"1")
        later = [each for each in kept.messages if each.body == b"1" and each is not first]
        return {
            "tries": dict(sorted(Counter(bodies).items())),
            "times": [each.reconsume_times for each in later],
            "topics": {each.topic == topic for each in kept.messages},
            "same id": {each.message_id == first.message_id for each in (*later, *dead)},
            "origin": {each.get_property("ORIGIN_MESSAGE_ID") == first.offset_message_id
                       for each in later},
            "tags": {each.tags for each in (*later, *dead)},
            "dead": [(each.body, each.get_property("RETRY_TOPIC") == topic,
                      each.get_property("n")) for each in dead],
        }  # fmt: skip


def dead_letters(admin: Admin, address: str, group: str) -> list[MessageExt]:
    topic = f"%DLQ%{group}"
    until = time.monotonic() + WAIT_S
    while True:
        try:
            admin.route(topic)
            return awaited(address, topic, 1)
        except RouteError:
            assert time.monotonic() < until, f"no route for {topic}"
            time.sleep(0.2)


def broadcast(address: str, run: str, folder: Path) -> dict[str, Any]:
    """Each of two members gets everything; when one starts again it goes on where its file says."""
    with Admin(namesrv_addr=address) as admin:
        topic = topic_of(admin, "cast", run, 2)
    kept = [Kept(), Kept()]
    members = [
        consumer(address, f"cast-{run}", each, message_model="BROADCASTING",
                 local_offset_store_dir=str(folder / str(i)), subscription={topic: "*"})
        for i, each in enumerate(kept)
    ]  # fmt: skip
    with members[0], members[1]:
        send(address, topic, 60)
        got = [sorted(map(int, each.wait(60))) == list(range(60)) for each in kept]
    again = Kept()
    with consumer(address, f"cast-{run}", again, message_model="BROADCASTING",
                  local_offset_store_dir=str(folder / "0"), subscription={topic: "*"}):  # fmt: skip
        send(address, topic, 3)
        rest = sorted(again.wait(3))
        time.sleep(0.5)
    return {"all": got, "rest": rest, "later": len(again.messages)}


def in_order(address: str, run: str) -> dict[str, Any]:
    """Messages with a key keep their order through a failure and a hand-over."""
    failed = threading.Event()
    busy: Counter[Any] = Counter()
    overlaps: list[Any] = []

    def decide(messages: list[MessageExt], context: Any) -> Any:
        (message,) = messages
        busy[message.queue] += 1
        if busy[message.queue] > 1:
            overlaps.append(message.queue)
        time.sleep(0.004)
        busy[message.queue] -= 1
        if message.body == b"7" and not failed.is_set():
            failed.set()
            context.suspend_current_queue_time_millis = 300
            return SUSPEND
        return None

    with Admin(namesrv_addr=address) as admin:
        topic = topic_of(admin, "order", run, 4)
        group = f"order-{run}"
        with Producer("senders", namesrv_addr=address) as producer:
            for i in range(300):
                producer.send(Message(topic, f"{i}", sharding_key=str(i % 11)))
        kept = Kept(decide)
        one = consumer(address, group, kept, consume_orderly=True).start()
        two = consumer(address, group, kept, consume_orderly=True)
        try:
            one.subscribe(topic)
            kept.wait(50)
            two.start()
            two.subscribe(topic)
            wait_until(lambda: len(one.assignment()) == len(two.assignment()) == 2, WAIT_S)
            one.close()
            bodies = kept.wait(301)
            time.sleep(1)
        finally:
            one.close()
            two.close()
        order: dict[int, list[int]] = {}
        for body in map(int, bodies):
            order.setdefault(body % 11, []).append(body)
        return {
            "in order": all(found == sorted(found) for found in order.values()),
            "counts": dict(Counter(Counter(bodies).values())),
            "twice": [body for body, count in Counter(bodies).items() if count == 2],
            "overlaps": overlaps,
            "later": len(kept.messages) - 301,
        }


def popped(address: str, run: str) -> dict[str, Any]:
    """Two consumers pop messages; a message that is not acknowledged comes again."""
    with Admin(namesrv_addr=address) as admin:
        topic = topic_of(admin, "pop", run, 4)
    settings: dict[str, Any] = {
        "namesrv_addr": address, "consume_from_where": "CONSUME_FROM_FIRST_OFFSET",
        "pop_invisible_time": 8_000,
    }  # fmt: skip
    send(address, topic, 60)
    taken: list[MessageExt] = []
    with PopConsumer(f"pop-{run}", **settings) as one, PopConsumer(f"pop-{run}", **settings) as two:
        for each in (one, two):
            each.subscribe(topic)
        until = time.monotonic() + WAIT_S
        while len(taken) < 60 and time.monotonic() < until:
            for each in (one, two):
                got = each.poll(300, 8)
                each.ack([message for message in got if message.body not in (b"7", b"8")])
                taken += got
        first = Counter(int(each.body) for each in taken)
        late = next(each for each in taken if each.body == b"8")
        one.change_invisible_time(late, 12_000)
        again: list[MessageExt] = []
        while len(again) < 2 and time.monotonic() < until:
            got = one.poll(1_000)
            one.ack(got)
            again += got
        rest = one.poll(3_000)
    return {
        "first": first == Counter(range(60)),
        "again": [each.body.decode() for each in again],
        "times": [each.reconsume_times for each in (*taken[:1], *again)],
        "topics": {each.topic == topic for each in (*taken, *again)},
        "same id": again[0].message_id
        == next(each.message_id for each in taken if each.body == b"7"),
        "rest": len(rest),
    }


def polled(consumer: PullConsumer, count: int) -> list[MessageExt]:
    found: list[MessageExt] = []
    until = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < until:
        found += consumer.poll(500)
    return found


def puller(address: str, group: str) -> PullConsumer:
    return PullConsumer(group, namesrv_addr=address, auto_commit=False,
                        consume_from_where="CONSUME_FROM_FIRST_OFFSET")  # fmt: skip


def pulled(address: str, run: str) -> dict[str, Any]:
    """Members that pull share a topic, commit, and go on at the group's offsets."""
    with Admin(namesrv_addr=address) as admin:
        topic = topic_of(admin, "pull", run, 2)
        queues = admin.route(topic).readable()
        group = f"pull-{run}"
        send(address, topic, 40)
        with puller(address, group) as one:
            one.subscribe(topic)
            first = polled(one, 40)
            before = [one.committed(each) for each in queues]
            one.commit()
            after = [one.committed(each) for each in queues]
            with puller(address, group) as two:
                two.subscribe(topic)
                wait_until(lambda: sorted(one.assignment() + two.assignment()) == queues, WAIT_S)
                shares = [len(each.assignment()) for each in (one, two)]
        send(address, topic, 4)
        with puller(address, group) as again:
            again.subscribe(topic)
            rest = polled(again, 4) + again.poll(1_000)
        return {
            "first": Counter(int(each.body) for each in first) == Counter(range(40)),
            "in order": all(
                [each.queue_offset for each in first if each.queue_id == queue] == [*range(20)]
                for queue in range(2)
            ),
            "committed": (before, after, sum(admin.committed_offset(group, each) or 0
                                             for each in queues)),
            "shares": shares,
            "rest": sorted(int(each.body) for each in rest),
        }  # fmt: skip


def sought(address: str, run: str) -> dict[str, Any]:
    """Queues assigned by hand: sought to an offset, a time, the ends; paused and resumed."""
    with Admin(namesrv_addr=address) as admin:
        topic = topic_of(admin, "seek", run)
    send(address, topic, 10)
    time.sleep(0.05)
    moment = int(time.time() * 1000)
    time.sleep(0.05)
    send(address, topic, 10)
    with puller(address, f"seek-{run}") as reader:
        (queue,) = reader.queues(topic)
        reader.assign([queue])

        def offsets(count: int) -> list[int]:
            return [each.queue_offset for each in polled(reader, count)]

        everything = offsets(20)
        reader.seek(queue, 17)
        from_17 = offsets(3)
        reader.seek_to_time(queue, moment)
        from_then = (reader.position(queue), offsets(10))
        reader.seek_to_begin(queue)
        reader.pause(queue)
        paused = (reader.paused() == [queue], len(reader.poll(1_000)))
        reader.resume(queue)
        from_begin = offsets(20)
        reader.seek_to_end(queue)
        at_end = (reader.position(queue), len(reader.poll(500)))
        reader.commit({queue: 3})
        committed = reader.committed(queue)
    return {
        "everything": everything == [*range(20)], "from 17": from_17,
        "from then": from_then == (10, [*range(10, 20)]), "paused": paused,
        "from begin": from_begin == [*range(20)], "at end": at_end, "committed": committed,
    }  # fmt: skip
