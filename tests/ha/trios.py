"""Trios: clusters of three brokers of one name, one of which a controller makes the master.

    with EtcdTrio(folder) as cluster:
        cluster.nodes["master"].kill()          # the master of now
        leading_controller(cluster).kill(); leading_etcd(cluster).signal(signal.SIGSTOP)

In a Trio one controller keeps its state in a file. An EtcdTrio has two controllers, and three
members of etcd. The cut kinds have a host for each broker, so that links can be cut: the controller
of a CutTrio is on a host of its own; in a CutEtcdTrio each host has a controller and a member of
etcd, too.
"""

from __future__ import annotations

import contextlib
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from support.driven_clock import DrivenClock, process_clock
from support.waiting import wait_until

from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.demo.ports import free_port
from rmq.errors import RmqError
from rmq.format import fastjson
from tests.ha.cluster import Broker, Cluster, Node, PlainCluster, Program
from tests.ha.network import LOCAL, Host
from tests.ha.setting import BROKER_NAME

LEASE_MS = 3000
STARTS = 3
CONTROLLER = "controller"  # name of the controller's host in a CutTrio
ETCD_S = 60.0  # for a member of etcd to have a leader


class TrioNodes(dict[str, Broker]):
    """Nodes by name; "master" is the master of now."""

    def __missing__(self, name: str) -> Broker:
        assert name == "master", name
        found: list[Broker] = []

        def look() -> bool:
            found[:] = [node for node in self.values() if node.is_running and node.is_master()]
            return bool(found)

        wait_until(look)
        return found[0]


class Controller(Node):
    """A controller whose clock faults can change."""

    def __init__(
        self, name: str, folder: Path, host: Host, stack: contextlib.ExitStack, state: Sequence[str]
    ) -> None:
        port = free_port()
        words = ["controller", "--port", str(port), "--lease", str(LEASE_MS), *state,
                 "--set", f"configStorePath={folder / name}.properties"]  # fmt: skip
        if host is not LOCAL:
            words += ["--bind", host.address, "--insecure"]
        super().__init__(name, folder, words, f"{host.address}:{port}", host)
        own = folder / f"{name}.clock"
        own.mkdir()
        self.clock: DrivenClock = stack.enter_context(process_clock(own))
        self.environment = self.clock.environment

    def until_ready(self) -> None:
        """A controller that ended because etcd was too slow is started again, as a service manager
        would do."""
        for _ in range(STARTS - 1):
            try:
                return super().until_ready()
            except AssertionError:
                self.launch()
        return super().until_ready()


