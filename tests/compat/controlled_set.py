"""Controlled set: brokers of one name and their controller, each of rmq or Apache's.

    brokers = ControlledSet(folder, "apache")            # the controller's kind; a name server too
    one, two = brokers.add("rmq"), brokers.add("apache") # started in this order: ids 1 and 2
    brokers.wait_in_sync({1, 2})
    brokers.send("t", 100)                               # to the master; what was acknowledged
    one.kill(); brokers.wait_for_master(2)
    brokers.end()

The broker name is `set-a`, the cluster DefaultCluster. Every acknowledgement needs all replicas in
sync, and at least two.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from compat.targets import ROOT
from support.stopping import stand_still

from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode as Code
from rmq.demo.ports import free_port
from rmq.errors import RmqError
from rmq.format import fastjson
from rmq.format.remoting import Command
from tools.peers.apache import ApacheStandalone
from tools.peers.apache_controller import ApacheController
from tools.peers.probe import answers
from tools.peers.server import Server

NAME, CLUSTER = "set-a", "DefaultCluster"
SETTINGS = {
    "brokerClusterName": CLUSTER,
    "brokerName": NAME,
    "mappedFileSizeCommitLog": str(16 << 20),
    "enableControllerMode": "true",
    "allAckInSyncStateSet": "true",
    "minInSyncReplicas": "2",
    "inSyncReplicas": "2",
    "slaveReadEnable": "true",
    "waitTimeMillsInSendQueue": "10000",
    "osPageCacheBusyTimeOutMills": "10000",
}
READY_S = 90.0
SEND_S = 10.0


def wait(what: str, condition: Callable[[], object], seconds: float = READY_S) -> float:
    """Waits for the condition; returns how long it took, in seconds."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"waited {seconds:.0f} s for {what}"
        time.sleep(0.05)
    return time.monotonic() - began


def ask(address: str, code: int, body: bytes = b"", **fields: object) -> Command:
    with Connection(address, connect_timeout=3.0) as connection:
        return connection.call(code, fields, body, timeout=15)


def rmq_process(name: str, folder: Path, *words: str, **settings: str) -> Server:
    """A process of `rmq ..` with these words and settings; it is ready when its port answers."""
    command = [sys.executable, "-m", "rmq", *words]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    port = int(words[words.index("--port") + 1])
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return Server(
        name, command, folder / f"{name}.log", lambda: answers(("127.0.0.1", port)),
        {"PYTHONPATH": path}, ready_seconds=READY_S,
    )  # fmt: skip


class Replica:
    """One broker, which can be killed and started again at its store and port."""

    def __init__(self, kind: str, folder: Path, namesrv: str, settings: Mapping[str, str]) -> None:
        folder.mkdir(parents=True)
        self.kind = kind
        port = free_port(below=2, above=1)
        self.address = f"127.0.0.1:{port}"
        if kind == "apache":
            name_server_port = int(namesrv.rpartition(":")[2])
            known = {"haListenPort": str(port + 1), **settings}
            self._apache = ApacheStandalone(folder, name_server_port, port, known, heap="256m")
            self.store, self._server = self._apache.store, self._apache.broker
            # The port is open before the broker has a role; the broker is listed only after that.
            self._server.ready = lambda: answers(("127.0.0.1", port))
        else:
            self.store = folder / "store"
            words = ("broker", "--store", str(self.store), "--port", str(port), "-n", namesrv)
            self._server = rmq_process("broker", folder, *words, **settings)
        self.log = self._server.log

    @property
    def running(self) -> bool:
        return self._server.running

    def start(self) -> None:
        self._server.start()

    def kill(self) -> None:
        self._server.kill()

    def pause(self) -> None:
        """Stops the process until it is killed. Returns when all threads stand still, which on a
        busy machine may be some messages later."""
        stand_still(self._server.pid)

    def status(self) -> dict[str, Any]:
        """The broker's answer to 907."""
        return fastjson.loads_object(ask(self.address, Code.GET_BROKER_HA_STATUS).body)

    def epochs(self) -> list[tuple[int, int]]:
        body = fastjson.loads_object(ask(self.address, Code.GET_BROKER_EPOCH_CACHE).body)
        return [(each["epoch"], each["startOffset"]) for each in body["epochList"]]

    def log_bytes(self, start: int, end: int) -> bytes:
        """Bytes of the broker's log, while it runs or afterwards. The log files of all replicas
        begin at the same offsets."""
        found = b""
        for file in sorted((self.store / "commitlog").iterdir()):
            first = int(file.name)
            if first < end and first + file.stat().st_size > start:
                found += file.read_bytes()[max(start - first, 0) : end - first]
        return found


