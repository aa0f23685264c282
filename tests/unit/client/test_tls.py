"""use_tls: the same client over an encrypted connection, and certificates that are not trusted."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.scripted_peer import ScriptedPeer
from support.waiting import wait_until

from rmq import Message, Producer, PushConsumer, UnreachableError
from rmq.client.connection.tls import dial
from rmq.client.parameters import ClientParameters
from rmq.codes import RequestCode as Code
from rmq.format import fastjson
from rmq.format.remoting import Command

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the key")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a key and a certificate for 127.0.0.1."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
         str(folder / "key"), "-out", str(folder / "certificate")],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


@contextlib.contextmanager
def encrypted(address: str, certificate: Path) -> Iterator[str]:
    """A listener that decrypts what comes, and passes everything on to `address`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "certificate", certificate / "key")
    host, _, port = address.rpartition(":")
    loop = asyncio.new_event_loop()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

    async def end() -> None:
        server.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    loop.set_exception_handler(lambda *_: None)  # clients may hang up in the handshake
    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextlib.contextmanager
def cluster(certificate: Path) -> Iterator[tuple[str, ScriptedPeer]]:
    """A name server and a broker behind TLS; topic t has one queue."""
    answers = {Code.HEART_BEAT: lambda request: request.reply(),
               Code.UNREGISTER_CLIENT: lambda request: request.reply()}  # fmt: skip
    with ScriptedPeer(answers) as peer, encrypted(peer.address, certificate) as address:
        route = fastjson.dumps({
            "brokerDatas": [{"brokerName": "b", "cluster": "c", "brokerAddrs": {"0": address}}],
            "queueDatas": [{"brokerName": "b", "perm": 6, "readQueueNums": 1,
                            "writeQueueNums": 1}],
        })  # fmt: skip

        def stored(request: Command) -> Command:
            return request.reply(0, None, {"msgId": "F" * 32, "queueId": 0, "queueOffset": 7})

        peer.answers[Code.SEND_MESSAGE_V2] = stored
        peer.answers[Code.GET_ROUTEINFO_BY_TOPIC] = lambda request: request.reply(
            0, None, None, route
        )
        yield address, peer


def test_sends_go_over_tls_and_come_back(certificate: Path) -> None:
    trusted = str(certificate / "certificate")
    with (
        cluster(certificate) as (address, peer),
        Producer("g", namesrv_addr=address, use_tls=True, tls_ca_file=trusted) as producer,
    ):
        body = bytes(range(256)) * 1000
        assert producer.send(Message("t", body, properties={"a": "b"})).is_ok
        futures = [producer.send_async(Message("t", b"%d" % i)) for i in range(50)]
        assert all(each.result(60).is_ok for each in futures)
        sends = [each for each in peer.requests if each.code == Code.SEND_MESSAGE_V2]
        assert len(sends) == 51


def test_a_certificate_nobody_vouches_for_is_refused_unless_asked_for(certificate: Path) -> None:
    with cluster(certificate) as (address, peer):
        with (
            Producer("g", namesrv_addr=address, use_tls=True) as producer,
            pytest.raises(UnreachableError, match=r"not trusted.* tls_ca_file.* tls_verify=False"),
        ):
            producer.send(Message("t", b"x"))
        assert peer.requests == []
        with Producer("g", namesrv_addr=address, use_tls=True, tls_verify=False) as producer:
            assert producer.send(Message("t", b"x")).is_ok


