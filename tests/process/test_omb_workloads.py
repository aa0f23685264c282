"""`rmq bench omb` runs workload files of the OpenMessaging benchmark against real brokers.

Goal: every message that is acknowledged is counted, comes, and is timed from end to end; rows, file
and data say the same; topics and groups go with the run, however it ends. Method: short runs of two
shards, a backlog, a pace that is looked for, signed messages, signals, a broker that is killed.
What this cannot show: that the figures are good.
"""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.accounts import account
from support.broker_process import BrokerProcess, broker_process
from support.tree_process import environment, run_python
from support.waiting import HANG_S, wait_until

from rmq import Admin
from rmq.demo.ports import free_port
from rmq.format.signature import Credentials

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
    """JSON is YAML, too."""
    path = folder / "small.yaml"
    path.write_text(json.dumps(WORKLOAD | changes))
    return path


def words(namesrv: str, *given: object) -> list[str]:
    return ["-m", "rmq", "bench", "omb", "-n", namesrv, *map(str, given)]


def run(namesrv: str, folder: Path, *given: object) -> subprocess.CompletedProcess[str]:
    return run_python(*words(namesrv, *given), cwd=folder)


def start(namesrv: str, folder: Path, *given: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *words(namesrv, *given)], cwd=folder, env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def left(broker: BrokerProcess) -> list[str]:
    """Topics and groups of runs."""
    with Admin(namesrv_addr=broker.namesrv) as admin:
        return [name for name in (*admin.topics(), *admin.groups()) if "omb-" in name]


def totals(text: str) -> tuple[int, int]:
    """Published and consumed, as a run says at its end."""
    found = re.search(r"^messages +([\d,]+) published, ([\d,]+) consumed", text, re.MULTILINE)
    assert found is not None, text
    published, consumed = (int(number.replace(",", "")) for number in found.groups())
    return published, consumed


def test_all_that_is_published_comes_and_the_topics_go(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    done = run(broker.namesrv, tmp_path, workload(tmp_path), "--interval", 1, "--pid", broker.pid)
    assert done.returncode == 0, done.stdout + done.stderr
    [place] = tmp_path.glob("small-rmq-*.json")
    result = json.loads(place.read_text())
    periods = len(result["publishRate"])
    assert periods >= 2
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
    # 16,106 messages of 200 bytes, 8,053 of a subscription: 4 s, which connections that ask for
    # nothing do not last here.
    path = workload(tmp_path, consumerBacklogSizeGB=0.003, testDurationMinutes=0.01)
    idle = ("--set", "serverChannelMaxIdleTimeSeconds=1")
    with broker_process(tmp_path / "store", (*SMALL, *idle)) as broker:
        done = run(broker.namesrv, tmp_path, path, "--interval", 0.2, "--out", "-")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["aggregatedEndToEndLatencyMax"] > 3900
    for what in ("consumers stop until 3,221,225 bytes", "drain what is behind", "drained"):
        assert what in done.stderr
    published, consumed = totals(done.stderr)
    assert consumed == 2 * published > 16_106
    assert not list(tmp_path.glob("*.json"))  # nobody has named one, and it has been printed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_without_a_pace_has_a_result_and_is_the_last(
    broker: BrokerProcess, tmp_path: Path, number: signal.Signals
) -> None:
    path = workload(tmp_path, producerRate=0, testDurationMinutes=0, subscriptionsPerTopic=1)
    process = start(broker.namesrv, tmp_path, path, path, "--interval", 0.5)
    assert process.stdout is not None
    head = [process.stdout.readline() for _ in range(2)]
    wanted: list[str] = []
    while len(set(wanted)) < 2:  # the pace was changed
        wanted.append(process.stdout.readline().split()[2])
    process.send_signal(number)
    rest, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, rest + errors
    assert "the pace that holds" in head[0]
    assert wanted[0] == "10,000"
    [place] = tmp_path.glob("small-rmq-*.json")
    result = json.loads(place.read_text())
    assert len(result["publishRate"]) >= len(wanted)
    assert max(result["publishRate"]) > 0
    assert f"result in {place.name}" in rest
    assert rest.count("result in") == 1
    assert left(broker) == []


def test_topics_go_when_their_creation_is_interrupted(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    process = start(broker.namesrv, tmp_path, workload(tmp_path, topics=2000))
    assert process.stderr is not None
    while "creating topics" not in process.stderr.readline():
        pass
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
    assert "Traceback" not in away.stderr
    (tmp_path / "bad").mkdir()
    bad = run(broker.namesrv, tmp_path, workload(tmp_path / "bad", topics=0))
    assert bad.returncode == 2 and "small.yaml" in bad.stderr and "$.topics" in bad.stderr
    both = run(broker.namesrv, tmp_path, path, path, "--out", "x.json")
    assert both.returncode == 2 and "--out is for one workload" in both.stderr
    nowhere = run(broker.namesrv, tmp_path, path, "--out", "no/x.json")
    assert nowhere.returncode == 2 and "no: no folder that can be written to" in nowhere.stderr
    nobody = run(broker.namesrv, tmp_path, path, "--pid", 1 << 22)
    assert nobody.returncode == 2 and "no process 4194304" in nobody.stderr
    assert left(broker) == []


def test_a_broker_that_goes_away_ends_the_run_and_what_there_was_is_kept(tmp_path: Path) -> None:
    with broker_process(tmp_path / "store", SMALL) as broker:
        process = start(broker.namesrv, tmp_path, workload(tmp_path), "-d", 600, "--interval", 0.2)
        assert process.stdout is not None
        for _ in range(4):
            process.stdout.readline()
        broker.stop(signal.SIGKILL)
        rest, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 3, rest + errors
    assert f"{broker.address} closed the connections of" in errors and "Traceback" not in errors
    assert re.search(r"topics omb-[0-9a-f]+-\.\. are left behind", errors)
    [place] = tmp_path.glob("small-rmq-*.json")
    result = json.loads(place.read_text())
    assert len(result["publishRate"]) >= 2
    assert "aggregatedPublishLatency99pct" in result
    assert f"result in {place.name}" in rest
