"""PushConsumer in concurrent mode, against an embedded broker."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.broker_pair import Pair
from support.consuming import (
    API_TIMEOUT_MS,
    Kept,
    committed,
    consumer_of,
    create,
    moment_ms,
    numbers,
    once_each,
    send,
    sent_back,
    wait_for_rest,
)
from support.waiting import HANG_S, wait_until

from rmq import (
    Admin,
    ClosedError,
    ConfigError,
    ConsumeConcurrentlyStatus,
    Message,
    MessageExt,
    PushConsumer,
)
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.trace import traces_of
from rmq.client.push import concurrent_service
from rmq.client.push.process_queue import ProcessQueue
from rmq.client.push.pulls import PushPulls
from rmq.names import RETRY_PREFIX
from rmq.pytest_plugin import RunningBroker

LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER


def soon(messages: list[MessageExt], context: Any) -> None:
    """Makes messages of a failing listener come again after a second."""
    context.delay_level_when_next_consume = 1


def test_every_message_is_told_once_with_all_it_has(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    queues = create(address, "push-once", 4)
    sent = [Message("push-once", f"{i}", "t", f"k{i}", properties={"n": str(i)})
            for i in range(3_000)]  # fmt: skip
    send(address, sent)
    together = threading.Barrier(4)
    seen = threading.local()

    def decide(messages: list[MessageExt], context: Any) -> None:
        if not hasattr(seen, "has_begun"):
            seen.has_begun = True
            together.wait(HANG_S)  # so that no thread has done all before another one begins

    kept = Kept(decide)
    with consumer_of(address, "push-once", kept, persist_consumer_offset_interval=100) as consumer:
        consumer.subscribe("push-once")
        kept.wait(3_000)
        assert consumer.assignment() == queues
        wait_until(
            lambda: sum(each or 0 for each in committed(address, "push-once", queues)) == 3_000
        )
    assert once_each(kept.bodies, 0, 3_000)
    assert {len(call) for call in kept.calls} == {1}
    assert len(kept.threads) == 4
    for each in kept.messages[::500]:
        text = each.body.decode()
        assert (each.topic, each.tags, each.keys) == ("push-once", "t", f"k{text}")
        assert each.get_property("n") == text
        assert each.queue in queues
    again = Kept()
    with consumer_of(address, "push-once", again) as consumer:
        consumer.subscribe("push-once")
        send(address, numbers("push-once", 3_000, 3_001))
        assert again.wait(1) == [3_000]


def test_batches_hold_what_is_asked_for_and_begin_early(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    create(address, "push-batch")
    send(address, numbers("push-batch", 0, 100))
    kept = Kept()
    changes = {"subscription": {"push-batch": "*"}, "consume_message_batch_max_size": 10}
    with consumer_of(address, "push-batch", kept, **changes):
        kept.wait(100)
    assert once_each(kept.bodies, 0, 100)
    assert max(len(call) for call in kept.calls) == 10
    for call in kept.calls:
        offsets = [each.queue_offset for each in call]
        assert offsets == list(range(offsets[0], offsets[0] + len(call)))


def test_what_failed_comes_again_and_then_is_a_dead_letter(driven_broker: RunningBroker) -> None:
    address = driven_broker.namesrv_addr
    (queue,) = create(address, "push-fail")
    send(address, numbers("push-fail", 0, 3))

    def decide(messages: list[MessageExt], context: Any) -> Any:
        soon(messages, context)
        (message,) = messages
        if message.body == b"1":
            raise KeyError("of the user")
        return LATER if message.body == b"2" and message.reconsume_times == 0 else None

    kept = Kept(decide)
    before = sent_back(address)
    with consumer_of(address, "push-fail", kept, max_reconsume_times=2) as consumer:
        consumer.subscribe("push-fail")
        kept.wait(6)
        tries = Counter(kept.bodies)
        assert tries == {0: 1, 1: 3, 2: 2}
        times = {each.reconsume_times: each for each in kept.messages if each.body == b"1"}
        assert sorted(times) == [0, 1, 2]
        assert {each.topic for each in kept.messages} == {"push-fail"}
        assert {each.message_id for each in times.values()} == {times[0].message_id}
        assert times[1].get_property("ORIGIN_MESSAGE_ID") == times[0].offset_message_id
        graveyard = Kept()
        with consumer_of(address, "push-undertaker", graveyard) as other:
            other.subscribe("%DLQ%push-fail")
            assert graveyard.wait(1) == [1]
        consumer.commit(wait=True)
        assert committed(address, "push-fail", [queue]) == [3]
        assert sent_back(address) - before == 3, "nothing more is to come again"
        wait_for_rest(address, consumer)
        assert len(kept.messages) == 6


def test_part_of_a_batch_can_be_dealt_with(driven_broker: RunningBroker) -> None:
    address = driven_broker.namesrv_addr
    create(address, "push-part")
    send(address, numbers("push-part", 0, 8))

    def decide(messages: list[MessageExt], context: Any) -> None:
        soon(messages, context)
        if messages[0].reconsume_times == 0 and len(messages) > 1:
            context.ack_index = 1

    kept = Kept(decide)
    changes = {"consume_message_batch_max_size": 8, "subscription": {"push-part": "*"}}
    before = sent_back(address)
    with consumer_of(address, "push-part", kept, **changes) as consumer:
        first = Counter(kept.wait(8))
        assert first == Counter(range(8))
        big = [len(call) for call in kept.calls if len(call) > 1]
        expected = 8 + sum(size - 2 for size in big)
        assert expected > 8
        kept.wait(expected)
        assert sent_back(address) - before == expected - 8
        wait_for_rest(address, consumer)
        assert len(kept.messages) == expected


def test_tags_and_sql_choose_messages(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    create(address, "push-filter", 2)
    tags = ["Aa", "BB", "c", "d"]  # the first two have the same hash in Java
    send(address, [Message("push-filter", f"{i}", tags[i % 4], properties={"n": str(i)})
                   for i in range(80)])  # fmt: skip
    by_tag, by_sql = Kept(), Kept()
    with (
        consumer_of(address, "push-tags", by_tag) as one,
        consumer_of(address, "push-sql", by_sql, post_subscription_when_pull=True) as two,
    ):
        one.subscribe("push-filter", "Aa || c")
        two.subscribe("push-filter", sql="n >= 60 AND TAGS = 'd'")
        assert sorted(by_tag.wait(40)) == list(range(0, 80, 2))
        assert sorted(by_sql.wait(5)) == [63, 67, 71, 75, 79]
        wait_for_rest(address, one, two)
        assert (len(by_tag.messages), len(by_sql.messages)) == (40, 5)
        one.subscribe("push-filter", "d")
        send(address, [Message("push-filter", "100", "c"), Message("push-filter", "101", "d")])
        assert by_tag.wait(41)[-1] == 101


@pytest.mark.usefixtures("told_only")
def test_three_of_a_group_share_and_hand_over(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    queues = create(address, "push-share", 7)
    everything = Kept()
    consumers = [consumer_of(address, "push-share", everything).start() for _ in range(3)]
    try:
        for each in consumers:
            each.subscribe("push-share")

        def is_shared(among: list[PushConsumer]) -> bool:
            """Whether all queues have an owner that reads them, so that the hand-over is
            complete."""
            shares = [each.assignment() for each in among]
            read = [queue for each in among for queue in each._client.process_queues()]
            is_read = all(queue.pulling for queue in read)
            whole = sorted(each for share in shares for each in share) == queues
            return whole and all(shares) and is_read

        wait_until(lambda: is_shared(consumers))
        send(address, numbers("push-share", 0, 2_000))
        everything.wait(2_000)
        wait_for_rest(address, *consumers)
        assert once_each(everything.bodies, 0, 2_000)
        consumers.pop().close()
        wait_until(lambda: is_shared(consumers))
        send(address, numbers("push-share", 2_000, 3_000))
        everything.wait(3_000)
        wait_for_rest(address, *consumers)
        assert once_each(everything.bodies, 0, 3_000)
    finally:
        for each in consumers:
            each.close()


@pytest.mark.usefixtures("told_only")
def test_the_strategy_shares_and_its_outcome_is_told(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    queues = create(address, "push-circle", 4)
    told: list[Any] = []
    changes = {"allocate_message_queue_strategy": "AVG_BY_CIRCLE"}
    one = consumer_of(
        address, "push-circle", Kept(), **changes,
        message_queue_listener=lambda topic, every, own: told.append((topic, every, own)),
    )  # fmt: skip
    with one, consumer_of(address, "push-circle", Kept(), **changes) as two:
        one.subscribe("push-circle")
        wait_until(lambda: ("push-circle", queues, queues) in told)
        two.subscribe("push-circle")
        wait_until(lambda: len(one.assignment()) == len(two.assignment()) == 2)
        assert [one.assignment(), two.assignment()] in (
            [queues[::2], queues[1::2]], [queues[1::2], queues[::2]],
        )  # fmt: skip
        wait_until(lambda: told[-1] == ("push-circle", queues, one.assignment()))


def test_members_that_come_and_go_under_load_lose_nothing(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    create(address, "push-churn", 4)
    kept = Kept()

    def churn() -> None:
        for _ in range(4):  # not more on a slow machine: each hand-over may repeat messages
            own = Kept(kept)
            with consumer_of(address, "push-churn", own) as passing:
                passing.subscribe("push-churn")
                wait_until(lambda own=own: len(own.messages) > 100)

    thread = threading.Thread(target=churn, daemon=True)
    sent = 0
    with consumer_of(address, "push-churn", kept) as consumer:
        consumer.subscribe("push-churn")
        thread.start()
        while sent < 4_000 or thread.is_alive():
            send(address, numbers("push-churn", sent, sent + 200))
            sent += 200
            kept.wait(sent - 400)
        wait_until(lambda: set(kept.bodies) == set(range(sent)))
    repeated = len(kept.messages) - sent
    assert repeated < 800, "a hand-over repeats what was under way, not everything"


def test_what_is_pulled_ahead_has_bounds(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    (queue,) = create(address, "push-bounds")
    send(address, numbers("push-bounds", 0, 500))
    gate = threading.Event()
    kept = Kept(lambda messages, context: gate.wait(120) and None)
    changes = {"pull_threshold_for_queue": 64, "pull_batch_size": 16}
    with consumer_of(address, "push-bounds", kept, **changes) as consumer:
        consumer.subscribe("push-bounds")
        (state,) = [each for each in consumer._client.process_queues() if each.queue == queue]
        wait_until(lambda: state.is_waiting)
        assert 64 < state.count <= 64 + 16
        assert not state.pulling, "until there is room"
        gate.set()
        assert once_each(kept.wait(500), 0, 500)
        wait_until(lambda: state.count == 0)
        assert state.size == 0


@pytest.mark.parametrize(
    ("changes", "most"),
    [({"pull_threshold_for_topic": 40}, 20 + 8), ({"consume_concurrently_max_span": 30}, 31 + 8),
     ({"pull_threshold_size_for_topic": 2}, 16 + 8), ({"pull_threshold_size_for_queue": 1}, 24)],
    ids=str,
)  # fmt: skip
def test_thresholds_of_topic_size_and_span(
    broker: RunningBroker, changes: dict[str, int], most: int
) -> None:
    address = broker.namesrv_addr
    topic = "push-" + "-".join(changes)
    queues = create(address, topic, 1 if "consume_concurrently_max_span" in changes else 2)
    body = os.urandom(64 << 10)
    send(address, [Message(topic, body) for _ in range(60 * len(queues))])
    gate = threading.Event()
    kept = Kept(lambda messages, context: gate.wait(120) and None)
    with consumer_of(
        address, topic, kept, message_model="BROADCASTING", pull_batch_size=8,
        offset_store=Forgetful(), **changes,
    ) as consumer:  # fmt: skip
        consumer.subscribe(topic)
        wait_until(lambda: all(each.is_waiting for each in consumer._client.process_queues()))
        assert all(0 < each.count <= most for each in consumer._client.process_queues())
        gate.set()
        wait_until(lambda: len(kept.messages) == 60 * len(queues))


def test_queues_know_their_share_before_they_pull(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = broker.namesrv_addr
    create(address, "push-shares", 2)
    limits: list[int] = []
    real = PushPulls.put

    def put(pulls: PushPulls, queue: ProcessQueue) -> None:
        limits.append(pulls.limits[0])
        real(pulls, queue)

    monkeypatch.setattr(PushPulls, "put", put)
    with consumer_of(
        address, "push-shares", Kept(), message_model="BROADCASTING", offset_store=Forgetful(),
        pull_threshold_for_topic=40,
    ) as consumer:  # fmt: skip
        consumer.subscribe("push-shares")
        wait_until(lambda: len(limits) >= 2)  # the topic's route may come a moment later
        assert limits == [20, 20]


class Forgetful:
    """An offset_store that keeps offsets in memory."""

    def __init__(self) -> None:
        self.offsets: dict[Any, int] = {}

    def load(self) -> None:
        self.loaded = True

    def read(self, queue: Any) -> int | None:
        return self.offsets.get(queue)

    def persist(self, offsets: Any, *, wait: bool) -> None:
        self.offsets.update(offsets)


def test_a_store_of_ones_own_keeps_the_offsets(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    (queue,) = create(address, "push-store")
    send(address, numbers("push-store", 0, 10))
    store = Forgetful()
    for begin, end in ((0, 10), (10, 20)):
        kept = Kept()
        with consumer_of(address, "push-store", kept, offset_store=store) as consumer:
            consumer.subscribe("push-store")
            assert sorted(kept.wait(10)) == list(range(begin, end))
        assert store.loaded
        assert store.offsets[queue] == end
        send(address, numbers("push-store", 10, 20))


def test_where_a_new_group_begins_is_kept(broker: RunningBroker) -> None:
    """A new group's start must be kept even if its first member reads nothing and leaves: what is
    sent then must come to the next member. With a store, because the broker lets groups without
    offsets begin at 0 while the queue's first message is in memory."""
    address = broker.namesrv_addr
    create(address, "push-start")
    send(address, numbers("push-start", 0, 10))
    changes = {
        "consume_from_where": "CONSUME_FROM_LAST_OFFSET", "offset_store": Forgetful(),
    }  # fmt: skip
    with consumer_of(address, "push-start", Kept(), **changes) as consumer:
        consumer.subscribe("push-start")
        wait_until(lambda: any(each.first == 10 for each in consumer._client.process_queues()))
    send(address, numbers("push-start", 10, 15))
    kept = Kept()
    with consumer_of(address, "push-start", kept, **changes) as consumer:
        consumer.subscribe("push-start")
        assert sorted(kept.wait(5)) == list(range(10, 15))

    (empty,) = create(address, "push-empty")
    with consumer_of(address, "push-empty", Kept()) as consumer:
        consumer.subscribe("push-empty")
        wait_until(lambda: any(each.wire == empty and each.first == 0
                               for each in consumer._client.process_queues()))  # fmt: skip
    assert committed(address, "push-empty", [empty]) == [0]


