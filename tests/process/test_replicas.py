"""A master and its slave as processes of their own, killed at any moment.

Goal: with SYNC_MASTER no message that was answered SEND_OK is lost with the master's machine, and a
slave that was killed catches up by itself. Method: senders that never stop, SIGKILL, and both logs
compared byte by byte. Not shown here: power cuts of the slave.
"""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.broker_process import BrokerProcess, broker_process
from support.fed_slaves import log_of
from support.rmq_process import start_rmq
from support.waiting import wait_until

from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RemoteError, RmqError
from rmq.format import fastjson
from rmq.format.message import decode_message_id, decode_messages

OK, NO_SLAVE, LATE_SLAVE = (
    ResponseCode.SUCCESS,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)
SMALL = ("--set", f"mappedFileSizeCommitLog={4 << 20}", "--set", "maxMessageSize=1048576",
         "--set", "osPageCacheBusyTimeOutMills=60000")  # fmt: skip
FIELDS = {"a": "P", "b": "t", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "i": "",
          "j": 0, "k": False}  # fmt: skip
PAUSE_S = 0.001  # between sends: some are under way at any moment all the same
MASTER = (*SMALL, "--set", "brokerRole=SYNC_MASTER", "--set", "slaveTimeout=60000")


def slave_options(master: BrokerProcess, *more: str) -> list[str]:
    return [*SMALL, "--set", "brokerRole=SLAVE", "--set", "brokerId=1",
            "--set", f"rmqMasterAddress={master.address}", *more]  # fmt: skip


class Senders:
    """Threads that send until the broker is gone. `answers` counts the sends by response code;
    `acked` is the greatest log offset that was acknowledged."""

    def __init__(self, address: str, count: int = 3) -> None:
        self.address = address
        self.answers: Counter[int] = Counter()
        self.acked = -1
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(n,)) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def _send(self, number: int) -> None:
        fields = {**FIELDS, "e": number}
        try:
            with Connection(self.address) as connection:
                while not self._stop.wait(PAUSE_S):
                    self._one(connection, fields)
        except RmqError:
            pass  # the broker was killed

    def _one(self, connection: Connection, fields: dict[str, object]) -> None:
        code: int = OK
        end = -1
        try:
            reply = connection.call(RequestCode.SEND_MESSAGE_V2, fields, bytes(3000), timeout=120)
            end = decode_message_id(reply.fields["msgId"])[1]
        except RemoteError as error:
            code = error.code
        with self._lock:
            self.answers[code] += 1
            self.acked = max(self.acked, end)

    def until(self, code: int, count: int = 50) -> None:
        """Waits until so many more sends are answered with this code."""
        goal = self.answers[code] + count
        wait_until(lambda: self.answers[code] >= goal)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@contextmanager
def sending(address: str) -> Iterator[Senders]:
    senders = Senders(address)
    try:
        yield senders
    finally:
        senders.stop()


@contextmanager
def replica_of(master: str, store: Path) -> Iterator[str]:
    """Runs `rmq broker --replica-of`; yields the slave's address once it is ready."""
    words = ["broker", "--replica-of", master, "--store", str(store), "--port", "0", *SMALL]
    store.mkdir(parents=True, exist_ok=True)
    with (store.parent / "slave.txt").open("a") as log:
        process = start_rmq(words, stderr=log)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"is ready in .* at (\S+), store .*, slave 1 of (\S+)\. ", line)
        assert found is not None and found[2] == master, line
        yield found[1]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def slave_count(master: BrokerProcess) -> int:
    with Connection(master.address) as connection:
        reply = connection.call(RequestCode.GET_BROKER_HA_STATUS)
    return len(fastjson.loads_object(reply.body)["haConnectionInfo"])


def log_end(store: Path) -> int:
    return len(log_of(store, 1 << 40).rstrip(b"\0"))


@pytest.mark.parametrize("round_", range(3))
def test_what_was_answered_is_at_the_slave_when_the_master_is_killed(
    tmp_path: Path, round_: int
) -> None:
    with broker_process(tmp_path / "m", MASTER) as master:
        with broker_process(tmp_path / "s", slave_options(master)) as slave:
            wait_until(lambda: slave_count(master) == 1)
            with sending(master.address) as senders:
                senders.until(OK, 300 + 700 * round_)
                master.process.kill()
                master.process.wait()
            assert slave.stop() == 0
        assert set(senders.answers) == {OK}
        end = log_end(slave.store)
        assert end > senders.acked > 0
        assert log_of(slave.store, end) == log_of(master.store, end)


def test_a_slave_that_was_killed_comes_back_and_catches_up(tmp_path: Path) -> None:
    with (
        broker_process(tmp_path / "m", MASTER) as master,
        sending(master.address) as senders,
    ):
        senders.until(NO_SLAVE)
        for _ in range(3):
            with broker_process(tmp_path / "s", slave_options(master)) as slave:
                senders.until(OK, 300)
                slave.process.kill()
                slave.process.wait()
            senders.until(NO_SLAVE)
        with broker_process(tmp_path / "s", slave_options(master)) as slave:
            senders.until(OK, 300)
            senders.stop()
            assert slave.stop() == 0
        assert set(senders.answers) == {OK, NO_SLAVE}
        end = log_end(slave.store)
        assert end > senders.acked
        assert master.stop() == 0
        assert log_of(slave.store, end) == log_of(master.store, end)


