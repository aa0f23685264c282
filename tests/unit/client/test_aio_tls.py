"""Clients of rmq.aio with TLS, whose connections are made by threads: the loop goes on meanwhile,
and is told of requests that end in those threads."""

from __future__ import annotations

import asyncio
import contextlib
import select
import shutil
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.certificates import Authority
from support.scripted_cluster import Cluster, port_of, refused, silent, stored
from support.waiting import HANG_S, until

from cext.client.reply import Reply
from rmq import Message, RemoteError, UnreachableError, aio
from rmq.client.connection import tls
from rmq.client.connection.replicas import Purpose
from rmq.client.connection.request_round import RequestRound
from rmq.client.consumer.offset_stores import RemoteOffsets
from rmq.client.consumer.start_offsets import StartOffsets
from rmq.client.consumer.subscription import Subscription
from rmq.client.parameters.consumer import PushConsumerParameters
from rmq.client.push.pops import PushPops
from rmq.codes import RequestCode as Code
from rmq.format.fastjson import MessageQueue
from rmq.format.message import StoredMessage, encode_message
from rmq.format.remoting import Command

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the key")

LONG_MS = int(1000 * HANG_S)
GRACE_MS = "rmq.client.producer.failover_grace.GRACE_MS"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def context(authority: Authority) -> ssl.SSLContext:
    """The TLS context of the servers."""
    pair = authority.pair("server")
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(pair.certificate, pair.key)
    return found


def aio_producer(cluster: Cluster, authority: Authority, **changes: Any) -> aio.Producer:
    return aio.Producer(
        "g", namesrv_addr=cluster.name_server.address, send_msg_timeout=LONG_MS, use_tls=True,
        tls_ca_file=str(authority.certificate), **changes,
    )  # fmt: skip


