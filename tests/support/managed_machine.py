"""Managed machine: a name server and a broker of several shards, as a service manager runs them:
apart, and started again when they end. The shards are left to their supervisor.

    machine = ManagedMachine(tmp_path, shards=2)
    await machine.start(); ...; await machine.stop()
    machine.signal("supervisor", SIGKILL), machine.signal("shard-1", SIGSTOP)

All starts use the same ports.
"""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import msgspec
from support import shard_forks
from support.broker_process import PATIENT
from support.rmq_process import AnyProcess, start_rmq
from support.stopping import signal_process
from support.waiting import HANG_S, until

from rmq.client.blocking.cluster import Cluster
from rmq.demo.ports import free_port
from rmq.errors import RmqError
from shards.command_client import CommandClient
from shards.messages import ShardStatus, Status, StatusReply
from shards.shard import PidFile, start_ticks

RESTART_S = 0.2


class ManagedMachine:
    """Owned by the test's loop."""

    def __init__(self, directory: Path, shards: int = 2, *settings: str) -> None:
        self.store = directory / "store"
        self.log_path = directory / "machine.txt"
        self.namesrv_port = free_port()
        first = free_port(above=10 * (shards - 1), step=10)
        self.namesrv = f"127.0.0.1:{self.namesrv_port}"
        self.ports = [first + 10 * index for index in range(shards)]
        common = ["--set", "mappedFileSizeCommitLog=16777216", "--set",
                  "rmqShardCrashesMax=100000", *PATIENT]  # fmt: skip
        config = directory / "namesrv"
        config.mkdir()
        self.commands = {
            "namesrv": ["namesrv", "--port", str(self.namesrv_port),
                        "--set", f"kvConfigPath={config / 'kv.json'}",
                        "--set", f"configStorePath={config / 'namesrv.properties'}"],
            "supervisor": ["broker", "--store", str(self.store), "--port", str(first),
                           "--shards", str(shards), "-n", self.namesrv, *common, *settings],
        }  # fmt: skip
        self.processes: dict[str, AnyProcess] = {}
        self.restarts = dict.fromkeys(self.commands, 0)
        self.seen: set[tuple[int, int]] = set()  # pid and start ticks of each shard ever seen
        self._keeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        for name in self.commands:
            self._start(name)
        self._keeper = asyncio.create_task(self._keep_up())
        await self.until_up()

    async def stop(self) -> dict[str, int]:
        """Stops both by SIGTERM; returns their exit codes."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        codes = {}
        for name in ("supervisor", "namesrv"):
            self.processes[name].send_signal(signal.SIGCONT)
            self.processes[name].terminate()
            codes[name] = await asyncio.to_thread(self.processes[name].wait, HANG_S)
        return codes

    def end(self) -> None:
        """Kills all that is left, whatever has happened."""
        if self._keeper is not None:
            self._keeper.cancel()
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()
        for index in range(len(self.ports)):
            self.pid(f"shard-{index}")
        for pid, ticks in self.seen:
            if start_ticks(pid) == ticks:
                signal_process(pid, signal.SIGKILL)

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    # ---- processes

    def pid(self, name: str) -> int:
        """The pid of a process, or 0 if it does not run. Shards are found without asking their
        supervisor. The start ticks are compared, because the pid of a shard that has ended may
        belong to another process by now."""
        process = self.processes.get(name)
        if process is not None:
            return process.pid if process.poll() is None else 0
        try:
            text = (self.store / "bus" / f"{name}.pid").read_bytes()
            found = msgspec.json.decode(text, type=PidFile)
        except (OSError, msgspec.DecodeError):
            return 0
        if start_ticks(found.pid) != found.ticks:
            return 0
        self.seen.add((found.pid, found.ticks))
        return found.pid

    def signal(self, name: str, number: int) -> int:
        """Sends a signal; returns the pid, or 0 if the process was gone already."""
        pid = self.pid(name)
        if pid:
            signal_process(pid, number)
        return pid

    def wake(self, name: str, pid: int) -> None:
        """Sends SIGCONT, if the process still has this pid."""
        if pid and self.pid(name) == pid:
            self.signal(name, signal.SIGCONT)

    def _start(self, name: str) -> None:
        with self.log_path.open("a") as log:
            self.processes[name] = start_rmq(
                self.commands[name], stdout=log, stderr=log,
                in_child=shard_forks.begin if name == "supervisor" else None,
            )  # fmt: skip

    async def _keep_up(self) -> None:
        """Restarts what has ended, as systemd does with Restart=on-failure."""
        while True:
            for name, process in list(self.processes.items()):
                if process.poll() is not None:
                    await asyncio.sleep(RESTART_S)
                    self.restarts[name] += 1
                    self._start(name)
            await asyncio.sleep(0.02)

    # ---- whether all is well

    def shards(self) -> list[ShardStatus]:
        """The shards as their supervisor knows them; none if it does not answer."""
        try:
            with CommandClient(self.store, connect_s=2.0) as bus:
                return bus.ask(Status(), StatusReply, 2.0).shards
        except (RmqError, OSError):
            return []

    def routed(self, topic: str) -> set[str]:
        """The brokers that the name server has for a topic."""
        try:
            with Cluster(self.namesrv) as cluster:
                return {entry.broker_name for entry in cluster.route(topic).entries}
        except (RmqError, OSError):
            return set()

    async def until_up(self, topic: str = "SELF_TEST_TOPIC") -> float:
        """Waits until all shards serve and clients find them; returns how many seconds it took."""
        began = time.monotonic()

        async def is_up() -> bool:
            found = await asyncio.to_thread(self.shards)
            serving = [shard.state for shard in found] == ["serving"] * len(self.ports)
            routed = await asyncio.to_thread(self.routed, topic) if serving else ()
            return len(routed) == len(self.ports)

        await until(is_up, log=self.log)
        return time.monotonic() - began
