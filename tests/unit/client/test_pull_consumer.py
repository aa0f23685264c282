"""PullConsumer against an embedded broker."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.broker_pair import Pair
from support.calm_clock import calm_seconds
from support.consuming import API_TIMEOUT_MS, moment_ms, numbers
from support.consuming import create as create_topic
from support.consuming import send as send_all
from support.driven_clock import DrivenClock
from support.scripted_peer import ScriptedPeer
from support.topics import make_topic
from support.waiting import HANG_S, wait_until

from rmq import (
    Admin,
    ClosedError,
    ConfigError,
    Message,
    MessageError,
    MessageExt,
    Producer,
    PullConsumer,
    RouteError,
)
from rmq.base import clock
from rmq.client.allocation import average_allocation
from rmq.client.consumer.start_offsets import Start
from rmq.client.pull import consumer as pull_consumer
from rmq.codes import RequestCode
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.pytest_plugin import RunningBroker


def create(broker: RunningBroker, topic: str, queues: int) -> list[MessageQueue]:
    return create_topic(broker.namesrv_addr, topic, queues)


def consumer_of(broker: RunningBroker, group: str, **changes: object) -> PullConsumer:
    given = {"mq_client_api_timeout": API_TIMEOUT_MS, **changes}
    return PullConsumer(group, namesrv_addr=broker.namesrv_addr, **given)


def send(broker: RunningBroker, messages: list[Message]) -> None:
    send_all(broker.namesrv_addr, messages)


def gather(consumer: PullConsumer, count: int, timeout_s: float = HANG_S) -> list[MessageExt]:
    """Polls until so many messages have come. Fails if they do not come, or if there are more."""
    found: list[MessageExt] = []
    until = time.monotonic() + timeout_s
    while len(found) < count and time.monotonic() < until:
        found += consumer.poll(200, 100)
    assert len(found) == count
    return found


def bodies(messages: list[MessageExt]) -> list[int]:
    return [int(each.body) for each in messages]


def test_each_queue_is_read_in_order_and_whole(broker: RunningBroker) -> None:
    create(broker, "pull-order", 4)
    sent = [Message("pull-order", f"{i}", "t", f"k{i}", properties={"n": str(i)})
            for i in range(5_000)]  # fmt: skip
    send(broker, sent)
    with consumer_of(broker, "pull-order", pull_batch_size=32) as consumer:
        consumer.subscribe("pull-order")
        found = gather(consumer, 5_000)
        assert consumer.poll(300) == []
    assert sorted(bodies(found)) == list(range(5_000))
    for queue_id in range(4):
        offsets = [each.queue_offset for each in found if each.queue_id == queue_id]
        assert offsets == list(range(len(offsets)))
    for each in found[::500]:
        text = each.body.decode()
        assert (each.topic, each.tags, each.keys) == ("pull-order", "t", f"k{text}")
        assert each.get_property("n") == text


def test_what_is_pulled_ahead_has_bounds(broker: RunningBroker) -> None:
    (queue,) = create(broker, "pull-bounds", 1)
    send(broker, [Message("pull-bounds", f"{i}") for i in range(300)])
    with consumer_of(broker, "pull-bounds", pull_threshold_for_queue=40) as consumer:
        consumer.assign([queue])
        state = consumer._client._assigned.of(queue)
        wait_until(lambda: state in consumer._client._puller._full or state.count > 40)
        assert state.count == 40
        assert not state.pulling
        assert bodies(consumer.poll(0, 5)) == list(range(5))
        assert consumer.position(queue) == 5
        assert bodies(gather(consumer, 295)) == list(range(5, 300))
        assert consumer.position(queue) == 300


def test_one_pull_brings_as_many_as_are_asked_for(broker: RunningBroker) -> None:
    (queue,) = create(broker, "pull-bulk", 1)
    send(broker, [Message("pull-bulk", f"{i}") for i in range(300)])
    for batch, brought in ((10, 10), (32, 32), (200, 200), (1_000, 300)):
        # With a threshold of one message the second pull waits until the first pull's messages are
        # taken.
        with consumer_of(
            broker, f"pull-bulk-{batch}", pull_batch_size=batch, pull_threshold_for_queue=1
        ) as consumer:
            consumer.assign([queue])
            state = consumer._client._assigned.of(queue)
            wait_until(lambda state=state: state.count > 0)
            assert state.count == brought
            assert bodies(gather(consumer, 300)) == list(range(300))


def test_a_waiting_poll_gets_what_is_sent_at_once(
    clock: DrivenClock, broker: RunningBroker
) -> None:
    (queue,) = create(broker, "pull-wait", 1)

    def send_then() -> None:
        wait_until(lambda: consumer._client._assigned.of(queue).pulling, still=True)
        send(broker, [Message("pull-wait", b"7")])

    with consumer_of(broker, "pull-wait") as consumer:
        consumer.subscribe("pull-wait")
        began, calm = clock.monotonic(), calm_seconds()
        with clock.passing():
            assert consumer.poll(300) == []
        assert clock.monotonic() - began >= 0.3
        assert calm_seconds() - calm < 4.5  # a wait at the broker would take 5 s or more
        sender = threading.Thread(target=send_then)
        sender.start()
        calm = calm_seconds()
        assert bodies(consumer.poll(60_000)) == [7]
        assert calm_seconds() - calm < 10  # the broker's wait would take longer
        sender.join()


def test_tags_and_sql_choose_messages(broker: RunningBroker) -> None:
    create(broker, "pull-filter", 2)
    # "Aa" and "BB" have the same hash in Java: the broker cannot tell them apart.
    tags = ["Aa", "BB", "c", "d"]
    send(broker, [Message("pull-filter", f"{i}", tags[i % 4], properties={"n": str(i)})
                  for i in range(80)])  # fmt: skip
    with consumer_of(broker, "pull-tags") as consumer:
        consumer.subscribe("pull-filter", "Aa || c")
        assert sorted(bodies(gather(consumer, 40))) == list(range(0, 80, 2))
        assert consumer.poll(300) == []
    with consumer_of(broker, "pull-sql") as consumer:
        consumer.subscribe("pull-filter", sql="n >= 60 AND TAGS = 'd'")
        assert sorted(bodies(gather(consumer, 5))) == [63, 67, 71, 75, 79]
        assert consumer.poll(300) == []


@pytest.mark.usefixtures("told_only")
def test_two_of_a_group_get_each_message_once(broker: RunningBroker) -> None:
    queues = create(broker, "pull-share", 5)
    with consumer_of(broker, "pull-share") as one:
        one.subscribe("pull-share")
        assert one.assignment() == queues
        with consumer_of(broker, "pull-share") as two:
            two.subscribe("pull-share")
            wait_until(lambda: sorted(one.assignment() + two.assignment()) == queues)
            assert {len(one.assignment()), len(two.assignment())} == {2, 3}
            assert one.poll(500) + two.poll(500) == []
            send(broker, [Message("pull-share", f"{i}") for i in range(1_000)])
            found: list[MessageExt] = []
            until = time.monotonic() + HANG_S
            while len(found) < 1_000 and time.monotonic() < until:
                for each in (one, two):
                    got = each.poll(50)
                    assert {message.queue for message in got} <= set(each.assignment())
                    found += got
            found += one.poll(300) + two.poll(300)
            assert Counter(bodies(found)) == Counter(range(1_000))
        wait_until(lambda: one.assignment() == queues)
        send(broker, [Message("pull-share", f"{i}") for i in range(1_000, 1_100)])
        assert sorted(bodies(gather(one, 100))) == list(range(1_000, 1_100))


def test_a_close_waits_for_all_its_commits_at_once() -> None:
    """close() must send all commits at once, so that a silent broker costs one timeout, however
    many queues it has. (The broker here is stopped instead.)"""
    with ScriptedPeer({}) as peer:
        route = fastjson.dumps({
            "brokerDatas": [{"brokerName": "b", "cluster": "c",
                             "brokerAddrs": {"0": peer.address}}],
            "queueDatas": [{"brokerName": "b", "perm": 6, "readQueueNums": 3,
                            "writeQueueNums": 3}],
        })  # fmt: skip
        peer.answers = {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: lambda asked: asked.reply(0, None, None, route),
            RequestCode.HEART_BEAT: lambda asked: asked.reply(),
            RequestCode.QUERY_CONSUMER_OFFSET: lambda asked: asked.reply(0, None, {"offset": 5}),
            RequestCode.LITE_PULL_MESSAGE: lambda asked: None,
            RequestCode.UPDATE_CONSUMER_OFFSET: lambda asked: None,
        }
        consumer = PullConsumer(
            "g", namesrv_addr=peer.address, mq_client_api_timeout=API_TIMEOUT_MS
        ).start()
        consumer.assign(consumer.queues("t"))
        for queue in consumer.assignment():
            consumer.seek(queue, 7)
        closing = threading.Thread(target=consumer.close)
        closing.start()
        wait_until(lambda: [each.code for each in list(peer.requests)].count(
            RequestCode.UPDATE_CONSUMER_OFFSET) == 3)  # fmt: skip
    closing.join(HANG_S)
    assert not closing.is_alive()


@pytest.mark.parametrize("way", ["close", "give-up"])
def test_a_member_that_read_nothing_sends_nobody_back(broker: RunningBroker, way: str) -> None:
    """A member that read nothing must commit nothing when it ends: another member may have its
    queue by then, and be further."""
    topic = f"pull-begun-{way}"
    (queue,) = create(broker, topic, 1)
    with Admin(namesrv_addr=broker.namesrv_addr, mq_client_api_timeout=API_TIMEOUT_MS) as admin:
        with consumer_of(broker, topic) as consumer:
            consumer.subscribe(topic)
            wait_until(lambda: [each.committed for each in consumer._client._assigned.all()] == [0])
            admin.commit_offset(topic, queue, 3)
            if way == "give-up":
                consumer.unsubscribe(topic)
        assert admin.committed_offset(topic, queue) == 3


@pytest.mark.parametrize("cause", ["uncertain", "unknown", "refused"])
def test_topics_whose_share_is_not_complete_have_one_more_round_together(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    monkeypatch.setattr(pull_consumer, "AGAIN_MS", 3_600_000)
    topics = [f"pull-rounds-{cause}-{i}" for i in range(4)]
    with contextlib.ExitStack() as stack:
        consumer = stack.enter_context(consumer_of(broker, f"pull-rounds-{cause}"))
        for topic in topics:
            create(broker, topic, 1)
            consumer.subscribe(topic)
        instance = consumer._client.instance
        if cause == "uncertain":  # a broker is back, and does not know all members yet
            instance.heartbeats.returned_at = math.inf
            for topic in topics:
                consumer._client._members._before[topic].add("another")
        else:
            if cause == "unknown":
                other = stack.enter_context(consumer_of(broker, f"pull-rounds-{cause}"))
                other.subscribe(topics[0])
            instance.heartbeats.remove_consumer(consumer.group)
        for _ in range(3):
            with consumer._client._rebalancing:  # it is also told of changes of the group
                consumer._client.rebalance()
                pending = [
                    timer for due, _, timer in list(instance.timers._heap)
                    if timer.function == consumer._client.rebalance and not timer.cancelled
                    and due - clock.monotonic() > 600
                ]  # fmt: skip
            assert len(pending) == 1


@pytest.mark.usefixtures("told_only")
def test_another_strategy_shares_the_queues(broker: RunningBroker) -> None:
    queues = create(broker, "pull-circle", 5)
    changes = {"allocate_message_queue_strategy": "AVG_BY_CIRCLE"}
    with (
        consumer_of(broker, "pull-circle", **changes) as one,
        consumer_of(broker, "pull-circle", **changes) as two,
    ):
        one.subscribe("pull-circle")
        two.subscribe("pull-circle")
        wait_until(lambda: sorted(one.assignment() + two.assignment()) == queues)
        assert {tuple(one.assignment()), tuple(two.assignment())} == {
            tuple(queues[::2]), tuple(queues[1::2]),
        }  # fmt: skip
    with pytest.raises(ConfigError, match="AVG_BY_CIRCLE"):
        consumer_of(broker, "pull-circle", allocate_message_queue_strategy="CIRCLE")


def test_offsets_outlive_the_consumer(broker: RunningBroker) -> None:
    (queue,) = create(broker, "pull-kept", 1)
    send(broker, [Message("pull-kept", f"{i}") for i in range(100)])
    with consumer_of(broker, "pull-kept") as consumer:
        consumer.subscribe("pull-kept")
        assert bodies(consumer.poll(9_000, 10)) == list(range(10))
        consumer.commit()
        assert consumer.committed(queue) == 10
        assert bodies(consumer.poll(9_000, 10)) == list(range(10, 20))
    with consumer_of(broker, "pull-kept", auto_commit=False) as consumer:
        consumer.subscribe("pull-kept")
        assert bodies(consumer.poll(9_000, 10)) == list(range(20, 30))  # close() has committed 20
    with pytest.raises(KeyError), consumer_of(broker, "pull-kept") as consumer:
        consumer.subscribe("pull-kept")
        # Not committed, because an error ends the block.
        assert bodies(consumer.poll(9_000, 5)) == list(range(20, 25))
        assert bodies(consumer.poll(9_000, 5)) == list(range(25, 30))
        raise KeyError("of the user")
    with consumer_of(broker, "pull-kept") as consumer:
        consumer.subscribe("pull-kept")
        # What came before the error comes again.
        assert bodies(consumer.poll(9_000, 5)) == list(range(25, 30))
        consumer.commit({queue: 99})
        assert consumer.committed(queue) == 99


def test_poll_commits_what_earlier_polls_returned(
    clock: DrivenClock, broker: RunningBroker
) -> None:
    (queue,) = create(broker, "pull-auto", 1)
    send(broker, [Message("pull-auto", f"{i}") for i in range(30)])
    with consumer_of(broker, "pull-auto", auto_commit_interval_millis=10_000) as consumer:
        consumer.assign([queue])
        assert len(consumer.poll(9_000, 10)) == 10
        assert len(consumer.poll(9_000, 10)) == 10
        assert consumer.committed(queue) in (0, None), "not yet"
        clock.advance(10)
        assert len(consumer.poll(9_000, 10)) == 10
        wait_until(lambda: consumer.committed(queue) == 20, still=True)


@pytest.mark.parametrize(("given", "kept"), [(None, 5), (20, 20)])
def test_a_late_commit_of_the_start_says_where_it_began(
    clock: DrivenClock, broker: RunningBroker, given: int | None, kept: int
) -> None:
    topic = f"pull-late-start-{kept}"
    (queue,) = create(broker, topic, 1)
    send(broker, [Message(topic, f"{i}") for i in range(30)])
    with consumer_of(broker, topic, auto_commit_interval_millis=10_000) as consumer:
        consumer._client._pulls.keeper = lambda: None  # the chore must not commit
        assert consumer.poll(0) == []  # now the next commit by time is 10 s away
        consumer.assign([queue])
        wait_until(lambda: consumer.position(queue) == 0)
        consumer.seek(queue, 5)
        assert len(consumer.poll(9_000, 10)) == 10
        assert len(consumer.poll(9_000, 10)) == 10
        assert consumer.committed(queue) in (0, None), "not yet"
        if given is not None:
            consumer.commit({queue: given})
        consumer._client._assigned._commit_starts()
        wait_until(lambda: consumer.committed(queue) == kept, still=True)


class ToldLock:
    """The lock of the commits, which tells when somebody asks for it."""

    def __init__(self, consumer: PullConsumer) -> None:
        self.asked = threading.Event()
        self.inner = consumer._client._commits.order
        consumer._client._commits.order = self  # type: ignore[assignment]

    def __enter__(self) -> None:
        self.asked.set()
        self.inner.acquire()

    def __exit__(self, *_: object) -> None:
        self.inner.release()


class MemoryStore:
    """A user's store that has offset 3 for the group. It keeps the offsets that it is told."""

    def __init__(self) -> None:
        self.told: list[int] = []

    def load(self) -> None:
        pass

    def read(self, queue: MessageQueue) -> int | None:
        return 3

    def persist(self, offsets: Mapping[MessageQueue, int], *, wait: bool) -> None:
        self.told += offsets.values()