class Trio(PlainCluster):
    """With rmq's defaults: an answer means that all replicas in sync have the message, and that
    there are at least two of them."""

    kind = "trio"
    all_copies = True
    has_replicas = True
    is_controlled = True
    lease_ms = LEASE_MS
    hosts = ("a", "b", "c")
    faults: tuple[tuple[str, str], ...] = (
        ("kill", "master"), ("restart", "master"), ("pause", "master"), ("disk-full", "master"),
        ("disk-error", "master"), ("clock-jump", "master"),
        ("kill", "b"), ("pause", "b"), ("disk-full", "b"), ("restart", "b"),
        ("pause-long", "master"), ("torn", "master"), ("torn", "b"), ("wiped", "master"),
        ("wiped", "b"), ("all", ""), ("controllers", ""), ("behind", "master"),
        ("disk-error", "b"), ("clock-jump", "b"), ("controller-clock", ""),
        ("power-cut", ""), ("pause-long", "b"), ("controllers-paused", ""),
        ("next-master", "master"), ("down-then-master", ""), ("diverged-twice", "master"),
    )  # fmt: skip

    def _add_brokers(self, shim: Path, stack: contextlib.ExitStack) -> None:
        self.nodes = TrioNodes()
        self._start_controllers(stack)
        addresses = ";".join(each.address for each in self.controllers)
        more = []
        if self.network is not None:
            allowed = ";".join(self.network.hosts[name].address for name in self.hosts)
            more = ["--set", f"rmqReplicaAddresses={allowed}"]
        for name in self.hosts:
            self._add(name, shim, stack, "--set", "enableControllerMode=true",
                      "--set", f"controllerAddr={addresses}",
                      "--set", "controllerHeartBeatTimeoutMills=3000", *more)  # fmt: skip

    def _start_brokers(self) -> None:
        """Starts the brokers; whichever is ready first becomes the master."""
        for node in self.nodes.values():
            node.launch()
        for node in self.nodes.values():
            node.until_ready()

    def _start_controllers(self, stack: contextlib.ExitStack) -> None:
        self._start_controller(stack, self.clients, "--store", str(self.folder / "controller"))

    def _start_controller(self, stack: contextlib.ExitStack, host: Host, *state: str) -> None:
        name = f"controller-{len(self.controllers) + 1}"
        self.controllers.append(Controller(name, self.folder, host, stack, state))
        stack.callback(self.controllers[-1].kill)
        self.controllers[-1].start()

    @property
    def controller(self) -> Controller:
        """The only controller."""
        (found,) = self.controllers
        assert isinstance(found, Controller)
        return found

    def settle(self) -> None:
        """Returns when all three brokers are in sync and have the log."""
        with self.inside():
            wait_until(self._is_whole)

    def _is_whole(self) -> bool:
        for node in self.nodes.values():
            rows = node.ha_status() if node.is_running and node.is_master() else []
            if len(rows) == 2 and all(row["inSync"] and row["diff"] == 0 for row in rows):
                return any(self._says_so(controller, node) for controller in self.controllers)
        return False

    @staticmethod
    def _says_so(controller: Controller, master: Broker) -> bool:
        """Whether the controller, too, has this master with all three in sync: a master that was
        cut off from it does not know yet that it is none any more."""
        try:
            with Connection(controller.address) as connection:
                reply = connection.call(
                    RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, {"rmqAll": "true"}
                )
        except RmqError:
            return False
        row = fastjson.loads_object(reply.body)["replicasInfoTable"].get(BROKER_NAME) or {}
        return row.get("masterAddress") == master.address and len(row["inSyncReplicas"]) == 3

    def stop(self) -> dict[str, int]:
        """Stops all brokers, and returns their exit codes. The master is stopped last, so that none
        is elected meanwhile."""
        with self.inside():
            master = self.nodes["master"]
        nodes = [node for node in self.nodes.values() if node is not master]
        return {node.name: node.stop() for node in (*nodes, master)}


class CutTrio(Trio):
    """No broker is on the controller's host, so each broker can be cut off from it alone."""

    kind = "cut-trio"
    faults = (
        *((fault, "master") for fault in ("isolate", "part", "one-way", "delay")),
        ("isolate", "b"), ("part", "c"), ("delay", "b"),
        *((fault, "master") for fault in ("unled", "unled-one-way")),
        ("unled", "b"), ("unled-all", ""),
        *((f"{fault}-long", "master") for fault in ("isolate", "part", "one-way", "bridge")),
        ("isolate-long", "b"), ("part-long", "c"),
    )  # fmt: skip
    more_hosts = ("clients", CONTROLLER)

    def __init__(self, folder: Path, settings: Sequence[str] = ()) -> None:
        super().__init__(folder, settings, networked=True)

    def _start_controllers(self, stack: contextlib.ExitStack) -> None:
        assert self.network is not None
        store = str(self.folder / "controller")
        self._start_controller(stack, self.network.hosts[CONTROLLER], "--store", store)


# ---- with etcd


