"""Catch-up rows: a new slave copies a long log while producers go on.

    outcomes = catch_up(Bench(root=Path("/tmp/x"), catch_up_bytes=10 << 30))

The rate is compared with that of a plain file of as many bytes on the same disk, which is written
just before, in pieces of 1 MiB with a sync at the end. In reality a slave has a machine of its own.
Here it gets only the processor time that master and producer leave (SCHED_IDLE), so that the row
shows what the master's work for the slave costs the producers, not who gets a processor first.
"""

import os
import sys
import time

from rounds import Outcome
from rows import Bench, Sliced, topic_queues
from servers import Server

from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.format import fastjson
from rmq.load.frames import SendShape, send_frames
from rmq.load.latency import percentile_ns
from rmq.load.run import Result, measure, open_producer
from rmq.takeover.old_master import log_range

MIB = 1 << 20
BODY_BYTES = 4096
BATCH = 32
POLL_S = 0.02
LIMIT_S = 600.0
SLICE_S = 0.5


def catch_up(bench: Bench) -> list[Outcome]:
    rate = Outcome("catch_up", "a new slave copies a log: rate to a plain file's", 0.6, ">=")
    p99 = Outcome("catch_up", "producers' p99 meanwhile: to that before", 1.5)
    with bench.ours(brokerRole="ASYNC_MASTER") as master:
        queues = topic_queues(master)
        frames = send_frames(queues, SendShape(BODY_BYTES, batch=BATCH))
        fill = Sliced(bench, master, open_producer(frames, [master.address], 4))
        while log_range(master.address)[1] < bench.catch_up_bytes:
            fill.slice(0.5)
        size = log_range(master.address)[1]
        plain = written(bench, size)
        single = send_frames(queues, SendShape(bench.body_bytes))

        def sends(seconds: float) -> Result:
            """Sends on one connection, one after the other."""
            return measure(open_producer(single, [master.address]), seconds, bench.warmup)

        before = sends(bench.seconds)
        command = [sys.executable, "-m", "rmq", "broker", "--replica-of", master.address]
        directory = bench.root / "slave"
        command += ["--store", str(directory / "store"), "--port", "0"]
        began = time.monotonic()
        with Server(command, directory, bench.all_cpus, idle=True) as slave:
            meanwhile = []
            while lag(master.address) > MIB:
                meanwhile.append(sends(SLICE_S))
                slave.check_alive()
                if time.monotonic() - began > LIMIT_S:
                    raise RuntimeError(f"the slave has not caught up after {LIMIT_S:.0f} s")
            took = time.monotonic() - began
    rate.values = [size / took / plain]
    rate.notes.append(f"{size / MIB:,.0f} MiB in {took:.1f} s, {size / MIB / took:,.0f} MiB/s; a "
                      f"plain file {plain / MIB:,.0f} MiB/s")  # fmt: skip
    alone = percentile_ns(before.latency, 99.0)
    during = [percentile_ns(each.latency, 99.0) for each in meanwhile if each.messages]
    p99.values = [each / alone for each in during]
    p99.notes.append(f"{alone / 1e3:.0f} us before; slices of {SLICE_S} s")
    return [rate, p99]


def lag(address: str) -> int:
    """Bytes that the only slave still lacks; a huge number while there is no slave."""
    with Connection(address) as connection:
        body = connection.call(RequestCode.GET_BROKER_HA_STATUS).body
    rows = fastjson.loads_object(body)["haConnectionInfo"]
    time.sleep(POLL_S)
    return int(rows[0]["diff"]) if rows else 1 << 62


def written(bench: Bench, size: int) -> float:
    """Writes a plain file; returns bytes a second."""
    path, piece = bench.root / "plain", os.urandom(MIB)
    began = time.monotonic()
    with path.open("wb") as file:
        for _ in range(size // MIB):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    took = time.monotonic() - began
    path.unlink()
    return size / took
