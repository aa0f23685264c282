"""Run: one measured run: connect, warm up, count, drain.

The counts and the CPU are read at the same two moments, both while the load is running, so they
include neither start-up, warm-up nor drain. The loop returns to Python five times a second, for the
progress line and for Ctrl-C.

    producer = open_producer(frames, ["127.0.0.1:10911"] * 4, window=64)
    result = measure(producer, seconds=3, warmup=0.5, pids=[4711])
    result.messages_per_second, result.cpu_per_million, percentile_ns(result.latency, 99)
"""

import socket
import time
from collections.abc import Callable
from typing import Any

import msgspec

from cext.load.consumer import Consumer
from cext.load.histogram import Histogram
from cext.load.popper import Popper
from cext.load.producer import Producer
from cext.load.template import FrameSet
from rmq.base.server_address import split_address
from rmq.client.blocking import encryption
from rmq.client.blocking.connection import CONNECT_TIMEOUT
from rmq.errors import UnreachableError
from rmq.format.signature import Credentials
from rmq.load import open_files
from rmq.load.cpu import CpuMeter
from rmq.load.frames import Queue, ack_names, pop_frames

SLICE_US = 200_000
DRAIN_US = 5_000_000

Progress = Callable[[float, dict[str, Any]], None]
Loop = Producer | Consumer | Popper


class Result(msgspec.Struct):
    """What one run has measured: times in seconds, latencies in ns in the histogram."""

    seconds: float
    messages: int
    requests: int
    bytes: int
    failures: dict[int, int]
    latency: Histogram
    cpu_seconds: float | None = None  # None: no process was given, or one has ended
    unanswered: int = 0
    overdue: int = 0
    details: dict[str, Any] = {}

    @property
    def messages_per_second(self) -> float:
        return self.messages / self.seconds if self.seconds > 0 else 0.0

    @property
    def megabytes_per_second(self) -> float:
        return self.bytes / self.seconds / 1e6 if self.seconds > 0 else 0.0

    @property
    def cpu_per_million(self) -> float | None:
        if self.cpu_seconds is None or not self.messages:
            return None
        return self.cpu_seconds / self.messages * 1e6


def connect(address: str) -> socket.socket:
    """A non-blocking connection without Nagle's delay. If TLS is asked for, a thread of this
    process does it, beside the loop. ConfigError: too many files are open."""
    try:
        with open_files.explained():
            connected = socket.create_connection(split_address(address), CONNECT_TIMEOUT)
    except OSError as error:
        raise UnreachableError(f"{address}: cannot connect ({error.strerror or error})") from None
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    tls = encryption.checked_tls()
    if tls is not None:
        from rmq.client.connection.tls import carried

        host = split_address(address)[0]
        with open_files.explained():
            return carried(tls.secured(connected, host, address, encryption.COMMAND), address)
    connected.setblocking(False)
    return connected


def require_connections(
    loop: Producer | Consumer, address: str, connections: int, what: str
) -> None:
    """Raises UnreachableError when the broker has closed some of the connections."""
    closed = connections - loop.stats()["live_connections"]
    if closed > 0:
        raise UnreachableError(
            f"{address} closed the connections of {closed} of {connections} {what}"
        )


def open_producer(
    frames: FrameSet,
    addresses: list[str],
    window: int = 1,
    rate: float = 0.0,
    limit: int = 0,
    in_order: bool = False,
) -> Producer:
    """A producer with one connection per address; rate in messages a second."""
    return Producer(
        frames,
        [connect(address) for address in addresses],
        window,
        rate / frames.messages,
        limit,
        in_order,
    )


def open_popper(
    targets: list[Queue],
    address: str,
    group: str,
    batch: int = 32,
    invisible_ms: int = 60_000,
    connections: int = 1,
    window: int = 1,
    limit: int = 0,
    credentials: Credentials | None = None,
) -> Popper:
    """Pops of all topics of the given queues, which are all on one broker."""
    topics = list(dict.fromkeys(queue.topic for queue in targets))
    return Popper(
        pop_frames(topics, group, batch, invisible_ms, credentials),
        [ack_names(group, topic) for topic in topics],
        targets[0].broker_name.encode(),
        [connect(address) for _ in range(connections)],
        window,
        limit,
    )


def measure(
    loop: Loop,
    seconds: float,
    warmup: float = 0.0,
    pids: list[int] | None = None,
    progress: Progress | None = None,
) -> Result:
    """Runs the loop for warmup + seconds, or until it has nothing left to do."""
    meter = CpuMeter(pids or [])
    going = warmup <= 0 or loop.run(int(warmup * 1e6))
    loop.reset_stats()
    meter.start()
    until = start = time.monotonic()
    until += seconds
    while going and (left := until - time.monotonic()) > 0:
        going = loop.run(min(SLICE_US, int(left * 1e6) + 1))
        if progress is not None:
            progress(time.monotonic() - start, loop.stats())
    elapsed = time.monotonic() - start
    cpu = meter.known_seconds()
    stats = loop.stats()
    result = Result(
        # A loop that has ended by itself ended with its last answer.
        seconds=elapsed if going else stats["seconds"],
        messages=stats["messages"],
        requests=stats["requests"],
        bytes=wire_bytes(stats),
        failures=stats["failures"],
        latency=Histogram(),
        cpu_seconds=cpu,
        overdue=stats.get("overdue", 0),
        details=stats,
    )
    if isinstance(loop, Producer):
        # The latencies include requests that were open at the end, and messages that were due and
        # not sent: else a stall at the end would be left out.
        result.unanswered = loop.finish(DRAIN_US)
        loop.give_up()
    result.latency.merge(loop.latency)
    return result


def wire_bytes(stats: dict[str, Any]) -> int:
    """Bytes of the counted messages: frames of acked sends, or bodies of pulled messages."""
    if "bytes_sent" in stats:
        return int(stats["bytes_sent"] * stats["acked"] / max(stats["requests"], stats["acked"], 1))
    return int(stats["body_bytes"])
