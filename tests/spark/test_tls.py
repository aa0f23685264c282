"""Reading and writing over TLS, which a proxy ends in front of a broker without TLS."""

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from support.broker_pair import SMALL
from support.broker_process import BrokerProcess, broker_process
from support.spark_topics import bodies, fill
from support.topics import make_topic

from rmq.arrow import range_reader
from rmq.arrow.access import Access, GuardedConnection
from rmq.arrow.options import read_options
from rmq.arrow.queue_ranges import QueueRange
from rmq.arrow.queues import Queues
from rmq.arrow.range_reader import read_ranges
from rmq.format.client_tls import ClientTls
from rmq.spark.columns import default_schema, plan_of


def certificate(folder: Path) -> tuple[str, str]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, cert = str(folder / "key.pem"), str(folder / "cert.pem")
    if Path(cert).exists():
        return key, cert
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
         "/CN=broker", "-keyout", key, "-out", cert], check=True, capture_output=True,
    )  # fmt: skip
    return key, cert


def pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def tls_proxy(
    folder: Path, port: int, front: tuple[str, int] = ("127.0.0.1", 0)
) -> Iterator[tuple[str, str]]:
    """A TLS front for 127.0.0.1:port; yields (address, certificate file)."""
    key, cert = certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    listener = socket.create_server(front)

    def serve() -> None:
        with suppress(OSError):
            while True:
                plain, _ = listener.accept()
                try:
                    inside = context.wrap_socket(plain, server_side=True)
                except OSError:
                    continue
                outside = socket.create_connection(("127.0.0.1", port))
                for pair in ((inside, outside), (outside, inside)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"{front[0]}:{listener.getsockname()[1]}", cert
    finally:
        listener.close()


def test_messages_are_pulled_over_tls_and_a_strange_certificate_is_refused(
    broker: BrokerProcess, topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    monkeypatch.setattr(
        range_reader,
        "GuardedConnection",
        lambda *given: made.append(given) or GuardedConnection(*given),
    )
    sent = [b"%d" % at * 3000 for at in range(1, 200)]
    fill(broker, topic, {0: sent})
    given = {"nameserver": broker.namesrv, "topic": topic, "columns": "body"}
    options = read_options(given, streaming=False)
    view = Queues(options)
    pieces = [QueueRange(key, each.first, each.last, 0) for key, each in view.find().items()]
    plan = plan_of(options, default_schema(options))
    assert plan.access is not None
    with tls_proxy(tmp_path, broker.port) as (address, cert):
        addresses = {pieces[0].key.broker: address}
        tls = ClientTls(cert, verify_name=False)
        trusting = replace(plan, access=replace(plan.access, tls=tls))
        for _ in range(3):
            batches = list(read_ranges(trusting, pieces, addresses))
            assert [body for batch in batches for body in batch.column(0).to_pylist()] == sent
        assert len(made) == 1  # the connection is kept for the next task
        strange = replace(
            plan,
            access=replace(plan.access, tls=ClientTls(verify_name=False)),
            options=read_options({**given, "pollTimeoutMs": "1500"}, streaming=False),
        )
        with pytest.raises(Exception, match=r"TLS failed|given up after"):
            list(read_ranges(strange, pieces, addresses))


def test_rows_are_written_and_read_back_over_tls(spark, topic, tmp_path: Path) -> None:
    """The broker registers the address of its TLS front, and not its own."""
    front = "127.0.0.2"
    options = ("--set", f"brokerIP1={front}", *SMALL)
    with ExitStack() as opened:
        started = opened.enter_context(broker_process(tmp_path, options))
        namesrv, cert = opened.enter_context(
            tls_proxy(tmp_path, int(started.namesrv.rpartition(":")[2]))
        )
        opened.enter_context(tls_proxy(tmp_path, started.port, (front, started.port)))
        with Access(namesrv, tls=ClientTls(cert, verify_name=False)).cluster() as cluster:
            make_topic(cluster, topic, 2)
        given = {"nameserver": namesrv, "topic": topic, "tls": "true"}
        frame = spark.range(500).selectExpr("repeat(cast(id as string), 300) as body")
        frame.write.format("rmq").mode("append").options(**given, tlsCaFile=cert).save()
        found = spark.read.format("rmq").options(**given, tlsCaFile=cert).load()
        assert bodies(found) == sorted(b"%d" % at * 300 for at in range(500))
        with pytest.raises(Exception, match="TLS failed"):
            frame.write.format("rmq").mode("append").options(**given, pollTimeoutMs=500).save()