def test_a_commit_that_has_waited_says_how_far_the_user_is_by_then(broker: RunningBroker) -> None:
    (queue,) = create(broker, "pull-commit-waits", 1)
    send(broker, [Message("pull-commit-waits", f"{i}") for i in range(10)])
    store = MemoryStore()
    changes = {"offset_store": store, "auto_commit": False}
    with consumer_of(broker, "pull-commit-waits", **changes) as consumer:
        consumer.assign([queue])
        consumer.seek(queue, 5)
        order = ToldLock(consumer)
        with order.inner:
            committing = threading.Thread(target=consumer.commit)
            committing.start()
            assert order.asked.wait(HANG_S)
            consumer.seek(queue, 9)
        committing.join()
        assert store.told == [9]


def test_commits_in_time_that_have_waited_leave_the_last_one_to_the_close(
    broker: RunningBroker,
) -> None:
    (queue,) = create(broker, "pull-commit-late", 1)
    send(broker, [Message("pull-commit-late", f"{i}") for i in range(10)])
    store = MemoryStore()
    with consumer_of(broker, "pull-commit-late", offset_store=store) as consumer:
        consumer.assign([queue])
        consumer.seek(queue, 5)
        order = ToldLock(consumer)
        with order.inner:
            committing = threading.Thread(target=consumer._client._assigned._commit_done)
            committing.start()
            assert order.asked.wait(HANG_S)
            consumer._client._pulls.close()
        committing.join()
        assert store.told == []
    assert store.told == [5]


