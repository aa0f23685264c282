"""Apache pairs: a master and its slave, one of which is Apache RocketMQ 5.5.0.

    with ApacheSlave(folder) as cluster:        # Apache's slave follows rmq's master
        cluster.nodes["slave"].kill(); cluster.nodes["slave"].start()

A SYNC_MASTER waits for its slave. An Apache master must be told that by inSyncReplicas, too, which
counts the master itself. Apache's broker starts in 9 s. Every 5 s it looks for its master, and
every 10 s it asks for the master's tables.
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
    """A broker whose disk and clock no fault can reach."""

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
    """The settings in a command line: --set key=value."""
    given = [word.partition("=") for word in options if word != "--set" and "=" in word]
    return {key: value for key, _, value in given if key not in OWN}


class ApachePair(PlainPair):
    """`apache`: which of the two brokers is Apache's."""

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
        """rmq's slave reports 1 to an Apache master whose log is empty."""
        rows = self.nodes["master"].ha_status()
        return len(rows) == 1 and int(str(rows[0]["diff"])) <= 0


class ApacheSlave(ApachePair):
    """The slave does not ask for tables when they have changed. So changes are made, but answered
    as if they had not reached it."""

    kind = "apache-slave"
    apache = "slave"
    is_told_of_changes = False
    faults = tuple(
        (fault, name) for fault in ("kill", "restart", "pause") for name in ("master", "slave")
    )


class ApacheMaster(ApachePair):
    """The master's own faults are Apache's matter. While it is gone the slave has offsets, and
    resets of them, as they were up to 10 s before."""

    kind = "apache-master"
    apache = "master"
    faults = tuple((fault, "slave") for fault in ("kill", "restart", "pause"))
