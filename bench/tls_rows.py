"""TLS rows: what encryption costs the broker (TLS 1.3, AES-128-GCM).

    tls             1 connection, window 64: CPU-s/M by TLS to the same without
    tls_pull        pulls of 32 at the tail, likewise
    tls_handshakes  handshakes in a CPU second of the broker, of clients that come a few at a time
    tls_idle        memory of a connection that has asked something and waits
    tls_half_open   p99 of a plain client while 1,000 addresses hold handshakes half open

One broker serves both kinds of connections. The load's side of TLS is done in threads, which are
slower than the load itself; and a broker that waits for its load has smaller turns. So plain
connections go through such threads, too.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import rows
from rounds import Outcome, middle
from rows import (
    SLICE_SECONDS,
    Bench,
    Row,
    compare_cpu,
    in_rounds,
    pulls,
    sends,
    subscribed_tails,
    topic_queues,
)
from servers import Ours

from rmq.base.server_address import split_address
from rmq.client.blocking import encryption
from rmq.client.blocking.connection import Connection
from rmq.client.connection.tls import carried
from rmq.codes import RequestCode
from rmq.format.client_tls import ClientTls
from rmq.format.remoting import Command, encode
from rmq.load import run
from rmq.load.cpu import CpuMeter, resident_bytes
from rmq.load.frames import Queue, SendShape, send_frames
from rmq.load.latency import percentile_ns
from rmq.load.run import connect, measure, open_producer

SENDS_S = 1_000.0  # sends a second, however long the answers take
SENDERS = 4
AT_ONCE = 8  # handshakes at once, as when clients come back


@contextmanager
def by_tls() -> Iterator[None]:
    """Connections that are made in the block use TLS; the broker's self-signed certificate is not
    verified."""
    encryption.use(RMQ_TLS="1", RMQ_TLS_VERIFY="0")
    try:
        yield
    finally:
        encryption.forget()


@contextmanager
def plainly() -> Iterator[None]:
    """Connections that are made in the block go through the same threads, without TLS."""
    with (
        patch.object(run, "connect", lambda address: carried(connect(address))),
        patch.object(rows, "connect", lambda address: carried(connect(address))),
    ):
        yield


def tls(bench: Bench) -> Outcome:
    outcome = Outcome("tls", "TLS: CPU-s/M of sends to the same without", 1.5)
    with bench.ours() as ours:
        queues = topic_queues(ours)
        with plainly():
            plain = sends(bench, ours, queues, 1, 64)
        with by_tls():
            hidden = sends(bench, ours, queues, 1, 64)
        rounds = in_rounds(bench, plain.slice, hidden.slice)
    return compare_cpu(outcome, rounds, "without with")


def tls_pull(bench: Bench) -> Outcome:
    outcome = Outcome("tls_pull", "TLS: CPU-s/M of pulls of 32 to the same without", 2.0)
    with bench.ours() as ours:
        queues = topic_queues(ours)
        sends(bench, ours, queues, 1, 64).slice(SLICE_SECONDS)
        with Connection(ours.address) as control_connection:
            offsets = subscribed_tails(control_connection, queues)
            with plainly():
                plain = pulls(bench, ours, queues, offsets)
            with by_tls():
                hidden = pulls(bench, ours, queues, offsets)
            rounds = in_rounds(bench, plain.slice, hidden.slice)
    return compare_cpu(outcome, rounds, "without with")


def by_ssl(ours: Ours, context: ssl.SSLContext, session: ssl.SSLSession | None) -> ssl.SSLSocket:
    connected = socket.create_connection(split_address(ours.address))
    return context.wrap_socket(connected, session=session)


def unchecked(latest: ssl.TLSVersion) -> ssl.SSLContext:
    context = ClientTls(verify=False).context()
    context.maximum_version = latest
    return context


def handshakes(bench: Bench) -> list[Outcome]:
    """Resumed handshakes are those of TLS 1.2: in 1.3 a resumed one still has a key exchange."""
    outcomes = []
    for title, goal, latest in (
        ("TLS 1.3 handshakes in a CPU second", 1_500, ssl.TLSVersion.TLSv1_3),
        ("TLS 1.2, resumed, in a CPU second", 5_000, ssl.TLSVersion.TLSv1_2),
    ):
        outcome = Outcome("tls_handshakes", title, goal, ">=", unit="")
        with bench.ours() as ours:
            context, session = unchecked(latest), None
            if latest is ssl.TLSVersion.TLSv1_2:
                with by_ssl(ours, context, None) as first:
                    session = first.session
            for _ in range(bench.rounds):
                meter = CpuMeter(ours.pids())
                with ThreadPoolExecutor(AT_ONCE) as threads:
                    made = [
                        threads.submit(by_ssl, ours, context, session) for _ in range(bench.clients)
                    ]
                    for each in made:
                        each.result().close()
                outcome.values.append(bench.clients / meter.seconds())
        outcomes.append(outcome)
    return outcomes


def idle(bench: Bench) -> Outcome:
    outcome = Outcome("tls_idle", "TLS: memory of an idle connection", 24.0, unit=" KiB")
    asks = encode(Command(code=RequestCode.GET_BROKER_RUNTIME_INFO, opaque=1))
    for number in range(bench.rounds):
        with bench.ours(name=f"idle-{number}") as ours, contextlib.ExitStack() as stack:
            context = unchecked(ssl.TLSVersion.TLSv1_3)
            before = sum(resident_bytes(pid) for pid in ours.pids())
            for _ in range(bench.clients):
                client = stack.enter_context(by_ssl(ours, context, None))
                client.sendall(asks)
                client.recv(65536)
            grown = sum(resident_bytes(pid) for pid in ours.pids()) - before
            outcome.values.append(grown / bench.clients / 1024)
    return outcome


@contextmanager
def half_open(bench: Bench, ours: Ours) -> Iterator[None]:
    script = str(Path(__file__).with_name("half_open.py"))
    words = [sys.executable, script, ours.address, str(bench.clients)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "held\n"
            yield
        finally:
            process.kill()


def half_open_p99(bench: Bench) -> Outcome:
    title = f"{bench.clients:,} handshakes half open: p99 to without"
    outcome = Outcome("tls_half_open", title, 1.5)
    pairs = []
    with bench.ours() as ours:
        queues = topic_queues(ours)
        for _ in range(bench.rounds):
            alone = p99_us(bench, ours, queues)
            with half_open(bench, ours):
                pairs.append((alone, p99_us(bench, ours, queues)))
    outcome.values = [b / a for a, b in pairs]
    two = [middle([pair[which] for pair in pairs]) for which in range(2)]
    outcome.notes.append(f"{two[1]:.0f} us; without {two[0]:.0f} us; {SENDS_S:,.0f} sends/s")
    return outcome


def p99_us(bench: Bench, ours: Ours, queues: list[Queue]) -> float:
    frames = send_frames(queues, SendShape(bench.body_bytes))
    loop = open_producer(frames, [ours.address] * SENDERS, rate=SENDS_S)
    result = measure(loop, 2 * bench.seconds, bench.warmup)
    ours.check_alive()
    return percentile_ns(result.latency, 99.0) / 1e3


TLS_ROWS: dict[str, Row] = {
    "tls": tls,
    "tls_pull": tls_pull,
    "tls_handshakes": handshakes,
    "tls_idle": idle,
    "tls_half_open": half_open_p99,
}