def test_who_gives_up_no_queue_waits_for_no_commit(broker: RunningBroker) -> None:
    queues = create(broker, "pull-keeps", 2)
    with consumer_of(broker, "pull-keeps", offset_store=MemoryStore()) as consumer:
        order = ToldLock(consumer)
        consumer.subscribe("pull-keeps")
        wait_until(lambda: consumer.assignment() == queues)
        consumer._client.rebalance()
        assert not order.asked.is_set()
        consumer.unsubscribe("pull-keeps")
        assert order.asked.is_set()


def test_a_queue_that_is_given_up_while_it_is_asked_begins_nowhere(broker: RunningBroker) -> None:
    (queue,) = create(broker, "pull-given-up", 1)
    with consumer_of(broker, "pull-given-up") as consumer:
        late: list[Callable[[Start, None], object]] = []
        consumer._client._pulls.start_offsets.ask = (  # type: ignore[method-assign]
            lambda wire, completed, first=None: late.append(completed)
        )
        consumer.assign([queue])
        (given_up,) = consumer._client._assigned.all()
        consumer.assign([])
        (tell,) = late
        tell(Start(7, False), None)
        assert (given_up.pull_offset, given_up.start) == (None, None)


def test_seeks_go_to_offsets_ends_and_times(broker: RunningBroker) -> None:
    queue, other = create(broker, "pull-seek", 2)
    with Producer("pull-tests", namesrv_addr=broker.namesrv_addr) as producer:
        for i in range(20):
            if i == 12:
                middle = moment_ms()
                producer.send(Message("pull-seek", b"between"), queue=other)
            producer.send(Message("pull-seek", f"{i}"), queue=queue)
    with consumer_of(broker, "pull-seek") as consumer:
        consumer.assign([queue])
        assert bodies(gather(consumer, 20)) == list(range(20))
        consumer.seek(queue, 5)
        assert consumer.position(queue) == 5
        assert bodies(gather(consumer, 15)) == list(range(5, 20))
        consumer.seek_to_begin(queue)
        assert bodies(consumer.poll(9_000, 1)) == [0]
        assert consumer.offset_for_timestamp(queue, middle) == 12
        consumer.seek_to_time(queue, middle)
        assert bodies(gather(consumer, 8)) == list(range(12, 20))
        consumer.seek_to_begin(queue)
        consumer.seek_to_end(queue)
        assert consumer.poll(300) == []
        consumer.seek(queue, 1_000)  # beyond the end: the broker moves the consumer there
        wait_until(lambda: consumer.position(queue) == 20)
        with pytest.raises(ConfigError, match="not assigned"):
            consumer.seek(other, 0)
        with pytest.raises(ConfigError, match="queues are assigned"):
            consumer.subscribe("pull-seek")


