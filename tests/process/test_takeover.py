"""Goal: a master is replaced while clients work, and nothing acknowledged is lost.

Method: a name server, a broker and `rmq takeover` as processes, with the demo's traffic: a producer
that sends numbers one after the other, and a consumer that counts what comes. With Apache's broker
as the old master: tests/compat/test_takeover.py.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support.command_line import rmq
from support.forked_commands import forked_children, run_rmq
from support.scripted_broker import ScriptedBroker
from support.topics import make_topic
from support.waiting import HANG_S, wait_until

from rmq import Admin, Message, Producer
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode, ResponseCode
from rmq.demo.ports import free_port
from rmq.demo.traffic import TOPIC, Traffic
from rmq.errors import ConfigError
from rmq.format.remoting import Command
from rmq.system.child import Child
from rmq.takeover.old_master import OldMaster, log_range

RMQ = [sys.executable, "-m", "rmq"]
SMALL = ("--set", f"mappedFileSizeCommitLog={1 << 20}", "--set", "maxMessageSize=262144",
         "--set", "waitTimeMillsInSendQueue=60000")  # fmt: skip


class Machine:
    """A name server, and the old master at a port that both masters have in turn."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.folder, self.new = folder, folder / "new"
        self.namesrv, self.address = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port(2, 1)}"
        self.names = self._child("namesrv", "namesrv", "--port", self.namesrv[10:])
        self.old = self._child(
            "old", "broker", "--store", str(folder / "old"), "--port", self.address[10:],
            "-n", self.namesrv, "--set", f"haListenPort={int(self.address[10:]) + 1}", *SMALL,
            *settings,
        )  # fmt: skip
        for child in (self.names, self.old):
            child.start()
            child.wait_ready(HANG_S)
        self.takeover: subprocess.Popen[str] | None = None

    def _child(self, name: str, *words: str) -> Child:
        return Child(name, [*RMQ, *words], self.folder)

    def take_over(self, *words: str) -> subprocess.Popen[str]:
        self._end_takeover()
        self.takeover = subprocess.Popen(
            [*RMQ, "takeover", "--from", self.address, "--store", str(self.new), *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        return self.takeover

    def said(self, pattern: str) -> str:
        """What the takeover says up to a line like this."""
        assert self.takeover is not None
        assert self.takeover.stdout is not None
        text = ""
        for line in self.takeover.stdout:
            text += line
            if re.search(pattern, line):
                return text
        raise AssertionError(f"it ended without {pattern!r}:\n{text}")

    def slave(self) -> str:
        """The address of the takeover's slave, once it runs."""
        found = re.search(r"by a slave at (\S+)", self.said("by a slave at"))
        assert found is not None
        return found[1]

    def _end_takeover(self) -> None:
        if self.takeover is not None:
            self.takeover.kill()
            self.takeover.communicate()

    def end(self) -> None:
        self._end_takeover()
        for child in (self.old, self.names):
            child.stop()


@pytest.fixture(scope="module", autouse=True)
def _forked() -> Iterator[None]:
    """The servers before and after a takeover are forks. The takeover starts as its users do it."""
    with forked_children():
        yield


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    try:
        yield machine
    finally:
        machine.end()


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory, _forked: None) -> Iterator[Machine]:
    """For takeovers that come to nothing: the old master goes on after each of them."""
    settings = ("--set", "mappedFileSizeConsumeQueue=2000", "--set", "fileReservedTime=50")
    machine = Machine(tmp_path_factory.mktemp("lasting"), *settings)
    try:
        yield machine
    finally:
        machine.end()


def test_nothing_is_lost_while_clients_work(machine: Machine) -> None:
    with Admin(namesrv_addr=machine.namesrv, mq_client_api_timeout=60_000) as admin:
        make_topic(admin, TOPIC, 4)
        make_topic(admin, "later", 1)
    # Due shortly after each other around the switch, and up to minutes later: whenever the switch
    # comes on a busy machine, some are due soon after it.
    now_ms = int(time.time() * 1000)
    due_ms = {b"timed%d" % n: now_ms + 500 + int(300 * 1.25**n) for n in range(30)}
    delayed = {b"delayed%d" % n for n in range(10)}
    with Producer("p", namesrv_addr=machine.namesrv, send_msg_timeout=60_000) as producer:
        for body, due in due_ms.items():
            producer.send(Message("later", body, properties={"TIMER_DELIVER_MS": str(due)}))
        for body in delayed:
            producer.send(Message("later", body, properties={"DELAY": "2"}))
    traffic = Traffic(machine.namesrv)
    traffic.start()
    try:
        wait_until(lambda: traffic.received > 200)
        machine.take_over("--yes", "--stop-command", f"kill {machine.old.pid}")
        text = machine.said(" is ready ")
        assert f"at {machine.address}" in text
        sent, ready_ms = traffic.sent, time.time() * 1000
        wait_until(lambda: traffic.received > sent + 100)
        traffic.stop_sending()
        wait_until(lambda: traffic.on_the_way() == 0)
        assert traffic.twice <= traffic.sent / 10  # those not committed yet
    finally:
        traffic.close()
    with Cluster(machine.namesrv) as cluster:
        assert [entry.addresses for entry in cluster.brokers()] == [{0: machine.address}]
    late = [body for body, due in due_ms.items() if due > ready_ms][:2]
    assert late
    early = {body for body, due in due_ms.items() if due <= ready_ms}
    wait_until(lambda: {*delayed, *early, *late} <= set(bodies(machine, "later")))
    # Messages that were delivered just before the old master's end may come once more.
    counts = Counter(bodies(machine, "later"))
    assert all(counts[body] == 1 for body in late)
    assert max(counts.values()) <= 2
    # The new master's log begins with the old master's log.
    there, here = (log_of(machine.folder / name) for name in ("old", "new"))
    assert len(there) > 1000
    assert here.startswith(there)


def test_the_file_of_settings_starts_it_again(machine: Machine) -> None:
    """The command that a takeover prints starts the new master again, with the same settings."""
    process = machine.take_over(
        "--yes", "--stop-command", f"kill {machine.old.pid}", "--bind", "127.0.0.1", "--insecure",
        "--set", "rmqReplicaAddresses=127.0.0.9",
    )  # fmt: skip
    said = re.search(r"rmq (broker -c .+)", machine.said(" is ready "))
    process.terminate()
    assert process.wait(HANG_S) == 0
    assert said is not None
    words = shlex.split(said[1])  # the command that it prints has the consent that was given
    assert words[2:] == [str(machine.folder / "new" / "takeover.conf"), "--insecure"]
    again = Child("again", [*RMQ, *words], machine.folder)
    again.start()
    try:
        again.wait_ready(HANG_S)
        settings = OldMaster(machine.address).settings
        assert (settings["brokerName"], settings["brokerId"]) == ("broker-a", "0")
        assert settings["mappedFileSizeCommitLog"] == str(1 << 20)
        assert settings["rmqReplicaAddresses"] == "127.0.0.9"
    finally:
        again.stop()


@pytest.mark.parametrize("way", ["no", "SIGINT", "SIGTERM", "command"])
def test_the_old_master_goes_on_when_it_comes_to_nothing(lasting: Machine, way: str) -> None:
    """If a takeover is declined or interrupted, or its stop command fails, the old master takes
    sends again."""
    lasting.new = lasting.folder / way
    if way == "command":
        process = lasting.take_over("--yes", "--stop-command", "exit 3")
    else:
        process = lasting.take_over()
    assert process.stdin is not None
    if way == "no":
        process.stdin.write("n\n")
        process.stdin.flush()
    elif way != "command":
        process.stdin.write("y\n")
        process.stdin.flush()
        lasting.said("stop the old master now")
        assert send_code(lasting.address) == ResponseCode.SYSTEM_ERROR
        process.send_signal(getattr(signal, way))
    text, _ = process.communicate(timeout=HANG_S)
    assert process.returncode != 0
    if way == "command":
        assert "ended with code 3" in text
    assert send_code(lasting.address) == ResponseCode.SUCCESS
    assert not (lasting.new / "takeover.conf").exists()


def test_the_copy_has_files_as_the_old_master_has_and_keeps_them_as_long(lasting: Machine) -> None:
    """The copy has the old master's file sizes and retention. Queue files of another length would
    all have to be made again while no master serves."""
    assert send_code(lasting.address) == ResponseCode.SUCCESS
    lasting.new = lasting.folder / "alike"
    lasting.take_over("--set", "fileReservedTime=1", "--set", "cleanFileForciblyEnable=true")
    ours, theirs = (OldMaster(address).settings for address in (lasting.slave(), lasting.address))
    for key in ("mappedFileSizeConsumeQueue", "fileReservedTime", "deleteWhen"):
        assert ours[key] == theirs[key]
    assert ours["cleanFileForciblyEnable"] == "false"
    queues = lasting.new / "consumequeue"
    wait_until(lambda: {each.stat().st_size for each in queues.glob("*/*/*")} == {2000})


def test_a_copy_that_has_lost_its_beginning_is_refused(machine: Machine) -> None:
    """The beginning of the copy's log is deleted here by a request, as an operator may send it. A
    slave with other settings that ran on this store before may have deleted it, too."""
    hour = (time.localtime().tm_hour + 12) % 24
    settings = f"fileReservedTime=0\ndeleteWhen={hour}\ndiskMaxUsedSpaceRatio=100\n"
    with Connection(machine.address) as connection:  # the old master itself deletes nothing
        connection.call(
            RequestCode.UPDATE_BROKER_CONFIG,
            body=f"{settings}cleanFileForciblyEnable=false\n".encode(),
        )
    body = os.urandom(200_000)
    for _ in range(12):  # small log files are used up faster than a busy machine makes new ones
        wait_until(lambda: send_code(machine.address, body) == ResponseCode.SUCCESS)
    process = machine.take_over()
    slave = machine.slave()
    wait_until(lambda: log_range(slave)[1] == log_range(machine.address)[1])
    with Connection(slave) as connection:
        connection.call(RequestCode.DELETE_EXPIRED_COMMITLOG)
    wait_until(lambda: log_range(slave)[0] > 0)
    assert log_range(machine.address)[0] == 0
    text, _ = process.communicate("y\n", timeout=HANG_S)
    assert process.returncode == 1
    assert "but the old master's log at 0: the part in between was deleted from the copy" in text
    assert send_code(machine.address) == ResponseCode.SUCCESS


def test_settings_that_no_broker_of_ours_has_are_found_while_the_old_master_serves(
    tmp_path: Path,
) -> None:
    theirs = b"brokerName=b\nnamesrvAddr=127.0.0.1:9\ntransactionCheckMax=0\n"

    def script(command: Command) -> list[Command]:
        is_config = command.code == RequestCode.GET_BROKER_CONFIG
        return [command.reply(body=theirs if is_config else b'{"table":{}}')]

    with ScriptedBroker(script) as old:
        done = run_rmq("takeover", "--from", old.address, "--store", tmp_path / "new", "--yes")
        asked = {command.code for command in old.commands}
    assert done.returncode == 2
    assert "transactionCheckMax=0" in done.stderr
    assert asked == {RequestCode.GET_BROKER_CONFIG, RequestCode.GET_BROKER_RUNTIME_INFO}
    assert not (tmp_path / "new").exists()


def test_what_cannot_be_taken_over_is_refused_and_stays_as_it_was(lasting: Machine) -> None:
    for key, text in (
        ("brokerRole=SLAVE", "give the address of its master"),
        ("aclEnable=true", "accounts are not taken over"),
    ):
        old = OldMaster(lasting.address)
        name, _, value = key.partition("=")
        old.settings[name] = value
        with pytest.raises(ConfigError, match=text):
            old.check()
    old = OldMaster(lasting.address)
    assert old.check() == []
    old.settings["brokerRole"] = "SYNC_MASTER"
    assert "starts as ASYNC_MASTER" in " ".join(old.check())
    store = lasting.folder / "old"  # a master's store
    for words, text in (
        (("--from", lasting.address, "--store", str(store)), "the store of a broker, not a copy"),
        (("--from", lasting.namesrv), "is not a broker"),
        (("--from", lasting.address, "--set", "brokerRole=SLAVE"), "is set by the takeover itself"),
        (("--from", lasting.address, "--port", lasting.namesrv[10:]), "is in use here"),
    ):
        run = run_rmq("takeover", "--yes", "--store", lasting.folder / "new", *words)
        assert run.returncode in (1, 2)
        assert text in run.stderr
        assert "Traceback" not in run.stderr
    assert send_code(lasting.address) == ResponseCode.SUCCESS


def log_of(store: Path) -> bytes:
    files = sorted((store / "commitlog").iterdir())
    return b"".join(path.read_bytes() for path in files).rstrip(b"\0")


def bodies(machine: Machine, topic: str) -> list[bytes]:
    """Bodies of all messages in the topic."""
    done = rmq("consume", topic, "-n", machine.namesrv, "--json")
    assert done.returncode == 0, done.stderr
    return [msgspec.json.decode(line)["body"].encode() for line in done.stdout.splitlines()]


def send_code(address: str, body: bytes = b"x") -> int:
    fields = {
        "a": "p", "b": "t", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": int(time.time() * 1000),
        "h": 0, "i": "", "j": 0, "k": False,
    }  # fmt: skip
    with Connection(address) as connection:
        return connection.ask(RequestCode.SEND_MESSAGE_V2, fields, body).code
