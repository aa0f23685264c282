"""Clusters: what the clients and faults of a round (tests/ha/round.py) run against.

    with SingleBroker(folder) as cluster:
        cluster.nodes["a"].kill(); cluster.nodes["a"].start(); cluster.settle()
    cluster.stores()        # stores of the stopped brokers: a list for each broker name

A kind of cluster is a class with the members that Cluster names. Every process ends when the
process that started it ends.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Protocol

from support.broker_process import PATIENT
from support.driven_clock import DrivenClock, process_clock
from support.faults import Faults, compile_shim
from support.rmq_process import AnyProcess, start_rmq
from support.stopping import stand_still
from support.waiting import HANG_S, wait_until

from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.demo.ports import free_port
from rmq.errors import RmqError
from rmq.format import fastjson
from tests.ha.network import LOCAL, Host, Network
from tests.ha.setting import BROKER_NAME

ROOT = Path(__file__).parents[2]
PR_SET_PDEATHSIG = 1
FLUSH_OFFSETS_MS = 500
# A kill loses only commits younger than this: the interval, and what a busy machine adds.
LOSES_MS = 6000
SETTINGS = (
    *PATIENT,
    "--set", f"mappedFileSizeCommitLog={16 << 20}",
    "--set", "mappedFileSizeConsumeQueue=200000",  # the check reads every entry
    "--set", "maxMessageSize=1048576",
    "--set", f"flushConsumerOffsetInterval={FLUSH_OFFSETS_MS}",
    "--set", "transactionCheckInterval=1000",
    "--set", "transactionTimeOut=2000",
    "--set", "transactionCheckMax=300",  # Java's producer finds a new master after half a minute
)  # fmt: skip


@functools.cache
def fault_shim() -> Path:
    """The library that makes disks fail; one for all clusters of this process."""
    directory = tempfile.TemporaryDirectory(prefix="rmq-faultio-")
    atexit.register(directory.cleanup)
    return compile_shim(Path(directory.name))


def end_with_parent() -> None:
    """Has the kernel kill this process, which was just forked, when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Node:
    """A process of the cluster that can be ended and started again at its address."""

    def __init__(
        self, name: str, folder: Path, words: Sequence[str], address: str, host: Host = LOCAL
    ) -> None:
        self.name = name
        self.words = list(words)
        self.address = address
        self.host = host
        self.log_path = folder / f"{name}.txt"
        self.environment = {**os.environ}
        self.process: AnyProcess | None = None
        self.starts: list[int] = []  # when; monotonic ns

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Starts the process, and returns when it is ready."""
        self.launch()
        self.until_ready()

    def launch(self) -> None:
        """Begins a start. Nodes that wait for each other are all launched first."""
        assert not self.is_running
        self.starts.append(time.monotonic_ns())
        with self.log_path.open("a") as log:
            self.process = self.begin(log)

    def begin(self, log: IO[str]) -> AnyProcess:
        return start_rmq(
            self.words, stderr=log, cwd=ROOT, environment=self.environment,
            before=self.host.command([]), in_child=end_with_parent,
        )  # fmt: skip

    def until_ready(self) -> None:
        assert self.process is not None and self.process.stdout is not None
        line = self.process.stdout.readline()
        if "is ready in" not in line:
            self.kill()
            raise AssertionError(f"{self.name} is not ready: {line!r}\n{self.log()[-3000:]}")

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def signal(self, number: int) -> None:
        if self.process is not None and self.is_running:
            self.process.send_signal(number)

    def pause(self) -> None:
        """Sends SIGSTOP, and returns when all threads stand still: a busy machine takes a while."""
        if self.process is not None and self.is_running:
            stand_still(self.process.pid)

    def kill(self) -> None:
        """kill -9, also if the process has ended already."""
        self.signal(signal.SIGKILL)
        self._ended(HANG_S)

    def stop(self) -> int:
        """Stops the process by SIGTERM, and returns its exit code."""
        self.signal(signal.SIGTERM)
        return self._ended(HANG_S)

    def _ended(self, seconds: float) -> int:
        if self.process is None:
            return 0
        code = self.process.wait(seconds)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


class Program(Node):
    """A node that runs another program than rmq. Its output goes to its log."""

    def command(self) -> list[str]:
        raise NotImplementedError

    def begin(self, log: IO[str]) -> AnyProcess:
        return subprocess.Popen(
            self.host.command(self.command()), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            text=True, cwd=ROOT, env=self.environment, preexec_fn=end_with_parent,
        )  # fmt: skip


class Broker(Node):
    """A broker whose disk and clock faults can change."""

    def __init__(
        self, name: str, folder: Path, shim: Path, stack: contextlib.ExitStack, namesrv: str,
        options: Sequence[str], host: Host = LOCAL,
    ) -> None:  # fmt: skip
        port = free_port(below=2, above=1)
        own = folder / name
        own.mkdir()
        self.store = own / "store"
        words = ["broker", "--store", str(self.store), "--port", str(port), "-n", namesrv,
                 *SETTINGS, *options]  # fmt: skip
        if host is not LOCAL:
            words += ["--bind", host.address, "--insecure"]
        super().__init__(name, folder, words, f"{host.address}:{port}", host)
        self.disk = stack.enter_context(Faults(shim, own / "disk.control"))
        self.clock: DrivenClock = stack.enter_context(process_clock(own))
        self.environment = {**self.clock.environment, **{
            key: value for key, value in self.disk.environment().items()
            if key in ("LD_PRELOAD", "RMQ_FAULTIO")
        }}  # fmt: skip

    def is_master(self) -> bool:
        """Whether the broker says that it is master; False when it does not answer."""
        try:
            with Connection(self.address, connect_timeout=1.0) as connection:
                reply = connection.call(RequestCode.GET_BROKER_HA_STATUS, timeout=2.0)
        except RmqError:
            return False
        return fastjson.loads_object(reply.body)["master"] is True

    def in_sync(self) -> int:
        """How many slaves are in sync, as the master says; -1 when it does not answer."""
        try:
            with Connection(self.address) as connection:
                reply = connection.call(RequestCode.GET_BROKER_HA_STATUS)
        except RmqError:
            return -1
        return int(fastjson.loads_object(reply.body)["inSyncSlaveNums"])

    def ha_status(self) -> list[dict[str, object]]:
        """What the master says about each connected slave; [] when it does not answer."""
        try:
            with Connection(self.address) as connection:
                reply = connection.call(RequestCode.GET_BROKER_HA_STATUS)
        except RmqError:
            return []
        rows = fastjson.loads_object(reply.body)["haConnectionInfo"]
        assert isinstance(rows, list)
        return rows


class Cluster(Protocol):
    """What a round needs to know of a kind of cluster."""

    kind: str
    nodes: dict[str, Broker]  # by the names that faults use
    controllers: list[Node]
    etcd: list[Node]
    is_controlled: bool  # a controller decides which broker is master
    lease_ms: int  # how long a master goes on without a controller's answer
    namesrv: str
    clients: Host  # where the clients run
    network: Network | None
    all_copies: bool  # each store has all that was answered SEND_OK
    has_replicas: bool  # there are replicas that answer clients while the master is gone
    is_told_of_changes: bool  # replicas are; False: a change is made, and answered with 11 or 12
    copies_ms: int  # a replica gets a change of tables at most so much later
    faults: tuple[tuple[str, str], ...]  # (fault, node) that it must survive

    def __enter__(self) -> Cluster: ...
    def __exit__(self, *_: object) -> None: ...
    def inside(self) -> contextlib.AbstractContextManager[None]: ...
    def settle(self) -> None: ...
    def stop(self) -> dict[str, int]: ...
    def stores(self) -> list[list[Path]]: ...


class PlainCluster:
    """A name server, and brokers that no controller knows; the base of the two kinds below."""

    kind = ""
    all_copies = False
    has_replicas = False
    is_told_of_changes = True
    copies_ms = 0
    is_controlled = False
    lease_ms = 0
    faults: tuple[tuple[str, str], ...] = ()
    hosts: tuple[str, ...] = ()
    more_hosts: tuple[str, ...] = ("clients",)  # hosts without a broker

    def __init__(self, folder: Path, settings: Sequence[str] = (), networked: bool = False) -> None:
        """`settings`: more settings for the brokers, key=value."""
        self.folder = folder
        self.settings = settings
        self.nodes: dict[str, Broker] = {}
        self.controllers: list[Node] = []
        self.etcd: list[Node] = []
        self.network = Network([*self.hosts, *self.more_hosts]) if networked else None
        self.clients = LOCAL if self.network is None else self.network.hosts["clients"]
        self.namesrv = ""
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Cluster:
        with contextlib.ExitStack() as stack:
            if self.network is not None:
                stack.enter_context(self.network)
            self._start_name_server(stack)
            self._add_brokers(fault_shim(), stack)
            for node in self.nodes.values():
                stack.callback(node.kill)
            with self.inside():
                self._start_brokers()
            self._stack = stack.pop_all()
        self.settle()
        return self

    def __exit__(self, *_: object) -> None:
        for node in (*self.nodes.values(), *self.controllers):
            node.signal(signal.SIGKILL)  # all at once, as each needs time to free its memory
        self._stack.close()

    def _start_name_server(self, stack: contextlib.ExitStack) -> None:
        port = free_port()
        self.namesrv = f"{self.clients.address}:{port}"
        words = ["namesrv", "--port", str(port), "--set", "kvConfigPath=", "--set",
                 "configStorePath="]  # fmt: skip
        if self.clients is not LOCAL:
            words += ["--bind", self.clients.address, "--insecure"]
        node = Node("namesrv", self.folder, words, self.namesrv, self.clients)
        stack.callback(node.kill)
        node.start()

    def _add_brokers(self, shim: Path, stack: contextlib.ExitStack) -> None:
        raise NotImplementedError

    def _start_brokers(self) -> None:
        for node in self.nodes.values():
            node.start()

    def _add(self, name: str, shim: Path, stack: contextlib.ExitStack, *options: str) -> Broker:
        host = LOCAL if self.network is None else self.network.hosts[name]
        told = ["--set", f"brokerName={BROKER_NAME}", *options]
        for setting in self.settings:
            told += ["--set", setting]
        self.nodes[name] = Broker(name, self.folder, shim, stack, self.namesrv, told, host)
        return self.nodes[name]

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Sockets that this thread opens in the block are on the clients' host."""
        with contextlib.nullcontext() if self.network is None else self.network.inside("clients"):
            yield

    def settle(self) -> None:
        """Returns when all is well again after a fault has ended."""

    def stop(self) -> dict[str, int]:
        """Stops all brokers, and returns their exit codes."""
        return {name: node.stop() for name, node in self.nodes.items()}

    def stores(self) -> list[list[Path]]:
        return [[node.store for node in self.nodes.values()]]