@pytest.mark.parametrize("wrong", [-1, 2**63, 1.5, "7", None])
def test_an_offset_that_no_queue_can_have_is_refused(broker: RunningBroker, wrong: Any) -> None:
    topic = f"pull-wrong-{type(wrong).__name__}{len(str(wrong))}"
    one, two = create(broker, topic, 2)
    send(broker, [Message(topic, "0")])
    with consumer_of(broker, topic, auto_commit=False) as consumer:
        consumer.assign([one, two])
        with pytest.raises(ConfigError, match=f"offset {wrong!r}: a whole number of 0 to 92233"):
            consumer.commit({one: 3, two: wrong})
        assert (consumer.committed(one), consumer.committed(two)) == (None, None)
        with pytest.raises(ConfigError, match=f"offset {wrong!r}: a whole number of 0 to 92233"):
            consumer.seek(one, wrong)
        assert bodies(gather(consumer, 1)) == [0]  # as if nobody had tried


@pytest.mark.parametrize("offset", [10**15, 2**63 - 1])
def test_a_group_that_was_committed_beyond_the_end_goes_on_at_the_end(
    broker: RunningBroker, offset: int
) -> None:
    topic = f"pull-beyond-{offset % 10}"
    (queue,) = create(broker, topic, 1)
    send(broker, numbers(topic, 0, 5))
    with consumer_of(broker, topic, auto_commit=False) as consumer:
        consumer.assign([queue])
        consumer.commit({queue: offset})
        assert consumer.committed(queue) == offset
        consumer.assign([])
        consumer.assign([queue])
        wait_until(lambda: consumer.position(queue) == 5)
        send(broker, numbers(topic, 5, 7))
        assert bodies(gather(consumer, 2)) == [5, 6]
        consumer.commit()
        assert consumer.committed(queue) == 7