class ControlledSet:
    """A name server (rmq's by default), a controller, and the brokers that were added."""

    def __init__(self, folder: Path, controller: str, **settings: str) -> None:
        self.folder, self.settings = folder, settings
        self.replicas: dict[int, Replica] = {}
        folder.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.namesrv = f"127.0.0.1:{port}"
        empty = {"kvConfigPath": "", "configStorePath": ""}
        self._servers = [rmq_process("namesrv", folder, "namesrv", "--port", str(port), **empty)]
        port = free_port()
        self.controller = f"127.0.0.1:{port}"
        if controller == "apache":
            self._servers.append(ApacheController(folder / "controller", port).server)
        else:
            words = ("controller", "--port", str(port), "--store", str(folder / "state"))
            path = str(folder / "controller.properties")
            self._servers.append(rmq_process("controller", folder, *words, configStorePath=path))
        for server in self._servers:
            server.start()

    def end(self) -> None:
        for replica in self.replicas.values():
            replica.kill()
        for server in reversed(self._servers):
            server.kill()

    def add(self, kind: str, **settings: str) -> Replica:
        """Starts a broker and waits until it is registered at the controller, which gives it the
        next id."""
        number = len(self.replicas) + 1
        known = {**SETTINGS, "controllerAddr": self.controller, **self.settings, **settings}
        replica = Replica(kind, self.folder / f"{number}-{kind}", self.namesrv, known)
        self.replicas[number] = replica
        replica.start()
        wait(f"broker {number} at the controller", lambda: number in self.addresses())
        return replica

    def set_state(self) -> dict[str, Any]:
        """What the controller says about the set (1006)."""
        body = fastjson.dumps([NAME])
        reply = ask(self.controller, Code.CONTROLLER_GET_SYNC_STATE_DATA, body)
        table = fastjson.loads_object(reply.body).get("replicasInfoTable", {})
        found: dict[str, Any] = table.get(NAME, {})
        return found

    def addresses(self) -> dict[int, str]:
        """The addresses of the replicas by id, as the controller knows them."""
        state = self.set_state()
        rows = state.get("inSyncReplicas", []) + state.get("notInSyncReplicas", [])
        return {int(each["brokerId"]): each["brokerAddress"] for each in rows}

    def in_sync(self) -> set[int]:
        return {int(each["brokerId"]) for each in self.set_state().get("inSyncReplicas", [])}

    def wait_in_sync(self, members: set[int], seconds: float = READY_S) -> float:
        return wait(f"{members} in sync", lambda: self.in_sync() == members, seconds)

    def master_id(self) -> int | None:
        """The master's id according to the controller; None: there is no master."""
        found = self.set_state().get("masterBrokerId")
        return int(found) if found and int(found) > 0 else None

    def wait_for_master(self, *wanted: int) -> int:
        """Waits until one of these is master, according to the controller and to the broker itself;
        returns its id."""

        def leads() -> bool:
            found = self.master_id()
            if found not in wanted or not self.replicas[found].running:
                return False
            try:
                return bool(self.replicas[found].status()["master"])
            except (RmqError, OSError):
                return False

        wait(f"one of {wanted} to be master", leads)
        found = self.master_id()
        assert found is not None
        return found

    @property
    def master(self) -> Replica:
        found = self.master_id()
        assert found is not None, "nobody is master"
        return self.replicas[found]

    def make_topic(self, topic: str, queues: int = 4) -> None:
        """Makes a topic at the master, and waits until the slaves have it."""
        fields = {
            "topic": topic, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6,
            "topicFilterType": "SINGLE_TAG", "defaultTopic": "TBW102", "topicSysFlag": 0,
            "order": False,
        }  # fmt: skip
        ask(self.master.address, Code.UPDATE_AND_CREATE_TOPIC, **fields)
        for replica in self.replicas.values():
            wait(f"{topic} at {replica.address}", lambda at=replica: _has_topic(at, topic))

    def same_log(self) -> int:
        """Asserts that all replicas have the same log, to the byte; returns where it ends."""
        end = log_end(self.master.address)
        for replica in self.replicas.values():
            what = f"the whole log at {replica.address}"
            wait(what, lambda at=replica: log_end(at.address) == end)
        logs = {number: each.log_bytes(0, end) for number, each in self.replicas.items()}
        expected = logs[self.master_id() or 0]
        assert len(expected) == end > 0
        for number, found in logs.items():
            assert found == expected, f"the log of {number} is another one"
        return end


