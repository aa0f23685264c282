"""A broker process as its operators see it: /metrics, /healthz, /readyz, top, status, JSON logs."""

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from support.broker_process import BrokerProcess, broker_process
from support.machine import machine

PROM = ("--set", "metricsExporterType=PROM", "--set", "metricsPromExporterPort=0")
SMALL = ("--set", "mappedFileSizeCommitLog=4194304")


def rmq(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rmq", *arguments], capture_output=True, text=True, timeout=60
    )


def fetch(broker: BrokerProcess, path: str) -> tuple[int, str]:
    found = re.search(r"metrics at (http://\S+)/metrics", broker.log())
    assert found is not None
    with urllib.request.urlopen(found[1] + path, timeout=10) as answer:
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


def test_metrics_beyond_this_machine_need_a_consent(tmp_path: Path) -> None:
    done = rmq("broker", "--store", str(tmp_path), "--set", "metricsPromExporterHost=0.0.0.0")
    assert done.returncode == 2
    assert "metricsPromExporterHost=0.0.0.0" in done.stderr and "--insecure" in done.stderr


def test_top_shows_a_row_and_status_says_running(tmp_path: Path) -> None:
    with broker_process(tmp_path, SMALL) as broker:
        assert rmq("send", "t", "one", "two", "-n", broker.namesrv).returncode == 0
        done = rmq("top", "--once", "--interval", "0.2", "-n", broker.namesrv)
        assert done.returncode == 0, done.stderr
        head, row = done.stdout.splitlines()
        assert head.split()[:3] == ["BROKER", "STATE", "IN/S"]
        assert row.split()[:3] == ["broker-a", "running", "0"]
        done = rmq("top", "--once", "--json", "--interval", "0.2", "-n", broker.namesrv)
        (shown,) = json.loads(done.stdout)
        assert shown["pid"] == broker.pid and shown["address"] == broker.address
        assert shown["in_rate"] == 0 and shown["cached"] is not None
        done = rmq("broker", "status", "-n", broker.namesrv)
        assert done.returncode == 0
        assert done.stdout.splitlines()[1].split()[:3] == ["broker-a", broker.address, "running"]


def test_top_in_a_pipe_goes_on_until_its_reader_has_enough(tmp_path: Path) -> None:
    with broker_process(tmp_path, SMALL) as broker:
        process = subprocess.Popen(
            [sys.executable, "-m", "rmq", "top", "--json", "--interval", "0.2", "-n",
             broker.namesrv], stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        looks = [json.loads(process.stdout.readline())[0] for _ in range(3)]
        process.terminate()
        process.wait(10)
        process.stdout.close()
        ages = [look["uptime_s"] for look in looks]
        assert ages == sorted(ages) and ages[0] < ages[2]


def test_status_of_nobody_is_an_error() -> None:
    assert rmq("broker", "status", "-n", "127.0.0.1:1").returncode == 3


def test_json_logs_are_one_object_a_line(tmp_path: Path) -> None:
    with broker_process(tmp_path, [*SMALL, "--set", "rmqLogFormat=json"]) as broker:
        lines = [json.loads(line) for line in broker.log().splitlines()]
        assert {line["broker"] for line in lines} == {"broker-a"}
        assert any("serves at" in line["message"] for line in lines)
        assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)


def test_any_shard_shows_the_numbers_of_all(tmp_path: Path) -> None:
    with machine(tmp_path, 2, PROM) as both:
        assert rmq("send", "t", *"abcdefgh", "-n", both.namesrv).returncode == 0
        urls = re.findall(r"metrics at (http://\S+/metrics)", both.log())
        assert len(set(urls)) == 2
        for url in urls:
            with urllib.request.urlopen(url, timeout=10) as answer:
                text = answer.read().decode()
            counts = [
                value(text, "rocketmq_messages_in_total", topic="t", shard=shard) for shard in "01"
            ]
            assert sum(counts) == 8 and min(counts) > 0
        done = rmq("broker", "status", "-n", both.namesrv)
        assert done.returncode == 0
        assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == [
            "broker-a", "broker-a-1",
        ]  # fmt: skip
        total = rmq("top", "--once", "--interval", "0.2", "-n", both.namesrv).stdout.splitlines()
        assert total[-1].split()[:4] == ["total", "2", "of", "2"]