def test_an_assignment_that_fails_changes_nothing(broker: RunningBroker) -> None:
    one, two = create(broker, "pull-assign", 2)
    send(broker, [Message("pull-assign", f"{i}") for i in range(10)])
    missing = MessageQueue("pull-assing", one.broker_name, 0)
    with consumer_of(broker, "pull-assign") as consumer:
        with pytest.raises(RouteError, match="pull-assing"):
            consumer.assign([one, missing])
        with pytest.raises(MessageError):
            consumer.assign([one, missing._replace(topic="no topic")])
        assert consumer.assignment() == []
        consumer.subscribe("pull-assign")  # works as if nothing had been assigned
        assert len(gather(consumer, 10)) == 10
        consumer.unsubscribe("pull-assign")
        consumer.assign([one])
        with pytest.raises(RouteError):
            consumer.assign([two, missing])
        assert consumer.assignment() == [one]
        with pytest.raises(ConfigError, match="assigned"):
            consumer.subscribe("pull-assign")
        consumer.assign([])
        assert consumer.assignment() == []
        consumer.subscribe("pull-assign")
        assert consumer.assignment() == [one, two]


def test_paused_queues_give_nothing_until_they_are_resumed(broker: RunningBroker) -> None:
    queues = create(broker, "pull-pause", 2)
    send(broker, [Message("pull-pause", f"{i}") for i in range(100)])
    with consumer_of(broker, "pull-pause") as consumer:
        consumer.assign(queues)
        wait_until(lambda: sum(consumer._client._assigned.of(each).count for each in queues) == 100)
        consumer.pause(queues[0])
        assert consumer.paused() == [queues[0]]
        first = [each for _ in range(5) for each in consumer.poll(100)]
        assert {each.queue for each in first} == {queues[1]}
        consumer.resume(queues[0])
        second = gather(consumer, 100 - len(first))
        assert {each.queue for each in second} == {queues[0]}
        assert sorted(bodies(first + second)) == list(range(100))