ALONE = ("kill", "restart", "pause", "disk-full", "disk-error", "clock-jump")


class SingleBroker(PlainCluster):
    kind = "single"
    all_copies = True
    hosts = ("a",)
    faults = tuple((fault, "a") for fault in ALONE)

    def _add_brokers(self, shim: Path, stack: contextlib.ExitStack) -> None:
        self._add("a", shim, stack)


class PlainPair(PlainCluster):
    """SYNC_MASTER and SLAVE. The slave does not take over: the master comes back."""

    kind = "pair"
    all_copies = True
    has_replicas = True
    hosts = ("master", "slave")
    faults = (
        *(("kill", name) for name in ("master", "slave")),
        *(("restart", name) for name in ("master", "slave")),
        *((fault, name) for fault in ("pause", "pause-long") for name in ("master", "slave")),
        ("disk-full", "slave"), ("disk-error", "slave"), ("clock-jump", "master"),
        ("clock-jump", "slave"), ("torn", "slave"), ("all", ""),
    )  # fmt: skip

    def _add_brokers(self, shim: Path, stack: contextlib.ExitStack) -> None:
        more = []
        if self.network is not None:
            more = ["--set", f"rmqReplicaAddresses={self.network.hosts['slave'].address}"]
        master = self._add("master", shim, stack, "--set", "brokerRole=SYNC_MASTER", *more)
        self._add("slave", shim, stack, "--set", "brokerRole=SLAVE", "--set", "brokerId=1",
                  "--set", f"rmqMasterAddress={master.address}")  # fmt: skip

    def settle(self) -> None:
        """Returns when the slave is connected and has the whole log."""
        with self.inside():
            wait_until(self._has_followed)

    def _has_followed(self) -> bool:
        rows = self.nodes["master"].ha_status()
        return len(rows) == 1 and rows[0]["diff"] == 0


class CutPair(PlainPair):
    """The same pair, each broker on a host of its own, so that links can be cut."""

    kind = "cut-pair"
    faults = (
        *((fault, name)
          for fault in ("isolate", "one-way", "delay") for name in ("master", "slave")),
        ("part", "slave"), ("part-long", "slave"), ("kill", "master"), ("pause", "slave"),
    )  # fmt: skip

    def __init__(self, folder: Path, settings: Sequence[str] = ()) -> None:
        super().__init__(folder, settings, networked=True)
