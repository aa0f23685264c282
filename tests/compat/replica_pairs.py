"""Apache's broker as a slave; what a pair of brokers, one of them Apache's, is filled with and
asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from compat.targets import end_broker

from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode as Code
from rmq.demo.ports import free_port
from rmq.errors import RemoteError
from rmq.format import fastjson
from rmq.format.remoting import Command
from tools.peers.apache import ApacheStandalone
from tools.peers.cache import APACHE_VERSION

MIB = 1 << 20
COMMON = {
    "mappedFileSizeCommitLog": str(MIB),
    "maxMessageSize": str(256 * 1024),
    "fileReservedTime": "720",
    "autoCreateTopicEnable": "true",
}
QUEUES = 4


def wait(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


def ask(address: str, code: int, body: bytes = b"", **fields: object) -> Command:
    with Connection(address) as connection:
        return connection.call(code, fields, body, timeout=30)


def send_all(address: str, topic: str, count: int) -> None:
    """Sends to each queue in turn. Each body says which message it is, and every tenth is delayed
    by a second."""
    with Connection(address) as connection:
        for number in range(count):
            body = f"{number} ".encode() * 100
            properties = "DELAY\x011\x02" if number % 10 == 9 else f"KEYS\x01k{number}\x02"
            fields = {
                "a": "P", "b": topic, "c": "TBW102", "d": QUEUES, "e": number % QUEUES, "f": 0,
                "g": int(time.time() * 1000), "h": 0, "i": properties, "j": 0, "k": False,
            }  # fmt: skip
            connection.call(Code.SEND_MESSAGE_V2, fields, body, timeout=30)


def ends(address: str, topic: str) -> list[int]:
    """Where each queue ends; -1: the broker does not know the topic yet."""
    found = []
    for queue in range(QUEUES):
        try:
            reply = ask(address, Code.GET_MAX_OFFSET, topic=topic, queueId=queue)
        except RemoteError:
            found.append(-1)
        else:
            found.append(int(reply.fields["offset"]))
    return found


def log_of(store: Path, count: int) -> bytes:
    return b"".join(f.read_bytes() for f in sorted((store / "commitlog").iterdir()))[:count]


class ApacheSlave:
    """Apache's broker alone, at the name server of its master."""

    kind = "apache"

    def __init__(
        self,
        folder: Path,
        settings: dict[str, str],
        name_server: str,
        version: str = APACHE_VERSION,
    ) -> None:
        port = int(name_server.rpartition(":")[2])
        self.servers = ApacheStandalone(folder, port, free_port(2, 1), settings, version=version)
        self.store = self.servers.store
        self.broker = f"127.0.0.1:{self.servers.broker_port}"

    def start(self) -> None:
        self.servers.start_broker()

    def end(self, manner: str) -> None:
        end_broker(self.servers, manner)

    def stop(self) -> None:
        self.servers.kill_broker()


TABLES = {
    "topics": (Code.GET_ALL_TOPIC_CONFIG, "topicConfigTable"),
    "groups": (Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "subscriptionGroupTable"),
    "offsets": (Code.GET_ALL_CONSUMER_OFFSET, "offsetTable"),
    "delays": (Code.GET_ALL_DELAY_OFFSET, "offsetTable"),
    "modes": (Code.GET_ALL_MESSAGE_REQUEST_MODE, "messageRequestModeMap"),
}
PULLED, POPPED = ("PULL", 0), ("POP", 2)


class Tables:
    """The tables of a master, which are in no log, and whether its slave has them, too."""

    def __init__(self, master: str, slave: str, slave_store: Path, has_modes: bool) -> None:
        self._master, self._slave, self._slave_store = master, slave, slave_store
        self._has_modes = has_modes  # RocketMQ 4 has no request modes

    def fill(self) -> None:
        for name in ("kept", "deleted"):
            self._put(name, queues=4, tries=7, mode=POPPED)
            for queue in range(QUEUES):
                self._commit(name, queue, 9 + queue)

    def change(self) -> None:
        """Makes values lower and deletes things: a slave must take that, too."""
        self._put("kept", queues=6, tries=3, mode=PULLED)
        self._commit("kept", 2, 4)
        ask(self._master, Code.DELETE_SUBSCRIPTIONGROUP, groupName="deleted", cleanOffset=True)
        ask(self._master, Code.DELETE_TOPIC_IN_BROKER, topic="deleted")

    def _put(self, name: str, queues: int, tries: int, mode: tuple[str, int]) -> None:
        ask(
            self._master, Code.UPDATE_AND_CREATE_TOPIC, topic=name, defaultTopic="TBW102",
            readQueueNums=queues, writeQueueNums=queues - 1, perm=6, topicFilterType="SINGLE_TAG",
            topicSysFlag=0, order=False,
        )  # fmt: skip
        group = {"groupName": name, "retryMaxTimes": tries, "retryQueueNums": 2}
        ask(self._master, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, fastjson.dumps(group))
        if self._has_modes:
            way = {"topic": name, "consumerGroup": name, "mode": mode[0]}
            body = fastjson.dumps({**way, "popShareQueueNum": mode[1]})
            ask(self._master, Code.SET_MESSAGE_REQUEST_MODE, body)

    def _commit(self, name: str, queue: int, offset: int) -> None:
        place = {"consumerGroup": name, "topic": name, "queueId": queue}
        ask(self._master, Code.UPDATE_CONSUMER_OFFSET, commitOffset=offset, **place)

    def wait_same(self) -> None:
        """Waits for longer than an Apache slave of 5.5.0 takes, which looks every minute."""
        try:
            wait(lambda: not self.differences())
        except AssertionError:
            raise AssertionError(self.differences()) from None

    def differences(self) -> list[str]:
        """The differences in what both brokers know. An offset of 0 counts as none. What only the
        slave has, such as system topics, was there before."""
        found = []
        for name, (code, member) in TABLES.items():
            if name == "modes" and not self._has_modes:
                continue
            theirs = flat(fastjson.loads_object(ask(self._master, code).body)[member])
            ours = flat(self._of_slave(name, code, member))
            lacking = {key for key in theirs if key not in ours and theirs[key] not in (0, "0")}
            if name in ("topics", "groups"):
                known = {key[-1] for key in ours}
                lacking = {key for key in lacking if key[-1] in known}
            found += [f"{name} {key}: {theirs[key]!r}" for key in sorted(lacking)]
            found += [
                f"{name} {key}: {theirs[key]!r}, and {ours[key]!r} at the slave"
                for key in sorted(theirs.keys() & ours.keys())
                if theirs[key] != ours[key]
            ]
            if name in ("topics", "groups"):
                gone = {key[0] for key in ours} - {key[0] for key in theirs}
                found += [f"{name} {each} is not deleted" for each in gone & {"deleted"}]
        return found

    def _of_slave(self, name: str, code: int, member: str) -> Mapping[Any, Any]:
        body = ask(self._slave, code).body
        if name == "delays":  # RocketMQ 4 reads them from its file when it becomes master
            file = self._slave_store / "config" / "delayOffset.json"
            body = file.read_bytes() if file.exists() else b"{}"
        table: Mapping[Any, Any] = fastjson.loads_object(body).get(member, {})
        return table


def flat(table: Mapping[Any, Any], before: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Each value by the keys that lead to it, as text, because RocketMQ quotes some numbers."""
    found: dict[tuple[str, ...], Any] = {}
    for key, value in table.items():
        place = (*before, str(key))
        found |= flat(value, place) if isinstance(value, Mapping) else {place: value}
    return found
