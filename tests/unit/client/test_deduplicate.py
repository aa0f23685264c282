"""@deduplicate with each of its stores, and in front of a real consumer."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.consuming import Kept, consumer_of, create, send
from support.driven_clock import DrivenClock
from support.redis_server import redis_server
from support.waiting import wait_until

from cext.client.message import MessageExt, decode_messages
from cext.client.reply import reply_of
from rmq import (
    BusyError,
    ConfigError,
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyStatus,
    DbApiStore,
    Message,
    RedisStore,
    SqliteStore,
    deduplicate,
)
from rmq.client.consumer.deduplication import Claim
from rmq.client.consumer.listener import ConsumeConcurrentlyContext, ConsumeOrderlyContext
from rmq.codes import FLAG_RESPONSE
from rmq.format.fastjson import MessageQueue
from rmq.format.message import Host, StoredMessage, encode_message
from rmq.format.remoting import Command, encode
from rmq.pytest_plugin import RunningBroker

pytestmark = pytest.mark.still_clock

OURS, DONE, BUSY = Claim.OURS, Claim.DONE, Claim.BUSY
QUEUE = MessageQueue("t", "b", 0)


def module_with(style: str) -> Any:
    """sqlite3 in the guise of a DB-API module with another parameter style."""

    class Cursor(sqlite3.Cursor):
        def execute(self, text: str, values: Any = ()) -> Any:
            if style == "pyformat":
                text = text.replace("%(", ":").replace(")s", "")
            if style == "numeric":
                text = text.replace(":", "?")
            return super().execute(text.replace("%s", "?"), values)

    class Connection(sqlite3.Connection):
        def cursor(self, *_: Any) -> Any:
            return super().cursor(Cursor)

    def connect(path: str) -> Any:
        return sqlite3.connect(path, factory=Connection, check_same_thread=False, timeout=60)

    return SimpleNamespace(
        connect=connect, paramstyle=style, Error=sqlite3.Error,
        IntegrityError=sqlite3.IntegrityError, OperationalError=sqlite3.OperationalError,
        InterfaceError=sqlite3.InterfaceError,
    )  # fmt: skip


@pytest.fixture(params=["sqlite", "qmark", "numeric", "named", "format", "pyformat", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "redis":
        with redis_server(tmp_path) as client:
            yield RedisStore(client)
        return
    path = tmp_path / "seen.db"
    found = (
        SqliteStore(path)
        if request.param == "sqlite"
        else DbApiStore(module_with(request.param), str(path))
    )
    yield found
    found.close()


def another(store: Any) -> Any:
    """Another store object on the same data, as another process has it."""
    if isinstance(store, RedisStore):
        return RedisStore(store._client)
    connected = next(iter(store._all[0].execute("PRAGMA database_list")))[2]
    return SqliteStore(connected)


def messages_of(*keys: str) -> list[MessageExt]:
    host = Host("127.0.0.1", 1)
    records = b"".join(
        encode_message(StoredMessage(
            topic="t", body=key.encode(), properties_bytes=f"UNIQ_KEY\x01{key}\x02".encode(),
            queue_id=0, flag=0, sys_flag=0, born_timestamp_ms=0, store_timestamp_ms=0,
            born_host=host, store_host=host,
        )) for key in keys
    )  # fmt: skip
    return decode_messages(reply_of(encode(Command(code=0, flag=FLAG_RESPONSE, body=records))))


def test_a_key_is_claimed_once_and_done_once(store: Any) -> None:
    other = another(store)
    assert store.claim(["a", "b"], 60) == [OURS, OURS]
    assert other.claim(["a", "c"], 60) == [BUSY, OURS]
    store.finish(["a"])
    store.release(["b"])
    other.release(["a"])  # a is done, so it stays
    assert other.claim(["a", "b"], 60) == [DONE, OURS]
    store.release(["b"])  # b is not this store's any more
    assert store.claim(["b"], 60) == [BUSY]


def is_over(store: Any, key: str) -> bool:
    """Whether Redis, which has a clock of its own, has dropped the key."""
    return store._client.get(store._name(key)) is None


def test_a_claim_that_is_not_finished_expires(clock: DrivenClock, store: Any) -> None:
    other = another(store)
    if isinstance(store, RedisStore):
        assert store.claim(["a"], 0.05) == [OURS]
        wait_until(lambda: is_over(store, "a"))
    else:
        assert store.claim(["a"], 50) == [OURS]
        clock.advance(25)
        assert other.claim(["a"], 60) == [BUSY]
        clock.advance(25)  # before the store drops expired keys, which it does once a minute
    assert other.claim(["a"], 60) == [OURS]
    assert store.claim(["a"], 60) == [BUSY]


def test_a_key_whose_call_took_longer_than_its_lease_is_done(
    clock: DrivenClock, store: Any
) -> None:
    """A key must be done even if its lease expired during the call, another store claimed other
    keys meanwhile, and expired keys were dropped."""
    if isinstance(store, RedisStore):
        assert store.claim(["a"], 0.05) == [OURS]
        wait_until(lambda: is_over(store, "a"))
    else:
        assert store.claim(["a"], 60) == [OURS]
        clock.advance(3600)
    assert store.claim(["b"], 60) == [OURS]
    store.finish(["a", "b"])
    store.finish(["a"])
    assert store.claim(["a", "b"], 60) == [DONE, DONE]


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_done_keys_are_forgotten_when_their_time_is_over(
    clock: DrivenClock, tmp_path: Path, kind: str
) -> None:
    with ExitStack() as stack:
        if kind == "redis":
            client = stack.enter_context(redis_server(tmp_path))
        for key, keep_s, then in (("a", 60.0, DONE), ("b", 0.1, OURS)):
            store: Any = (
                RedisStore(client, keep_s=keep_s)
                if kind == "redis"
                else SqliteStore(tmp_path / "brief.db", keep_s=keep_s)
            )
            assert store.claim([key], 60) == [OURS]
            store.finish([key])
            clock.advance(0.15)
            if kind == "redis" and then is OURS:
                wait_until(lambda store=store: is_over(store, "b"))
            assert store.claim([key], 60) == [then]


def test_rows_whose_time_is_over_leave_the_table(clock: DrivenClock, tmp_path: Path) -> None:
    brief = SqliteStore(tmp_path / "seen.db", keep_s=50)
    brief.claim([str(i) for i in range(50)], 60)
    brief.finish([str(i) for i in range(50)])
    for passed_s, left in ((30, 51), (31, 2)):  # old keys are dropped once a minute
        clock.advance(passed_s)
        brief.claim([f"x{left}"], 60)
        (count,) = brief._all[0].execute("SELECT count(*) FROM rmq_seen").fetchone()
        assert count == left


def test_long_keys_are_keys(store: Any) -> None:
    long = "k" * 5_000
    assert store.claim([long, long + "x"], 60) == [OURS, OURS]
    assert store.claim([long], 60) == [BUSY]


def test_of_many_threads_one_has_the_claim(store: Any) -> None:
    answers: list[Claim] = []
    barrier = threading.Barrier(8)

    def claim() -> None:
        barrier.wait()
        for i in range(10):
            answers.extend(store.claim([f"k{i}", f"k{i + 1}"], 60))

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert Counter(answers) == {OURS: 11, BUSY: 160 - 11}


def test_what_was_dealt_with_is_left_out(store: Any) -> None:
    seen: list[list[str]] = []

    @deduplicate(store=store)
    def listener(messages: list[MessageExt], context: Any) -> None:
        seen.append([each.message_id for each in messages])

    for keys in (["a", "b"], ["a", "b"], ["b", "c", "a", "c"]):
        context = ConsumeConcurrentlyContext(QUEUE)
        assert listener(messages_of(*keys), context) is None
        assert context.ack_index >= 3
    assert seen == [["a", "b"], ["c"]]


def test_a_call_that_fails_gives_its_claims_back(store: Any) -> None:
    results: list[Any] = [KeyError("x"), ConsumeConcurrentlyStatus.RECONSUME_LATER, None]
    seen = []

    @deduplicate(lambda message: message.body.decode(), store)
    def listener(messages: list[MessageExt], context: Any) -> Any:
        seen.append(len(messages))
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    with pytest.raises(KeyError):
        listener(messages_of("a"), ConsumeConcurrentlyContext(QUEUE))
    for expected in (ConsumeConcurrentlyStatus.RECONSUME_LATER, None, None):
        assert listener(messages_of("a"), ConsumeConcurrentlyContext(QUEUE)) is expected
    assert seen == [1, 1, 1]


@pytest.mark.parametrize(
    ("context", "result"),
    [
        (ConsumeConcurrentlyContext, False),
        (ConsumeConcurrentlyContext, "RECONSUME_LATER"),
        (ConsumeConcurrentlyContext, ConsumeOrderlyStatus.SUCCESS),
        (ConsumeOrderlyContext, False),
        (ConsumeOrderlyContext, ConsumeConcurrentlyStatus.CONSUME_SUCCESS),
    ],
)
def test_a_status_that_is_none_leaves_nothing_done(store: Any, context: Any, result: Any) -> None:
    """If a listener returns a status that is none, its messages come again, so they must not be
    left out then as if they were done."""
    results = [result, None]
    seen = []

    @deduplicate(store=store)
    def listener(messages: list[MessageExt], context: Any) -> Any:
        seen.append(len(messages))
        return results.pop(0)

    assert listener(messages_of("a", "b"), context(QUEUE)) is result
    assert listener(messages_of("a", "b"), context(QUEUE)) is None
    assert seen == [2, 2]


def test_an_index_that_is_none_gives_the_claims_back(store: Any) -> None:
    @deduplicate(store=store)
    def listener(messages: list[MessageExt], context: Any) -> None:
        context.ack_index = None

    assert listener(messages_of("a"), ConsumeConcurrentlyContext(QUEUE)) is None
    assert store.claim(["a"], 60) == [OURS]


def test_a_function_of_one_message_returns_what_it_likes(store: Any) -> None:
    seen = []

    @deduplicate(store=store)
    def deal(message: MessageExt) -> bool:
        seen.append(message.message_id)
        return False

    for _ in range(2):
        deal(messages_of("a")[0])
    assert seen == ["a"]


def test_a_call_that_may_be_rolled_back_is_refused(store: Any) -> None:
    @deduplicate(store=store)
    def listener(messages: list[MessageExt], context: Any) -> ConsumeOrderlyStatus:
        context.auto_commit = False
        return ConsumeOrderlyStatus.SUCCESS

    with pytest.raises(ConfigError, match="auto_commit"):
        listener(messages_of("a"), ConsumeOrderlyContext(QUEUE))
    assert store.claim(["a"], 60) == [OURS]


def test_a_database_that_was_away_is_connected_to_anew(tmp_path: Path) -> None:
    class Broken(sqlite3.Connection):
        is_broken = False

        def cursor(self, *given: Any) -> Any:
            if self.is_broken:
                raise sqlite3.OperationalError("server closed the connection unexpectedly")
            return super().cursor(*given)

        def rollback(self) -> None:
            if self.is_broken:
                raise sqlite3.InterfaceError("connection already closed")
            super().rollback()

    def connect(path: str) -> Any:
        if is_away:
            raise sqlite3.OperationalError("could not connect to server")
        return sqlite3.connect(path, factory=Broken)

    is_away = False
    module = SimpleNamespace(**{**vars(module_with("qmark")), "connect": connect})
    store = DbApiStore(module, str(tmp_path / "seen.db"))
    assert store.claim(["a"], 60) == [OURS]
    store._all[0].is_broken = is_away = True
    with pytest.raises(sqlite3.OperationalError, match="could not connect"):
        store.finish(["a"])
    is_away = False
    store.finish(["a"])
    assert store.claim(["a", "b"], 60) == [DONE, OURS]
    store._all[0].is_broken = True
    assert store.claim(["a", "c"], 60) == [DONE, OURS]
    assert len(store._all) == 1
    store.close()


def test_part_of_a_batch_may_be_done(store: Any) -> None:
    @deduplicate(store=store)
    def listener(messages: list[MessageExt], context: Any) -> None:
        context.ack_index = 0

    context = ConsumeConcurrentlyContext(QUEUE)
    listener(messages_of("a", "b"), context)
    assert context.ack_index == -1  # both come again; a is done already, b is not
    assert store.claim(["a", "b"], 60) == [DONE, OURS]


def test_what_is_busy_elsewhere_comes_again_later(store: Any) -> None:
    other = another(store)
    assert other.claim(["b"], 60) == [OURS]
    seen = []

    @deduplicate(store=store)
    def listener(messages: list[MessageExt], context: Any) -> None:
        seen.append([each.message_id for each in messages])

    context = ConsumeConcurrentlyContext(QUEUE)
    assert listener(messages_of("a", "b", "c"), context) is None
    assert (seen, context.ack_index) == ([["a"]], 0)
    status = listener(messages_of("b"), ConsumeOrderlyContext(QUEUE))
    assert status is ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
    assert other.claim(["c"], 60) == [OURS]  # the claim was given back

    @deduplicate(store=store)
    def single(message: MessageExt) -> str:
        return message.message_id

    with pytest.raises(BusyError):
        single(messages_of("b")[0])
    assert single(messages_of("d")[0]) == "d"
    assert single(messages_of("d")[0]) is None


def test_coroutines_are_wrapped_as_well(tmp_path: Path) -> None:
    seen = []

    @deduplicate(store=SqliteStore(tmp_path / "seen.db"))
    async def listener(messages: list[MessageExt], context: Any) -> None:
        await asyncio.sleep(0)
        seen.append([each.message_id for each in messages])
        if messages[0].message_id == "z":
            raise KeyError("z")

    async def main() -> None:
        for keys in (["a"], ["a", "b"]):
            await listener(messages_of(*keys), ConsumeConcurrentlyContext(QUEUE))
        for _ in range(2):
            with pytest.raises(KeyError):
                await listener(messages_of("z"), ConsumeConcurrentlyContext(QUEUE))

    asyncio.run(main())
    assert seen == [["a"], ["b"], ["z"], ["z"]]


def test_repeated_sends_have_one_effect(broker: RunningBroker, tmp_path: Path) -> None:
    address = broker.namesrv_addr
    create(address, "dedupe-real", 2)
    orders = [Message("dedupe-real", f"{i}", properties={"order": str(i)}) for i in range(100)]
    send(address, orders + orders[:50])
    kept = Kept()
    decorate = deduplicate(
        lambda message: message.get_property("order"), SqliteStore(tmp_path / "seen.db")
    )
    with consumer_of(address, "dedupe-real", decorate(kept.__call__),
                     consume_message_batch_max_size=8) as consumer:  # fmt: skip
        consumer.subscribe("dedupe-real")
        wait_until(lambda: sum(each.count for each in consumer._client.process_queues()) == 0
                   and len(kept.messages) >= 100, 90)  # fmt: skip
    assert Counter(kept.bodies) == Counter(range(100))


def test_it_wants_a_store_and_a_lease(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="store"):
        deduplicate()
    with pytest.raises(ConfigError, match="lease_s"):
        deduplicate(store=SqliteStore(tmp_path / "seen.db"), lease_s=0)
    with pytest.raises(ConfigError, match="table"):
        SqliteStore(tmp_path / "seen.db", table="x; drop")
    with pytest.raises(ConfigError, match="a file"):
        SqliteStore(":memory:")
