"""`rmq bench omb` runs workload files of the OpenMessaging benchmark against real brokers.

Goal: every acknowledged message is counted, comes, and is timed from end to end; rows, file and
data say the same. However a run ends, its topics and groups are deleted and its result stays.
Method: short runs with two shards, a backlog, a search for the highest pace, signed messages,
signals, readers that leave, brokers that are killed, stand still, or take no sends. Cannot show:
that the figures are good.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import pytest
from support.accounts import account
from support.broker_process import BrokerProcess, broker_process, with_files
from support.forked_commands import run_rmq
from support.replica_set import Server
from support.stopping import stand_still
from support.tree_process import environment
from support.waiting import HANG_S, wait_until

from rmq import Admin
from rmq.cli.store_places import progress_bar
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.demo.ports import free_port
from rmq.format.signature import Credentials
from rmq.load.workload.measurements import Measured
from rmq.load.workload.run import Plan, WorkloadRun
from rmq.load.workload.settings import read_settings

pytest.importorskip("yaml")

SMALL = ("--set", "mappedFileSizeCommitLog=16777216")
ADMIN = Credentials("admin", "admin-secret")
ARMED = ("--set", "authenticationEnabled=true", "--set", "authorizationEnabled=true", "--set",
         'initAuthenticationUser={"username":"admin","password":"admin-secret"}')  # fmt: skip
WORKLOAD = {
    "name": "a small one", "topics": 3, "partitionsPerTopic": 4, "messageSize": 200,
    "subscriptionsPerTopic": 2, "consumerPerSubscription": 2, "producersPerTopic": 2,
    "producerRate": 2000, "consumerBacklogSizeGB": 0, "testDurationMinutes": 0.04,
    "warmupDurationMinutes": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory):
    with broker_process(tmp_path_factory.mktemp("omb"), (*SMALL, "--shards", "2")) as process:
        yield process


def workload(folder: Path, **changes: object) -> Path:
    """Writes a workload file. JSON is YAML, too."""
    path = folder / "small.yaml"
    path.write_text(json.dumps(WORKLOAD | changes))
    return path


def words(namesrv: str, *given: object) -> list[str]:
    return ["bench", "omb", "-n", namesrv, *map(str, given)]


def run(namesrv: str, folder: Path, *given: object) -> subprocess.CompletedProcess[str]:
    return run_rmq(*words(namesrv, *given), cwd=folder)


def start(
    namesrv: str, folder: Path, *given: object, before: Sequence[str] = (),
    stderr: int = subprocess.PIPE,
) -> subprocess.Popen[str]:  # fmt: skip
    """before: words in front of the command."""
    return subprocess.Popen(
        [*before, sys.executable, "-m", "rmq", *words(namesrv, *given)], cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE, stderr=stderr, text=True,
    )  # fmt: skip


def read_until(stream: IO[str] | None, pattern: str) -> re.Match[str]:
    """Reads until a line matches. Fails with all lines if the stream ends before."""
    assert stream is not None
    lines = ""
    for line in stream:
        lines += line
        if found := re.search(pattern, line):
            return found
    raise AssertionError(f"no {pattern!r} in:\n{lines}")


def result_of(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The only result file, and what is in it."""
    [place] = folder.glob("small-rmq-*.json")
    result: dict[str, Any] = json.loads(place.read_text())
    return place, result


def left(broker: BrokerProcess) -> list[str]:
    """Topics and groups that runs have left behind."""
    with Admin(namesrv_addr=broker.namesrv) as admin:
        return [name for name in (*admin.topics(), *admin.groups()) if "omb-" in name]