@pytest.mark.parametrize("way", ["close", "give-up"])
def test_a_member_that_read_nothing_sends_nobody_back(broker: RunningBroker, way: str) -> None:
    """A member that read nothing must commit nothing when it ends: another member may have its
    queue by then, and be further."""
    address, topic = broker.namesrv_addr, f"push-begun-{way}"
    (queue,) = create(address, topic)
    changes = {"persist_consumer_offset_interval": 3_600_000}
    with (
        Admin(namesrv_addr=address, mq_client_api_timeout=API_TIMEOUT_MS) as admin,
        consumer_of(address, topic, Kept(), **changes) as consumer,
    ):
        consumer.subscribe(topic)
        wait_until(lambda: admin.committed_offset(topic, queue) == 0)
        wait_until(lambda: not consumer._client.store.owes(queue))  # until it has the answer
        admin.commit_offset(topic, queue, 3)
        if way == "give-up":
            consumer.unsubscribe(topic)
    assert committed(address, topic, [queue]) == [3]


def test_a_call_that_does_not_end_is_sent_back(
    driven_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert concurrent_service.EXPIRED_DELAY_LEVEL == 3  # 10 s: too long for a test
    monkeypatch.setattr(concurrent_service, "EXPIRED_DELAY_LEVEL", 1)
    address = driven_broker.namesrv_addr
    (queue,) = create(address, "push-slow")
    send(address, numbers("push-slow", 0, 5))
    gate = threading.Event()

    def decide(messages: list[MessageExt], context: Any) -> None:
        if messages[0].body == b"0" and messages[0].reconsume_times == 0:
            gate.wait(120)

    kept = Kept(decide)
    with consumer_of(address, "push-slow", kept) as consumer:
        consumer.subscribe("push-slow")
        kept.wait(5)
        wait_until(lambda: sum(each.count for each in consumer._client.process_queues()) == 1)
        consumer.commit(wait=True)
        assert committed(address, "push-slow", [queue]) in ([0], [None])
        consumer._client.service.clean_expired(3_600)
        assert sum(each.count for each in consumer._client.process_queues()) == 1
        consumer._client.service.clean_expired(0)
        assert sum(each.count for each in consumer._client.process_queues()) == 0
        consumer.commit(wait=True)
        assert committed(address, "push-slow", [queue]) == [5]
        assert kept.wait(6)[5] == 0
        gate.set()
    assert committed(address, "push-slow", [queue]) == [5]


def test_closing_waits_for_calls_under_way_and_commits(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    (queue,) = create(address, "push-close")
    send(address, numbers("push-close", 0, 50))
    begun, gate = threading.Event(), threading.Event()

    def decide(messages: list[MessageExt], context: Any) -> None:
        begun.set()
        gate.wait(HANG_S)

    kept = Kept(decide)
    changes = {"consume_thread_min": 1, "subscription": {"push-close": "*"}}
    consumer = consumer_of(address, "push-close", kept, **changes).start()
    assert begun.wait(HANG_S)
    closing = threading.Thread(target=consumer.close)
    closing.start()
    wait_until(lambda: consumer._client.is_closing)
    closing.join(0.2)
    assert closing.is_alive(), "the call has not ended"
    gate.set()
    closing.join()
    assert len(kept.messages) in (1, 2)
    assert committed(address, "push-close", [queue]) == [len(kept.messages)]
    with pytest.raises(ClosedError):
        consumer.start()
    rest = Kept()
    changes["await_termination_millis_when_shutdown"] = 20_000
    consumer = consumer_of(address, "push-close", rest, **changes).start()
    rest.wait(1)
    wait_until(lambda: 50 in [each.pull_offset for each in consumer._client.process_queues()])
    consumer.close()  # handles what was pulled
    assert once_each(kept.bodies + rest.bodies, 0, 50)
    assert committed(address, "push-close", [queue]) == [50]


def test_a_listener_may_close_its_consumer(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    create(address, "push-suicide")
    send(address, numbers("push-suicide", 0, 3))
    closed = threading.Event()

    def listener(messages: list[MessageExt], context: Any) -> None:
        consumer.close()
        closed.set()

    consumer = consumer_of(address, "push-suicide", listener, consume_thread_min=1)
    consumer.subscribe("push-suicide")
    consumer.start()
    assert closed.wait(HANG_S)


def test_a_suspended_consumer_pulls_nothing(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    create(address, "push-suspend")
    kept = Kept()
    with consumer_of(address, "push-suspend", kept) as consumer:
        consumer.subscribe("push-suspend")
        send(address, numbers("push-suspend", 0, 1))
        kept.wait(1)
        held = consumer._client.process_queues()
        (state,) = [each for each in held if "RETRY" not in each.wire.topic]
        wait_until(lambda: state.pull_offset == 1 and state.pulling)
        consumer.suspend()
        send(address, numbers("push-suspend", 1, 2))
        kept.wait(2)  # this one came by the pull that was under way
        wait_until(lambda: state.pull_offset == 2 and not state.pulling)
        send(address, numbers("push-suspend", 2, 3))
        assert not state.pulling
        assert len(kept.messages) == 2
        consumer.resume()
        assert sorted(kept.wait(3)) == [0, 1, 2]


def test_groups_begin_where_they_are_told(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    create(address, "push-begin")
    send(address, numbers("push-begin", 0, 5))
    middle = moment_ms()
    send(address, numbers("push-begin", 5, 10))
    changes = {"consume_from_where": "CONSUME_FROM_TIMESTAMP", "consume_timestamp": middle}
    with Admin(namesrv_addr=address) as admin:
        offset = admin.offset_at(admin.route("push-begin").readable()[0], middle)
    assert offset == 5
    kept = Kept()
    # Because the broker lets groups without offsets begin at 0 while message 0 is in memory.
    store = Forgetful()
    with consumer_of(address, "push-begin", kept, offset_store=store, **changes) as consumer:
        consumer.subscribe("push-begin")
        assert sorted(kept.wait(5)) == [5, 6, 7, 8, 9]
    last = Kept()
    changes = {"consume_from_where": "CONSUME_FROM_LAST_OFFSET", "offset_store": Forgetful()}
    with consumer_of(address, "push-begin-2", last, **changes) as consumer:
        consumer.subscribe("push-begin")
        wait_until(lambda: any(each.first == 10 for each in consumer._client.process_queues()))
        send(address, numbers("push-begin", 10, 11))
        assert last.wait(1) == [10]


def test_namespaces_keep_topics_groups_and_retries_apart(driven_broker: RunningBroker) -> None:
    address = driven_broker.namesrv_addr
    create(address, "ns2%push-ns")
    send(address, numbers("ns2%push-ns", 0, 1))

    def decide(messages: list[MessageExt], context: Any) -> Any:
        soon(messages, context)
        return LATER if messages[0].reconsume_times == 0 else None

    kept = Kept(decide)
    with consumer_of(address, "push-ns", kept, namespace="ns2") as consumer:
        consumer.subscribe("push-ns")
        assert kept.wait(2) == [0, 0]
        assert {each.topic for each in kept.messages} == {"push-ns"}
        assert consumer.assignment()[0].topic == "push-ns"
        topics = {each.wire.topic for each in consumer._client.process_queues()}
        assert topics == {"ns2%push-ns", f"{RETRY_PREFIX}ns2%push-ns"}


@pytest.mark.parametrize(
    "changes",
    [{"consume_from_where": "SOMEWHERE"}, {"message_model": "BOTH"}, {"pull_batch_size": 0},
     {"pull_batch_size": 1_025}, {"consume_thread_min": 30, "consume_thread_max": 29},
     {"consume_thread_max": 0}, {"consume_thread_min": 1_001}, {"max_reconsume_times": -2},
     {"pull_threshold_for_topic": 0}, {"consume_timeouts": 3},
     {"consume_timestamp": "20260131120000"}, {"consume_timestamp": -1}],
    ids=str,
)  # fmt: skip
def test_parameters_that_cannot_be_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        PushConsumer("g", print, **changes)


@pytest.mark.parametrize(
    ("changes", "threads"),
    [({"consume_thread_max": 4}, (4, 4)), ({"consume_thread_min": 30}, (30, 30)),
     ({"consume_thread_max": 40}, (20, 40)), ({"consume_thread_min": 2}, (2, 20)),
     ({"consume_thread_min": 2, "consume_thread_max": 4}, (2, 4))],
    ids=str,
)  # fmt: skip
def test_one_number_of_threads_is_enough(changes: dict[str, int], threads: tuple[int, int]) -> None:
    given = PushConsumer("g", print, **changes).parameters
    assert (given.consume_thread_min, given.consume_thread_max) == threads


def test_a_listener_is_wanted_and_a_known_strategy() -> None:
    with pytest.raises(ConfigError, match="message_listener"):
        PushConsumer("g").start()
    with pytest.raises(ConfigError, match="message_listener"):
        PushConsumer("g", 7).start()
    with pytest.raises(ClosedError):
        _ = PushConsumer("g", print).client_id


def test_its_traces_tell_what_became_of_each_message(driven_broker: RunningBroker) -> None:
    address = driven_broker.namesrv_addr
    create(address, "push-trace")
    create(address, "push-traces")
    send(address, [Message("push-trace", "5", keys="traced")])

    def decide(messages: list[MessageExt], context: Any) -> Any:
        soon(messages, context)
        if messages[0].reconsume_times == 1:
            raise KeyError("of the user")
        return LATER if messages[0].reconsume_times == 0 else None

    kept = Kept(decide)
    changes = {"enable_trace": True, "trace_topic": "push-traces"}
    with consumer_of(address, "push-trace", kept, **changes) as consumer:
        consumer.subscribe("push-trace")
        kept.wait(3)
    found: list[Any] = []

    def is_told() -> bool:
        message_id = kept.messages[0].message_id
        found[:] = traces_of(Cluster(address), message_id, topic="push-traces")
        return len(found) == 3

    wait_until(is_told)
    records = [each.record for each in found]
    assert [(each.group, each.success, each.retries) for each in records] == [
        ("push-trace", False, 0), ("push-trace", False, 1), ("push-trace", True, 2),
    ]  # fmt: skip
    assert [each.code for each in records] == ["failed", "exception", "success"]


def test_one_client_has_one_consumer_of_a_group(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    with consumer_of(address, "push-twice", print, instance_name="shared-by-two") as one:
        with pytest.raises(ClosedError, match="push-twice"):
            consumer_of(address, "push-twice", print, instance_name="shared-by-two").start()
        with consumer_of(address, "push-thrice", print, instance_name="shared-by-two") as other:
            assert other._client.instance is one._client.instance
        assert one._client.instance.heartbeats.consumer("push-twice") is one._client
        assert one._client.instance.heartbeats.consumer("push-thrice") is None


def test_a_listener_may_give_a_message_up_at_once(driven_broker: RunningBroker) -> None:
    address = driven_broker.namesrv_addr
    create(address, "push-give-up")
    send(address, numbers("push-give-up", 0, 2))

    def decide(messages: list[MessageExt], context: Any) -> Any:
        context.delay_level_when_next_consume = -1
        return LATER if messages[0].body == b"1" else None

    kept, graveyard = Kept(decide), Kept()
    with (
        consumer_of(address, "push-give-up", kept) as consumer,
        consumer_of(address, "push-graves", graveyard) as other,
    ):
        consumer.subscribe("push-give-up")
        kept.wait(2)
        other.subscribe("%DLQ%push-give-up")
        assert graveyard.wait(1) == [1]
    assert once_each(kept.bodies, 0, 2)


def test_a_killed_broker_is_consumed_on(tmp_path: Path) -> None:
    broker = Pair(tmp_path)
    address = broker.namesrv
    kept = Kept()
    try:
        queues = create(address, "push-kill", 3)
        changes = {"poll_name_server_interval": 1_000, "persist_consumer_offset_interval": 100}
        consumers = [consumer_of(address, "push-kill", kept, **changes).start() for _ in range(2)]
        try:
            for each in consumers:
                each.subscribe("push-kill")
            send(address, numbers("push-kill", 0, 300))
            kept.wait(300)
            wait_until(
                lambda: sum(each or 0 for each in committed(address, "push-kill", queues)) == 300
            )
            broker.kill()
            wait_until(lambda: all(each._client.instance.heartbeats._lost for each in consumers))
            broker.start()
            send(address, numbers("push-kill", 300, 600))
            wait_until(lambda: set(kept.bodies) == set(range(600)))
            wait_until(lambda: sum(len(each.assignment()) for each in consumers) == 3)
        finally:
            for each in consumers:
                each.close()
        # A killed broker forgets the commits of some seconds. And the consumer that is back first
        # has a queue until the other one is back, which begins with what was committed by then.
        counts = Counter(kept.bodies)
        assert max(counts[number] for number in range(300)) <= 3
        assert max(counts[number] for number in range(300, 600)) <= 2
    finally:
        broker.kill()


def test_a_hook_sees_pulls_and_their_answers(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    create(address, "push-hook")
    send(address, numbers("push-hook", 0, 3))
    asked: Counter[int] = Counter()
    answered: Counter[int] = Counter()

    class Hook:
        def before_request(self, address: str, code: int, fields: Any, body: bytes) -> None:
            asked[code] += 1

        def after_response(self, address: str, code: int, fields: Any, reply: Any) -> None:
            answered[code] += 1
            assert fields.get("consumerGroup", "push-hook") == "push-hook"

    kept = Kept()
    with consumer_of(address, "push-hook", kept, rpc_hook=Hook()) as consumer:
        consumer.subscribe("push-hook")
        kept.wait(3)
        wait_until(lambda: asked[11] > 1)
    pull, heartbeat, commit = 11, 34, 15
    assert asked[pull] > 1
    assert 0 < answered[pull] <= asked[pull]
    assert answered[heartbeat] > 0
    assert answered[commit] > 0
