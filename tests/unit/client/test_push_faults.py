"""PushConsumer when the user's code, or the machine, does what it should not."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from support.calm_clock import calm_seconds
from support.consuming import (
    PARAMETERS,
    Kept,
    consumer_of,
    create,
    numbers,
    once_each,
    refusals,
    send,
    wait_for_rest,
)
from support.ctrl_c import ctrl_c_raises
from support.driven_clock import DrivenClock
from support.waiting import HANG_S, wait_until

from cext.client.reply import Reply, reply_of
from rmq import ConfigError, ConsumeOrderlyStatus, MessageExt, UnreachableError, aio
from rmq.base import waits
from rmq.client.connection.replicas import Purpose
from rmq.client.consumer.group import RETURN_S, Members, members_of
from rmq.client.consumer.offset_stores import LocalOffsets, RemoteOffsets
from rmq.client.consumer.subscription import Subscription
from rmq.client.pull.commits import Commits
from rmq.client.pull.pull_queue import PullQueue
from rmq.client.push import concurrent_service
from rmq.client.push.process_queue import ProcessQueue
from rmq.codes import FLAG_RESPONSE, RequestCode
from rmq.format.fastjson import MessageQueue
from rmq.format.remoting import Command, encode
from rmq.pytest_plugin import RunningBroker


@pytest.mark.parametrize("orderly", [False, True])
def test_a_listener_that_sets_no_number_gets_its_message_again(
    driven_broker: RunningBroker, orderly: bool
) -> None:
    """If a listener sets something that is no number, its message must come again. The number is
    used only after the call, where an error would reach nobody."""
    address, topic = driven_broker.namesrv_addr, f"push-number-{orderly}"
    create(address, topic)
    send(address, numbers(topic, 0, 3))
    mistakes = [None]

    def decide(messages: list[MessageExt], context: Any) -> Any:
        if not orderly:
            context.delay_level_when_next_consume = 1
        if messages[0].body != b"0" or not mistakes:
            return None
        if not orderly:
            context.ack_index = mistakes.pop()
            return None
        context.suspend_current_queue_time_millis = mistakes.pop()
        return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT

    kept = Kept(decide)
    with consumer_of(address, topic, kept, consume_orderly=orderly) as consumer:
        consumer.subscribe(topic)
        bodies = kept.wait(4)
    assert sorted(bodies) == [0, 0, 1, 2]
    assert not orderly or bodies == [0, 0, 1, 2]


@pytest.mark.parametrize("orderly", [False, True])
def test_a_listener_that_exits_gets_its_message_again(
    driven_broker: RunningBroker, orderly: bool
) -> None:
    address, topic = driven_broker.namesrv_addr, f"push-exit-{orderly}"
    create(address, topic)
    send(address, numbers(topic, 0, 3))
    exits = iter([SystemExit(3)])

    def decide(messages: list[MessageExt], context: Any) -> None:
        if not orderly:
            context.delay_level_when_next_consume = 1
        if messages[0].body == b"0":
            for problem in exits:
                raise problem

    kept = Kept(decide)
    with consumer_of(address, topic, kept, consume_orderly=orderly) as consumer:
        consumer.subscribe(topic)
        bodies = kept.wait(4)
    assert sorted(bodies) == [0, 0, 1, 2]
    assert not orderly or bodies == [0, 0, 1, 2]


def test_a_queue_stays_locked_while_a_call_that_closes_goes_on(
    clock: DrivenClock, broker: RunningBroker
) -> None:
    address = broker.namesrv_addr
    create(address, "push-close-locked")
    send(address, numbers("push-close-locked", 0, 1))
    closed, gate = threading.Event(), threading.Event()
    changes: dict[str, Any] = {"subscription": {"push-close-locked": "*"}, "consume_orderly": True}

    def decide(messages: list[MessageExt], context: Any) -> None:
        one.close()
        closed.set()
        gate.wait(120)

    one = consumer_of(address, "push-close-locked", decide, **changes)
    one.start()
    assert closed.wait(HANG_S)
    kept = Kept()
    with consumer_of(address, "push-close-locked", kept, **changes) as two:
        refused = refusals(two)
        wait_until(lambda: len(refused) >= 3 or kept.bodies)
        assert kept.bodies == []
        gate.set()


class Asked:
    """Stands for a client instance; the test gives its answers."""

    def __init__(self) -> None:
        self.parameters = SimpleNamespace(mq_client_api_timeout=3000)
        self.routes = self
        self.is_master, self.address = True, "127.0.0.1:1"
        self.offsets: list[int] = []
        self.told: list[Callable[[Reply | None, Exception | None], None]] = []

    def replica_of(self, name: str, purpose: Purpose) -> Any:
        return SimpleNamespace(address=self.address, is_master=self.is_master)

    def submit(self, address: str, code: int, fields: Any, body: bytes, ms: int, told: Any) -> None:
        self.offsets.append(fields["commitOffset"])
        self.told.append(told)


def test_an_offset_is_owed_until_a_master_has_it() -> None:
    """An offset must be sent again until a master has it: what was under way when the master ended
    is sent once more, even if nothing was consumed since."""
    asked, queue = Asked(), MessageQueue("t", "b", 0)
    store = RemoteOffsets(cast(Any, asked), "g")
    taken = reply_of(encode(Command(code=0, flag=FLAG_RESPONSE)))
    refused = reply_of(encode(Command(code=1, flag=FLAG_RESPONSE)))
    for offset, reply, error, is_owed in (
        (5, None, UnreachableError("connection lost"), True), (5, refused, None, True),
        (5, taken, None, False), (6, taken, None, False),
    ):  # fmt: skip
        store.persist({queue: offset}, wait=False)
        assert store.owes(queue), "nobody has answered yet"
        asked.told.pop()(reply, error)
        assert store.owes(queue) == is_owed
    asked.is_master = False
    store.persist({queue: 7}, wait=False)
    asked.told.pop()(taken, None)
    assert store.owes(queue), "a slave's is gone when its master is back"
    asked.is_master = True
    for offset in (8, 9):
        store.persist({queue: offset}, wait=False)
    asked.told[0](taken, None)
    assert store.owes(queue), "the other one is under way"
    asked.told[1](None, UnreachableError("connection lost"))
    assert store.owes(queue)
    assert asked.offsets == [5, 5, 5, 6, 7, 8, 9]
    store.persist({queue: 9}, wait=False)
    asked.told[-1](taken, None)
    assert not store.owes(queue)
    asked.address, asked.is_master = "127.0.0.1:2", False
    assert store.owes(queue), "the master that took it is gone, and its slave may lack it"
    store.persist({queue: 9}, wait=False)
    asked.told[-1](taken, None)
    asked.is_master = True  # the slave takes the master's place
    assert store.owes(queue)
    store.persist({queue: 9}, wait=False)
    asked.told[-1](taken, None)
    assert not store.owes(queue)


@pytest.mark.parametrize("error", [KeyError, SystemExit])
@pytest.mark.parametrize("kind", ["push", "pull"])
def test_an_offset_that_a_hook_refuses_keeps_no_other_back(
    kind: str, error: type[BaseException]
) -> None:
    class Refusing(Asked):
        def submit(
            self, address: str, code: int, fields: Any, body: bytes, ms: int, told: Any
        ) -> None:
            if fields["queueId"] == 0:
                raise error("of the hook")
            super().submit(address, code, fields, body, ms, told)

    asked, (one, two) = Refusing(), [MessageQueue("t", "b", each) for each in (0, 1)]
    if kind == "push":
        store = RemoteOffsets(cast(Any, asked), "g")
        store.persist({one: 5, two: 6}, wait=False)
        assert store.owes(one)
    else:
        pulled = [PullQueue(each, "t", Subscription.of("t")) for each in (one, two)]
        for each, offset in zip(pulled, (5, 6), strict=True):
            each.begin(offset)
        Commits(cast(Any, asked), "g", None).soon(pulled, wait=False)
    assert asked.offsets == [6]


@pytest.mark.parametrize("kind", ["push", "pull"])
def test_offsets_that_nobody_answers_cost_one_timeout_together(
    clock: DrivenClock, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Offsets that get no answer, as when all threads that run callbacks are busy, must cost one
    timeout together, not one each."""
    asked: Any = Asked()
    queues = [MessageQueue("t", "b", each) for each in range(5)]
    waited: list[float] = []

    def get(told: object, timeout_s: float) -> None:
        waited.append(timeout_s)
        clock.advance(timeout_s / 2)  # the others are told in that time

    monkeypatch.setattr(waits, "get", get)
    if kind == "push":
        RemoteOffsets(asked, "g").persist(dict.fromkeys(queues, 5), wait=True)
    else:
        pulled = [PullQueue(each, "t", Subscription.of("t")) for each in queues]
        for each in pulled:
            each.begin(5)
        Commits(asked, "g", None).soon(pulled, wait=True)
    assert asked.offsets == [5] * 5
    first_s = asked.parameters.mq_client_api_timeout / 1000 + 1
    assert all(each <= first_s / 2**i + 0.001 for i, each in enumerate(waited))
    assert len(waited) == 5


