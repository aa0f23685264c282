"""PushConsumer in order, against an embedded broker: order, locks, suspension and hand-over."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.broker_pair import Pair
from support.consuming import (
    Kept,
    committed,
    consumer_of,
    create,
    numbers,
    once_each,
    refusals,
    send,
    wait_for_rest,
)
from support.driven_clock import DrivenClock
from support.topics import until_routed
from support.waiting import HANG_S, wait_until

from rmq import ConsumeOrderlyStatus, Message, MessageExt, Producer, PushConsumer
from rmq.client.push.process_queue import ProcessQueue
from rmq.client.push.queue_locks import QueueLocks
from rmq.format.fastjson import MessageQueue
from rmq.pytest_plugin import RunningBroker

SUSPEND = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT


def orderly(address: str, group: str, listener: Any, **changes: Any) -> PushConsumer:
    return consumer_of(address, group, listener, consume_orderly=True, **changes)


class Watched(Kept):
    """A listener that also notes whether calls for one queue ever overlapped, and in which order
    they began.

    pause_s: how long a call takes by the machine's clock, so that another one could overlap it.
    """

    def __init__(self, pause_s: float = 0.0) -> None:
        super().__init__(self._watch)
        self._pause_s = pause_s
        self._busy: dict[MessageQueue, bool] = defaultdict(bool)
        self.overlaps = 0
        self.offsets: dict[MessageQueue, list[int]] = defaultdict(list)

    def _watch(self, messages: list[MessageExt], context: Any) -> None:
        queue = messages[0].queue
        if self._busy[queue]:
            self.overlaps += 1
        self._busy[queue] = True
        self.offsets[queue] += [each.queue_offset for each in messages]
        if self._pause_s:
            time.sleep(self._pause_s)
        self._busy[queue] = False


def test_each_queue_is_told_in_order_by_one_call_at_a_time(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    queues = create(address, "order-one", 4)
    send(address, [Message("order-one", f"{i}", sharding_key=f"{i % 9}") for i in range(2_000)])
    watched = Watched()
    changes = {"consume_message_batch_max_size": 7, "subscription": {"order-one": "*"}}
    with orderly(address, "order-one", watched, **changes) as consumer:
        watched.wait(2_000)
        wait_for_rest(address, consumer)
        assert consumer.assignment() == queues
        assert all(each.holds_lock() for each in consumer._client.process_queues())
    assert watched.overlaps == 0
    assert once_each(watched.bodies, 0, 2_000)
    for offsets in watched.offsets.values():
        assert offsets == list(range(len(offsets)))
    by_key: dict[int, list[int]] = defaultdict(list)
    for body in watched.bodies:
        by_key[body % 9].append(body)
    assert all(found == sorted(found) for found in by_key.values())
    assert sum(offset or 0 for offset in committed(address, "order-one", queues)) == 2_000


def test_a_failing_message_holds_up_its_queue_and_comes_again(
    clock: DrivenClock, broker: RunningBroker
) -> None:
    address = broker.namesrv_addr
    create(address, "order-again", 1)
    send(address, numbers("order-again", 0, 5))

    def decide(messages: list[MessageExt], context: Any) -> Any:
        (message,) = messages
        if message.body == b"1" and message.reconsume_times < 2:
            if message.reconsume_times == 0:
                raise ValueError("of the user")
            context.suspend_current_queue_time_millis = 1_500
            return SUSPEND
        return None

    kept = Kept(decide)
    with orderly(address, "order-again", kept, suspend_current_queue_time_millis=1_200) as consumer:
        consumer.subscribe("order-again")
        assert kept.wait(7) == [0, 1, 1, 1, 2, 3, 4]
    pauses = [b - a for a, b in zip(kept.times[1:], kept.times[2:4], strict=False)]
    assert pauses[0] > 1.15  # the default pause is 1 s
    assert pauses[1] > 1.45


def test_with_a_limit_of_tries_it_becomes_a_dead_letter(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    create(address, "order-dead", 1)
    send(address, numbers("order-dead", 0, 3))

    def decide(messages: list[MessageExt], context: Any) -> Any:
        until_routed(address, "%RETRY%order-dead", {})  # by which dead letters are sent
        return SUSPEND if messages[0].body == b"1" else None

    kept = Kept(decide)
    changes = {"max_reconsume_times": 2, "suspend_current_queue_time_millis": 10}
    with orderly(address, "order-dead", kept, **changes) as consumer:
        consumer.subscribe("order-dead")
        assert kept.wait(5) == [0, 1, 1, 1, 2]
        graveyard = Kept()
        with consumer_of(address, "order-undertaker", graveyard) as other:
            other.subscribe("%DLQ%order-dead")
            assert graveyard.wait(1) == [1]
            (dead,) = graveyard.messages
            assert dead.get_property("RETRY_TOPIC") == "order-dead"


def test_a_dead_letter_does_not_come_again_with_the_rest_of_its_batch(
    broker: RunningBroker,
) -> None:
    """A message that became a dead letter must not come again with its batch. Here a message that
    failed before is in a batch with a younger one."""
    address = broker.namesrv_addr
    create(address, "order-dead-one", 1)
    send(address, numbers("order-dead-one", 0, 2))

    def decide(messages: list[MessageExt], context: Any) -> Any:
        until_routed(address, "%RETRY%order-dead-one", {})  # by which dead letters are sent
        if len(messages) == 2:
            messages[0].reconsume_times = 2  # as if it had failed before
        return SUSPEND

    kept = Kept(decide)
    changes = {"max_reconsume_times": 2, "suspend_current_queue_time_millis": 10,
               "consume_message_batch_max_size": 2}  # fmt: skip
    with orderly(address, "order-dead-one", kept, **changes) as consumer:
        consumer.subscribe("order-dead-one")
        graveyard = Kept()
        with consumer_of(address, "order-undertaker-2", graveyard) as other:
            other.subscribe("%DLQ%order-dead-one")
            assert graveyard.wait(2) == [0, 1]
    assert kept.bodies == [0, 1, 1, 1]


def test_a_listener_may_commit_by_itself(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    (queue,) = create(address, "order-commit", 1)
    send(address, numbers("order-commit", 0, 6))
    rolled_back = threading.Event()

    def decide(messages: list[MessageExt], context: Any) -> Any:
        context.auto_commit = False
        context.suspend_current_queue_time_millis = 50
        if messages[0].body == b"2":
            return ConsumeOrderlyStatus.COMMIT
        if messages[0].body == b"4" and not rolled_back.is_set():
            rolled_back.set()
            return ConsumeOrderlyStatus.ROLLBACK
        return ConsumeOrderlyStatus.SUCCESS

    kept = Kept(decide)
    with orderly(address, "order-commit", kept) as consumer:
        consumer.subscribe("order-commit")
        assert kept.wait(8) == [0, 1, 2, 3, 4, 3, 4, 5]
        (state,) = [each for each in consumer._client.process_queues() if each.queue == queue]
        wait_until(lambda: not state.is_consuming)
        consumer.commit(wait=True)
        assert committed(address, "order-commit", [queue]) == [3]


@pytest.mark.usefixtures("told_only")
def test_queues_change_hands_without_overlap(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    queues = create(address, "order-hands", 4)
    send(address, numbers("order-hands", 0, 400))
    watched = Watched(pause_s=0.005)
    consumers = [orderly(address, "order-hands", watched).start()]
    try:
        consumers[0].subscribe("order-hands")
        wait_until(lambda: len(watched.messages) > 40)
        consumers.append(orderly(address, "order-hands", watched).start())
        consumers[1].subscribe("order-hands")
        wait_until(lambda: [len(each.assignment()) for each in consumers] == [2, 2])
        shares = [set(each.assignment()) for each in consumers]
        assert shares[0] | shares[1] == set(queues)
        wait_until(lambda: len(watched.messages) > 200)
        consumers.pop(0).close()
        wait_until(lambda: consumers[0].assignment() == queues)
        send(address, numbers("order-hands", 400, 500))
        watched.wait(500)
        wait_for_rest(address, consumers[0])
    finally:
        for each in consumers:
            each.close()
    assert watched.overlaps == 0
    assert once_each(watched.bodies, 0, 500)
    for offsets in watched.offsets.values():
        assert offsets == list(range(len(offsets)))


@pytest.mark.usefixtures("told_only")
def test_a_long_call_keeps_its_queue_until_it_ends(
    clock: DrivenClock, broker: RunningBroker
) -> None:
    address = broker.namesrv_addr
    queues = create(address, "order-long", 2)
    with Producer("order-long", namesrv_addr=address) as producer:
        # The second queue is the one that will be given up.
        for each in numbers("order-long", 0, 3):
            producer.send(each, queue=queues[1])
    gate = threading.Event()
    first = Kept(lambda messages, context: gate.wait(HANG_S) and None)
    second = Kept()
    with orderly(address, "order-long", first) as one:
        one.subscribe("order-long")
        first.wait(1)
        (busy,) = {each.queue for each in first.messages}
        with orderly(address, "order-long", second) as two:
            two.subscribe("order-long")
            wait_until(lambda: len(one.assignment()) == 1)
            assert one.assignment() == [queues[0]] and busy == queues[1]
            refused = refusals(two)
            wait_until(lambda: len(refused) >= 3 or two.assignment())
            assert two.assignment() == []
            assert second.messages == []
            gate.set()
            wait_until(lambda: two.assignment() == [busy])
            assert second.wait(2) == [1, 2]
            assert first.bodies == [0]


def test_a_lost_lock_ends_consumption_until_it_is_had_again(
    clock: DrivenClock, broker: RunningBroker
) -> None:
    address = broker.namesrv_addr
    create(address, "order-lock", 1)
    kept = Kept()
    with orderly(address, "order-lock", kept) as consumer:
        consumer.subscribe("order-lock")
        send(address, numbers("order-lock", 0, 5))
        kept.wait(5)
        held = consumer._client.process_queues()
        (state,) = [each for each in held if "RETRY" not in each.wire.topic]
        wait_until(lambda: state.count == 0)
        consumer.commit(wait=True)
        locks = QueueLocks(consumer._client.instance, "order-lock")
        locks.unlock([state.wire])
        thief = consumer_of(address, "thief", print).start()
        try:
            stolen = QueueLocks(thief._client.instance, "order-lock")
            assert stolen.lock([state.wire]) == {state.wire: True}
            consumer._client.rebalance.renew_locks()
            assert consumer.assignment() == []
            send(address, numbers("order-lock", 5, 10))
            refused = refusals(consumer)
            wait_until(lambda: len(refused) >= 2 or len(kept.messages) > 5)
            assert len(kept.messages) == 5
            stolen.unlock([state.wire])
            assert kept.wait(10) == list(range(10))
        finally:
            thief.close()


def test_a_lock_that_is_renewed_just_in_time_is_not_lost(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = broker.namesrv_addr
    create(address, "order-renewed", 1)
    kept = Kept()
    with orderly(address, "order-renewed", kept) as consumer:
        consumer.subscribe("order-renewed")
        send(address, numbers("order-renewed", 0, 5))
        kept.wait(5)
        held = consumer._client.process_queues()
        (state,) = [each for each in held if "RETRY" not in each.wire.topic]
        wait_until(lambda: not state.is_consuming)
        lost = consumer._client.lock_is_lost

        def renewed(queue: ProcessQueue) -> None:
            # As if another thread had renewed them while this one waited for it.
            consumer._client.rebalance.renew_locks()
            lost(queue)

        monkeypatch.setattr(consumer._client, "lock_is_lost", renewed)
        state.locked_at = 0.0
        send(address, numbers("order-renewed", 5, 10))
        assert kept.wait(10) == list(range(10))
        assert state in consumer._client.process_queues()


def test_locks_are_renewed_while_a_silent_broker_is_told_of_others(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offsets of all queues that are given up must be committed together, and only the thread
    that gives them up may wait for a silent broker: the locks of other queues are renewed
    meanwhile."""
    address = broker.namesrv_addr
    queues = create(address, "order-silent", 4)
    create(address, "order-lively", 1)
    send(address, numbers("order-silent", 0, 40))
    kept = Kept()
    told: list[set[MessageQueue]] = []
    gate = threading.Event()
    with orderly(address, "order-silent", kept) as consumer:
        consumer.subscribe("order-silent")
        consumer.subscribe("order-lively")
        kept.wait(40)
        wait_for_rest(address, consumer)
        persist = consumer._client.store.persist

        def persist_slowly(offsets: Mapping[MessageQueue, int], *, wait: bool) -> None:
            if wait:
                told.append(set(offsets))
                gate.wait(HANG_S)
            persist(offsets, wait=wait)

        monkeypatch.setattr(consumer._client.store, "persist", persist_slowly)
        leaving = threading.Thread(target=consumer.unsubscribe, args=("order-silent",))
        leaving.start()
        wait_until(lambda: told)
        held = consumer._client.process_queues()
        (lively,) = [each for each in held if "lively" in each.wire.topic]
        before = lively.locked_at
        renewing = threading.Thread(target=consumer._client.rebalance.renew_locks)
        renewing.start()
        try:
            wait_until(lambda: lively.locked_at > before, 60)
        finally:
            gate.set()
            renewing.join()
            leaving.join()
        assert told == [set(queues)]
        with consumer_of(address, "order-silent-thief", print) as thief:
            stolen = QueueLocks(thief._client.instance, "order-silent")
            assert stolen.lock(queues) == dict.fromkeys(queues, True), "they were given back"


