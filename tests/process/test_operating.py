"""A broker process as its operators see it: /metrics, /healthz, /readyz, top, status, JSON logs."""

import asyncio
import base64
import json
import os
import re
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.broker_process import BrokerProcess, broker_process
from support.certificates import Authority
from support.command_line import rmq
from support.sharded_broker import sharded_broker
from support.terminal import CONTROL, at_terminal
from support.topics import until_routed
from support.waiting import HANG_S, wait_until

PROM = ("--set", "metricsExporterType=PROM", "--set", "metricsPromExporterPort=0")
SMALL = ("--set", "mappedFileSizeCommitLog=4194304")
EVERYTHING = {"subscription": "*", "expressionType": "TAG", "sysFlag": 4}


def fetch(broker: BrokerProcess, path: str) -> tuple[int, str]:
    found = re.search(r"metrics at (http://\S+)/metrics", broker.log())
    assert found is not None
    with urllib.request.urlopen(found[1] + path, timeout=HANG_S) as answer:
        return answer.status, answer.read().decode()


def value(text: str, name: str, **labels: str) -> float:
    """The one value of this metric with these labels."""
    parser = pytest.importorskip("prometheus_client.parser")
    rows = [
        row
        for family in parser.text_string_to_metric_families(text)
        for row in family.samples
        if row.name == name and labels.items() <= row.labels.items()
    ]
    assert len(rows) == 1, (name, rows)
    return float(rows[0].value)


def test_metrics_count_what_was_sent_and_consumed(tmp_path: Path) -> None:
    with broker_process(tmp_path, [*PROM, *SMALL, "--flush", "sync"]) as broker:
        assert fetch(broker, "/healthz") == (200, "ok\n")
        assert fetch(broker, "/readyz") == (200, "ok\n")
        assert rmq("send", "t", *"abcdefg", "-n", broker.namesrv).returncode == 0
        assert rmq("consume", "t", "-n", broker.namesrv).returncode == 0
        _, text = fetch(broker, "/metrics")
        assert value(text, "rocketmq_messages_in_total", topic="t") == 7
        assert value(text, "rocketmq_messages_out_total", topic="t") == 7
        assert value(text, "rocketmq_throughput_in_total", topic="t", shard="0") > 7 * 100
        assert value(text, "rmq_append_latency_seconds_count") == 7
        assert 0 < value(text, "rmq_append_latency_seconds_sum") < 10
        assert value(text, "rmq_flush_latency_seconds_count") >= 1
        assert value(text, "rocketmq_storage_flush_behind_bytes") == 0
        assert value(text, "rmq_page_cache_resident_bytes") > 0
        assert value(text, "rmq_pool_refusals_total", pool="reply") == 0


def test_nothing_listens_unless_asked(tmp_path: Path) -> None:
    with broker_process(tmp_path, SMALL) as broker:
        assert "metrics at" not in broker.log()