async def turn(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


def test_a_send_that_is_given_up_in_another_thread_wakes_the_loop(
    authority: Authority, context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When another thread gives a send up, it must wake the loop by a call that other threads may
    make: in debug mode a loop refuses all other calls."""
    monkeypatch.setattr(GRACE_MS, 100)
    problems: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: problems.append(told))
        with Cluster(silent, context=context) as cluster:
            async with aio_producer(cluster, authority) as producer:
                sending = asyncio.create_task(producer.send(Message("t", b"x")))
                await until(lambda: cluster.sends(0))
                cluster.brokers[0].__exit__()
                await until(lambda: sending.done() or problems)
                assert problems == []
                with pytest.raises(UnreachableError):
                    await sending

    asyncio.run(main(), debug=True)


def test_a_send_waits_on_while_its_broker_cannot_be_reached(
    authority: Authority, context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GRACE_MS, LONG_MS)

    async def main() -> None:
        with Cluster(silent, context=context) as cluster:
            async with aio_producer(cluster, authority) as producer:
                sending = asyncio.create_task(producer.send(Message("t", b"x")))
                await until(lambda: cluster.sends(0))
                before = len(cluster.name_server.requests)
                cluster.brokers[0].__exit__()
                looks = cluster.name_server.requests  # the name server is asked before each try
                await until(lambda: sending.done() or len(looks) > before + 3)
                assert not sending.done()
                cluster.reopen(0, stored)
                assert (await asyncio.wait_for(sending, HANG_S)).is_ok
                assert len(producer._client.delayed_retries) == 0

    asyncio.run(main())


def test_a_send_waits_on_where_its_first_connection_is_refused(
    authority: Authority, context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GRACE_MS, LONG_MS)

    async def main() -> None:
        with Cluster(stored, context=context) as cluster:
            cluster.brokers[0].__exit__()
            async with aio_producer(cluster, authority) as producer:
                sending = await producer.send_soon(Message("t", b"x"))
                assert len(producer._client.delayed_retries) == 1
                cluster.reopen(0, stored)
                assert (await asyncio.wait_for(sending, HANG_S)).is_ok

    asyncio.run(main())


def test_the_future_has_the_refusal_where_no_other_broker_may_be_tried(
    authority: Authority, context: ssl.SSLContext
) -> None:
    async def main() -> None:
        with Cluster(stored, stored, context=context) as cluster:
            cluster.brokers[0].__exit__()
            async with aio_producer(cluster, authority) as producer:
                gone, _ = sorted(await producer.queues("t"), key=lambda each: each.broker_name)
                sending = await producer.send_soon(Message("t", b"x"), queue=gone)
                with pytest.raises(UnreachableError, match=cluster.addresses[0]):
                    await asyncio.wait_for(sending, HANG_S)
                assert not cluster.sends(1)

    asyncio.run(main())


async def deafened(cluster: Cluster, number: int, client: Any) -> socket.socket:
    """Replaces a broker by a socket that accepts connections but stays silent in their handshakes
    until it is closed."""
    broker, instance = cluster.brokers[number], client._client.instance
    broker.__exit__()
    await until(lambda: not instance.is_linked(broker.address))
    return socket.create_server(("127.0.0.1", port_of(broker)))


def test_the_loop_turns_while_a_broker_is_silent_in_its_handshake(
    authority: Authority, context: ssl.SSLContext
) -> None:
    async def main() -> None:
        with Cluster(stored, context=context) as cluster:
            async with aio_producer(cluster, authority, mq_client_api_timeout=60_000) as producer:
                assert (await producer.send(Message("t", b"1"))).is_ok
                with await deafened(cluster, 0, producer) as deaf:
                    sends = [asyncio.create_task(producer.send(Message("t", b"2")))
                             for _ in range(3)]  # fmt: skip
                    await until(lambda: select.select([deaf], [], [], 0)[0])
                    await turn(20)
                    assert not any(each.done() for each in sends)
                    assert len(producer._dials) == 1, "one thread for all of them"
                found = await asyncio.gather(*sends, return_exceptions=True)
                assert {type(each) for each in found} == {UnreachableError}

    asyncio.run(main())


def test_the_loop_turns_while_a_try_elsewhere_waits_for_its_connection(
    authority: Authority, context: ssl.SSLContext
) -> None:
    async def main() -> None:
        with Cluster(refused(1), stored, context=context) as cluster:
            async with aio_producer(cluster, authority, mq_client_api_timeout=60_000) as producer:
                for _ in range(2):
                    assert (await producer.send(Message("t", b"1"))).is_ok
                later = producer._client.delayed_retries
                with await deafened(cluster, 1, producer) as deaf:
                    sends = [asyncio.create_task(producer.send(Message("t", b"2")))
                             for _ in range(2)]  # fmt: skip
                    await until(lambda: len(later) or any(each.done() for each in sends))
                    await until(lambda: select.select([deaf], [], [], 0)[0])
                    await turn(20)
                    assert len(later) == 1
                    assert not any(each.done() for each in sends)
                # The send that had no connection goes on to the other broker, which refuses.
                found = await asyncio.gather(*sends, return_exceptions=True)
                assert {type(each) for each in found} == {RemoteError}

    asyncio.run(main())


def aio_consumer(kind: Any, cluster: Cluster, authority: Authority, **changes: Any) -> Any:
    """A consumer whose handshakes may take a minute."""
    return kind(
        "g", namesrv_addr=cluster.name_server.address, use_tls=True,
        tls_ca_file=str(authority.certificate), mq_client_api_timeout=60_000, **changes,
    )  # fmt: skip


def pulled(request: Command) -> Command:
    """An answer with one message, at the offset that is asked for."""
    at = int(request.fields["queueOffset"])
    record = encode_message(StoredMessage(topic="t", body=b"%d" % at, queue_offset=at))
    fields = {"nextBeginOffset": at + 1, "minOffset": 0, "maxOffset": at + 1,
              "suggestWhichBrokerId": 0}  # fmt: skip
    return request.reply(0, None, fields, record)


ANSWERS: dict[int, Any] = {
    Code.QUERY_CONSUMER_OFFSET: lambda request: request.reply(0, None, {"offset": 5}),
    Code.LITE_PULL_MESSAGE: pulled,
}


def popped(request: Command) -> Command:
    record = encode_message(StoredMessage(topic="t", body=b"7", queue_offset=7))
    fields = {"popTime": 1_000, "invisibleTime": 3_600_000, "reviveQid": 0, "restNum": 0}
    return request.reply(0, None, fields, record)


def test_the_loop_turns_while_what_a_poll_sends_waits_for_its_connection(
    authority: Authority, context: ssl.SSLContext
) -> None:
    """The request is the next pull of a queue that was full, and then a commit that is due."""

    async def main() -> None:
        with Cluster(silent, context=context) as cluster:
            cluster.brokers[0].answers |= ANSWERS
            full = {"pull_threshold_for_queue": 1}
            async with aio_consumer(aio.PullConsumer, cluster, authority, **full) as consumer:
                await consumer.assign(await consumer.queues("t"))
                client = consumer._client
                (queue,) = client._assigned.all()
                await until(lambda: queue in client._pulls._full)
                with await deafened(cluster, 0, consumer) as deaf:
                    assert [each.body for each in await consumer.poll(0)] == [b"5"]
                    await until(lambda: select.select([deaf], [], [], 0)[0])
                    await turn(20)
                    assert queue.pulling, "who makes the connection still waits for it"
                    client._assigned._commit_at = 0.0
                    assert await consumer.poll(0) == []
                    await turn(20)
                    assert queue.pulling
                    assert (queue.done, queue.committed) == (6, 5)
                await until(lambda: not queue.pulling)

    asyncio.run(main())


@contextlib.asynccontextmanager
async def full_consumer(
    authority: Authority, context: ssl.SSLContext, queues: int, **changes: Any
) -> AsyncIterator[tuple[Cluster, Any]]:
    """A consumer with so many queues of one broker. It has a message of each queue, and pulls no
    more of it before that is taken. Heartbeats make no connections meanwhile."""
    changes |= {
        "pull_threshold_for_queue": 1, "heartbeat_broker_interval": 3_600_000,
        "enable_heartbeat_channel_event_listener": False,
    }  # fmt: skip
    with Cluster(silent, context=context, queues=queues) as cluster:
        cluster.brokers[0].answers |= ANSWERS
        async with aio_consumer(aio.PullConsumer, cluster, authority, **changes) as consumer:
            await consumer.assign(await consumer.queues("t"))
            await until(lambda: len(consumer._client._pulls._full) == queues)
            yield cluster, consumer


class Dials:
    """Counts the TLS connections to one port: how many were begun, the most at once, and by which
    threads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, port: int) -> None:
        self.begun = self.most = 0
        self.threads: set[str] = set()
        self._port = port
        self._in_flight = 0
        self._lock = threading.Lock()
        self._dial = tls.dial
        monkeypatch.setattr(tls, "dial", self)

    def __call__(self, host: str, port: int, parameters: Any) -> int:
        if port != self._port:
            return self._dial(host, port, parameters)
        with self._lock:
            self.begun += 1
            self.threads.add(threading.current_thread().name)
            self._in_flight += 1
            self.most = max(self.most, self._in_flight)
        try:
            return self._dial(host, port, parameters)
        finally:
            with self._lock:
                self._in_flight -= 1


def test_commits_of_polls_that_wait_for_a_broker_hold_up_no_other_chore(
    authority: Authority, context: ssl.SSLContext
) -> None:
    async def main() -> None:
        async with full_consumer(authority, context, 4) as (cluster, consumer):
            client = consumer._client
            with await deafened(cluster, 0, consumer):
                assert len(await consumer.poll(0)) == 4
                for _ in range(20):
                    client._assigned._commit_at = 0.0
                    assert await consumer.poll(0) == []
                seen = threading.Event()
                client.instance.timers.after(0, seen.set, chore=True)
                await until(seen.is_set)
                assert {(each.done, each.committed) for each in client._assigned.all()} == {(6, 5)}

    asyncio.run(main())


def test_commits_dial_a_broker_that_cannot_be_reached_once_for_all_its_queues(
    authority: Authority, context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with full_consumer(authority, context, 4, auto_commit=False) as (cluster, consumer):
            client, broker = consumer._client, cluster.brokers[0]
            queues = client._assigned.all()
            broker.__exit__()
            await until(lambda: not client.instance.is_linked(broker.address))
            dials = Dials(monkeypatch, port_of(broker))
            for each in queues:
                each.done = 6
            await asyncio.to_thread(client._commits.soon, queues, wait=True)
            assert dials.begun == 1
            cluster.reopen(0, silent)
            cluster.brokers[0].answers[Code.UPDATE_CONSUMER_OFFSET] = lambda asked: asked.reply()
            await asyncio.to_thread(client._commits.soon, queues, wait=True)
            await until(lambda: {each.committed for each in queues} == {6})

    asyncio.run(main())


def test_commits_of_push_consumers_dial_such_a_broker_once_for_all_its_queues(
    authority: Authority, context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with full_consumer(authority, context, 4, auto_commit=False) as (cluster, consumer):
            instance, broker = consumer._client.instance, cluster.brokers[0]
            store = RemoteOffsets(instance, "g")
            offsets = {each.wire: 6 for each in consumer._client._assigned.all()}
            broker.__exit__()
            await until(lambda: not instance.is_linked(broker.address))
            dials = Dials(monkeypatch, port_of(broker))
            await asyncio.to_thread(store.persist, offsets, wait=True)
            assert dials.begun == 1
            assert all(map(store.owes, offsets))
            cluster.reopen(0, silent)
            cluster.brokers[0].answers[Code.UPDATE_CONSUMER_OFFSET] = lambda asked: asked.reply()
            await asyncio.to_thread(store.persist, offsets, wait=True)
            assert not any(map(store.owes, offsets))

    asyncio.run(main())


def test_a_broker_that_is_connected_again_is_silent_no_more(
    authority: Authority, context: ssl.SSLContext
) -> None:
    """A pull and a commit must reach a broker that is connected again, although a request for
    another queue, or by the broker's name, could not reach it a moment ago."""

    async def main() -> None:
        async with full_consumer(authority, context, 1, auto_commit=False) as (cluster, consumer):
            client, broker = consumer._client, cluster.brokers[0]
            broker.answers[Code.UPDATE_CONSUMER_OFFSET] = lambda asked: asked.reply()
            (queue,) = client._assigned.all()
            before = UnreachableError("a moment ago")
            requests = RequestRound(client.instance)
            requests._silent = dict.fromkeys([broker.address, queue.wire.broker_name], before)
            client._pulls._send(queue, queue.life, queue.pull_offset, requests.submit)
            await until(lambda: queue.count == 2)
            client._commits._tell(queue, 6, threading.Semaphore(0), requests.submit)
            await until(lambda: queue.committed == 6)

    asyncio.run(main())


def test_pulls_dial_a_silent_broker_one_at_a_time_and_once_for_all_that_wait(
    authority: Authority, context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"auto_commit": False, "pull_time_delay_mills_when_exception": 3_600_000}

    async def main() -> None:
        async with full_consumer(authority, context, 8, **changes) as (cluster, consumer):
            queues = consumer._client._assigned.all()
            with await deafened(cluster, 0, consumer):
                dials = Dials(monkeypatch, port_of(cluster.brokers[0]))
                assert len(await consumer.poll(0)) == 8
                assert all(each.pulling for each in queues)
                await until(lambda: dials.begun)
                await turn(20)
                assert dials.begun == 1
            await until(lambda: not any(each.pulling for each in queues))
            assert dials.most == 1
            assert dials.begun <= 2, "those of the first chore, and those that came meanwhile"

    asyncio.run(main())


def ask_where_to_begin(consumer: Any, queues: list[MessageQueue], told: list[Any]) -> None:
    client = consumer._client
    offsets = StartOffsets(client.instance, "g", client.parameters, None)
    for each in queues:
        offsets.ask(each, lambda *end: told.append(end))


def ask_by_pops(consumer: Any, queues: list[MessageQueue], told: list[Any]) -> None:
    """Asks by the pops of a push consumer."""
    owner: Any = SimpleNamespace(group="g", parameters=PushConsumerParameters(), is_suspended=False)
    pops: Any = PushPops(owner, consumer._client.instance)
    pops._failed = lambda *end: told.append(end)
    pops.assign("t", Subscription.of("t"), queues)


@pytest.mark.parametrize("ask", [ask_where_to_begin, ask_by_pops])
def test_who_asks_for_many_queues_waits_for_no_silent_broker_which_is_dialled_once(
    authority: Authority, context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, ask: Any
) -> None:
    async def main() -> None:
        async with full_consumer(authority, context, 8, auto_commit=False) as (cluster, consumer):
            queues = [each.wire for each in consumer._client._assigned.all()]
            told: list[Any] = []
            asking = threading.Thread(target=ask, args=(consumer, queues, told), name="asking")
            with await deafened(cluster, 0, consumer):
                dials = Dials(monkeypatch, port_of(cluster.brokers[0]))
                asking.start()
                await until(lambda: dials.begun)
                assert "asking" not in dials.threads
                await until(lambda: not asking.is_alive())
                await turn(20)
                assert (dials.begun, told) == (1, [])
            await until(lambda: len(told) == 8)
            assert dials.most == 1
            assert dials.begun <= 2, "those of the first chore, and those that came meanwhile"

    asyncio.run(main())


def test_one_thread_waits_for_a_silent_broker_that_a_push_consumer_pulls_from(
    authority: Authority, context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only one thread may wait for the silent broker, however often the consumer asks for its
    queues again."""
    changes: dict[str, Any] = {
        "message_listener": lambda messages, context: None, "message_model": "BROADCASTING",
        "local_offset_store_dir": str(tmp_path), "pull_time_delay_mills_when_exception": 10,
        "heartbeat_broker_interval": 3_600_000, "enable_heartbeat_channel_event_listener": False,
    }  # fmt: skip

    async def main() -> None:
        with Cluster(silent, context=context, queues=8) as cluster:
            broker = cluster.brokers[0]
            broker.answers |= {
                Code.GET_MAX_OFFSET: lambda request: request.reply(0, None, {"offset": 5}),
                Code.PULL_MESSAGE: silent,
            }
            async with aio_consumer(aio.PushConsumer, cluster, authority, **changes) as consumer:
                await consumer.subscribe("t")
                await until(lambda: [each.code for each in broker.requests].count(
                    Code.PULL_MESSAGE) == 8)  # fmt: skip
                queues = consumer._client.process_queues()
                dials = Dials(monkeypatch, port_of(broker))
                with await deafened(cluster, 0, consumer) as deaf:
                    await until(lambda: select.select([deaf], [], [], 0)[0])
                    await until(lambda: all(each.pulling for each in queues))
                    await turn(20)
                assert dials.most == 1
                assert all(each.startswith("rmq-chores-") for each in dials.threads)

    asyncio.run(main())


def test_a_connection_that_is_lost_as_a_request_is_sent_is_not_made_by_who_may_not_wait(
    authority: Authority, context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with full_consumer(authority, context, 1, auto_commit=False) as (cluster, consumer):
            instance, broker = consumer._client.instance, cluster.brokers[0]
            with await deafened(cluster, 0, consumer):
                # As if it had been a moment ago.
                monkeypatch.setattr(instance.routes, "is_at_hand", lambda *_: True)
                dials = Dials(monkeypatch, port_of(broker))
                with pytest.raises(UnreachableError, match="connection lost"):
                    instance.rounds.send(
                        MessageQueue("t", "b0", 0), Purpose.READ,
                        lambda submit: submit(broker.address, 11, {}, b"", 1000, print),
                    )  # fmt: skip
                assert dials.begun == 0

    asyncio.run(main())


class Ending:
    """A hook that, when due, raises at the next pull what would end a thread."""

    is_due = False

    def before_request(self, address: str, code: int, fields: dict[str, str], body: bytes) -> None:
        if self.is_due and code == Code.LITE_PULL_MESSAGE:
            self.is_due = False
            raise SystemExit(3)

    def after_response(
        self, address: str, code: int, fields: dict[str, str], reply: Reply | None
    ) -> None:
        pass


def test_a_queue_is_read_on_whose_pull_a_hook_ends_before_its_connection(
    authority: Authority, context: ssl.SSLContext
) -> None:
    hook = Ending()
    changes = {"rpc_hook": hook, "pull_time_delay_mills_when_exception": 10, "auto_commit": False}

    async def main() -> None:
        async with full_consumer(authority, context, 1, **changes) as (cluster, consumer):
            broker = cluster.brokers[0]
            broker.__exit__()
            await until(lambda: not consumer._client.instance.is_linked(broker.address))
            hook.is_due = True
            cluster.reopen(0, silent)
            cluster.brokers[0].answers |= ANSWERS
            assert [each.body for each in await consumer.poll(0)] == [b"5"]
            assert [each.body for each in await consumer.poll(LONG_MS)] == [b"6"]
            assert not hook.is_due

    asyncio.run(main())


def test_the_loop_turns_while_an_ack_waits_for_its_connection(
    authority: Authority, context: ssl.SSLContext
) -> None:
    async def main() -> None:
        with Cluster(silent, context=context) as cluster:
            cluster.brokers[0].answers[Code.POP_MESSAGE] = popped
            async with aio_consumer(aio.PopConsumer, cluster, authority) as consumer:
                await consumer.subscribe("t")
                found = await consumer.poll(LONG_MS)
                assert [each.body for each in found] == [b"7"]
                with await deafened(cluster, 0, consumer) as deaf:
                    acking = asyncio.create_task(consumer.ack(found))
                    await until(lambda: select.select([deaf], [], [], 0)[0])
                    await turn(20)
                    assert not acking.done()
                with pytest.raises(UnreachableError):
                    await asyncio.wait_for(acking, HANG_S)

    asyncio.run(main())
