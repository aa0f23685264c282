"""Transactions, request and reply, traces, recall and Admin, against an embedded broker."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from typing import Any

import pytest
from support.consuming import API_TIMEOUT_MS
from support.driven_clock import DrivenClock
from support.reading import read_all
from support.topics import make_topic
from support.waiting import HANG_S, wait_until

from cext.client.message import decode_messages
from rmq import (
    Admin,
    ConfigError,
    LocalTransactionState,
    Message,
    MessageError,
    MessageExt,
    Producer,
    RemoteError,
    RequestTimeoutError,
    TransactionProducer,
    aio,
)
from rmq.base.clock import now_ms
from rmq.client.blocking.trace import traces_of
from rmq.codes import RequestCode as Code
from rmq.pytest_plugin import RunningBroker

PATIENT: dict[str, Any] = {"mq_client_api_timeout": API_TIMEOUT_MS}


class Listener:
    """Decides by the message's body, and remembers what it was asked."""

    def __init__(self, checks: dict[bytes, list[LocalTransactionState]] | None = None) -> None:
        self.checks = checks or {}
        self.asked: list[bytes] = []

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        if message.body == b"raise":
            raise KeyError("of the user")
        return LocalTransactionState[arg]

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        self.asked.append(message.body)
        assert message.topic.startswith("tx")
        states = self.checks[message.body]
        return states.pop(0) if len(states) > 1 else states[0]


def eventually(bodies: list[bytes], broker: RunningBroker, topic: str) -> list[MessageExt]:
    found: list[MessageExt] = []

    def are_there() -> bool:
        found[:] = read_all(broker.namesrv_addr, topic)
        return len(found) >= len(bodies)

    wait_until(are_there)
    assert sorted(each.body for each in found) == sorted(bodies)
    return found


def wait_for_rounds(listener: Listener, producer: TransactionProducer, topic: str) -> None:
    """Returns when the broker has asked twice about everything that it did not know at this call:
    in each round it asks about older messages first."""
    last = f"last of {topic} {len(listener.asked)}".encode()
    listener.checks[last] = [LocalTransactionState.UNKNOWN, LocalTransactionState.ROLLBACK]
    producer.send_in_transaction(Message(topic, last), "UNKNOWN")
    wait_until(lambda: listener.asked.count(last) >= 2)


def asked_of(listener: Listener) -> Counter[bytes]:
    return Counter(each for each in listener.asked if not each.startswith(b"last"))


def test_committed_messages_are_seen_and_rolled_back_ones_never(
    driven_broker: RunningBroker,
) -> None:
    with Admin(namesrv_addr=driven_broker.namesrv_addr, **PATIENT) as admin:
        make_topic(admin, "tx1", 2)
    listener = Listener()
    with TransactionProducer(
        "txg1", listener, namesrv_addr=driven_broker.namesrv_addr, **PATIENT
    ) as producer:
        kept = producer.send_in_transaction(Message("tx1", b"kept", "tag"), "COMMIT")
        gone = producer.send_in_transaction(Message("tx1", b"gone"), "ROLLBACK")
        assert kept.state is LocalTransactionState.COMMIT
        assert gone.state is LocalTransactionState.ROLLBACK
        (found,) = eventually([b"kept"], driven_broker, "tx1")
        assert (found.message_id, found.tags) == (kept.message_id, "tag")
        assert producer.send(Message("tx1", b"plain")).is_ok
        wait_for_rounds(listener, producer, "tx1")
    assert not asked_of(listener), "the broker knows"
    eventually([b"kept", b"plain"], driven_broker, "tx1")


def test_brokers_ask_about_open_transactions_until_they_know(driven_broker: RunningBroker) -> None:
    state = LocalTransactionState
    listener = Listener({b"open": [state.UNKNOWN, state.COMMIT], b"undo": [state.ROLLBACK],
                         b"raise": [state.COMMIT]})  # fmt: skip
    with Admin(namesrv_addr=driven_broker.namesrv_addr, **PATIENT) as admin:
        make_topic(admin, "tx2", 2)
    with TransactionProducer(
        "txg2", listener, namesrv_addr=driven_broker.namesrv_addr, **PATIENT
    ) as producer:
        for body in (b"open", b"undo"):
            result = producer.send_in_transaction(Message("tx2", body), "UNKNOWN")
            assert result.state is state.UNKNOWN
        with pytest.raises(KeyError):
            producer.send_in_transaction(Message("tx2", b"raise"), None)
        eventually([b"open", b"raise"], driven_broker, "tx2")
        wait_until(lambda: b"undo" in listener.asked)
        wait_for_rounds(listener, producer, "tx2")  # until the last answers have arrived
        asked = asked_of(listener)
        # The broker may ask again about one that is open for long, but only until it knows.
        assert asked >= Counter([b"open", b"open", b"raise", b"undo"])
        assert len(asked) == 3
        wait_for_rounds(listener, producer, "tx2")
        assert asked_of(listener) == asked
    assert len(read_all(driven_broker.namesrv_addr, "tx2")) == 2


