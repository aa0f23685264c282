"""TLS rows: what it costs the broker that bytes are encrypted (TLS 1.3, AES-128-GCM).

    tls         1 connection, window 64: CPU-s/M by TLS to the same without
    tls_pull    pulls of 32 at the tail, likewise

One broker serves both kinds. The load does its own TLS in threads, which are slower than the load
itself, and a broker that waits has smaller turns: so plain connections go by such threads, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import rows
from rounds import Outcome
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

from rmq.client.blocking import encryption
from rmq.client.blocking.connection import Connection
from rmq.client.connection.tls import carried
from rmq.load import run
from rmq.load.run import connect


@contextmanager
def by_tls() -> Iterator[None]:
    """Connections that are made in the block; the broker's certificate is its own."""
    encryption.use(RMQ_TLS="1", RMQ_TLS_VERIFY="0")
    try:
        yield
    finally:
        encryption.forget()


@contextmanager
def plainly() -> Iterator[None]:
    """The same without TLS."""
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


TLS_ROWS: dict[str, Row] = {"tls": tls, "tls_pull": tls_pull}
