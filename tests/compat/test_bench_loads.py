"""Loads of peers in turns: a stall of the server shows in the latency of everything that was due
meanwhile.

Goal: no load leaves out what it could not send in time, or forgets requests that were open. Method:
NATS, Kafka and rmq's broker as processes, each with the program that loads it in `make
bench-peers`. A turn runs on a schedule, and the server stands still for so long that its last
messages are due in the stall. Cannot prove: that a client adds nothing to latencies.
"""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from peer import Shape
from peers import PEERS
from rows import Bench
from support.waiting import HANG_S

pytestmark = pytest.mark.compat

RATE, SECONDS, STALL_S = 500.0, 2.0, 1.5
CASES = [
    *[(key, kind) for key in ("rmq", "nats", "kafka") for kind in ("send", "follow")],
    ("rmq", "java"),
    ("nats", "batch"),
]


@pytest.mark.timeout(3 * HANG_S)
@pytest.mark.parametrize(("key", "kind"), CASES)
def test_a_stall_is_in_the_latency_of_all_that_was_due(key: str, kind: str, tmp_path: Path) -> None:
    shape = Shape(name="stalled", title="", window=4, kind="send" if kind == "batch" else kind,
                  batch=4 if kind == "batch" else 1)  # fmt: skip
    peer = PEERS[key](Bench(tmp_path, warmup=0.0), False)
    peer.start()
    try:
        load = peer.load(shape)
        load.turn(0.5, 0.0)
        pids = peer.pids()
        stalled(lambda signals: [os.kill(pid, signals) for pid in pids])
        turn = load.turn(SECONDS, RATE)
        load.close()
    finally:
        peer.stop()
    assert turn.failures == {}
    assert turn.messages == pytest.approx(RATE * SECONDS, abs=2 * shape.batch)
    # Three of four messages were due in the stall, at equal distances.
    assert turn.latency_us["p50"] > 0.2 * STALL_S * 1e6
    assert turn.latency_us["p99"] > 0.8 * STALL_S * 1e6
    assert turn.seconds > SECONDS - 0.1


def stalled(send: Callable[[int], object]) -> None:
    """Stops the server from half a second from now on until the end of the turn."""
    for after, signals in ((0.5, signal.SIGSTOP), (0.5 + STALL_S, signal.SIGCONT)):
        threading.Timer(after, send, [signals]).start()