def test_the_log_says_that_a_certificate_is_asked_for(
    certificate: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With TLS 1.3 a server asks for a certificate in a way that the client notices only after its
    own handshake has succeeded. The log must say so even then."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "certificate", certificate / "key")
    context.load_verify_locations(certificate / "certificate")
    context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            accepted, _ = listener.accept()
            with accepted, contextlib.suppress(ssl.SSLError):
                context.wrap_socket(accepted, server_side=True).close()

        server = threading.Thread(target=refuse)
        server.start()
        port = listener.getsockname()[1]
        trusted = ClientParameters(use_tls=True, tls_ca_file=str(certificate / "certificate"))
        with socket.socket(fileno=dial("127.0.0.1", port, trusted)) as ours:
            ours.setblocking(True)
            assert ours.recv(1) == b""
        server.join()
    assert caplog.messages == [
        f"127.0.0.1:{port}: TLS failed (it asks for a certificate: give one by tls_cert_file)"
    ]


@pytest.mark.parametrize("way", ["send", "send_async", "send_batch"])
def test_a_broker_that_is_gone_leaves_sends_to_the_others(certificate: Path, way: str) -> None:
    with cluster(certificate) as (address, peer):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            gone = f"127.0.0.1:{taken.getsockname()[1]}"
        route = fastjson.dumps({
            "brokerDatas": [{"brokerName": name, "cluster": "c", "brokerAddrs": {"0": at}}
                            for name, at in (("gone", gone), ("b", address))],
            "queueDatas": [{"brokerName": name, "perm": 6, "readQueueNums": 1,
                            "writeQueueNums": 1} for name in ("gone", "b")],
        })  # fmt: skip
        peer.answers[Code.GET_ROUTEINFO_BY_TOPIC] = lambda request: request.reply(
            0, None, None, route
        )
        peer.answers[Code.SEND_BATCH_MESSAGE] = peer.answers[Code.SEND_MESSAGE_V2]
        trusted = str(certificate / "certificate")
        with Producer(
            "g", namesrv_addr=address, use_tls=True, tls_ca_file=trusted, send_msg_timeout=60_000
        ) as producer:
            for _ in range(4):  # queues in turn: two of the sends find no broker at first
                if way == "send":
                    result = producer.send(Message("t", b"x"))
                elif way == "send_async":
                    result = producer.send_async(Message("t", b"x")).result(60)
                else:
                    result = producer.send_batch([Message("t", b"x"), Message("t", b"y")])[0]
                assert result.broker_name == "b"


@contextlib.contextmanager
def refusing(certificate: Path, **changes: Any) -> Iterator[tuple[Producer, str, ScriptedPeer]]:
    """A producer whose only broker of topic t is gone; also the address where that broker was, and
    the name server."""
    with cluster(certificate) as (address, peer), socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # it does not listen, so connections are refused
        gone = f"127.0.0.1:{deaf.getsockname()[1]}"
        route = fastjson.dumps({
            "brokerDatas": [{"brokerName": "b", "cluster": "c", "brokerAddrs": {"0": gone}}],
            "queueDatas": [{"brokerName": "b", "perm": 6, "readQueueNums": 1,
                            "writeQueueNums": 1}],
        })  # fmt: skip
        peer.answers[Code.GET_ROUTEINFO_BY_TOPIC] = lambda request: request.reply(
            0, None, None, route
        )
        with Producer(
            "g", namesrv_addr=address, use_tls=True, send_msg_timeout=60_000,
            tls_ca_file=str(certificate / "certificate"), **changes,
        ) as producer:  # fmt: skip
            yield producer, gone, peer


@pytest.mark.parametrize("way", ["tries", "one try", "a queue"])
def test_a_connection_that_is_refused_is_an_end_like_others(
    certificate: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first connection is made by the sender. The sender may hold a lock that its callback
    wants, so another thread must call the callback."""
    monkeypatch.setattr("rmq.client.producer.failover_grace.GRACE_MS", 100)
    retries = 0 if way == "one try" else 2
    with refusing(certificate, retry_times_when_send_async_failed=retries) as (producer, gone, _):
        queue = producer.queues("t")[0] if way == "a queue" else None
        ends: list[tuple[threading.Thread, object, Exception | None]] = []
        producer.send_async(
            Message("t", b"x"),
            lambda result, error: ends.append((threading.current_thread(), result, error)),
            queue=queue,
        )
        future = producer.send_async(Message("t", b"x"), queue=queue)
        assert producer.flush(60_000)
        ((thread, result, error),) = ends
        assert thread is not threading.current_thread()
        assert result is None
        assert isinstance(error, UnreachableError)
        with pytest.raises(UnreachableError, match=gone):
            future.result(60)


def test_a_refusal_is_told_by_another_thread_however_many_there_are(certificate: Path) -> None:
    """The sender holds a lock that the callbacks want, and only one message may be under way.
    Another thread must call the callbacks, however many there are."""
    lock, sender = threading.Lock(), threading.current_thread()
    told: list[threading.Thread] = []

    def end(result: object, error: Exception | None) -> None:
        told.append(threading.current_thread())
        if told[-1] is not sender:
            with lock:
                pass

    limit = {"enable_backpressure_for_async_mode": True, "back_pressure_for_async_send_num": 1}
    with refusing(certificate, **limit) as (producer, _, _):
        queue = producer.queues("t")[0]
        with lock:
            for _ in range(3):
                producer.send_async(Message("t", b"x"), end, queue=queue)
        assert producer.flush(60_000)
    assert len(told) == 3
    assert sender not in told


def test_a_refusal_is_told_while_name_servers_are_silent(certificate: Path) -> None:
    with refusing(certificate, mq_client_api_timeout=600_000) as (producer, gone, peer):
        queue = producer.queues("t")[0]
        peer.answers[Code.GET_ROUTEINFO_BY_TOPIC] = lambda request: None
        with pytest.raises(UnreachableError, match=gone):
            producer.send_async(Message("t", b"x"), queue=queue).result(60)


def test_heartbeats_reach_those_that_are_there(certificate: Path) -> None:
    """Heartbeats must reach the brokers that are there, even if another one is gone. With TLS the
    thread that needs a connection makes it, and one to a gone broker fails at once, as after a
    master died. A consumer whose heartbeats ended with that error once stood still for ever."""
    with cluster(certificate) as (address, peer):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            gone = f"127.0.0.1:{taken.getsockname()[1]}"
        brokers = {"0": gone, "1": address}
        route = fastjson.dumps({
            "brokerDatas": [{"brokerName": "b", "cluster": "c", "brokerAddrs": brokers}],
            "queueDatas": [],
        })  # fmt: skip
        peer.answers[Code.GET_ROUTEINFO_BY_TOPIC] = lambda request: request.reply(
            0, None, None, route
        )
        peer.answers[Code.GET_CONSUMER_LIST_BY_GROUP] = lambda request: request.reply(
            0, None, None, b'{"consumerIdList":[]}'
        )
        trusted = str(certificate / "certificate")
        consumer = PushConsumer(
            "g", lambda *_: None, namesrv_addr=address, use_tls=True, tls_ca_file=trusted
        )
        consumer.subscribe("t", "*")
        consumer.start()
        with contextlib.closing(consumer):
            wait_until(lambda: any(each.code == Code.HEART_BEAT for each in peer.requests))


def test_without_descriptors_a_broker_cannot_be_reached(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without free descriptors a broker must count as unreachable, because the next try may find
    some: tasks that are repeated must not end."""

    def full() -> None:
        raise OSError(errno.EMFILE, "too many open files")

    with cluster(certificate) as (address, _):
        host, _, port = address.rpartition(":")
        trusted = ClientParameters(use_tls=True, tls_ca_file=str(certificate / "certificate"))
        monkeypatch.setattr(socket, "socketpair", full)
        with pytest.raises(UnreachableError, match=r"cannot connect .too many open files"):
            dial(host, int(port), trusted)
        monkeypatch.undo()
        with socket.socket(fileno=dial(host, int(port), trusted)):
            pass


def test_plain_clients_get_nowhere(certificate: Path) -> None:
    with cluster(certificate) as (address, peer):
        with Producer("g", namesrv_addr=address, mq_client_api_timeout=60_000) as producer, \
                pytest.raises(UnreachableError, match="ask by use_tls=True"):  # fmt: skip
            producer.send(Message("t", b"x"))
        assert peer.requests == []