class EtcdMember(Program):
    """A member of etcd, which is ready when it knows a leader. `inside`: where its clients are."""

    def __init__(
        self, name: str, folder: Path, host: Host,
        inside: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:  # fmt: skip
        super().__init__(name, folder, [], f"{host.address}:{free_port()}", host)
        self.peer = f"{host.address}:{free_port()}"
        self.members: list[EtcdMember] = []
        self._folder, self._inside = folder, inside

    def command(self) -> list[str]:
        program = shutil.which("etcd")
        assert program is not None, "no etcd: apt-get install etcd-server"
        client, peer = f"http://{self.address}", f"http://{self.peer}"
        everyone = ",".join(f"{each.name}=http://{each.peer}" for each in self.members)
        return [
            *(program, "--name", self.name, "--data-dir", str(self._folder / self.name)),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", everyone, "--log-level", "error"),
        ]

    def until_ready(self) -> None:
        def is_ready() -> bool:
            assert self.is_running, f"{self.name} ended\n{self.log()[-3000:]}"
            return self.is_healthy()

        with self._inside():
            wait_until(is_ready, ETCD_S, log=self.log)

    def is_healthy(self) -> bool:
        try:
            urllib.request.urlopen(f"http://{self.address}/health", timeout=1).close()
        except (urllib.error.URLError, OSError):
            return False
        return True

    def leads(self) -> bool:
        """Whether the member says that it is the leader."""
        url = f"http://{self.address}/v3/maintenance/status"
        try:
            with urllib.request.urlopen(url, data=b"{}", timeout=1) as answer:
                told = fastjson.loads_object(answer.read())
        except (urllib.error.URLError, OSError):
            return False
        return bool(told["header"]["member_id"] == told.get("leader"))


class EtcdTrio(Trio):
    """A trio with two controllers, and etcd with three members."""

    kind = "etcd-trio"
    faults = (
        *((fault, "") for fault in
          ("controller", "controllers", "controller-clock", "etcd-leader", "etcd-quorum", "all",
           "controller-paused", "controllers-paused", "etcd-leader-paused", "etcd-quorum-paused")),
        ("controller-too", "master"), ("kill", "master"), ("pause-long", "master"),
        ("next-master", "master"), ("down-then-master", ""),
    )  # fmt: skip

    def _start_controllers(self, stack: contextlib.ExitStack) -> None:
        self._start_etcd(stack, [self.clients] * 3)
        endpoints = self._endpoints()
        for _ in range(2):
            self._start_controller(stack, self.clients, "--etcd", endpoints)

    def _endpoints(self) -> str:
        return ";".join(f"http://{each.address}" for each in self.etcd)

    def _start_etcd(self, stack: contextlib.ExitStack, hosts: list[Host]) -> None:
        members = [EtcdMember(f"etcd-{number}", self.folder, host, self.inside)
                   for number, host in enumerate(hosts, 1)]  # fmt: skip
        self.etcd = [*members]
        for each in members:
            each.members = members
            stack.callback(each.kill)
            each.launch()
        for each in members:
            each.until_ready()


class CutEtcdTrio(EtcdTrio):
    """Three hosts, set up as docs/replicas.md says for three machines."""

    kind = "cut-etcd-trio"
    faults = (
        *((fault, "master") for fault in ("part", "isolate", "bridge", "one-way", "delay")),
        ("part", "b"), ("delay", "b"),
        ("part-long", "master"), ("part-long", "b"), ("bridge-long", "master"),
    )  # fmt: skip

    def __init__(self, folder: Path, settings: Sequence[str] = ()) -> None:
        super().__init__(folder, settings, networked=True)

    def _start_controllers(self, stack: contextlib.ExitStack) -> None:
        assert self.network is not None
        hosts = [self.network.hosts[name] for name in self.hosts]
        self._start_etcd(stack, hosts)
        endpoints = self._endpoints()
        for host in hosts:
            self._start_controller(stack, host, "--etcd", endpoints)


def leading_controller(cluster: Cluster) -> Node:
    """The leading controller, once there is one."""
    return _first(cluster, cluster.controllers, _leads)


def leading_etcd(cluster: Cluster) -> Node:
    return _first(cluster, cluster.etcd, lambda each: isinstance(each, EtcdMember) and each.leads())


def _first(cluster: Cluster, nodes: list[Node], leads: Callable[[Node], bool]) -> Node:
    found: list[Node] = []

    def look() -> bool:
        found[:] = [node for node in nodes if node.is_running and leads(node)]
        return bool(found)

    with cluster.inside():
        wait_until(look)
    return found[0]


def _leads(controller: Node) -> bool:
    try:
        with Connection(controller.address, connect_timeout=1.0) as connection:
            reply = connection.call(RequestCode.CONTROLLER_GET_METADATA_INFO, timeout=2.0)
    except RmqError:
        return False
    return reply.bool_field("isLeader", False)