def test_iteration_ends_when_the_consumer_is_closed(broker: RunningBroker) -> None:
    (queue,) = create(broker, "pull-iterate", 1)
    send(broker, [Message("pull-iterate", f"{i}") for i in range(10)])
    found: list[int] = []
    consumer = consumer_of(broker, "pull-iterate").start()
    consumer.subscribe("pull-iterate")

    def read() -> None:
        found.extend(int(message.body) for message in consumer)

    thread = threading.Thread(target=read)
    thread.start()
    wait_until(lambda: len(found) == 10)
    consumer.close()
    thread.join(60)
    assert not thread.is_alive()
    assert found == list(range(10))
    with pytest.raises(ClosedError):
        consumer.poll(0)
    with consumer_of(broker, "pull-iterate") as consumer:
        assert consumer.committed(queue) == 10


def test_namespaces_keep_topics_and_groups_apart(broker: RunningBroker) -> None:
    create(broker, "ns1%pull-ns", 1)
    with Producer("p", namesrv_addr=broker.namesrv_addr, namespace="ns1") as producer:
        producer.send(Message("pull-ns", b"5"))
    with consumer_of(broker, "pull-ns", namespace="ns1") as consumer:
        consumer.subscribe("pull-ns")
        (message,) = gather(consumer, 1)
        assert (message.topic, message.queue) == ("pull-ns", consumer.assignment()[0])


