"""Sharded broker: a broker of several shards with its name server, on free ports.

    with sharded_broker(tmp_path, 2) as broker:
        broker.ports[1], broker.pids[1], broker.ask(Status(), StatusReply)

Whatever a test does to the supervisor, no process is left at the end.
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support import shard_forks
from support.broker_process import PATIENT
from support.rmq_process import start_rmq
from support.stopping import signal_process
from support.waiting import HANG_S, wait_until, wait_until_is

from rmq.client.blocking.cluster import Cluster
from rmq.demo.ports import free_port
from shards.command_client import CommandClient
from shards.messages import (
    AllStats,
    AllStatsReply,
    M,
    Message,
    ShardStatus,
    StatsReply,
    Status,
    StatusReply,
)
from shards.shard import start_ticks

READY = re.compile(r"(?:name server (?P<namesrv>\S+), |: )broker (?P<shards>.+), store ")
SMALL = ("--set", "mappedFileSizeCommitLog=16777216", "--set", "registerNameServerPeriod=60000")


class ShardedBroker:
    """One supervisor at a time on one store, and all shards that it has ever had."""

    def __init__(self, directory: Path, shards: int | None, options: Sequence[str] = ()) -> None:
        self.store = directory / "store"
        self.log_path = directory / "machine.txt"
        self.options = [*SMALL, *PATIENT, *options]
        self.port = "0"
        self.namesrv_port = str(free_port())
        self.namesrv = ""
        self.ports: list[int] = []
        self.seen: set[tuple[int, int]] = set()  # pid and start ticks of each shard ever seen
        self.start(shards)

    def words(self, shards: int | None) -> list[str]:
        count = [] if shards is None else ["--shards", str(shards)]
        return ["standalone", "--store", str(self.store), "--port", self.port, "--namesrv-port",
                self.namesrv_port, *count, *self.options]  # fmt: skip

    def command(self, shards: int | None) -> list[str]:
        return [sys.executable, "-m", "rmq", *self.words(shards)]

    def start(self, shards: int | None) -> None:
        began = time.monotonic()
        with self.log_path.open("a") as log:
            self.process = start_rmq(
                self.words(shards), stderr=log, in_child=shard_forks.begin
            )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.ready_s = time.monotonic() - began
        found = READY.search(line)
        if found is None:
            self.end()
            raise AssertionError(f"not ready: {line!r}\n{self.log()}")
        self.namesrv = found["namesrv"] or self.namesrv
        self.ports = [int(part.rpartition(":")[2]) for part in found["shards"].split(", ")]
        try:  # on a busy machine, a broker is ready before its name server knows all shards
            with Cluster(self.namesrv) as cluster:
                wait_until(lambda: len(cluster.brokers()) >= len(self.ports), HANG_S)
        except BaseException:
            self.end()
            raise

    def log(self) -> str:
        return self.log_path.read_text()

    def ask(self, message: Message, kind: type[M], timeout_s: float = HANG_S) -> M:
        with CommandClient(self.store) as bus:
            return bus.ask(message, kind, timeout_s)

    def shards(self) -> list[ShardStatus]:
        found = self.ask(Status(), StatusReply).shards
        for shard in found:
            ticks = start_ticks(shard.pid) if shard.pid else None
            if ticks is not None:
                self.seen.add((shard.pid, ticks))
        return found

    def stats(self) -> list[StatsReply]:
        """The counters of all shards. Asks again if a shard was late (STATS_S), which happens on a
        busy machine."""
        found = wait_until_is(
            lambda: self.ask(AllStats(), AllStatsReply), lambda found: not found.silent, still=True
        )
        return found.stats

    @property
    def pids(self) -> list[int]:
        return [shard.pid for shard in self.shards()]

    def until(self, condition: Callable[[list[ShardStatus]], bool]) -> list[ShardStatus]:
        """Waits until the shards satisfy the condition, and returns them."""
        return wait_until_is(self.shards, condition, still=True, log=self.log)

    def until_serving(self, index: int, other_than: int = 0) -> ShardStatus:
        def serves(shards: list[ShardStatus]) -> bool:
            shard = shards[index]
            return shard.state == "serving" and shard.pid != other_than

        return self.until(serves)[index]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(HANG_S)

    def kill(self) -> None:
        """Kills the supervisor and all shards with SIGKILL, like a machine that loses power.
        Returns when none of them exists any more."""
        pids = [pid for pid in self.pids if pid]
        self.process.kill()  # first, since it would restart shards
        for pid in pids:
            signal_process(pid, signal.SIGKILL)
        self.process.wait(HANG_S)
        wait_until(lambda: not any(map(is_shard, pids)))

    def end(self) -> None:
        """Ends the supervisor and all shards, by SIGTERM or else by SIGKILL."""
        if self.process.poll() is None:
            if len(self.ports) > 1:  # otherwise nobody serves the bus
                with contextlib.suppress(Exception):
                    self.shards()
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pid, ticks in self.seen:
            if start_ticks(pid) == ticks:  # else the pid belongs to another process by now
                signal_process(pid, signal.SIGKILL)
        if self.process.stdout is not None:
            self.process.stdout.close()


class LoneShardedBroker(ShardedBroker):
    """`rmq broker`, without a name server of its own. `port`: that of shard 0, or 0 for a free
    one."""

    def __init__(
        self, directory: Path, shards: int, namesrv: str, options: Sequence[str] = (), port: int = 0
    ) -> None:
        self._namesrv, self._port = namesrv, str(port)
        super().__init__(directory, shards, options)

    def words(self, shards: int | None) -> list[str]:
        self.namesrv, self.port = self._namesrv, self._port
        return ["broker", "--store", str(self.store), "--port", self.port, "-n", self.namesrv,
                "--shards", str(shards), *self.options]  # fmt: skip


def is_shard(pid: int) -> bool:
    """Whether the process exists and is a shard."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"shards.shard_process" in words or shard_forks.is_forked_shard(pid)


@contextmanager
def sharded_broker(
    directory: Path, shards: int | None = 2, options: Sequence[str] = ()
) -> Iterator[ShardedBroker]:
    started = ShardedBroker(directory, shards, options)
    try:
        yield started
    finally:
        started.end()
