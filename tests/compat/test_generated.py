"""What `rmq generate` makes, read by the programs for which it is made.

Goal: Prometheus loads the settings and rules, and evaluates every expression of dashboard and
alerts against a live broker; Helm lints the chart, which renders to the manifests of `rmq generate
k8s`; Docker Compose accepts the containers. Method: the programs themselves; of Compose at least
the library with which it reads files. Cannot prove: Grafana, which is in no Debian, and that
containers run, which needs images.
"""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker_process import broker_process
from support.command_line import rmq
from support.waiting import HANG_S, wait_until

from rmq.demo.ports import free_port
from rmq.generate.alerts import RULES, Rule
from rmq.generate.dashboard import chosen
from rmq.generate.panels import ROWS
from tools.peers.cache import ToolMissing
from tools.peers.compose import compose_config
from tools.peers.helm import helm_program
from tools.peers.prometheus import prometheus_program

yaml = pytest.importorskip("yaml")

IMAGE = ("--image", "registry.example.org/rmq:0.1.0")


def generated(folder: Path, *words: str) -> Path:
    done = rmq("generate", *words, "--out", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


def run(*words: str | Path, at: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, words)), cwd=at, capture_output=True, text=True,
                          timeout=HANG_S)  # fmt: skip


def program(name: str) -> Path:
    try:
        return prometheus_program(name)
    except ToolMissing as error:
        pytest.skip(str(error))


def test_promtool_takes_the_rules_and_the_settings(tmp_path: Path) -> None:
    promtool = program("promtool")
    generated(tmp_path, "compose")
    done = run(promtool, "check", "rules", "rmq-alerts.yml", at=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(RULES)} rules found" in done.stdout
    done = run(promtool, "check", "config", "prometheus.yml", at=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    spoilt = tmp_path / "rmq-alerts.yml"
    spoilt.write_text(spoilt.read_text().replace("rmq_poisoned == 1", "rmq_poisoned = 1"))
    assert run(promtool, "check", "rules", spoilt).returncode != 0


def fires(rule: Rule, **labels: str) -> dict[str, object]:
    """The alert as promtool expects it. Of the labels the summary names only the group."""
    summary = rule.summary.replace("{{ $labels.consumer_group }}", labels["consumer_group"])
    annotations = {"summary": summary, "description": rule.remedy}
    return {"exp_labels": {"severity": rule.severity, **labels}, "exp_annotations": annotations}


def test_a_groups_first_dead_letters_are_told_while_they_are_new(tmp_path: Path) -> None:
    """The series begins with the group's first dead letters, so no scrape shows an increase."""
    promtool = program("promtool")
    generated(tmp_path, "compose")
    (rule,) = (rule for rule in RULES if rule.name == "RmqDeadLetters")
    (panel,) = (panel for panel in ROWS["Consumers"] if panel.title == "Dead letters")
    series = 'rocketmq_send_to_dlq_messages_total{cluster="C",node_id="b",consumer_group="%s"}'
    new = fires(rule, cluster="C", consumer_group="new")
    text = chosen(panel.queries[0][0]).replace("$cluster", ".*").replace("$broker", ".*")
    shown = [{"labels": f'{{consumer_group="{group}"}}', "value": value}
             for group, value in (("new", 3), ("old", 0))]  # fmt: skip
    stage = {
        "interval": "1m",
        "input_series": [
            {"series": series % "old", "values": "7x120"},
            {"series": series % "new", "values": "_x80 3x40"},
        ],
        "alert_rule_test": [
            {"eval_time": at, "alertname": rule.name, "exp_alerts": alerts}
            for at, alerts in (("79m", []), ("85m", [new]), ("110m", []))
        ],
        "promql_expr_test": [{"expr": text, "eval_time": "85m", "exp_samples": shown}],
    }
    stages = {"rule_files": ["rmq-alerts.yml"], "evaluation_interval": "1m", "tests": [stage]}
    (tmp_path / "tests.yml").write_text(json.dumps(stages))
    done = run(promtool, "test", "rules", "tests.yml", at=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """Prometheus with the settings of `rmq generate compose`; its target is this broker."""

    def __init__(self, folder: Path, target: str) -> None:
        generated(folder, "compose")
        settings = folder / "prometheus.yml"
        text = settings.read_text().replace("broker:5557", target).replace("15s", "1s")
        assert target in text
        settings.write_text(text)
        self.url = f"http://127.0.0.1:{free_port()}"
        words = [f"--config.file={settings}", f"--storage.tsdb.path={folder / 'data'}",
                 f"--web.listen-address={self.url.removeprefix('http://')}"]  # fmt: skip
        self.log = folder / "prometheus.txt"
        with self.log.open("w") as log:
            self.process = subprocess.Popen([program("prometheus"), *words], stderr=log)

    def asked(self, path: str, **parameters: str) -> Any:
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=HANG_S) as answer:
            return json.loads(answer.read())["data"]

    def has(self, expression: str) -> bool:
        try:
            return bool(self.asked("query", query=expression)["result"])
        except OSError:  # it does not listen yet
            assert self.process.poll() is None, self.log.read_text()
            return False


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Prometheus]:
    options = ("--set", "metricsExporterType=PROM", "--set", "metricsPromExporterPort=0",
               "--set", "mappedFileSizeCommitLog=4194304")  # fmt: skip
    with broker_process(tmp_path, options) as broker:
        assert rmq("send", "orders", *"abc", "-n", broker.namesrv).returncode == 0
        target = broker.logged(r"metrics at http://(\S+)/metrics")[1]
        prometheus = Prometheus(tmp_path / "made", target)
        try:
            yield prometheus
        finally:
            prometheus.process.terminate()
            prometheus.process.wait(HANG_S)


