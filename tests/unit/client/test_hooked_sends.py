"""Sends with a hook or a trace: flush, close and the backpressure gate count them as under way,
like others."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
from support.scripted_cluster import Cluster, refused, stored
from support.waiting import HANG_S, wait_until

from cext.client.reply import Reply
from rmq import BusyError, Message, Producer, RemoteError, RmqError
from rmq.codes import RequestCode
from rmq.format.remoting import Command

LONG_MS = int(1000 * HANG_S)


class Hook:
    """A hook that lets all requests pass except those with the body it is given."""

    def __init__(self, refuses: bytes = b"") -> None:
        self._refuses = refuses

    def before_request(self, address: str, code: int, fields: dict[str, str], body: bytes) -> None:
        if body and body == self._refuses:
            raise KeyError("of the hook")

    def after_response(self, address: str, code: int, fields: dict[str, str],
                       reply: Reply | None) -> None:  # fmt: skip
        pass


class Gate:
    """The answers of a broker, which wait until the test opens the gate."""

    def __init__(self) -> None:
        self.opened = threading.Event()

    def __call__(self, request: Command) -> Command:
        self.opened.wait(HANG_S)
        return stored(request)


def of_way(cluster: Cluster, way: str, **changes: Any) -> Producer:
    given = {"hook": {"rpc_hook": Hook()}, "trace": {"enable_trace": True}}[way]
    return cluster.producer(**given, **{"send_msg_timeout": LONG_MS, **changes})


@pytest.mark.parametrize("way", ["hook", "trace"])
def test_what_is_under_way_is_waited_for_at_the_close(way: str) -> None:
    gate = Gate()
    with Cluster(gate) as cluster:
        producer = of_way(cluster, way).start()
        futures = [producer.send_async(Message("t", b"123")) for _ in range(5)]
        assert (producer._client.messages_in_flight, producer._client.bytes_in_flight) == (5, 15)
        assert not producer.flush(20)
        closing = threading.Thread(target=producer.close)
        closing.start()
        wait_until(lambda: producer._client._closed)
        assert not any(each.done() for each in futures)
        gate.opened.set()
        closing.join(HANG_S)
        assert all(each.result(HANG_S).is_ok for each in futures)
        assert (producer._client.messages_in_flight, producer._client.bytes_in_flight) == (0, 0)


def test_back_pressure_counts_them() -> None:
    gate = Gate()
    with (
        Cluster(gate) as cluster,
        of_way(
            cluster, "hook", enable_backpressure_for_async_mode=True,
            back_pressure_for_async_send_num=3,
        ) as producer,
    ):  # fmt: skip
        futures = [producer.send_async(Message("t", b"x")) for _ in range(3)]
        producer._client.timeout_ms = 50
        with pytest.raises(BusyError, match="3 messages"):
            producer.send_async(Message("t", b"x"))
        producer._client.timeout_ms = LONG_MS
        gate.opened.set()
        futures.append(producer.send_async(Message("t", b"x")))
        assert all(each.result(HANG_S).is_ok for each in futures)
        assert producer.flush(LONG_MS)


def test_a_send_that_the_hook_refuses_is_not_under_way() -> None:
    with Cluster(stored) as cluster, cluster.producer(rpc_hook=Hook(b"no")) as producer:
        with pytest.raises(KeyError, match="of the hook"):
            producer.send_async(Message("t", b"no"))
        assert producer.send_async(Message("t", b"yes")).result(HANG_S).is_ok
        assert producer.flush(LONG_MS)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_hook_that_ends_its_thread_ends_the_request_alone(asynchronous: bool) -> None:
    class Leaving(Hook):
        leaves = True

        def after_response(self, address: str, code: int, fields: dict[str, str],
                           reply: Reply | None) -> None:  # fmt: skip
            if code == RequestCode.SEND_MESSAGE_V2 and self.leaves:
                sys.exit("of the hook")

    hook, message = Leaving(), Message("t", b"x")
    with (
        Cluster(stored) as cluster,
        cluster.producer(rpc_hook=hook, client_callback_executor_threads=1) as producer,
    ):
        for _ in range(3):
            with pytest.raises(RmqError, match="of the hook"):
                if asynchronous:
                    producer.send_async(message).result(HANG_S)
                else:
                    producer.send(message, timeout_ms=LONG_MS)
        hook.leaves = False
        assert producer.send_async(message).result(HANG_S).is_ok


@pytest.mark.parametrize("problem", [KeyError("of the hook"), SystemExit(3)])
# The first is tried again at once, the second after a pause.
@pytest.mark.parametrize("code", [1, 14])
def test_a_hook_that_refuses_another_try_ends_the_send(
    code: int, problem: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmq.client.producer.failover_grace.GRACE_MS", LONG_MS)

    class Once(Hook):
        sends = 0

        def before_request(
            self, address: str, code: int, fields: dict[str, str], body: bytes
        ) -> None:
            if code != RequestCode.SEND_MESSAGE_V2:
                return
            self.sends += 1
            if self.sends > 1:
                raise problem

    with (
        Cluster(refused(code)) as cluster,
        cluster.producer(rpc_hook=Once(), send_msg_timeout=LONG_MS) as producer,
    ):
        future = producer.send_async(Message("t", b"x"))
        with pytest.raises(RemoteError, match=f"code {code}"):
            future.result(HANG_S)
        assert producer.flush(LONG_MS)
        assert len(cluster.sends(0)) == 1