def test_fewer_threads_than_wished_do_the_work(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = broker.namesrv_addr
    create(address, "push-threads")
    send(address, numbers("push-threads", 0, 50))
    start = threading.Thread.start

    def start_some(self: threading.Thread) -> None:
        if self.name.startswith("rmq-consume") and not self.name.endswith("-1"):
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", start_some)
    kept = Kept()
    with consumer_of(address, "push-threads", kept) as consumer:
        consumer.subscribe("push-threads")
        assert once_each(kept.wait(50), 0, 50)
        assert len(kept.threads) == 1


class SlowStore:
    """A store in which a persist that nobody waits for takes until the gate is opened."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self.busy, self.gate = threading.Event(), threading.Event()

    def load(self) -> None:
        pass

    def read(self, queue: MessageQueue) -> int | None:
        return None

    def persist(self, offsets: Mapping[MessageQueue, int], *, wait: bool) -> None:
        if not wait:
            self.busy.set()
            self.gate.wait(HANG_S)
        self.told += [offset for queue, offset in offsets.items() if queue.topic == "push-back"]


def test_offsets_are_told_in_the_order_in_which_they_were_read(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    create(address, "push-back")
    send(address, numbers("push-back", 0, 600))
    store = SlowStore()
    most = [20]  # so many messages, until the test allows more
    kept = Kept(lambda messages, context: wait_until(lambda: len(kept.messages) <= most[0]))
    changes = {"offset_store": store, "consume_thread_min": 1, "consume_thread_max": 1}
    last = threading.Event()
    with consumer_of(
        address, "push-back", kept, persist_consumer_offset_interval=50, **changes
    ) as consumer:
        commit = consumer._client.commit

        def tell_last(*queues: Any, wait: bool = False) -> None:
            if wait:
                last.set()
            commit(*queues, wait=wait)

        consumer._client.commit = tell_last  # type: ignore[method-assign]
        consumer.subscribe("push-back")
        assert store.busy.wait(HANG_S)
        most[0] = 40
        kept.wait(40)
        most[0] = 600
        closing = threading.Thread(target=consumer.close)
        closing.start()
        assert last.wait(HANG_S)
        closing.join(0.1)
        assert closing.is_alive(), "what was read before is told before"
        store.gate.set()
        closing.join()
    assert store.told == sorted(store.told)
    assert store.told[-1] == len(kept.bodies)


def test_consumers_of_one_process_share_the_file_of_offsets(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    stores = [LocalOffsets(path) for _ in range(4)]

    def persist(number: int) -> None:
        for offset in range(20):
            stores[number].persist({MessageQueue("t", "b", number): offset}, wait=True)

    threads = [threading.Thread(target=persist, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = LocalOffsets(path)
    found.load()
    assert [found.read(MessageQueue("t", "b", i)) for i in range(4)] == [19] * 4
    assert sorted(each.name for each in tmp_path.iterdir()) == ["offsets.json", "offsets.json.bak"]


def test_a_start_that_fails_leaves_no_member(broker: RunningBroker) -> None:
    class Strategy:
        name = "MINE"

        def allocate(self, *given: Any) -> list[MessageQueue]:
            raise SystemExit("of the user")  # an Exception would stop this topic alone

    address = broker.namesrv_addr
    create(address, "push-no-start")
    before = set(threading.enumerate())
    consumer = consumer_of(address, "push-no-start", Kept(), subscription={"push-no-start": "*"},
                           allocate_message_queue_strategy=Strategy())  # fmt: skip
    with pytest.raises(SystemExit, match="of the user"):
        consumer.start()
    wait_until(lambda: set(threading.enumerate()) <= before)


class FailingStore:
    """A user's store whose first read for a topic fails, and also its first persist of the last
    offset."""

    def __init__(self, topic: str, end: int, error: type[BaseException]) -> None:
        self._error = error
        self.offsets: dict[MessageQueue, int] = {}
        self.is_away = False
        self._fails_at: list[object] = [topic, end]

    def load(self) -> None:
        pass

    def _fail(self, what: object) -> None:
        if self.is_away or what in self._fails_at:
            if not self.is_away:
                self._fails_at.remove(what)
            raise self._error("of the store")

    def read(self, queue: MessageQueue) -> int | None:
        self._fail(queue.topic)
        return self.offsets.get(queue)

    def persist(self, offsets: Mapping[MessageQueue, int], *, wait: bool) -> None:
        for offset in offsets.values():
            self._fail(offset)
        self.offsets.update(offsets)


@pytest.mark.parametrize("error", [ConnectionError, SystemExit])
def test_a_store_that_raises_is_asked_again_and_holds_no_consumer(
    broker: RunningBroker, error: type[BaseException]
) -> None:
    address, topic = broker.namesrv_addr, f"push-store-away-{error.__name__}"
    (queue,) = create(address, topic)
    send(address, numbers(topic, 0, 5))
    store, kept, before = FailingStore(topic, 5, error), Kept(), set(threading.enumerate())
    consumer = consumer_of(
        address, topic, kept, offset_store=store, persist_consumer_offset_interval=50,
        pull_time_delay_mills_when_exception=10,
    ).start()  # fmt: skip
    consumer.subscribe(topic)
    assert once_each(kept.wait(5), 0, 5)
    wait_until(lambda: store.offsets.get(queue) == 5)
    store.is_away = True
    consumer.close()
    wait_until(lambda: set(threading.enumerate()) <= before)


def test_a_child_of_fork_closes_nothing_of_its_parent(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    create(address, "push-fork")
    send(address, numbers("push-fork", 0, 5))
    kept = Kept()
    with consumer_of(address, "push-fork", kept) as consumer:
        consumer.subscribe("push-fork")
        kept.wait(5)
        # As when a thread that the child does not have holds it.
        with consumer._client.rebalance._lock:
            held = threading.Event()
            child = os.fork()
            if child == 0:
                threading.Thread(target=lambda: (consumer.close(), held.set())).start()
                os._exit(0 if held.wait(HANG_S) else 1)
        assert os.waitpid(child, 0)[1] == 0
        send(address, numbers("push-fork", 5, 10))
        assert once_each(kept.wait(10), 0, 10)


def test_a_pull_that_has_come_is_kept_before_the_next_is_sent(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    create(address, "push-pull-twice")
    kept = Kept()
    pulls: list[int] = []
    between: list[list[int]] = []

    class Hook:
        def before_request(self, address: str, code: int, fields: Any, body: bytes) -> None:
            if code == RequestCode.PULL_MESSAGE and fields["topic"] == "push-pull-twice":
                pulls.append(int(fields["queueOffset"]))

        def after_response(self, address: str, code: int, fields: Any, reply: Any) -> None:
            pass

    with consumer_of(address, "push-pull-twice", kept, rpc_hook=Hook()) as consumer:
        take = consumer._client.take

        def slowly(queue: ProcessQueue, messages: list[MessageExt], *more: int) -> None:
            before = len(pulls)
            consumer.resume()  # as another thread could just now
            between.append(pulls[before:])
            take(queue, messages, *more)

        consumer._client.take = slowly  # type: ignore[method-assign,assignment]
        consumer.subscribe("push-pull-twice")
        wait_until(lambda: len(consumer.assignment()) == 1)
        send(address, numbers("push-pull-twice", 0, 10))
        kept.wait(10)
        wait_for_rest(address, consumer)
    assert once_each(kept.bodies, 0, 10)
    assert pulls
    assert set(map(tuple, between)) == {()}


def test_a_silent_broker_is_waited_for_once_a_round() -> None:
    class Instance:
        asked: ClassVar[list[str]] = []

        @property
        def routes(self) -> Instance:
            return self

        def address_of(self, name: str, purpose: Purpose) -> str:
            return name

        def has_other(self, name: str, address: str, error: Exception) -> bool:
            return False

        def call(self, address: str, *_: object) -> Reply:
            self.asked.append(address)
            if address == "a":
                raise UnreachableError("a: no answer in 3000 ms")
            body = b'{"consumerIdList":["x"]}'
            return reply_of(encode(Command(code=0, flag=FLAG_RESPONSE, body=body)))

    instance: Any = Instance()
    silent: set[str] = set()
    for topic in "one", "two":
        route: Any = SimpleNamespace(topic=topic, brokers={"b": None, "a": None})
        assert members_of(instance, "g", route, silent) == ["x"]
    assert instance.asked == ["a", "b", "b"]
    alone: Any = SimpleNamespace(topic="three", brokers={"a": None})
    with pytest.raises(UnreachableError, match="no broker of three answers"):
        members_of(instance, "g", alone, silent)
    assert instance.asked == ["a", "b", "b"]


def test_a_broker_that_came_back_does_not_know_all_members_yet() -> None:
    """While a broker that came back does not know all members yet, the first member must not take
    the queues that the others read."""

    class Instance:
        client_id = "a"
        heartbeats: Any = SimpleNamespace(returned_at=-math.inf)
        ids: ClassVar[list[str]] = ["c", "a", "b"]

        @property
        def routes(self) -> Instance:
            return self

        def address_of(self, name: str, purpose: Purpose) -> str:
            return name

        def call(self, *_: object) -> Reply:
            body = json.dumps({"consumerIdList": self.ids}).encode()
            return reply_of(encode(Command(code=0, flag=FLAG_RESPONSE, body=body)))

    instance: Any = Instance()
    route: Any = SimpleNamespace(topic="t", brokers={"x": None})
    members = Members(instance, "g")
    assert members.of(route) == (["a", "b", "c"], True)
    instance.ids = ["a", "b"]  # c has left
    assert members.of(route) == (["a", "b"], True)
    instance.ids, instance.heartbeats.returned_at = ["b"], time.monotonic()
    # The consumer itself is not known: heartbeats come first.
    assert members.of(route) == (["b"], True)
    instance.ids = ["d", "a"]
    assert members.of(route) == (["a", "b", "d"], False)
    assert members.of(route) == (["a", "b", "d"], False)
    instance.ids = ["d", "b", "a"]
    assert members.of(route) == (["a", "b", "d"], True)
    instance.ids = ["a"]
    assert members.of(route) == (["a", "b", "d"], False)
    instance.heartbeats.returned_at -= RETURN_S
    assert members.of(route) == (["a"], True)


@dataclasses.dataclass
class One:
    """What a ProcessQueue looks at in a message."""

    queue_offset: int


def test_all_calls_that_take_too_long_are_found_behind_those_that_ended() -> None:
    queue = ProcessQueue(MessageQueue("t", "b", 0), MessageQueue("t", "b", 0), Subscription.of("t"))
    queue.begin(0)
    messages: Any = [One(i) for i in range(5)]
    batches = queue.put_batches(messages, 5, 100, 1)
    for batch in batches[:4]:
        assert queue.begun(batch)
    queue.ended(batches[1])
    later = time.monotonic() + 1
    assert queue.expired(later, 16) == [batches[0], batches[2], batches[3]]
    assert queue.expired(later, 2) == [batches[0], batches[2]]
    assert queue.expired(later - 60, 16) == []


def test_a_broadcast_call_without_end_is_dropped_and_nothing_is_sent_back(
    broker: RunningBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = broker.namesrv_addr
    create(address, "cast-slow")
    send(address, numbers("cast-slow", 0, 2))
    gate = threading.Event()
    kept = Kept(lambda messages, context: gate.wait(120) if messages[0].body == b"0" else None)
    changes = {"message_model": "BROADCASTING", "local_offset_store_dir": str(tmp_path)}
    with consumer_of(address, "cast-slow", kept, **changes) as consumer:
        consumer.subscribe("cast-slow")
        kept.wait(2)
        sent: list[MessageExt] = []
        sender = consumer._client.sender
        monkeypatch.setattr(sender, "send_back", lambda each, level: sent.append(each))
        assert isinstance(consumer._client.service, concurrent_service.ConcurrentService)
        consumer._client.service.clean_expired(0)
        assert [each.progress for each in consumer._client.process_queues()] == [2]
        gate.set()
    assert sent == []


def test_a_coroutine_function_is_refused_where_nobody_awaits_it() -> None:
    async def listener(messages: list[MessageExt], context: Any) -> None:
        raise AssertionError

    with pytest.raises(ConfigError, match=r"rmq\.aio\.PushConsumer"):
        consumer_of("127.0.0.1:1", "push-coroutine", listener).start()


def test_a_consumer_whose_close_ctrl_c_ends_is_no_member_any_more(broker: RunningBroker) -> None:
    """If Ctrl-C ends a close, because a listener does not return, the consumer must be out of its
    group all the same; the user does not wait for the listener, and a second close does nothing."""
    address = broker.namesrv_addr
    create(address, "push-ctrl-c")
    send(address, numbers("push-ctrl-c", 0, 1))
    over = threading.Event()
    began = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def listener(messages: list[MessageExt], context: Any) -> None:
        began.set()
        wait_until(lambda: consumer._client.is_closing)
        signal.pthread_kill(main, signal.SIGINT)
        over.wait(HANG_S)

    with ctrl_c_raises():
        consumer = consumer_of(address, "push-ctrl-c", listener).start()
        consumer.subscribe("push-ctrl-c")
        assert began.wait(HANG_S)
        instance = consumer._client.instance
        with pytest.raises(KeyboardInterrupt):
            consumer.close()
    over.set()
    assert instance.closed
    assert consumer._client.workers.closed


def test_a_coroutine_may_close_its_consumer(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    create(address, "push-aio-close")
    send(address, numbers("push-aio-close", 0, 1))

    class Listener:
        async def __call__(self, messages: list[MessageExt], context: Any) -> None:
            began = calm_seconds()
            await consumer.close()
            ended.set_result(calm_seconds() - began)

    async def main() -> float:
        nonlocal consumer, ended
        ended = asyncio.get_running_loop().create_future()
        consumer = aio.PushConsumer("push-aio-close", Listener(), namesrv_addr=address,
                                    subscription={"push-aio-close": "*"}, **PARAMETERS)  # fmt: skip
        await consumer.start()
        return await asyncio.wait_for(ended, 120)

    consumer: Any = None
    ended: Any = None
    assert asyncio.run(main()) < 10
