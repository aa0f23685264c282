"""Apache pairs: of a master and its slave one is Apache RocketMQ 5.5.0.

    with ApacheSlave(folder) as cluster:        # it follows our master
        cluster.nodes["slave"].kill(); cluster.nodes["slave"].start()

SYNC_MASTER waits for its slave: at Apache's that is said by inSyncReplicas, too, which counts the
master. Apache's broker starts in 9 s, looks for its master each 5 s and at its tables each 10 s.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from support.waiting import wait_until

from rmq.demo.ports import free_port
from rmq.names import SELF_TEST_TOPIC
from tests.ha.cluster import SETTINGS, Broker, Node, PlainPair, Program
from tools.peers.apache import ApacheStandalone
from tools.peers.probe import answers, has_route

READY_S = 180.0
ENDED_BY_SIGTERM = 143
OWN = {"rmqMasterAddress"}  # Apache's broker learns it from the name server


class ApacheBroker(Program, Broker):
    """No fault gets at its disk or its clock."""

    def __init__(self, name: str, folder: Path, namesrv: str, settings: Mapping[str, str]) -> None:
        self._port = free_port(below=2, above=1)
        self._namesrv = ("127.0.0.1", int(namesrv.rpartition(":")[2]))
        servers = ApacheStandalone(folder / name, self._namesrv[1], self._port, {**settings})
        self.store = servers.store
        self._command = servers.broker.command
        Node.__init__(self, name, folder, (), f"127.0.0.1:{self._port}")
        self.environment |= servers.broker.environment

    def command(self) -> list[str]:
        return self._command

    def until_ready(self) -> None:
        wait_until(self._is_ready, READY_S)

    def _is_ready(self) -> bool:
        assert self.is_running, f"{self.name} has ended\n{self.log()[-3000:]}"
        return answers(("127.0.0.1", self._port)) and has_route(
            self._namesrv, SELF_TEST_TOPIC, self.address
        )

    def stop(self) -> int:
        code = super().stop()
        return 0 if code == ENDED_BY_SIGTERM else code


def as_apache_has_them(options: tuple[str, ...]) -> dict[str, str]:
    """Settings of the command line: --set key=value."""
    given = [word.partition("=") for word in options if word != "--set" and "=" in word]
    return {key: value for key, _, value in given if key not in OWN}


class ApachePair(PlainPair):
    """`apache`: which of the two it is."""

    apache = ""
    copies_ms = 10_000

    def _add(self, name: str, shim: Path, stack: contextlib.ExitStack, *options: str) -> Broker:
        if name != self.apache:
            return super()._add(name, shim, stack, *options)
        settings = {
            **as_apache_has_them((*SETTINGS, *options)), "brokerName": "ha-a",
            "slaveReadEnable": "true", "inSyncReplicas": "2",
        }  # fmt: skip
        self.nodes[name] = ApacheBroker(name, self.folder, self.namesrv, settings)
        return self.nodes[name]

    def _has_followed(self) -> bool:
        """A slave of ours says 1 to an Apache master whose log is empty."""
        rows = self.nodes["master"].ha_status()
        return len(rows) == 1 and int(str(rows[0]["diff"])) <= 0


class ApacheSlave(ApachePair):
    """It never asks for tables when they have changed: changes are made, and answered as if they
    had not come to it."""

    kind = "apache-slave"
    apache = "slave"
    is_told_of_changes = False
    faults = tuple(
        (fault, name) for fault in ("kill", "restart", "pause") for name in ("master", "slave")
    )


class ApacheMaster(ApachePair):
    """What happens to the master itself is Apache's matter: while it is gone a slave has offsets,
    and resets of them, as they were up to 10 s before."""

    kind = "apache-master"
    apache = "master"
    faults = tuple((fault, "slave") for fault in ("kill", "restart", "pause"))