def test_prometheus_evaluates_what_the_dashboard_and_alerts_ask(watched: Prometheus) -> None:
    wait_until(lambda: watched.has("rmq_up_seconds"))
    (group,) = watched.asked("rules")["groups"]
    wait_until(
        lambda: all(rule["health"] == "ok" for rule in watched.asked("rules")["groups"][0]["rules"])
    )
    assert [rule["name"] for rule in group["rules"]] == [rule.name for rule in RULES]
    firing = {alert["labels"]["alertname"] for alert in watched.asked("alerts")["alerts"]
              if alert["state"] == "firing"}  # fmt: skip
    assert firing <= {"RmqDiskFilling"}, (
        "nothing is wrong with this broker; its disk is whose it is"
    )
    # Rates need some samples.
    wait_until(lambda: watched.has("count_over_time(rmq_up_seconds[1m]) > 3"))
    shown = 0
    for panels in ROWS.values():
        for panel in panels:
            for expression, _ in panel.queries:
                text = chosen(expression).replace("$__rate_interval", "1m")
                text = text.replace("$cluster", ".*").replace("$broker", ".*")
                shown += bool(watched.asked("query", query=text)["result"])
    assert shown > 25
    assert watched.asked("query", query='sum(rocketmq_messages_in_total{topic="orders"})')[
        "result"
    ][0]["value"][1] == "3"  # fmt: skip


def by_name(text: str) -> dict[tuple[str, str], Any]:
    found = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text)}
    for each in found.values():  # a checksum of files that differ in the chart
        if each["kind"] == "StatefulSet":
            del each["spec"]["template"]["metadata"]["annotations"]["rmq/settings"]
    return found


@pytest.fixture(scope="module")
def helm() -> Path:
    try:
        return helm_program()
    except ToolMissing as error:
        pytest.skip(str(error))


def test_helm_lints_the_chart(helm: Path, tmp_path: Path) -> None:
    chart = generated(tmp_path / "rmq", "helm", *IMAGE)
    done = run(helm, "lint", "--strict", chart)
    assert done.returncode == 0, done.stdout + done.stderr
    refused = run(helm, "template", "rmq", chart, "--set", "broker.memory=2GB")
    assert refused.returncode != 0 and "memory" in refused.stderr


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ((), ()),
        (("--insecure",), ("insecure=true",)),
        (
            ("--name-servers", "3", "--brokers", "5", "--storage-class", "fast", "--secret", "mine",
             "--memory", "512Mi", "--cores", "500m", "--storage", "1Ti", "--cluster", "Other"),
            ("nameServers=3", "broker.replicas=5", "storageClass=fast", "secret=mine",
             "broker.memory=512Mi", "broker.cpu=500m", "broker.storage=1Ti", "cluster=Other"),
        ),
    ],
)  # fmt: skip
def test_the_chart_renders_to_the_manifests(
    helm: Path, options: tuple[str, ...], values: tuple[str, ...], tmp_path: Path
) -> None:
    manifests = by_name(rmq("generate", "k8s", *IMAGE, *options).stdout)
    by_values = generated(tmp_path / "a", "helm", *IMAGE)
    by_defaults = generated(tmp_path / "b", "helm", *IMAGE, *options)
    for chart, said in ((by_values, values), (by_defaults, ())):
        words = [word for value in said for word in ("--set", value)]
        done = run(helm, "template", "rmq", chart, *words)
        assert done.returncode == 0, done.stderr
        assert by_name(done.stdout) == manifests


@pytest.fixture(scope="module")
def compose() -> list[str]:
    try:
        return compose_config()
    except ToolMissing as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("options", [(), ("--address", "10.0.0.5"), ("--insecure",)])
def test_docker_compose_takes_the_containers(
    compose: list[str], options: tuple[str, ...], tmp_path: Path
) -> None:
    generated(tmp_path, "compose", *options)
    done = run(*compose, at=tmp_path)
    assert done.returncode == 0, done.stderr
    services = json.loads(done.stdout)["services"]
    assert services.keys() == {"namesrv", "broker", "console", "prometheus", "grafana"}
    address = "10.0.0.5" if "10.0.0.5" in options else "127.0.0.1"
    published = {port["host_ip"] for name in ("namesrv", "broker")
                 for port in services[name]["ports"]}  # fmt: skip
    assert published == {address}
    for service in services.values():
        for volume in service.get("volumes", ()):
            if volume["type"] == "bind":
                assert Path(volume["source"]).is_file(), volume["source"]
    console = services["console"]
    assert console["network_mode"] == "host" and "ports" not in console
    assert console["command"] == ["console", "-n", f"{address}:9876"]
    assert not console.get("environment"), "browsers log in"
    if address == "10.0.0.5":
        given = services["broker"]["environment"]
        admin = json.loads((tmp_path / "accounts" / "admin.json").read_text())
        assert json.loads(given["RMQ_ADMIN"]) == admin
    else:
        assert not services["broker"].get("environment")
    spoilt = tmp_path / "compose.yaml"
    spoilt.write_text(spoilt.read_text().replace("stop_grace_period:", "grace_period:"))
    refused = run(*compose, at=tmp_path)
    assert refused.returncode != 0 and "grace_period" in refused.stderr
