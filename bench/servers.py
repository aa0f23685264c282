"""Servers: the servers that are measured, our broker and the bare C floor, on loopback.

Each is a process in a directory of its own with free ports; it must answer before it is used, and
is stopped by its pid. Placement `apart` keeps the load generator on the first CPU that this process
may use, and the servers on the others, so that every run has the same wake-ups; `free` leaves the
placement to the kernel.

    with Floor(root / "floor", False, 1024, cpus) as floor, Ours(root / "ours", "async", cpus) as
    ours:
        ours.await_ack(); floor.address, ours.name_server, ours.pids()
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rounds import Slice

from rmq.client.blocking.cluster import Cluster
from rmq.codes import RequestCode
from rmq.demo.ports import free_port
from rmq.errors import RmqError
from rmq.format import remoting
from rmq.load.cpu import with_descendants
from rmq.load.frames import Queue, SendShape, send_frames
from shards.placement import PORT_STEP

ROOT = Path(__file__).resolve().parent.parent
FLOOR = ROOT / "build" / "bench" / "floor"
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 20.0
PROBE_SECONDS = 0.002


class StartError(Exception):
    """A server did not start; the text has the end of what it wrote."""


def build_floor() -> Path:
    """Compiles bench/floor.c when it is newer than the program; returns the program's path."""
    sources = [ROOT / "bench" / "floor.c", ROOT / "cext" / "c" / "crc32.h"]
    if FLOOR.exists() and FLOOR.stat().st_mtime > max(path.stat().st_mtime for path in sources):
        return FLOOR
    FLOOR.parent.mkdir(parents=True, exist_ok=True)
    flags = ["-std=gnu11", "-O3", "-Wall", "-Wextra", "-Icext/c"]
    compiler = os.environ.get("CC", "gcc")
    subprocess.run([compiler, *flags, "-o", FLOOR, sources[0]], cwd=ROOT, check=True)
    return FLOOR


def place_generator(placement: str) -> list[int]:
    """Pins this process to its first CPU when there are others. Returns the CPUs for servers."""
    cpus = sorted(os.sched_getaffinity(0))
    if placement == "free" or len(cpus) < 2:
        return cpus
    os.sched_setaffinity(0, cpus[:1])
    return cpus[1:]


@contextlib.contextmanager
def placed_on(cpus: list[int]) -> Iterator[None]:
    """Child processes that are started in the block run on these processors from their first thread
    on, because a JVM, or a Go program, makes threads for as many processors as it finds. With an
    empty list they have those of this process."""
    before = os.sched_getaffinity(0)
    if cpus:
        os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Server:
    """A child process; leaving the `with` block stops it and removes its directory. An `idle` one
    gets only the processor time that others leave."""

    def __init__(
        self, command: list[str], directory: Path, cpus: list[int], idle: bool = False
    ) -> None:
        self.command = command
        self.cpus = cpus
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.log = directory.with_suffix(".log")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.started = time.monotonic()
        with self.log.open("ab") as log, placed_on(cpus):
            self.process = subprocess.Popen(
                command, cwd=directory, env=environment, stdout=log, stderr=log
            )
        if idle:
            os.sched_setscheduler(self.process.pid, os.SCHED_IDLE, os.sched_param(0))

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def pids(self) -> list[int]:
        return with_descendants(self.process.pid)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def kill(self) -> None:
        """Kills the process and everything it started with SIGKILL."""
        for pid in reversed(self.pids()):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def check_alive(self) -> None:
        if self.process.poll() is not None:
            tail = self.log.read_text(errors="replace")[-2000:]
            raise StartError(f"{self.process.args} ended with {self.process.returncode}:\n{tail}")


class Floor(Server):
    """bench/floor.c: knows no topics, answers in order."""

    def __init__(self, directory: Path, sync: bool, file_mb: int, cpus: list[int]) -> None:
        port = free_port()
        command = [str(build_floor()), "--port", str(port), "--file-mb", str(file_mb)]
        super().__init__(command + (["--sync"] if sync else []), directory, cpus)
        self.address = f"127.0.0.1:{port}"
        await_port(self, port)


class Probe:
    """`floor --probe 0`: measures, on request, the fdatasyncs a second of a recycled file."""

    def __init__(self, directory: Path, cpus: list[int]) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        command = [str(build_floor()), "--probe", "0", "--file-mb", "64"]
        self.process = subprocess.Popen(
            command, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        os.sched_setaffinity(self.process.pid, cpus)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.requests, self.answers = self.process.stdin, self.process.stdout
        if self.answers.readline() != "ready\n":
            raise StartError("the disk probe did not start")

    def __enter__(self) -> "Probe":
        return self

    def __exit__(self, *_: object) -> None:
        self.requests.close()
        self.process.wait(STOP_SECONDS_MAX)
        shutil.rmtree(self.directory, ignore_errors=True)

    def slice(self, seconds: float) -> Slice:
        """Counts the syncs of one short loop."""
        self.requests.write(f"{seconds}\n")
        self.requests.flush()
        answer = json.loads(self.answers.readline())
        return Slice(float(answer["syncs"]), float(answer["seconds"]))


class Ours(Server):
    """`rmq standalone`: name server and broker in one command, with one shard or several."""

    def __init__(
        self,
        directory: Path,
        flush: str,
        cpus: list[int],
        settings: dict[str, str] | None = None,
        shards: int = 1,
    ) -> None:
        if shards == 1:
            self.port = free_port(2, 1)  # with the fast port (2 below) and the HA port (1 above)
        else:
            self.port = free_port(above=PORT_STEP * (shards - 1), step=PORT_STEP)
        name_port = free_port()
        self.addresses = [f"127.0.0.1:{self.port + PORT_STEP * i}" for i in range(shards)]
        self.address = self.addresses[0]
        self.store = directory / "store"
        self.name_server = f"127.0.0.1:{name_port}"
        command = [sys.executable, "-m", "rmq", "standalone", "--store", str(self.store)]
        command += ["--namesrv-port", str(name_port), "--port", str(self.port), "--flush", flush]
        command += ["--shards", str(shards)] if shards > 1 else []
        for key, value in (settings or {}).items():
            command += ["--set", f"{key}={value}"]
        super().__init__(command, directory, cpus)

    def restart(self) -> None:
        """Starts the same command with the same store."""
        super().__init__(self.command, self.directory, self.cpus)

    def await_ack(self) -> float:
        """Waits until a client that asks for the route has an ack from each shard. Returns the
        seconds since exec."""
        until = self.started + START_SECONDS_MAX
        frame = send_frames([Queue("first-ack", 0)], SendShape()).render_one(0, 10_000_000, 1)
        request = remoting.decode(frame[4:])
        acked: set[str] = set()
        while time.monotonic() < until:
            self.check_alive()
            # A starting broker refuses connections, is not registered yet, or is not ready yet.
            with contextlib.suppress(OSError, RmqError), Cluster(self.name_server) as cluster:
                for broker in cluster.masters():
                    connection = cluster.broker(broker.name)
                    connection.call(RequestCode.SEND_MESSAGE_V2, request.fields, request.body)
                    acked.add(broker.name)
                    if len(acked) == len(self.addresses):
                        return time.monotonic() - self.started
            time.sleep(PROBE_SECONDS)
        raise StartError(f"no ack within {START_SECONDS_MAX:.0f} s; see {self.log}")


def await_port(server: Server, port: int) -> None:
    until = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < until:
        server.check_alive()
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.01)
    raise StartError(f"{server.process.args} does not listen on {port}")