def test_an_operator_sends_a_group_back(broker: RunningBroker) -> None:
    create(broker, "pull-reset", 1)
    send(broker, [Message("pull-reset", f"{i}") for i in range(10)])
    with consumer_of(broker, "pull-reset") as consumer:
        consumer.subscribe("pull-reset")
        assert len(gather(consumer, 10)) == 10
        consumer.commit()
        with Admin(namesrv_addr=broker.namesrv_addr) as admin:
            admin.reset_offset("pull-reset", "pull-reset", 0)
        assert bodies(gather(consumer, 10)) == list(range(10))


def test_topics_that_come_later_are_read(broker: RunningBroker) -> None:
    with consumer_of(broker, "pull-later", poll_name_server_interval=300) as consumer:
        consumer.subscribe("pull-later")
        assert consumer.poll(100) == []
        create(broker, "pull-later", 1)
        send(broker, [Message("pull-later", b"1")])
        assert bodies(gather(consumer, 1)) == [1]


def test_what_comes_while_it_is_asked_where_to_begin_is_read(broker: RunningBroker) -> None:
    """A message that comes while a new consumer asks where to begin must be read: the queue was
    empty, and is not empty any more when its end is asked for."""
    create(broker, "pull-between", 1)
    with consumer_of(broker, "pull-between") as consumer:
        instance = consumer._client.instance
        submit = instance.submit
        asking: list[threading.Thread] = []

        def ask(address: str, code: int, *more: Any, may_wait: bool = True) -> None:
            if code != RequestCode.GET_MAX_OFFSET:
                submit(address, code, *more, may_wait=may_wait)
                return

            def ask_when_it_has_come() -> None:  # not in the thread that brings answers
                send(broker, [Message("pull-between", b"1")])
                submit(address, code, *more)

            asking.append(threading.Thread(target=ask_when_it_has_come))
            asking[-1].start()

        instance.submit = ask  # type: ignore[method-assign]
        consumer.subscribe("pull-between")
        assert bodies(gather(consumer, 1)) == [1]
        for each in asking:
            each.join(HANG_S)