def test_metrics_by_tls_with_a_password(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.pair("server")
    secret = tmp_path / "prom.json"
    secret.write_text('{"username":"prom","password":"geheim"}')
    secret.chmod(0o600)
    options = (*PROM, *pair.settings("permissive"), "--set", "rmqMetricsTls=true",
               "--set", f"rmqMetricsCredentials={secret}")  # fmt: skip
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    with broker_process(tmp_path / "broker", options) as broker:
        url = broker.logged(r"metrics at (https://\S+)/metrics")[1]

        def fetched(path: str, **headers: str) -> tuple[int, str]:
            asked = urllib.request.Request(url + path, headers=headers)
            try:
                with urllib.request.urlopen(asked, timeout=HANG_S, context=trusting) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()

        assert fetched("/healthz")[0] == 200
        assert fetched("/metrics")[0] == 401
        basic = "Basic " + base64.b64encode(b"prom:geheim").decode()
        status, text = fetched("/metrics", Authorization=basic)
        assert status == 200
        assert "rocketmq_" in text
        assert "geheim" not in broker.log()
        other = authority.pair("another")
        os.replace(other.certificate, pair.certificate)
        os.replace(other.key, pair.key)
        wait_until(lambda: certificate_of(url) == pair.certificate.read_text())


def certificate_of(url: str) -> str:
    host, _, port = url.removeprefix("https://").rpartition(":")
    return ssl.get_server_certificate((host, int(port)))


def test_metrics_beyond_this_machine_need_a_consent(tmp_path: Path) -> None:
    words = ("broker", "--store", str(tmp_path), "--set", "metricsPromExporterHost=0.0.0.0")
    done = subprocess.run([sys.executable, "-m", "rmq", *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert "metricsPromExporterHost=0.0.0.0" in done.stderr and "--insecure" in done.stderr
    assert "rmqMetricsCredentials" in done.stderr


def test_top_shows_a_row_and_status_says_running(tmp_path: Path) -> None:
    with broker_process(tmp_path, SMALL) as broker:
        assert rmq("send", "t", "one", "two", "-n", broker.namesrv).returncode == 0
        done = rmq("top", "--once", "--interval", "0.2", "-n", broker.namesrv)
        assert done.returncode == 0, done.stderr
        head, row = done.stdout.splitlines()
        words = head.split()
        assert words[:2] == ["BROKER", "STATE"] and {"ROLE", "EPOCH", "IN/S"} <= set(words)
        # A broker without replicas has nothing in the columns about replicas.
        assert row.split()[:7] == ["broker-a", "running", "-", "-", "-", "-", "0"]
        done = rmq("top", "--once", "--json", "--interval", "0.2", "-n", broker.namesrv)
        (shown,) = json.loads(done.stdout)
        assert shown["pid"] == broker.pid and shown["address"] == broker.address
        assert shown["in_messages_per_second"] == 0 and shown["cached_percent"] is not None
        done = rmq("broker", "status", "-n", broker.namesrv)
        assert done.returncode == 0
        assert done.stdout.splitlines()[1].split()[:3] == ["broker-a", broker.address, "running"]
        assert "numpy" not in Path(f"/proc/{broker.pid}/maps").read_text(), "of commands alone"
        environment = {**os.environ, "TERM": "xterm"}
        words = ("top", "--interval", "0.2", "-n", broker.namesrv)
        with at_terminal(*words, environment=environment, columns=40) as terminal:
            terminal.until("broker-a")
            terminal.type("q")
            assert terminal.code() == 0
        lines = CONTROL.sub("", terminal.shown).splitlines()
        assert ["BROKER", "IN/S", "OUT/S", "CPU"] in [line.split() for line in lines], lines
        assert not [line for line in lines if "…" in line or len(line.strip()) > 40]
        words = ("top", "--once", "--interval", "0.2", "-n", broker.namesrv)
        with at_terminal(*words, environment=environment, columns=40) as terminal:
            assert terminal.code() == 0
        lines = CONTROL.sub("", terminal.shown).splitlines()
        assert ["BROKER", "IN/S", "OUT/S", "CPU"] in [line.split() for line in lines], lines
        assert not [line for line in lines if "…" in line or len(line.rstrip()) > 40]


def test_top_in_a_pipe_goes_on_until_its_reader_has_enough(tmp_path: Path) -> None:
    with broker_process(tmp_path, SMALL) as broker:
        process = subprocess.Popen(
            [sys.executable, "-m", "rmq", "top", "--json", "--interval", "0.2", "-n",
             broker.namesrv], stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        looks = [json.loads(process.stdout.readline())[0] for _ in range(3)]
        process.terminate()
        process.wait(HANG_S)
        process.stdout.close()
        ages = [look["up_s"] for look in looks]
        assert ages == sorted(ages) and ages[0] < ages[2]


def test_status_of_nobody_is_an_error(tmp_path: Path) -> None:
    assert rmq("broker", "status", "-n", "127.0.0.1:1").returncode == 3
    with broker_process(tmp_path, SMALL) as broker:
        assert rmq("broker", "status", "-n", broker.namesrv).returncode == 0
        alone = ("namesrv", "--port", broker.namesrv.rpartition(":")[2])
        held = subprocess.run([sys.executable, "-m", "rmq", *alone], capture_output=True, text=True)
        assert held.returncode == 2
        assert "already in use; is another server running there?" in held.stderr
    process = subprocess.Popen([sys.executable, "-m", "rmq", *alone], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)  # fmt: skip
    try:
        assert process.stdout is not None and "ready" in process.stdout.readline()
        done = rmq("broker", "status", "-n", broker.namesrv)
        assert (done.returncode, "no broker is registered at" in done.stderr) == (3, True)
    finally:
        process.terminate()
        process.communicate(timeout=HANG_S)


def test_json_logs_are_one_object_a_line(tmp_path: Path) -> None:
    with broker_process(tmp_path, [*SMALL, "--set", "rmqLogFormat=json"]) as broker:
        lines = [json.loads(line) for line in broker.log().splitlines()]
        assert {line["broker"] for line in lines} == {"broker-a"}
        assert any("serves at" in line["message"] for line in lines)
        assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)


def test_the_log_has_a_file_a_level_and_a_first_line_that_says_what_runs(tmp_path: Path) -> None:
    path = tmp_path / "rmq.log"
    options = [*SMALL, "--log-file", str(path), "--log-level", "debug", "--log-format", "json"]
    with broker_process(tmp_path / "one", options) as broker:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert broker.log() == "", "nothing of it goes to standard error"
        said = lines[0]["message"]
        assert f"starts as process {broker.pid}: broker broker-a for clients at" in said
        assert f"its data is in {broker.store}; name server at" in said
        levels = {line["logger"]: line["level"] for line in lines}
        assert levels["rmq.broker.topics"] == "DEBUG"
        plain = [line["message"] for line in lines if line["level"] != "DEBUG"]
        assert not any("scan_from" in text or "topic@group" in text for text in plain)
        assert any("holds no messages yet" in text for text in plain)
        rmq("send", "t", "x", "-n", broker.namesrv)
        os.kill(broker.pid, 9)
        broker.process.wait(HANG_S)
    with broker_process(tmp_path / "one", [*SMALL, "--log-level", "warning"]) as broker:
        assert " INFO " not in broker.log()
    with broker_process(tmp_path / "one", SMALL) as broker:
        assert re.search(r"the store \S+ was closed properly; its log has \d+ bytes", broker.log())


def test_all_processes_of_a_broker_log_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "rmq.log"
    with sharded_broker(tmp_path, 2, ("--log-file", str(path), "--log-format", "json")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert "in 2 processes, the first one for clients at" in lines[0]["message"]
    assert {line["broker"] for line in lines} == {"broker-a", "broker-a-1"}


def test_a_log_file_that_cannot_be_is_named_at_the_start(tmp_path: Path) -> None:
    for server in ("namesrv", "controller", "broker"):
        words = (server, "--port", "0", "--log-file", str(tmp_path / "none" / "x.log"))
        done = subprocess.run([sys.executable, "-m", "rmq", *words], capture_output=True, text=True)
        assert done.returncode == 2, done.stderr
        assert f"rmqLogFile {tmp_path}/none/x.log: No such file" in done.stderr


def test_any_shard_shows_the_numbers_of_all(tmp_path: Path) -> None:
    with sharded_broker(tmp_path, 2, PROM) as both:
        assert rmq("send", "t", *"abcdefgh", "-n", both.namesrv).returncode == 0
        urls = re.findall(r"metrics at (http://\S+/metrics)", both.log())
        assert len(set(urls)) == 2
        for url in urls:
            with urllib.request.urlopen(url, timeout=HANG_S) as answer:
                text = answer.read().decode()
            counts = [
                value(text, "rocketmq_messages_in_total", topic="t", shard=shard) for shard in "01"
            ]
            assert sum(counts) == 8 and min(counts) > 0
            if len(os.sched_getaffinity(0)) >= 2:  # a core each, so bound to its node
                assert value(text, "rmq_memory_node", shard="1") >= 0
        done = rmq("broker", "status", "-n", both.namesrv)
        assert done.returncode == 0
        assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == [
            "broker-a", "broker-a-1",
        ]  # fmt: skip
        total = rmq("top", "--once", "--interval", "0.2", "-n", both.namesrv).stdout.splitlines()
        assert total[-1].split()[:4] == ["total", "2", "of", "2"]


def test_status_shows_the_pools_and_the_arena_they_are_in(tmp_path: Path) -> None:
    with broker_process(tmp_path, SMALL) as broker:
        assert rmq("send", "t", "one", "two", "-n", broker.namesrv).returncode == 0
        done = rmq("broker", "status", "--pools", "--json", "-n", broker.namesrv)
        rows = {row["pool"]: row for row in json.loads(done.stdout)}
        pools = {"reply", "request", "jumbo", "piece", "pull", "fetch", "queue"}
        assert {*pools, "(arena)"} == rows.keys()
        assert all(row["broker"] == "broker-a" and row["refused"] == 0 for row in rows.values())
        assert rows["reply"]["most"] >= 1
        assert rows["(arena)"]["buffers"] == rows["(arena)"]["in_use"] > 1 << 30


async def consume(port: int) -> None:
    """Group g commits four messages of topic t, and pulls the eighth and the ninth."""
    async with BrokerClient(port) as client:
        await client.heartbeat("g", "t")
        await client.call(15, consumerGroup="g", topic="t", queueId=0, commitOffset=4)
        assert (await client.pull("g", "t", offset=7, maxMsgNums=2, **EVERYTHING)).code == 0


@contextmanager
def ten_messages(directory: Path, *settings: str) -> Iterator[BrokerProcess]:
    """A broker with ten messages of topic t. Group g has committed four of them; nine have been
    handed out, the last two by a pull."""
    with broker_process(directory, [*PROM, *SMALL, *settings]) as broker:
        created = rmq("topic", "create", "t", "--queues", "1", "-n", broker.namesrv)
        assert created.returncode == 0, created
        until_routed(broker.namesrv, "t", {"broker-a": 1})
        assert rmq("send", "t", *"abcdefghij", "-n", broker.namesrv).returncode == 0
        asyncio.run(consume(broker.port))
        yield broker


def test_dashboards_of_rocketmq_exporter_find_their_names(tmp_path: Path) -> None:
    with ten_messages(tmp_path, "--set", "rmqMetricsNames=both") as broker:
        _, text = fetch(broker, "/metrics")
        labels = {"cluster": "DefaultCluster", "broker": "broker-a", "topic": "t"}
        assert value(text, "rocketmq_producer_offset", **labels) == 10
        assert value(text, "rocketmq_producer_tps", **labels) > 0
        assert value(text, "rocketmq_consumer_offset", **labels, group="g") == 4
        assert value(text, "rocketmq_consumer_tps", **labels, group="g") > 0
        assert value(text, "rocketmq_consumer_message_size", **labels, group="g") > 0
        assert value(text, "rocketmq_group_get_latency_by_storetime", **labels, group="g") > 0
        assert value(text, "rocketmq_group_diff", group="g", topic="t", msgModel="1") == 6
        stored = value(text, "rocketmq_brokeruntime_commitlog_maxoffset", brokerIP=broker.address)
        assert stored > 10 * 100
        assert value(text, "rocketmq_messages_in_total", topic="t", message_type="normal") == 10


def test_metrics_tell_how_old_what_waits_is(tmp_path: Path) -> None:
    with ten_messages(tmp_path) as broker:
        time.sleep(0.05)  # the least age of what waits
        _, text = fetch(broker, "/metrics")
        row = {"consumer_group": "g", "topic": "t", "is_retry": "false"}
        assert value(text, "rocketmq_consumer_lag_messages", **row) == 6
        assert value(text, "rocketmq_consumer_inflight_messages", **row) == 5
        assert value(text, "rocketmq_consumer_ready_messages", **row) == 1
        oldest = value(text, "rocketmq_consumer_lag_latency", **row)
        assert 30_000 > oldest >= value(text, "rocketmq_consumer_queueing_latency", **row) >= 50
        given = {"consumer_group": "g", "topic": "t"}
        assert value(text, "rocketmq_messages_out_total", **given) == 2
        assert value(text, "rocketmq_throughput_out_total", **given) > 3
        normal = {"message_type": "normal", "topic": "t"}
        assert value(text, "rocketmq_messages_in_total", **normal) == 10
        pulled = {"request_code": "pull_message", "response_code": "success"}
        assert value(text, "rocketmq_rpc_latency_count", **pulled) == 1
        committed = {"request_code": "update_consumer_offset", "response_code": "success"}
        assert value(text, "rocketmq_rpc_latency_bucket", le="3000.0", **committed) == 1
        done = {"invocation_status": "success"}
        assert value(text, "rocketmq_topic_create_execution_time_count", **done) == 1
        assert value(text, "rocketmq_message_size_count") >= 7
        assert value(text, "rocketmq_message_size_bucket", le="1024.0") >= 7
        assert value(text, "rocketmq_half_messages") == 0
        assert value(text, "rocketmq_timer_enqueue_lag") == 0
        assert value(text, "rocketmq_storage_message_reserve_time") >= 0
        assert value(text, "rmq_memory_arena_sealed") == 1
        assert value(text, "rmq_memory_refusals_total") == 0
