"""Body rows: how fast many bytes are stored, and read back from pages not in the page cache.

large   bodies of 64 KiB and 1 MiB, stored (ASYNC_FLUSH), compared with bare bytes over loopback
cold    a catch-up of messages of 1 KiB, compared with the disk's own sequential read; and how late
        a producer's answers are meanwhile

outcomes = BODY_ROWS["large"](bench)
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
from cold import Cold
from comparison import MIB, Turn
from machine import free_bytes, touch_free_pages
from peer import Shape
from peer_rows import KIB, SHAPES, started
from rocketmq_peers import Rmq
from rounds import Outcome, Slice, interleaved, middle
from rows import Bench, Row, in_rounds, sends, topic_queues

GIB = 1 << 30
LARGE = {64 * KIB: 16, MIB: 4}  # bytes of a body: open sends
LARGE_SECONDS = 0.5  # of a round: in longer ones the page cache is full, and the disk decides
PIECE_BYTES = 256 * KIB
DISK_FILE_BYTES = GIB


class Loopback:
    """Bytes over one connection, sent as fast as the other end receives and discards them."""

    def __init__(self, receiver_cpus: list[int]) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        self.sending = socket.create_connection(listening.getsockname())
        self.receiving, _ = listening.accept()
        listening.close()
        self.cpus = receiver_cpus
        self.received = 0
        self.receiver = threading.Thread(target=self.receive, daemon=True)
        self.receiver.start()

    def __enter__(self) -> Loopback:
        return self

    def __exit__(self, *_: object) -> None:
        self.sending.close()
        self.receiver.join()
        self.receiving.close()

    def receive(self) -> None:
        if self.cpus:
            os.sched_setaffinity(0, self.cpus)  # pins this thread only
        piece = bytearray(PIECE_BYTES)
        while got := self.receiving.recv_into(piece):
            self.received += got

    def slice(self, seconds: float) -> Slice:
        piece = bytes(PIECE_BYTES)
        began = time.monotonic()
        before = self.received
        while (took := time.monotonic() - began) < seconds:
            self.sending.sendall(piece)
        count = self.received - before
        return Slice(count, took, count, 0.0)


def large(bench: Bench) -> list[Outcome]:
    outcomes = []
    short = replace(bench, seconds=min(bench.seconds, LARGE_SECONDS))
    touched = touch_free_pages(max(GIB, free_bytes() - bench.touched_bytes))
    for size, window in LARGE.items():
        title = f"{size // KIB:,} KiB bodies, {window} open: stored bytes/s to loopback's"
        outcome = Outcome("large", title, 0.4, ">=")
        sized = replace(short, body_bytes=size)
        with bench.ours(name=f"large-{size}") as ours, Loopback(bench.cpus) as bare:
            load = sends(sized, ours, topic_queues(ours), window=window)
            rounds = in_rounds(sized, bare.slice, load.slice)
        loopback = [totals[0].rate / 1e9 for totals in rounds]
        stored = [totals[1].rate * size / 1e9 for totals in rounds]
        outcome.values = [b / a for a, b in zip(loopback, stored, strict=True)]
        outcome.notes = [
            f"{middle(stored):.2f} GB/s; loopback {middle(loopback):.2f}",
            f"pages: {touched}",
        ]
        outcome.details = {"stored_gb_s": stored, "loopback_gb_s": loopback}
        outcomes.append(outcome)
    return outcomes


# ------------------------------------------------------------------- cold


@contextmanager
def cold_file(folder: Path) -> Iterator[int]:
    """A descriptor of a file that is on the disk, so that the kernel can forget its pages."""
    path = folder / "disk"
    piece = os.urandom(MIB)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for _ in range(DISK_FILE_BYTES // MIB):
            os.write(descriptor, piece)
        os.fdatasync(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)
        path.unlink()


def disk_rate(descriptor: int, seconds: float) -> float:
    """Bytes a second when the file is read from its beginning and none of it is in memory."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
    piece = bytearray(MIB)
    began, done = time.monotonic(), 0
    while time.monotonic() - began < seconds and (got := os.preadv(descriptor, [piece], done)):
        done += got
    return done / (time.monotonic() - began)


def beside_alone(peer: Rmq, load: Cold, seconds: float) -> dict[str, float]:
    """The latencies of the same producer when nothing is read beside it."""
    alone = peer.load(load.beside)
    try:
        return alone.turn(seconds, load.rate).latency_us
    finally:
        alone.close()


def cold(bench: Bench) -> list[Outcome]:
    shape: Shape = SHAPES["cold"]
    size = shape.body_bytes
    speed = Outcome(
        "cold", f"catch-up from cold pages, {size:,} B: bodies/s to the disk's bytes/s", 0.6, ">="
    )
    late = Outcome("cold", f"p99 of {shape.beside:,.0f} sends/s meanwhile: to that without", 2.0)
    peer = Rmq(bench, False)
    with started(peer), cold_file(bench.root) as disk:
        load = Cold(peer, msgspec.structs.replace(shape, filled=bench.cold_messages))

        def caught_up() -> tuple[Turn, dict[str, float]]:
            turn = load.turn(bench.seconds, 0.0)
            if turn.failures or not turn.messages:
                raise RuntimeError(f"{turn.messages:,} came, failures {turn.failures}")
            return turn, beside_alone(peer, load, bench.seconds)

        pairs = interleaved(bench.rounds, lambda: disk_rate(disk, bench.seconds), caught_up)
    bare = [rate / 1e9 for rate, _ in pairs]
    read = [turn.rate * size / 1e9 for _, (turn, _) in pairs]
    meanwhile = [turn.latency_us["p99"] for _, (turn, _) in pairs]
    alone = [latency["p99"] for _, (_, latency) in pairs]
    speed.values = [b / a for a, b in zip(bare, read, strict=True)]
    speed.notes = [f"{middle(read):.2f} GB/s; disk {middle(bare):.2f}", *load.notes[:1]]
    speed.details = {"read_gb_s": read, "disk_gb_s": bare}
    late.values = [b / a for a, b in zip(alone, meanwhile, strict=True)]
    late.notes = [f"{middle(meanwhile):.0f} us; without {middle(alone):.0f} us"]
    late.details = {"meanwhile_us": meanwhile, "alone_us": alone}
    return [speed, late]


BODY_ROWS: dict[str, Row] = {"large": large, "cold": cold}