def test_a_killed_broker_is_consumed_on_in_order(tmp_path: Path) -> None:
    broker = Pair(tmp_path)
    address = broker.namesrv
    watched = Watched()
    try:
        queues = create(address, "order-kill", 2)
        changes = {"poll_name_server_interval": 1_000, "persist_consumer_offset_interval": 200}
        with orderly(address, "order-kill", watched, **changes) as consumer:
            consumer.subscribe("order-kill")
            send(address, numbers("order-kill", 0, 100))
            watched.wait(100)
            wait_until(
                lambda: sum(each or 0 for each in committed(address, "order-kill", queues)) == 100
            )
            broker.kill()
            wait_until(lambda: consumer._client.instance.heartbeats._lost)
            broker.start()
            send(address, numbers("order-kill", 100, 200))
            watched.wait(200)
            assert len(consumer.assignment()) == 2
        assert watched.overlaps == 0
        assert set(watched.bodies) == set(range(200))
        for offsets in watched.offsets.values():
            assert offsets == sorted(offsets)
    finally:
        broker.kill()


def test_closing_in_order_ends_after_the_call_or_after_its_grace(
    clock: DrivenClock, broker: RunningBroker
) -> None:
    address = broker.namesrv_addr
    (queue,) = create(address, "order-close", 1)
    send(address, numbers("order-close", 0, 300))
    watched = Watched(pause_s=0.1)
    for grace_ms in (0, 4_000):
        before = len(watched.messages)
        changes = {"await_termination_millis_when_shutdown": grace_ms}
        consumer = orderly(address, "order-close", watched, **changes).start()
        consumer.subscribe("order-close")
        wait_until(lambda before=before: len(watched.messages) > before)
        began = clock.monotonic()
        with clock.passing():
            consumer.close()
        assert clock.monotonic() - began >= grace_ms / 1000
        assert committed(address, "order-close", [queue]) == [len(watched.messages)]
    assert watched.bodies == list(range(len(watched.messages)))
    assert len(watched.messages) < 250, "it does not go on with all that was pulled"
