"""`rmq standalone` as a process: it starts, refuses a second one, stops, and what it keeps.

Times are asserted with room for busy machines; the tight numbers are in `make bench`. Cannot prove:
power cuts (tests/fault) and official clients (tests/compat).
"""

import contextlib
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import command_line
from support.broker_process import broker_process, command, start_broker
from support.sanitized import SLOWNESS
from support.waiting import HANG_S

from rmq.base.build import build_text


def rmq(*arguments: str, namesrv: str, input: str = "") -> subprocess.CompletedProcess[str]:
    return command_line.rmq(*arguments, "-n", namesrv, text=input)


def bodies(namesrv: str, topic: str, *options: str) -> list[str]:
    done = rmq("consume", topic, "--json", *options, namesrv=namesrv)
    assert done.returncode == 0, done.stderr
    return sorted(json.loads(line)["body"] for line in done.stdout.splitlines())


def test_ready_line_names_addresses_and_what_to_try(tmp_path: Path) -> None:
    with broker_process(tmp_path, is_fork=False) as broker:
        assert "Try: rmq send greetings hello" in broker.ready_line
        assert f"-n {broker.namesrv}" in broker.ready_line
        assert str(broker.store) in broker.ready_line
        assert "(ASYNC_FLUSH)" in broker.ready_line
        ready = [broker.ready_seconds]
    while ready[-1] >= 3 * SLOWNESS and len(ready) < 4:  # a disk may take 200 ms for each sync
        with broker_process(tmp_path / str(len(ready)), is_fork=False) as broker:
            ready.append(broker.ready_seconds)
    assert min(ready) < 3 * SLOWNESS, ready


@pytest.mark.parametrize("flush", ["async", "sync"])
def test_messages_survive_a_clean_stop(tmp_path: Path, flush: str) -> None:
    with broker_process(tmp_path, ["--flush", flush], is_fork=False) as broker:
        done = rmq("send", "kept", namesrv=broker.namesrv, input="one\ntwo\nthree\n")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("SEND_OK") == 3
        assert bodies(broker.namesrv, "kept") == ["one", "three", "two"]
        assert broker.stop() == 0
        assert broker.stop_seconds < 2 * SLOWNESS
        assert not (broker.store / "abort").exists()
    with broker_process(tmp_path, ["--flush", flush]) as broker:
        assert bodies(broker.namesrv, "kept") == ["one", "three", "two"]


def test_messages_survive_a_kill(tmp_path: Path) -> None:
    broker = start_broker(tmp_path)
    assert rmq("send", "kept", "one", "two", namesrv=broker.namesrv).returncode == 0
    broker.stop(signal.SIGKILL)
    assert (broker.store / "abort").exists()
    with broker_process(tmp_path) as broker:
        assert bodies(broker.namesrv, "kept") == ["one", "two"]


def disk_bytes(store: Path) -> int:
    total = 0
    for path in store.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a temporary file
            total += path.stat().st_blocks * 512 if path.is_file() else 0
    return total


def test_a_store_that_nobody_uses_takes_little_of_the_disk(tmp_path: Path) -> None:
    most = 32 << 20
    broker = start_broker(tmp_path)
    (log,) = (broker.store / "commitlog").iterdir()
    assert log.stat().st_size == 1 << 30, "the size that RocketMQ's own brokers expect"
    assert disk_bytes(broker.store) <= most
    broker.stop(signal.SIGKILL)
    for last in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
        with broker_process(tmp_path) as broker:
            assert disk_bytes(broker.store) <= most
            broker.stop(last)
            assert disk_bytes(broker.store) <= most


def test_second_start_on_a_store_is_told_who_holds_it(tmp_path: Path) -> None:
    with broker_process(tmp_path) as broker:
        second = subprocess.run(
            command(broker.store), capture_output=True, text=True, timeout=HANG_S
        )
        assert second.returncode == 4
        assert f"is held by process {broker.pid} (" in second.stderr
        assert f"kill {broker.pid}" in second.stderr
        assert rmq("send", "still", "serving", namesrv=broker.namesrv).returncode == 0


def test_taken_port_is_an_error_that_names_it(tmp_path: Path) -> None:
    with broker_process(tmp_path) as broker:
        port = broker.address.rpartition(":")[2]
        second = subprocess.run(
            [*command(tmp_path / "other"), "--port", port],
            capture_output=True, text=True, timeout=HANG_S,
        )  # fmt: skip
        assert second.returncode != 0
        assert port in second.stderr
        assert "Traceback" not in second.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_stop_it_cleanly_in_less_than_two_seconds(tmp_path: Path, number: int) -> None:
    with broker_process(tmp_path) as broker:
        assert broker.stop(number) == 0
        assert broker.stop_seconds < 2 * SLOWNESS
        assert "Traceback" not in broker.log()


def test_topic_commands_go_round(tmp_path: Path) -> None:
    with broker_process(tmp_path) as broker:
        at = broker.namesrv
        assert rmq("topic", "create", "orders", "--queues", "3", namesrv=at).returncode == 0
        listed = json.loads(rmq("topic", "list", "--json", namesrv=at).stdout)
        assert [(row["topic"], row["read_queues"]) for row in listed] == [("orders", 3)]
        rmq("send", "orders", "x", "--tag", "paid", "--keys", "7", "-p", "a=b", namesrv=at)
        rmq("send", "orders", "y", "--tag", "open", namesrv=at)
        assert bodies(at, "orders", "--tag", "paid") == ["x"]
        assert bodies(at, "orders", "--from", "last") == []
        described = json.loads(rmq("topic", "describe", "orders", "--json", namesrv=at).stdout)
        assert sum(row["messages"] for row in described) == 2
        assert rmq("topic", "delete", "orders", "--yes", namesrv=at).returncode == 0
        gone = rmq("topic", "describe", "orders", namesrv=at)
        assert gone.returncode == 1
        assert "code 17" in gone.stderr
        cluster = json.loads(rmq("cluster", "list", "--json", namesrv=at).stdout)
        assert [row["broker"] for row in cluster] == ["broker-a"]
        assert [row["version"] for row in cluster] == [f"rmq {build_text()}"]
        broker.logged(rf"rmq {re.escape(build_text())} starts as process {broker.pid}: broker bro")


def test_follow_prints_what_arrives(tmp_path: Path) -> None:
    with broker_process(tmp_path) as broker:
        rmq("topic", "create", "live", namesrv=broker.namesrv)
        with subprocess.Popen(
            [sys.executable, "-m", "rmq", "consume", "live", "--follow", "--from", "first",
             "--count", "2", "--body", "-n", broker.namesrv],
            stdout=subprocess.PIPE, text=True,
        ) as follower:  # fmt: skip
            assert rmq("send", "live", "now", "then", namesrv=broker.namesrv).returncode == 0
            assert follower.stdout is not None
            assert sorted([follower.stdout.readline(), follower.stdout.readline()]) == [
                "now\n", "then\n",
            ]  # fmt: skip
            assert follower.wait(HANG_S) == 0