def test_an_empty_log_begins_where_the_masters_does_by_now(tmp_path: Path) -> None:
    """A slave was stopped before it got its first byte, and the master has deleted a segment since.
    The slave's log must begin where the master's begins now."""
    with broker_process(tmp_path / "m", MASTER) as master:
        with broker_process(tmp_path / "s", slave_options(master)) as slave:
            wait_until(lambda: slave_count(master) == 1)
            assert slave.stop() == 0
        with sending(master.address) as senders:
            senders.until(NO_SLAVE, 2000)  # more than a segment
        assert master.stop() == 0
        (master.store / "commitlog" / f"{0:020}").unlink()
    with broker_process(tmp_path / "m", MASTER) as master:
        with broker_process(tmp_path / "s", slave_options(master)) as slave:
            slave.logged(f"it begins at {4 << 20} from now on")
            wait_until(lambda: slave_count(master) == 1)
            with sending(master.address) as senders:
                senders.until(OK, 100)
            assert slave.stop() == 0
        assert master.stop() == 0
        end = log_end(slave.store)
        assert end > 0 and log_of(slave.store, end) == log_of(master.store, end)
        assert not (slave.store / "commitlog" / f"{0:020}").exists()


def test_one_option_makes_a_slave_and_it_serves_while_its_master_is_gone(tmp_path: Path) -> None:
    named = ("--set", "brokerName=shop", "--set", "brokerClusterName=mall")
    slave = tmp_path / "s" / "store"
    with broker_process(tmp_path / "m", [*MASTER, *named]) as master:
        with replica_of(master.address, slave), Connection(master.address) as connection:
            wait_until(lambda: slave_count(master) == 1)
            create = ["rmq", "topic", "create", "t", "--queues", "1", "-n", master.namesrv]
            subprocess.run([sys.executable, "-m", *create], check=True)
            for number in range(10):
                connection.call(RequestCode.SEND_MESSAGE_V2, FIELDS, b"%d" % number)
        master.process.kill()
        master.process.wait()
    # The master is gone, and the slave starts again: its store has what it got from the master.
    with replica_of(master.address, slave) as address:
        assert bodies(address) == [b"%d" % n for n in range(10)]
        with Connection(address) as connection:
            config = connection.call(RequestCode.GET_BROKER_CONFIG).body.decode()
        assert "brokerName=shop" in config and "brokerClusterName=mall" in config
    # An operator makes it the master.
    with broker_process(tmp_path / "s", [*SMALL, *named]) as promoted:
        with Connection(promoted.address) as connection:
            connection.call(RequestCode.SEND_MESSAGE_V2, FIELDS, b"10")
        assert bodies(promoted.address) == [b"%d" % n for n in range(11)]


def bodies(address: str) -> list[bytes]:
    """Bodies of the messages in queue 0 of topic t."""
    pull = {"consumerGroup": "CID_RMQ_SYS_TRANS", "topic": "t", "queueId": 0, "queueOffset": 0,
            "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0,
            "subscription": "*", "subVersion": 0}  # fmt: skip
    with Connection(address) as connection:
        found = connection.call(RequestCode.PULL_MESSAGE, pull).body
    return [each.body for each in decode_messages(found)]


class Relay:
    """A relay between a slave and its master's HA port. `passed` is all that went through it."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.passed = bytearray()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        while True:
            try:
                taken = self._listening.accept()[0]
            except OSError:
                return
            try:
                made = socket.create_connection(self._target)
            except OSError:  # the target has ended
                taken.close()
                continue
            for one, other in ((taken, made), (made, taken)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := one.recv(1 << 16):
                self.passed += piece
                other.sendall(piece)
        for each in (one, other):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        # shutdown, not close alone: that would leave the thread inside accept() holding the port
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._accepting.join()


@pytest.mark.parametrize("mode", ["disabled", "enforcing"])
def test_who_listens_between_replicas_reads_nothing_by_tls(tmp_path: Path, mode: str) -> None:
    secret = b"nobody shall read this " * 20
    tls = ("--set", f"rmqReplicaTls={mode}")
    with broker_process(tmp_path / "master", [*MASTER, *tls]) as master:
        found = master.logged(r"slaves are served at (\S+:\d+)")
        with contextlib.closing(Relay(found[1])) as relay:
            options = slave_options(master, "--set", f"haMasterAddress={relay.address}", *tls)
            with (
                broker_process(tmp_path / "slave", options) as slave,
                Connection(master.address) as connection,
            ):
                slave.logged("the log comes from the master")

                def sent() -> bool:
                    ask = (RequestCode.SEND_MESSAGE_V2, FIELDS, secret)
                    return connection.ask(*ask).code == OK

                wait_until(sent)
                assert slave.stop() == 0
            assert len(relay.passed) > len(secret)
            assert (secret in relay.passed) == (mode == "disabled")


def test_a_slave_that_speaks_no_tls_is_told_so_in_the_log(tmp_path: Path) -> None:
    with (
        broker_process(tmp_path / "master", [*MASTER, "--set", "rmqReplicaTls=enforcing"]) as one,
        broker_process(tmp_path / "slave", slave_options(one)) as slave,
    ):
        one.logged("it speaks no TLS, and rmqReplicaTls=enforcing asks for it")
        slave.logged("the log does not come")