def test_a_killed_broker_is_read_on_after_its_restart(tmp_path: Path) -> None:
    broker = Pair(tmp_path)
    address = broker.namesrv
    try:
        with Admin(namesrv_addr=address) as admin:
            make_topic(admin, "pull-kill", 2)
        with PullConsumer(
            "pull-kill", namesrv_addr=address, poll_name_server_interval=1_000
        ) as consumer:
            consumer.subscribe("pull-kill")
            with Producer("p", namesrv_addr=address) as producer:
                for i in range(100):
                    producer.send(Message("pull-kill", f"{i}"))
            assert sorted(bodies(gather(consumer, 100))) == list(range(100))
            broker.kill()
            assert consumer.poll(300) == []
            broker.start()
            with Producer("p", namesrv_addr=address) as producer:
                for i in range(100, 200):
                    producer.send(Message("pull-kill", f"{i}"))
            assert sorted(bodies(gather(consumer, 100))) == list(range(100, 200))
            assert len(consumer.assignment()) == 2
    finally:
        broker.kill()


def test_queues_are_shared_in_runs_that_differ_by_one_at_most() -> None:
    for count in range(12):
        queues = [MessageQueue("t", "b", i) for i in range(count)]
        for size in range(1, 6):
            members = [f"m{i}" for i in range(size)]
            shares = [average_allocation(queues[::-1], members[::-1], each) for each in members]
            assert [queue for share in shares for queue in share] == queues
            lengths = [len(each) for each in shares]
            assert lengths == sorted(lengths, reverse=True)
            assert max(lengths) - min(lengths) <= 1
    assert average_allocation([MessageQueue("t", "b", 0)], ["a"], "stranger") == []


@pytest.mark.parametrize(
    "changes",
    [{"consume_from_where": "SOMEWHERE"}, {"pull_batch_size": 0}, {"pull_batchsize": 1},
     {"consumer_group": 7}, {"register_topics": "orders"}, {"consume_timestamp": 1.7e9}],
)  # fmt: skip
def test_parameters_that_cannot_be_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        PullConsumer(**changes)


@pytest.mark.parametrize(("patience_ms", "held_ms"), [(9_000, None), (None, 40_000), (500, 500)])
def test_pulls_are_waited_for_longer_than_brokers_hold_them(
    patience_ms: int | None, held_ms: int | None
) -> None:
    given = {"consumer_timeout_millis_when_suspend": patience_ms,
             "broker_suspend_max_time_millis": held_ms}  # fmt: skip
    changes: dict[str, Any] = {name: each for name, each in given.items() if each is not None}
    with pytest.raises(ConfigError) as refused:
        PullConsumer("g", **changes)
    told = str(refused.value)
    assert f"consumer_timeout_millis_when_suspend={patience_ms or 30_000} is not more" in told
    assert f"broker_suspend_max_time_millis={held_ms or 20_000}:" in told
    changes["consumer_timeout_millis_when_suspend"] = (held_ms or 20_000) + 1
    PullConsumer("g", **changes)
