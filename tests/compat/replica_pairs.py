"""Apache's broker as a slave; what a pair of which one is Apache's is filled with and asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from compat.targets import end_broker

from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode as Code
from rmq.demo.ports import free_port
from rmq.errors import RemoteError
from rmq.format.remoting import Command
from tools.peers.apache import ApacheStandalone

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
    """To each queue in turn; each body says which it is. Every tenth is delayed by a second."""
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
    """Where each queue ends; -1 while the broker does not know the topic."""
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

    def __init__(self, folder: Path, settings: dict[str, str], name_server: str) -> None:
        port = int(name_server.rpartition(":")[2])
        self.servers = ApacheStandalone(folder, port, free_port(2, 1), settings)
        self.store = self.servers.store
        self.broker = f"127.0.0.1:{self.servers.broker_port}"

    def start(self) -> None:
        self.servers.start_broker()

    def end(self, manner: str) -> None:
        end_broker(self.servers, manner)

    def stop(self) -> None:
        self.servers.kill_broker()