def _has_topic(replica: Replica, topic: str) -> bool:
    try:
        return ask(replica.address, Code.GET_TOPIC_CONFIG, topic=topic, lo=True).code == 0
    except (RmqError, OSError):
        return False


class Sender:
    """Sends numbers as bodies to the master of the moment, each until it is acknowledged with
    SEND_OK."""

    def __init__(self, brokers: ControlledSet, topic: str, queues: int = 4) -> None:
        self._brokers, self._topic, self._queues = brokers, topic, queues
        self._connection: Connection | None = None
        self.count = 0  # number of acknowledged messages, "0", "1", ..
        self.refusals: list[str] = []

    def more(self, count: int, seconds: float = READY_S) -> float:
        """Sends more messages; returns the longest time until one was acknowledged."""
        longest = 0.0
        for _ in range(count):
            took = wait(f"an acknowledgement; at last {self.refusals[-1:]}", self._send, seconds)
            self.count += 1
            longest = max(longest, took)
        return longest

    def _send(self) -> bool:
        fields = self._fields(self.count)
        try:
            if self._connection is None:
                self._connection = Connection(self._brokers.master.address, connect_timeout=3.0)
            body = b"%d" % self.count
            self._connection.call(Code.SEND_MESSAGE_V2, fields, body, timeout=SEND_S)
        except (RmqError, OSError, AssertionError) as error:
            self.refusals.append(str(error))
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            return False
        return True

    def _fields(self, number: int) -> dict[str, object]:
        return {
            "a": "P", "b": self._topic, "c": "TBW102", "d": self._queues,
            "e": number % self._queues, "f": 0, "g": int(time.time() * 1000), "h": 0,
            "i": f"KEYS\x01k{number}\x02", "j": 0, "k": False,
        }  # fmt: skip

    def unheard(self, count: int) -> None:
        """Messages "-1" that the master stores but cannot acknowledge; nobody waits for their
        answers."""
        address = self._brokers.master.address
        began = log_end(address)
        with Connection(address) as connection:
            for number in range(count):
                connection.submit(Code.SEND_MESSAGE_V2, self._fields(number), b"-1")
            wait("them in the log", lambda: log_end(address) >= began + 91 * count)


def log_end(address: str) -> int:
    """The end of the broker's log, as it answers to 28."""
    body = fastjson.loads_object(ask(address, Code.GET_BROKER_RUNTIME_INFO).body)
    return int(body["table"]["commitLogMaxOffset"])


def queue_ends(address: str, topic: str, queues: int = 4) -> list[int]:
    return [
        int(ask(address, Code.GET_MAX_OFFSET, topic=topic, queueId=queue).fields["offset"])
        for queue in range(queues)
    ]