def test_a_check_that_does_not_return_is_left_behind_at_the_close(
    broker_clock: DrivenClock, driven_broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    asked, gate = threading.Event(), threading.Event()

    class Stuck(Listener):
        def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
            asked.set()
            gate.wait(HANG_S)
            return LocalTransactionState.ROLLBACK

    address = driven_broker.namesrv_addr
    with Admin(namesrv_addr=address, **PATIENT) as admin:
        make_topic(admin, "tx-stuck", 1)
    producer = TransactionProducer("txg-stuck", Stuck(), namesrv_addr=address, **PATIENT).start()
    producer.send_in_transaction(Message("tx-stuck", b"open"), "UNKNOWN")
    wait_until(asked.is_set)
    with broker_clock.passing():
        producer.close()
    assert "a check of txg-stuck does not return" in caplog.text
    gate.set()


def test_a_check_may_close_its_producer(driven_broker: RunningBroker) -> None:
    ended = threading.Event()

    class Closing(Listener):
        def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
            try:
                producer.close()
            finally:
                ended.set()
            return LocalTransactionState.ROLLBACK

    address = driven_broker.namesrv_addr
    with Admin(namesrv_addr=address, **PATIENT) as admin:
        make_topic(admin, "tx-closing", 1)
    producer = TransactionProducer("txg-closing", Closing(), namesrv_addr=address, **PATIENT)
    producer.start().send_in_transaction(Message("tx-closing", b"open"), "UNKNOWN")
    wait_until(ended.is_set)
    assert not producer.is_open
    assert not producer._client.engine.is_running


def test_a_transaction_needs_a_listener() -> None:
    with pytest.raises(ConfigError, match="execute_local_transaction"):
        TransactionProducer("g")


def test_a_request_gets_its_reply_and_silence_ends_in_time(
    clock: DrivenClock, broker: RunningBroker
) -> None:
    with Admin(namesrv_addr=broker.namesrv_addr, **PATIENT) as admin:
        make_topic(admin, "rpc", 1)

    def answer() -> None:
        with Producer("answers", namesrv_addr=broker.namesrv_addr) as producer:
            fields = {
                "consumerGroup": "answers", "topic": "rpc", "queueId": 0, "queueOffset": 0,
                "maxMsgNums": 1, "sysFlag": 6, "commitOffset": 0, "suspendTimeoutMillis": 50_000,
                "subscription": "*", "subVersion": 0,
            }  # fmt: skip
            reply = producer._client.instance.ask(
                broker.broker_addr, Code.PULL_MESSAGE, fields, timeout_ms=60_000
            )
            (asked,) = decode_messages(reply.check(), "broker-a")
            producer.reply(asked, b"re: " + asked.body)

    thread = threading.Thread(target=answer)
    thread.start()
    with Producer("asks", namesrv_addr=broker.namesrv_addr, **PATIENT) as producer:
        assert producer.request(Message("rpc", b"how much?"), 60_000).body == b"re: how much?"
        thread.join()
        began = clock.monotonic()
        with pytest.raises(RequestTimeoutError, match="no reply within"), clock.passing():
            producer.request(Message("rpc", b"again?"), 20_000)
        assert 20 <= clock.monotonic() - began < 600


def test_traces_tell_of_each_send(broker: RunningBroker) -> None:
    with Admin(namesrv_addr=broker.namesrv_addr, **PATIENT) as admin:
        make_topic(admin, "RMQ_TRACE_MINE", 1)
        with Producer("traced", namesrv_addr=broker.namesrv_addr, enable_trace=True,
                      trace_topic="RMQ_TRACE_MINE") as producer:  # fmt: skip
            sent = producer.send(Message("traced", b"12345", "tag", "key"))
            assert producer._client.hooked.tracer is not None
            slow, before_ms = Message("traced", b"", keys="slow"), now_ms()
            producer._client.hooked.tracer.sent("traced", slow, "127.0.0.1:1", 60_000.5, "", True)
        found: list[Any] = []

        def is_told() -> bool:
            found[:] = [each for name in (sent.message_id, "slow")
                        for each in traces_of(admin._cluster, name, topic="RMQ_TRACE_MINE")
                        ]  # fmt: skip
            return len(found) == 2

        wait_until(is_told)
    took_long = found[1]  # its time is that of its beginning
    assert before_ms - 60_001 <= took_long.record.time_ms <= now_ms() - 60_001
    assert took_long.record.cost_ms == 60_000
    record = found[0].record
    assert (record.kind, record.group, record.topic, record.tags, record.keys) == (
        "Pub", "traced", "traced", "tag", "key")  # fmt: skip
    assert (record.body_bytes, record.success, record.offset_id) == (
        5, True, sent.offset_message_id)  # fmt: skip


def test_the_first_trace_makes_its_topic(broker: RunningBroker) -> None:
    with Producer("traced", namesrv_addr=broker.namesrv_addr, enable_trace=True,
                  trace_topic="RMQ_TRACE_NEW") as producer:  # fmt: skip
        sent = producer.send(Message("traced", b"12345"))
    found: list[Any] = []
    with Admin(namesrv_addr=broker.namesrv_addr, **PATIENT) as admin:

        def is_told() -> bool:
            with contextlib.suppress(RemoteError):  # code 17 until the name server has the topic
                found[:] = traces_of(admin._cluster, sent.message_id, topic="RMQ_TRACE_NEW")
            return bool(found)

        wait_until(is_told)
        assert [each.record.kind for each in found] == ["Pub"]
        assert len(admin.route("RMQ_TRACE_NEW").writable()) == 4


def test_a_timed_message_is_taken_back_by_the_handle_of_its_send(broker: RunningBroker) -> None:
    with Producer("recalls", namesrv_addr=broker.namesrv_addr) as producer:
        results = [
            producer.send(Message("recalled", b"sync", delay_seconds=60)),
            producer.send_async(Message("recalled", b"async", delay_seconds=60)).result(60),
        ]
        for result in results:
            assert result.recall_handle is not None
            assert producer.recall("recalled", result.recall_handle) == result.message_id
        assert producer.send(Message("recalled", b"now")).recall_handle is None
        with pytest.raises(MessageError, match="not a recall handle"):
            producer.recall("recalled", "nonsense")


def test_admin_finds_messages_offsets_and_groups(broker: RunningBroker) -> None:
    before = int(time.time() * 1000)
    with Admin(namesrv_addr=broker.namesrv_addr, **PATIENT) as admin:
        make_topic(admin, "kept", 1)
        assert "kept" in admin.topics()
        with Producer("keeper", namesrv_addr=broker.namesrv_addr) as producer:
            sent = [producer.send(Message("kept", f"{i}", keys=f"k{i}")) for i in range(3)]
        queue = sent[0].queue
        assert (admin.min_offset(queue), admin.max_offset(queue)) == (0, 3)
        assert admin.offset_at(queue, before) == 0
        assert admin.offset_at(queue, before + 3_600_000) == 3
        assert admin.message(sent[1].offset_message_id).body == b"1"
        assert admin.message(sent[1].message_id, "kept").body == b"1"
        assert [each.body for each in admin.messages("kept", "k2")] == [b"2"]
        with pytest.raises(RemoteError):
            admin.message("F" * 32, "kept")
        admin.create_group("readers1", retryMaxTimes=3)
        assert admin.groups()["readers1"]["retryMaxTimes"] == 3
        assert admin.committed_offset("readers1", queue) is None
        admin.commit_offset("readers1", queue, 2)
        assert admin.committed_offset("readers1", queue) == 2
        assert [each.lag for each in admin.progress("readers1")] == [1]
        admin.delete_group("readers1")
        assert "readers1" not in admin.groups()
        assert admin.broker_info(admin.brokers()[0])["brokerActive"] == "true"
        admin.delete_topic("kept")
        assert "kept" not in admin.topics()


def test_the_asyncio_twin_sends_as_well(broker: RunningBroker) -> None:
    async def sends() -> list[Any]:
        async with aio.Producer(
            "aio", namesrv_addr=broker.namesrv_addr, auto_batch=True
        ) as producer:
            first = await producer.send(Message("aio", b"first"))
            many = await asyncio.gather(
                *(producer.send(Message("aio", f"{i}")) for i in range(500))
            )
            batch = await producer.send_batch([Message("aio", b"b1"), Message("aio", b"b2")])
            await producer.send_oneway(Message("aio", b"oneway"))
            return [first, *many, *batch]

    results = asyncio.run(sends())
    assert len({each.message_id for each in results}) == 503
    found = eventually(
        [b"first", b"b1", b"b2", b"oneway", *(f"{i}".encode() for i in range(500))], broker, "aio"
    )
    ids = {each.message_id for each in found}
    assert ids >= {each.message_id for each in results}
