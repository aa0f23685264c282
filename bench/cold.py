"""Cold reads: messages read from pages that are not in memory, while a producer goes on sending.

    load = Cold(peer, Shape(name="cold", title="...", kind="cold", filled=1_000_000, beside=1e3))
    load.turn(3.0, 0.0); load.notes    ("0.2% of 1,117 MiB was in memory before ..", ..)

Before a turn the server is stopped, because pages that a process has mapped are not forgotten; the
kernel is asked to forget the pages of its files, and the server is started again. What the server
reads at its start, the end of its log for example, is in memory then. The producer's sends warm the
server. The server's CPU time includes the cost of these sends; the latencies are the producer's.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from comparison import MIB, Turn
from peer import Load, Peer, Shape

from cext.base.page_cache import of_file


class Cold(Load):
    """Reads with a producer beside them. A turn ends, at the latest, when all was read once."""

    def __init__(self, peer: Peer, shape: Shape) -> None:
        self.peer = peer
        self.rate = shape.beside
        self.reads = msgspec.structs.replace(shape, kind="pull", once=True)
        self.beside = Shape(
            name=f"{shape.name}-beside", title="", body_bytes=shape.body_bytes, window=64
        )
        peer.load(msgspec.structs.replace(shape, kind="pull")).close()  # this fills the topic

    def turn(self, seconds: float, rate: float) -> Turn:
        self.peer.stop()
        forget(self.peer.folder)
        self.notes = (told(self.peer.folder), f"{self.rate:,.0f} sends/s beside it")
        self.peer.start()
        beside, reads = self.peer.load(self.beside), self.peer.load(self.reads)
        self.notes += tuple(reads.notes)
        try:
            until = time.monotonic() + min(self.peer.warm_s, self.peer.bench.warm_s_max)
            while (left := until - time.monotonic()) > 0:
                beside.turn(left, self.rate)
            with ThreadPoolExecutor(1) as other:
                sends = other.submit(beside.turn, seconds, self.rate)
                turn = reads.turn(seconds, 0.0)
                sent = sends.result()
            failures = {f"beside: {why}": n for why, n in sent.failures.items()}
            return msgspec.structs.replace(
                turn, failures={**turn.failures, **failures}, latency_us=sent.latency_us
            )
        finally:
            beside.close()
            reads.close()


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]


def forget(folder: Path) -> None:
    """Makes the kernel drop the pages of the files, which are synced first; no process may have
    the files mapped."""
    for path in files(folder):
        with path.open("rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def told(folder: Path) -> str:
    """A note: which share of the files' bytes on the disk is in memory."""
    sizes = {path: path.stat().st_blocks * 512 for path in files(folder)}
    resident = sum(min(of_file(str(path))[0], size) for path, size in sizes.items())
    size = sum(sizes.values())
    share = resident / size if size else 0.0
    return f"{share:.1%} of {size / MIB:,.0f} MiB was in memory before the server started"
