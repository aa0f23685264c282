"""Goal: a running Apache RocketMQ is replaced by rmq while Java clients work, and back.

Method: Apache's name server and broker, `rmq takeover`, a Java producer and push consumer with
their defaults. Each acknowledged number must come; what comes twice is counted. Both logs are
compared to the byte. The same between two brokers of rmq: tests/process/test_takeover.py.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from compat.replica_pairs import COMMON, ApacheSlave, ends, log_of, send_all, wait
from compat.runner import ScenarioRunner
from compat.targets import ApacheTarget
from support.topics import make_topic
from support.waiting import HANG_S

from rmq import Admin, Message, Producer
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.format import fastjson
from tools.peers.cache import APACHE_4, APACHE_VERSION

TIMED = 20


class Takeover:
    """`rmq takeover` of this Apache broker. Its process is then the broker at the same port."""

    def __init__(self, folder: Path, old: ApacheTarget) -> None:
        self.store = folder / "new"
        self.said_path = folder / "takeover.txt"
        pid = old.servers.broker.pid
        with self.said_path.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rmq", "takeover", "--from", old.broker, "--yes",
                 "--store", str(self.store), "--stop-command", f"kill {pid}"],
                stdout=said, stderr=said,
            )  # fmt: skip

    def wait_ready(self) -> None:
        def ready() -> bool:
            assert self.process.poll() is None, self.said_path.read_text()
            return " is ready " in self.said_path.read_text()

        wait(ready)

    def log_end(self) -> int:
        """The end of the copied log when it became the master's, up to a tenth of the unit less
        than that."""
        found = re.search(r"its log has ([\d.]+) (kB|MB) of messages", self.said_path.read_text())
        assert found is not None
        return int((float(found[1]) - 0.1) * {"kB": 1_000, "MB": 1_000_000}[found[2]])

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(HANG_S)


def messages(namesrv: str, topic: str) -> list[bytes]:
    command = [sys.executable, "-m", "rmq", "consume", topic, "-n", namesrv, "--json"]
    done = subprocess.run(command, capture_output=True, check=True)
    return [msgspec.json.decode(line)["body"].encode() for line in done.stdout.splitlines()]


def waiting(number: int, soon_ms: int, version: str) -> dict[str, str]:
    """Properties of a message that waits. RocketMQ 4 knows delay levels only."""
    if number % 2 and version != APACHE_4:
        return {"TIMER_DELIVER_MS": str(soon_ms + 1500 * number)}
    return {"DELAY": "4" if number % 4 else "3"}


@pytest.mark.parametrize("version", [APACHE_VERSION, APACHE_4])
def test_java_clients_work_through_it(
    version: str, java: Callable[[str], ScenarioRunner], tmp_path: Path
) -> None:
    client = java("java-5.5.0-json")
    old = ApacheTarget(tmp_path / "old", COMMON, version=version)
    takeover: Takeover | None = None
    old.start()
    try:
        with Admin(namesrv_addr=old.name_server) as admin:
            make_topic(admin, "t", 4)
            make_topic(admin, "later", 1)
        soon_ms = int(time.time() * 1000) + 2000
        with Producer("p", namesrv_addr=old.name_server, send_msg_timeout=60_000) as producer:
            for number in range(TIMED):
                properties = waiting(number, soon_ms, version)
                producer.send(Message("later", b"%d" % number, properties=properties))
        one = {"run": "takeover", "nameServer": old.name_server, "topic": "t"}
        client.run("replica_open", group="g", **one, **{"as": "reader"})
        client.run("writer_open", **one, **{"as": "writer"})
        client.run("writer_wait", count=500, **one, **{"as": "writer"})
        takeover = Takeover(tmp_path, old)
        takeover.wait_ready()
        ready_ms = time.time() * 1000
        client.run("writer_wait", count=500, **one, **{"as": "writer"})
        sent = client.run("writer_close", **one, **{"as": "writer"})
        client.run("replica_wait", count=sent["sent"], **one, **{"as": "reader"})
        found = client.run("replica_close", **one, **{"as": "reader"})
        print("writer", sent, "twice", len(found["twice"]), takeover.said_path.read_text())
        assert found["numbers"] == sent["sent"]
        assert sum(found["twice"].values()) < sent["sent"] / 5
        everything = {b"%d" % number for number in range(TIMED)}
        wait(lambda: set(messages(old.name_server, "later")) == everything)
        counts = Counter(messages(old.name_server, "later"))
        print("later", counts)
        if version != APACHE_4:
            late = [n for n in range(1, TIMED, 2) if soon_ms + 1500 * n > ready_ms]
            assert late
            assert all(counts[b"%d" % number] == 1 for number in late)
        assert max(counts.values()) <= 2
        # Behind that the old log has what was delivered while the old broker ended; rmq delivers
        # that, too.
        count = takeover.log_end()
        assert log_of(takeover.store, count) == log_of(old.store, count)
    finally:
        if takeover is not None:
            takeover.stop()
        old.stop()


@pytest.mark.parametrize("version", [APACHE_VERSION, APACHE_4])
def test_the_way_back(version: str, tmp_path: Path) -> None:
    """rmq takes over from Apache's broker, then an Apache broker from rmq: it follows as a slave,
    both are stopped, and it starts as the master."""
    old = ApacheTarget(tmp_path / "old", COMMON, version=version)
    takeover: Takeover | None = None
    back: ApacheSlave | None = None
    old.start()
    try:
        send_all(old.broker, "t", 400)
        with Admin(namesrv_addr=old.name_server) as admin:
            admin.create_group("g")
        commit(old.broker, 50)
        takeover = Takeover(tmp_path, old)
        takeover.wait_ready()
        assert committed(old.broker) == 50
        send_all(old.broker, "t", 400)
        commit(old.broker, 70)
        role = {"brokerRole": "SLAVE", "brokerId": "1"}
        back = ApacheSlave(tmp_path / "back", {**COMMON, **role}, old.name_server, version)
        back.start()
        wait(lambda: ends(back.broker, "t") == ends(old.broker, "t"))
        wait(lambda: committed(back.broker) == 70)
        said = (tmp_path / "back" / "broker.log").read_text()
        assert "syncTimerCheckPoint" not in said
        takeover.stop()
        back.end("clean")
        back.servers.settings |= {"brokerRole": "ASYNC_MASTER", "brokerId": "0"}
        back.start()
        # Delayed messages that wait are in their queue, and the next master delivers them.
        wait(lambda: sum(ends(back.broker, "t")) == 800)
        assert committed(back.broker) == 70
        send_all(back.broker, "t", 40)
    finally:
        for each in (back, takeover, old):
            if each is not None:
                each.stop()


PLACE = {"consumerGroup": "g", "topic": "t", "queueId": 0}


def commit(address: str, offset: int) -> None:
    with Connection(address) as connection:
        connection.call(RequestCode.UPDATE_CONSUMER_OFFSET, {**PLACE, "commitOffset": offset})


def committed(address: str) -> int:
    with Connection(address) as connection:
        body = connection.call(RequestCode.GET_ALL_CONSUMER_OFFSET).body
    table = fastjson.loads_object(body).get("offsetTable") or {}
    return int((table.get("t@g") or {}).get("0", (table.get("t@g") or {}).get(0, -1)))
