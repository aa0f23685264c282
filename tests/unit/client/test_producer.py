"""Producers: what they send, where, and what they do when a broker does not accept it.

Against scripted peers where brokers must fail, and against an embedded broker where what was sent
is read back.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from support.driven_clock import DrivenClock, pass_some_time
from support.reading import read_all
from support.scripted_cluster import Cluster, refused, stored
from support.topics import make_topic
from support.waiting import HANG_S, wait_until

from cext.client.reply import Reply
from rmq import (
    Admin,
    BusyError,
    ClosedError,
    ConfigError,
    Message,
    MessageError,
    MessageQueue,
    Producer,
    RemoteError,
    RequestTimeoutError,
    RouteError,
    SendResult,
    UnreachableError,
)
from rmq.client.producer.faults import BrokerFaults, pause_ms
from rmq.codes import RequestCode
from rmq.format.message import decode_properties
from rmq.format.remoting import Command
from rmq.pytest_plugin import RunningBroker

pytestmark = pytest.mark.still_clock

SLOTS = 1 << 14  # the most requests that can be under way
# No heartbeat, because one that is under way when a test moves the clock would be late, and would
# end its connection.
SILENT = {"heartbeat_broker_interval": 1_000_000_000}


def wait_for_heartbeats(cluster: Cluster, producer: Producer) -> None:
    """Waits until the first heartbeats, which follow the first look at the routes, are answered."""
    producer.queues("t")
    greeted = producer._client.instance.heartbeats._registered

    def all_registered() -> bool:
        pass_some_time(0.01)  # heartbeats come that long after the brokers were seen
        return len(greeted) == len(cluster.brokers)

    wait_until(all_registered, still=True)


# ---------------------------------------------------------------- what is sent


def test_a_send_says_what_the_message_says_and_reports_where_it_went() -> None:
    with Cluster(stored) as cluster, cluster.producer() as producer:
        message = Message("t", b"x", "a", "k", properties={"p": "\u4e2d"}, flag=5)
        sent = producer.send(message)
        (request,) = cluster.sends(0)
    assert (sent.status, sent.queue_offset, sent.offset_message_id) == ("SEND_OK", 7, "F" * 32)
    assert sent.queue == MessageQueue("t", "b0", 0)
    assert request.body == b"x"
    fields = request.fields
    assert decode_properties(fields.pop("i").encode()) == {
        "p": "\u4e2d", "UNIQ_KEY": sent.message_id, "TAGS": "a", "KEYS": "k",
    }  # fmt: skip
    assert abs(int(fields.pop("g")) - time.time() * 1000) < 60_000
    assert fields == {"a": "g", "b": "t", "c": "TBW102", "d": "4", "e": "0", "f": "0", "h": "5",
                      "j": "0", "k": "false", "m": "false", "n": "b0"}  # fmt: skip
    assert len(sent.message_id) == 32


def test_messages_of_every_way_of_sending_arrive_once_and_whole(broker: RunningBroker) -> None:
    ends: list[tuple[SendResult | None, Exception | None]] = []
    with Producer("ways", namesrv_addr=broker.namesrv_addr) as producer:
        expected = {}
        results = [producer.send(Message("ways", f"sync{i}", properties={"i": i}))
                   for i in range(5)]  # fmt: skip
        results += producer.send_batch(
            [Message("ways", f"batch{i}", "tag", properties={"i": i}) for i in range(40)]
        )
        futures = [producer.send_async(Message("ways", f"future{i}")) for i in range(50)]
        results += [each.result(60) for each in futures]
        for i in range(50):
            producer.send_async(Message("ways", f"call{i}"), lambda *end: ends.append(end))
        assert producer.flush(60_000)
        producer.send_oneway(Message("ways", b"oneway"))
    assert all(error is None for _, error in ends)
    results += [result for result, _ in ends if result is not None]
    expected = {each.message_id: each for each in results}
    assert len(expected) == 145
    found = read_all(broker.namesrv_addr, "ways")
    bodies = Counter(each.body for each in found)
    assert set(bodies.values()) == {1}
    assert bodies.keys() == {
        b"oneway",
        *(f"{way}{i}".encode() for way, count in (
            ("sync", 5), ("batch", 40), ("future", 50), ("call", 50)) for i in range(count)),
    }  # fmt: skip
    for message in found:
        sent = expected.get(message.message_id)
        if sent is not None:
            assert (sent.queue_id, sent.queue_offset, sent.offset_message_id) == (
                message.queue_id, message.queue_offset, message.offset_message_id)  # fmt: skip
    for message in found:
        if message.body.startswith(b"batch"):
            assert (message.tags, message.get_property("i")) == ("tag", message.body[5:].decode())


@pytest.mark.parametrize("gathered", [False, True])
def test_asynchronous_sends_keep_order_in_their_queue_and_miss_nothing(
    broker: RunningBroker, gathered: bool
) -> None:
    topic, count = f"many{gathered}", 20_000
    ends: list[str] = []  # appended by the callbacks of several threads
    known: dict[bytes, SendResult] = {}

    def ended(body: bytes) -> Callable[[SendResult | None, Exception | None], None]:
        def callback(result: SendResult | None, error: Exception | None) -> None:
            ends.append("stored" if result else repr(error))
            if result:
                known[body] = result

        return callback

    with Admin(namesrv_addr=broker.namesrv_addr) as admin:
        make_topic(admin, topic, 4)
    with Producer(
        "many", namesrv_addr=broker.namesrv_addr, auto_batch=gathered, send_msg_timeout=30_000
    ) as producer:
        for i in range(count):
            body = b"%07d" % i
            producer.send_async(Message(topic, body), ended(body))
        assert producer.flush(60_000)
    assert Counter(ends) == {"stored": count}
    found = read_all(broker.namesrv_addr, topic)
    assert len(found) == count
    for message in found:
        result = known[message.body]
        assert (result.queue_id, result.queue_offset, result.message_id) == (
            message.queue_id, message.queue_offset, message.message_id)  # fmt: skip
        assert result.offset_message_id == message.offset_message_id
    for queue in range(4):
        bodies = [each.body for each in found if each.queue_id == queue]
        assert bodies == sorted(bodies)


def test_gathered_messages_leave_when_their_time_has_come_and_alone_ones_at_once(
    clock: DrivenClock,
) -> None:
    with (
        Cluster(stored) as cluster,
        cluster.producer(auto_batch=True, batch_max_delay_ms=30_000, **SILENT) as producer,
    ):
        wait_for_heartbeats(cluster, producer)
        first = producer.send_async(Message("t", b"a"))
        second = producer.send_async(Message("t", b"b", properties={"p": "1"}))
        delayed = producer.send_async(Message("t", b"c", delay_level=1))
        assert delayed.result(60).is_ok
        clock.advance(15)
        # By now the engine has looked for late requests.
        assert producer.send(Message("t", b"d", delay_level=1)).is_ok
        assert not first.done() and not second.done()
        clock.advance(15)
        first.result(60), second.result(60)
        requests = cluster.sends(0)
    assert [each.code for each in requests] == [310, 310, 320]
    assert requests[2].fields["m"] == "true"


def test_equal_sharding_keys_share_a_queue_and_selectors_and_queues_are_obeyed(
    broker: RunningBroker,
) -> None:
    with Producer("sharded", namesrv_addr=broker.namesrv_addr) as producer:
        used = {}
        for key in "abcdefgh":
            queues = {producer.send(Message("sharded", b"x", sharding_key=key)).queue_id
                      for _ in range(3)}  # fmt: skip
            queues.add(
                producer.send_async(Message("sharded", b"x", sharding_key=key)).result(60).queue_id
            )
            assert len(queues) == 1
            used[key] = queues.pop()
        assert len(set(used.values())) > 1
        chosen = producer.queues("sharded")[2]
        assert producer.send(Message("sharded", b"x"), queue=chosen).queue == chosen
        assert (
            producer.send(
                Message("sharded", b"x"), selector=lambda queues, message, arg: queues[arg], arg=1
            ).queue
            == producer.queues("sharded")[1]
        )
        with pytest.raises(RemoteError, match="has no queue 9"):
            producer.send(Message("sharded", b"x"), queue=chosen._replace(queue_id=9))


@pytest.mark.parametrize(("kind", "bits"), [("ZLIB", 0x1), ("LZ4", 0x101), ("ZSTD", 0x201)])
def test_large_bodies_are_packed_and_come_back(broker: RunningBroker, kind: str, bits: int) -> None:
    if kind != "ZLIB":
        pytest.importorskip({"LZ4": "lz4.frame", "ZSTD": "zstandard"}[kind])
    plain = b"same " * 1000
    with Producer("packed", namesrv_addr=broker.namesrv_addr, compress_type=kind) as producer:
        producer.send(Message(f"packed{kind}", plain))
        producer.send_async(Message(f"packed{kind}", plain)).result(60)
        producer.send(Message(f"packed{kind}", b"small"))
    found = read_all(broker.namesrv_addr, f"packed{kind}")
    assert sorted(each.body for each in found) == [plain, plain, b"small"]
    assert sorted(each.sys_flag for each in found) == [0, bits, bits]
    assert all(len(each.stored_body) < 1000 for each in found)


def test_a_batch_is_split_where_it_would_be_too_large() -> None:
    with Cluster(lambda request: request.reply(0, None, {
        "msgId": ",".join(["F" * 32] * max(request.body.count(b"UNIQ_KEY"), 1)), "queueId": 0,
        "queueOffset": 0,
    })) as cluster, cluster.producer(max_message_size=1000) as producer:  # fmt: skip
        results = producer.send_batch([Message("t", b"x" * 300) for _ in range(5)])
        assert [len(each.body) for each in cluster.sends(0)] == [2 * 364, 2 * 364, 300]
    assert len(results) == 5
    assert [each.offset_message_id for each in results] == ["F" * 32] * 5


def test_a_namespace_is_on_the_wire_and_not_in_results() -> None:
    with Cluster(stored) as cluster, cluster.producer(namespace="ns") as producer:
        cluster.topic = "ns%t"
        sent = producer.send(Message("t", b"x"))
        assert (sent.topic, sent.queue.topic) == ("t", "t")
        assert producer.send_async(Message("t", b"x")).result(60).topic == "t"
        fields = cluster.sends(0)[0].fields
    assert (fields["a"], fields["b"]) == ("ns%g", "ns%t")


# ---------------------------------------------------------------- what is refused


def test_what_no_broker_takes_is_refused_here() -> None:
    with Cluster(stored) as cluster, cluster.producer(max_message_size=100) as producer:
        for message in (Message("t", b""), Message("t", b"x" * 101), Message("a b", b"x"),
                        Message("", b"x"), Message("x" * 128, b"x")):  # fmt: skip
            with pytest.raises(MessageError):
                producer.send(message)
            with pytest.raises(MessageError):
                producer.send_async(message)
        with pytest.raises(MessageError, match="one topic"):
            producer.send_batch([Message("t", b"x"), Message("u", b"x")])
        with pytest.raises(MessageError, match="delayed"):
            producer.send_batch([Message("t", b"x", delay_level=1)])
        with pytest.raises(RouteError, match="no such topic"):
            producer.send(Message("unknown", b"x"))
        assert cluster.sends(0) == []
    with pytest.raises(ClosedError):
        producer.send(Message("t", b"x"))
    with pytest.raises(ClosedError):
        producer.send_async(Message("t", b"x"), lambda *_: None)
    with pytest.raises(ClosedError):
        producer.start()


def test_one_client_has_one_producer_of_a_group() -> None:
    with Cluster(stored) as cluster, cluster.producer(instance_name="shared-by-two") as one:
        wait_for_heartbeats(cluster, one)
        with pytest.raises(ClosedError, match="group g already"):
            cluster.producer(instance_name="shared-by-two").start()
        assert one._client.instance.heartbeats.producer("g") is one._client
        codes = [each.code for each in cluster.brokers[0].requests]
        assert RequestCode.UNREGISTER_CLIENT not in codes
        assert one.send(Message("t", b"x")).is_ok
        one.close()
        codes = [each.code for each in cluster.brokers[0].requests]
        assert codes.count(RequestCode.UNREGISTER_CLIENT) == 1


def test_parameters_are_checked_by_name_and_type() -> None:
    with pytest.raises(ConfigError, match="did you mean send_msg_timeout"):
        Producer("g", send_msg_timout=1)
    for wrong in ({"send_msg_timeout": "3"}, {"auto_batch": 1}, {"compress_type": "RAR"},
                  {"compress_level": 10}, {"poll_name_server_interval": -1},
                  {"namesrv_addr": "nowhere"}, {"socks_proxy_config": "{\"a\":1}"}):  # fmt: skip
        with pytest.raises(ConfigError):
            Producer("g", **wrong).start()


# ---------------------------------------------------------------- when brokers fail


@pytest.mark.parametrize("way", ["send", "send_async", "send_batch"])
@pytest.mark.parametrize("code", [2, 14, 1])
def test_a_busy_broker_is_left_for_another(way: str, code: int) -> None:
    with Cluster(refused(code), stored) as cluster, cluster.producer() as producer:
        for _ in range(6):
            if way == "send":
                result = producer.send(Message("t", b"x"))
            elif way == "send_async":
                result = producer.send_async(Message("t", b"x")).result(60)
            else:
                result = producer.send_batch([Message("t", b"x"), Message("t", b"y")])[0]
            assert result.broker_name == "b1"
        ids = [
            decode_properties(each.fields["i"].encode()).get("UNIQ_KEY")
            for each in cluster.sends(0) + cluster.sends(1)
            if way != "send_batch"
        ]
        assert len(cluster.sends(0)) >= 2
        assert len(cluster.sends(1)) == 6
    if ids:
        assert len(set(ids)) == 6  # a retry has the id of the first try


@pytest.mark.parametrize("way", ["send", "send_async"])
def test_three_tries_and_then_the_error(way: str) -> None:
    with Cluster(refused(2)) as cluster, cluster.producer() as producer:
        with pytest.raises(RemoteError, match="code 2: busy"):
            if way == "send":
                producer.send(Message("t", b"x"))
            else:
                producer.send_async(Message("t", b"x")).result(60)
        assert len(cluster.sends(0)) == 3
    with Cluster(refused(13)) as cluster, cluster.producer() as producer:
        with pytest.raises(RemoteError, match="code 13"):
            producer.send(Message("t", b"x"))
        assert len(cluster.sends(0)) == 1


def test_silence_is_not_tried_again(clock: DrivenClock) -> None:
    def silent(request: Command) -> None:
        clock.advance(1)

    with (
        Cluster(silent, silent) as cluster,
        cluster.producer(send_msg_timeout=1_000, **SILENT) as producer,
    ):
        wait_for_heartbeats(cluster, producer)
        with pytest.raises(RequestTimeoutError):
            producer.send(Message("t", b"x"))
        with pytest.raises(RequestTimeoutError):
            producer.send_async(Message("t", b"x")).result(60)
        wait_until(lambda: len(cluster.sends(0)) + len(cluster.sends(1)) >= 2)
        assert len(cluster.sends(0)) + len(cluster.sends(1)) == 2


def test_a_limit_for_each_try_leaves_time_for_another_broker(clock: DrivenClock) -> None:
    def silent(request: Command) -> None:
        clock.advance(2)

    with (
        Cluster(silent, stored) as cluster,
        cluster.producer(
            send_msg_max_timeout_per_request=2_000, send_msg_timeout=30_000, **SILENT
        ) as producer,
    ):
        wait_for_heartbeats(cluster, producer)
        for _ in range(2):
            assert producer.send(Message("t", b"x")).broker_name == "b1"
        assert 1 <= len(cluster.sends(0)) <= 2


def test_a_broker_that_is_gone_is_replaced_by_another() -> None:
    with Cluster(stored, stored) as cluster, cluster.producer() as producer:
        cluster.brokers[0].__exit__()
        for _ in range(4):
            assert producer.send(Message("t", b"x")).broker_name == "b1"
        futures = [producer.send_async(Message("t", b"x")) for _ in range(10)]
        assert {each.result(60).broker_name for each in futures} == {"b1"}
        cluster.brokers[1].__exit__()
        with pytest.raises(UnreachableError):
            producer.send(Message("t", b"x"))


def test_stored_but_not_safely_counts_unless_another_broker_is_wanted() -> None:
    def late_flush(request: Command) -> Command:
        return request.reply(10, "late", {"msgId": "E" * 32, "queueId": 0, "queueOffset": 1})

    with Cluster(late_flush, stored) as cluster, cluster.producer() as producer:
        results = {producer.send(Message("t", b"x")).status for _ in range(2)}
        assert results == {"SEND_OK", "FLUSH_DISK_TIMEOUT"}
    with (
        Cluster(late_flush, stored) as cluster,
        cluster.producer(retry_another_broker_when_not_store_ok=True) as producer,
    ):
        for _ in range(2):
            assert producer.send(Message("t", b"x")).status == "SEND_OK"
            assert producer.send_async(Message("t", b"x")).result(60).status == "SEND_OK"
    with (
        Cluster(late_flush) as cluster,
        cluster.producer(retry_another_broker_when_not_store_ok=True) as producer,
    ):
        assert producer.send(Message("t", b"x")).status == "FLUSH_DISK_TIMEOUT"


@pytest.mark.still_clock
def test_slow_and_failed_brokers_are_left_alone_for_a_while(clock: DrivenClock) -> None:
    assert [pause_ms(each) for each in (10, 100, 549, 550, 999, 1000, 2500, 3000, 20_000)] == [
        0, 0, 0, 30_000, 30_000, 60_000, 120_000, 180_000, 600_000]  # fmt: skip
    faults = BrokerFaults()
    faults.note("a", 600, False)
    assert not faults.is_usable("a")
    assert faults.avoided() == ["a"]
    faults.note("a", 5, False)
    assert faults.is_usable("a")
    faults.note("a", 600, False)
    clock.advance(20)
    assert not faults.is_usable("a")
    clock.advance(10)
    assert faults.is_usable("a")
    assert faults.avoided() == []

    def slow(request: Command) -> Command:
        clock.advance(20)
        return stored(request)

    with (
        Cluster(slow, stored) as cluster,
        cluster.producer(send_latency_enable=True, send_msg_timeout=30_000, **SILENT) as producer,
    ):
        wait_for_heartbeats(cluster, producer)
        for _ in range(6):
            producer.send(Message("t", b"x"))
        assert len(cluster.sends(0)) <= 1
        assert len(cluster.sends(1)) >= 5
        while not cluster.sends(0):
            producer.send(Message("t", b"x"))
        clock.advance(400)
        for _ in range(2):
            producer.send(Message("t", b"x"))
        assert len(cluster.sends(0)) == 1
        clock.advance(200)
        for _ in range(2):
            producer.send(Message("t", b"x"))
        assert len(cluster.sends(0)) == 2, "its time is over"


def test_too_much_under_way_waits_and_is_refused_in_time(clock: DrivenClock) -> None:
    release = threading.Event()

    def held(request: Command) -> Command:
        release.wait(HANG_S)
        return stored(request)

    with Cluster(held) as cluster, cluster.producer(
        enable_backpressure_for_async_mode=True, back_pressure_for_async_send_num=5,
        send_msg_timeout=300,
    ) as producer:  # fmt: skip
        futures = [producer.send_async(Message("t", b"x"), timeout_ms=600_000) for _ in range(5)]
        began = clock.monotonic()
        with pytest.raises(BusyError, match="5 messages"), clock.passing():
            producer.send_async(Message("t", b"x"))
        # 0.3 s, rounded: the clock stands still between its steps.
        assert clock.monotonic() - began > 0.299
        producer._client.timeout_ms = 60_000
        threading.Timer(0.1, release.set).start()
        futures.append(producer.send_async(Message("t", b"x"), timeout_ms=60_000))
        assert all(each.result(60).is_ok for each in futures)


def test_sends_go_elsewhere_though_all_requests_are_under_way() -> None:
    """Sends must go on at the other broker even if all slots are in use: a broker that stops has
    most of them, and several threads wait for free ones."""
    release = threading.Event()

    def held(request: Command) -> None:
        release.wait(HANG_S)

    futures: list[Future[SendResult]] = []

    def send_all() -> None:
        for _ in range(2 * SLOTS + 1_000):
            futures.append(producer.send_async(Message("t", b"x")))

    with (
        Cluster(held, stored) as cluster,
        cluster.producer(send_msg_timeout=600_000, **SILENT) as producer,
    ):
        wait_for_heartbeats(cluster, producer)
        thread = threading.Thread(target=send_all)
        thread.start()
        # The first half is answered, so the other half has all slots.
        wait_until(lambda: len(futures) >= 2 * SLOTS - 2)
        wait_until(lambda: producer._client.engine.stats()["in_flight"] == SLOTS)
        cluster.brokers[0].__exit__()
        release.set()
        thread.join()
        results = [each.result(HANG_S) for each in futures]
        assert {each.broker_name for each in results} == {"b1"}
        assert len(results) == 2 * SLOTS + 1_000


def test_one_way_sends_wait_for_a_broker_that_takes_nothing() -> None:
    release = threading.Event()

    def held(request: Command) -> Command:
        release.wait(HANG_S)
        return stored(request)

    with (
        Cluster(held) as cluster,
        cluster.producer(
            enable_backpressure_for_async_mode=True, back_pressure_for_async_send_size=1 << 20,
            compress_msg_body_over_howmuch=1 << 30, send_msg_timeout=50, **SILENT,
        ) as producer,
    ):  # fmt: skip
        wait_for_heartbeats(cluster, producer)
        message, sent = Message("t", bytes(64 << 10)), 0
        with pytest.raises(BusyError, match="about 1048576 bytes wait to be sent"):
            while sent < 4_000:  # far more than sockets can hold
                producer.send_oneway(message)
                sent += 1
        producer._client.timeout_ms = 60_000
        threading.Timer(0.1, release.set).start()
        producer.send_oneway(message)
        wait_until(lambda: len(cluster.sends(0)) == sent + 1)


def test_a_callback_may_send_and_may_raise() -> None:
    done = threading.Event()
    results: list[object] = []

    with (
        Cluster(stored) as cluster,
        cluster.producer(
            enable_backpressure_for_async_mode=True, back_pressure_for_async_send_num=1
        ) as producer,
    ):

        def second(result: SendResult | None, error: Exception | None) -> None:
            results.append(result or error)
            done.set()

        def first(result: SendResult | None, error: Exception | None) -> None:
            producer.send_async(Message("t", b"2"), second)
            raise KeyError("of the user")

        producer.send_async(Message("t", b"1"), first)
        assert done.wait(HANG_S)
        assert isinstance(results[0], SendResult)


@pytest.mark.parametrize("gathered", [False, True])
@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), pytest.fail.Exception("in a callback")]
)
def test_no_callback_ends_the_thread_that_calls_it(error: BaseException, gathered: bool) -> None:
    ends: list[int] = []

    def ending(i: int) -> Callable[[SendResult | None, Exception | None], None]:
        def callback(result: SendResult | None, problem: Exception | None) -> None:
            ends.append(i)
            if i % 2:
                raise error

        return callback

    def answer(request: Command) -> Command:
        ids = ",".join(["F" * 32] * max(request.body.count(b"UNIQ_KEY"), 1))
        return request.reply(0, None, {"msgId": ids, "queueId": 0, "queueOffset": 0})

    with (
        Cluster(answer) as cluster,
        cluster.producer(auto_batch=gathered, client_callback_executor_threads=1) as producer,
    ):
        for i in range(30):
            producer.send_async(Message("t", b"x"), ending(i))
            if i % 10 == 9:
                producer._client.seal_batches()
                wait_until(lambda: not producer._client.messages_in_flight)
        wait_until(lambda: len(ends) == 30)
        assert ends == list(range(30))
        assert producer.send_async(Message("t", b"x")).result(60).is_ok


def test_a_hook_sees_and_signs_every_request() -> None:
    class Hook:
        seen: list[int] = []  # noqa: RUF012

        def before_request(self, address: str, code: int, fields: dict[str, str],
                           body: bytes) -> None:  # fmt: skip
            fields["Signature"] = f"{code}:{len(body)}"

        def after_response(self, address: str, code: int, fields: dict[str, str],
                           reply: Reply | None) -> None:  # fmt: skip
            self.seen.append(code)

    with Cluster(stored) as cluster, cluster.producer(rpc_hook=Hook()) as producer:
        producer.send(Message("t", b"123"))
        producer.send_async(Message("t", b"1234")).result(60)
        assert [each.fields["Signature"] for each in cluster.sends(0)] == ["310:3", "310:4"]
        assert cluster.name_server.requests[0].fields["Signature"] == "105:0"
    assert Hook.seen.count(310) == 2


def test_name_servers_come_from_file_environment_and_http(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from http.server import BaseHTTPRequestHandler, HTTPServer

    with Cluster(stored) as cluster:
        address = cluster.name_server.address

        class Addresses(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(f"127.0.0.1:1;{address}\n".encode())

            def log_message(self, *_: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Addresses)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (tmp_path / "list").write_text(f"{address}\n")
        monkeypatch.delenv("NAMESRV_ADDR", raising=False)
        for given in (
            {"namesrv_file": str(tmp_path / "list")},
            {"namesrv_http": f"http://127.0.0.1:{server.server_port}/nsaddr"},
        ):
            with Producer("g", **given) as producer:
                assert producer.send(Message("t", b"x")).is_ok
        monkeypatch.setenv("NAMESRV_ADDR", f"127.0.0.1:1;{address}")
        with Producer("g") as producer:
            assert producer.send(Message("t", b"x")).is_ok
        server.shutdown()
        server.server_close()