def has_anything(address: str) -> bool:
    """Whether a broker has topics or groups of runs."""
    codes = (RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    with Connection(address) as connection:
        return any(b"omb-" in connection.call(code).body for code in codes)


class TwoBrokers:
    """Two brokers with different names at one name server."""

    def __init__(self, folder: Path, *of_second: str) -> None:
        """of_second: settings of the second broker."""
        folder.mkdir()
        self.name_server = Server(folder / "n.txt", "namesrv")
        self.namesrv = self.name_server.address
        self.first = self._broker(folder, "one")
        self.second = self._broker(folder, "two", *of_second)

    def _broker(self, folder: Path, name: str, *settings: str) -> Server:
        of_all = ("mappedFileSizeCommitLog=16777216", f"brokerName={name}")
        pairs = [f"--set={pair}" for pair in (*of_all, *settings)]
        store = str(folder / name)
        return Server(folder / f"{name}.txt", "broker", "-n", self.namesrv, "--store", store,
                      *pairs)  # fmt: skip

    def __enter__(self) -> TwoBrokers:
        return self

    def __exit__(self, *_: object) -> None:
        for server in (self.second, self.first, self.name_server):
            if server.process.poll() is None:
                server.kill()


def totals(text: str) -> tuple[int, int]:
    """How many messages were published and consumed, as a run says at its end."""
    found = re.search(r"^messages +([\d,]+) published, ([\d,]+) consumed", text, re.MULTILINE)
    assert found is not None, text
    published, consumed = (int(number.replace(",", "")) for number in found.groups())
    return published, consumed


def test_all_that_is_published_comes_and_the_topics_go(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    path = workload(tmp_path, testDurationMinutes=0.02)
    done = run(broker.namesrv, tmp_path, path, "--interval", 0.5, "--pid", broker.pid)
    assert done.returncode == 0, done.stdout + done.stderr
    place, result = result_of(tmp_path)
    periods = len(result["publishRate"])
    assert periods >= 1
    assert all(len(value) == periods for value in result.values() if isinstance(value, list))
    published, consumed = totals(done.stdout)
    assert published > 0 and consumed == 2 * published  # two subscriptions
    assert max(result["publishRate"]) > 0 and max(result["consumeRate"]) > 0
    assert not any(result["publishErrorRate"])
    assert 0 < result["aggregatedEndToEndLatency50pct"] <= result["aggregatedEndToEndLatencyMax"]
    assert 0 < result["aggregatedPublishLatency50pct"] <= result["aggregatedPublishLatencyMax"]
    assert "3 topics of 4 queues, messages of 200 bytes, 2,000/s" in done.stdout
    assert done.stdout.count(" s  ") == periods
    assert "CPU-s per million messages published" in done.stdout
    assert re.search(
        r"^publish .* ms \(p50/p99/p99.9/max\) from when it was due", done.stdout, re.M
    )
    assert f"result in {place.name}" in done.stdout
    assert left(broker) == []


def test_a_backlog_is_built_drained_and_then_measured(tmp_path: Path) -> None:
    # 16,106 messages of 200 bytes, 8,053 for each subscription, take 4 s to send. The broker closes
    # connections that ask for nothing for 2 s.
    path = workload(tmp_path, consumerBacklogSizeGB=0.003, testDurationMinutes=0.01)
    idle = ("--set", "serverChannelMaxIdleTimeSeconds=2")
    with broker_process(tmp_path / "store", (*SMALL, *idle)) as broker:
        done = run(broker.namesrv, tmp_path, path, "--interval", 0.2, "--out", "-")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["aggregatedEndToEndLatencyMax"] > 3900
    for what in ("consumers stop until 3,221,225 bytes", "drain what is behind", "drained"):
        assert what in done.stderr
    published, consumed = totals(done.stderr)
    assert consumed == 2 * published > 16_106
    assert not list(tmp_path.glob("*.json"))  # no file was asked for; the result was printed


@pytest.mark.parametrize(
    ("number", "ignored", "rate"),
    [(signal.SIGINT, "HUP", 0), (signal.SIGTERM, "INT", 2000), (signal.SIGHUP, "INT", 2000)],
    ids=["Ctrl-C under nohup, without a pace", "kill in the background", "closed terminal"],
)
def test_an_interrupted_run_has_a_result_and_is_the_last(
    broker: BrokerProcess, tmp_path: Path, number: signal.Signals, ignored: str, rate: int
) -> None:
    """A signal ends a run with a result, and the next workload of the command does not begin."""
    path = workload(tmp_path, producerRate=rate, testDurationMinutes=0, subscriptionsPerTopic=1)
    shell = ("/bin/sh", "-c", f'trap \'\' {ignored}; exec "$0" "$@"')
    process = start(broker.namesrv, tmp_path, path, path, "--interval", 0.5, before=shell)
    read_until(process.stdout, "2,000/s" if rate else "the rate that holds")
    rows = [wanted(process)]
    while 9_500 < rows[-1] < 10_500:  # the first pace, until another one is tried
        rows.append(wanted(process))
    process.send_signal(number)
    rest, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, rest + errors
    place, result = result_of(tmp_path)
    assert len(result["publishRate"]) >= len(rows)
    assert max(result["publishRate"]) > 0
    assert f"result in {place.name}" in rest
    assert rest.count("result in") == 1
    assert left(broker) == []


def wanted(process: subprocess.Popen[str]) -> int:
    """The rate that the next row says is wanted, in messages per second."""
    return int(read_until(process.stdout, r"^ +\d+ s +([\d,]+) ")[1].replace(",", ""))


def test_the_result_and_no_topics_are_left_when_nobody_reads_any_more(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    """In `rmq bench omb .. 2>&1 | tee log`, Ctrl-C ends tee, too, so that nobody reads the output
    any more. The result is still written, and the topics are deleted."""
    process = start(
        broker.namesrv, tmp_path, workload(tmp_path), "-d", 600, "--interval", 0.2,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    wanted(process)
    assert process.stdout is not None
    process.stdout.close()
    process.send_signal(signal.SIGINT)
    assert process.wait(HANG_S) == 0
    assert "aggregatedPublishLatency99pct" in result_of(tmp_path)[1]
    assert left(broker) == []


def test_the_result_stays_when_what_comes_after_it_is_interrupted(tmp_path: Path) -> None:
    """Further signals may keep a run from deleting its topics. It names these, and the result
    stays."""
    with broker_process(tmp_path / "store", SMALL) as broker:
        process = start(broker.namesrv, tmp_path, workload(tmp_path), "-d", 600, "--interval", 0.2)
        wanted(process)
        stand_still(broker.pid)  # open sends stay open, and no topic is deleted at once
        try:
            process.send_signal(signal.SIGINT)
            read_until(process.stderr, "the end: what is open is waited for")
            process.send_signal(signal.SIGINT)
            read_until(process.stderr, "deleting topics")
            _, result = result_of(tmp_path)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=HANG_S)
        finally:
            broker.process.send_signal(signal.SIGCONT)
    assert process.returncode in (0, 130), errors  # 0: a slow machine, where all is over by then
    assert re.search(r"topics omb-[0-9a-f]+-\.\. .*are left behind", errors), errors
    assert "Traceback" not in errors
    assert len(result["publishRate"]) >= 1 and "aggregatedPublishLatency99pct" in result


def test_a_signal_while_the_result_is_kept_is_known_and_takes_nothing(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    """A signal that comes while the result is written is not forgotten, and the result is kept.
    Without this the next workload of the command would begin."""
    settings, _ = read_settings(workload(tmp_path))
    kept: list[Measured] = []

    def keep(measured: Measured) -> None:
        signal.raise_signal(signal.SIGINT)
        kept.append(measured)

    measured = WorkloadRun(settings, broker.namesrv, Plan(duration_s=0.2)).measure(
        lambda period: None, lambda text: None, progress_bar, keep
    )
    assert kept == [measured] and measured.is_interrupted
    assert left(broker) == []


def test_topics_go_when_their_creation_is_interrupted(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    path = workload(tmp_path, topics=100_000, partitionsPerTopic=1, subscriptionsPerTopic=0)
    process = start(broker.namesrv, tmp_path, path)
    read_until(process.stderr, "creating topics")
    with Admin(namesrv_addr=broker.namesrv) as admin:
        wait_until(lambda: any(name.startswith("omb-") for name in admin.topics()))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, errors
    assert "deleting topics" in errors and "left behind" not in errors
    assert left(broker) == []


def test_signed_messages_are_published_and_not_timed_from_end_to_end(tmp_path: Path) -> None:
    with broker_process(tmp_path / "armed", (*SMALL, *ARMED)) as armed, account(ADMIN):
        path = workload(tmp_path, keyDistributor="KEY_ROUND_ROBIN")
        done = run(armed.namesrv, tmp_path, path, "-d", 1, "--out", "-")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    published, consumed = totals(done.stderr)
    assert consumed == 2 * published > 0
    assert not any(result["publishErrorRate"])
    assert result["aggregatedEndToEndLatencyMax"] == 0


def test_what_is_wrong_is_named(broker: BrokerProcess, tmp_path: Path) -> None:
    path, port = workload(tmp_path), free_port()
    away = run(f"127.0.0.1:{port}", tmp_path, path)
    assert away.returncode == 3 and f"127.0.0.1:{port}" in away.stderr
    assert not re.search("Traceback|left behind|deleting", away.stderr)
    (tmp_path / "bad").mkdir()
    bad = run(broker.namesrv, tmp_path, workload(tmp_path / "bad", topics=0))
    assert bad.returncode == 2 and "small.yaml" in bad.stderr and "$.topics" in bad.stderr
    both = run(broker.namesrv, tmp_path, path, path, "--out", "x.json")
    assert both.returncode == 2 and "--out works with one workload" in both.stderr
    nowhere = run(broker.namesrv, tmp_path, path, "--out", "no/x.json")
    assert nowhere.returncode == 2 and "no: not a writable directory" in nowhere.stderr
    nobody = run(broker.namesrv, tmp_path, path, "--pid", 1 << 22)
    assert nobody.returncode == 2 and "no process 4194304" in nobody.stderr
    assert left(broker) == []


def test_open_files_are_counted_before_anything_is_created(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    path = workload(tmp_path, producersPerTopic=200)
    process = start(broker.namesrv, tmp_path, path, before=with_files(256, 256))
    _, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 2, errors
    # Two shards, each with 200 producers, 2 x 2 consumers and three loops.
    assert "478 open files are needed for 408 connections, and 256 can be open" in errors
    assert not re.search("Traceback|creating|deleting", errors)


def test_a_broker_that_goes_away_ends_the_run_and_what_there_was_is_kept(tmp_path: Path) -> None:
    with broker_process(tmp_path / "store", SMALL) as broker:
        process = start(broker.namesrv, tmp_path, workload(tmp_path), "-d", 600, "--interval", 0.2)
        for _ in range(2):
            wanted(process)
        broker.stop(signal.SIGKILL)
        rest, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 3, rest + errors
    assert f"{broker.address} closed the connections of" in errors and "Traceback" not in errors
    assert re.search(r"topics omb-[0-9a-f]+-\.\. are left behind", errors)
    assert re.search(r"groups bench-omb-[0-9a-f]+-\.\. are left behind", errors)
    place, result = result_of(tmp_path)
    assert len(result["publishRate"]) >= 2
    assert "aggregatedPublishLatency99pct" in result
    assert f"result in {place.name}" in rest


def test_topics_and_groups_go_from_the_broker_that_is_still_there(tmp_path: Path) -> None:
    with TwoBrokers(tmp_path / "servers") as brokers:
        gone = brokers.second
        process = start(brokers.namesrv, tmp_path, workload(tmp_path), "-d", 600,
                        "--interval", 0.2, "--pid", gone.process.pid)  # fmt: skip
        wanted(process)
        assert has_anything(brokers.first.address)
        gone.kill()
        rest, errors = process.communicate(timeout=HANG_S)
        assert not has_anything(brokers.first.address)
        with Connection(brokers.namesrv) as connection:
            topics = connection.call(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).body
    assert process.returncode == 3, rest + errors
    assert b"omb-" not in topics
    for what in ("topics omb", "groups bench-omb"):
        assert re.search(rf"{what}-[0-9a-f]+-\.\. are left behind: {gone.address}: .*", errors)
    # The CPU time of an ended process is known until its parent has waited for it.
    assert re.search(r"^cpu +(not known: a process of --pid has ended|\d)", rest, re.MULTILINE)
    assert result_of(tmp_path)[1]["publishRate"]


def test_a_broker_that_takes_no_sends_is_left_out(tmp_path: Path) -> None:
    with TwoBrokers(tmp_path / "servers", "brokerPermission=4") as brokers:
        done = run(brokers.namesrv, tmp_path, workload(tmp_path), "-d", 0.5, "--out", "-")
        assert done.returncode == 0, done.stderr
        assert not has_anything(brokers.first.address)
        assert not has_anything(brokers.second.address)
    published, consumed = totals(done.stderr)
    assert consumed == 2 * published > 0


def test_groups_are_made_where_brokers_make_none(tmp_path: Path) -> None:
    settings = (*SMALL, "--set", "autoCreateSubscriptionGroup=false")
    with broker_process(tmp_path / "store", settings) as broker:
        done = run(broker.namesrv, tmp_path, workload(tmp_path), "-d", 0.5, "--out", "-")
        assert done.returncode == 0, done.stderr
        assert left(broker) == []
    published, consumed = totals(done.stderr)
    assert consumed == 2 * published > 0
