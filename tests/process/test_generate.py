"""The files of `rmq generate` start servers that take messages, and its dashboard shows them.

Goal: command lines, settings and passwords of units, containers and pods fit together; every metric
and label that the dashboard or an alert names is given by a broker. Method: the generated commands
and files themselves, with other directories and ports, and every address on the loopback. Cannot
prove: systemd (tests/source/test_systemd.py), a container, Kubernetes
(tests/compat/test_generated.py).
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.broker_process import PATIENT, broker_process
from support.command_line import rmq
from support.console import text_of
from support.console_process import console_process
from support.rmq_process import AnyProcess, start_rmq
from support.tree_process import run_python
from support.waiting import HANG_S, wait_until

from rmq import Message, Producer, PullConsumer
from rmq.cli.addresses import settle_addresses
from rmq.config import load_properties
from rmq.errors import ConfigError
from rmq.generate.alerts import RULES
from rmq.generate.dashboard import chosen
from rmq.generate.panels import ROWS

yaml = pytest.importorskip("yaml")

IMAGE = ("--image", "registry.example.org/rmq:0.1.0")
SERVERS = ("namesrv", "broker")
LOOPBACK = "127.0.0.1"


class Generated:
    """Generated files, and what they start servers with: the words after `rmq`, settings, and
    passwords in the environment."""

    def __init__(self, folder: Path, noun: str, *options: str) -> None:
        self.folder = folder
        done = rmq("generate", noun, *options, "--out", str(folder))
        assert done.returncode == 0, done.stderr
        self.words: dict[str, list[str]] = {}
        self.settings: dict[str, str] = {}
        self.environment: dict[str, str] = {}
        getattr(self, f"_read_{noun}")()
        admin = folder / "accounts" / "admin.json"
        self.credentials = ["--credentials", str(admin)] if admin.exists() else []

    def _read_systemd(self) -> None:
        for server in SERVERS:
            unit = (self.folder / f"rmq-{server}.service").read_text()
            (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
            program, *self.words[server] = shlex.split(line)
            assert program == "/opt/rmq/bin/rmq"
        self._read_settings()

    def _read_compose(self) -> None:
        services = yaml.safe_load((self.folder / "compose.yaml").read_text())["services"]
        self.console = services["console"]
        for server in SERVERS:
            self.words[server] = services[server]["command"]
            for file in services[server].get("env_file", ()):
                for line in (self.folder / file).read_text().splitlines():
                    name, _, value = line.partition("=")
                    self.environment[name] = value.strip("'")
        self._read_settings()

    def _read_settings(self) -> None:
        for server in SERVERS:
            self.settings[server] = (self.folder / f"{server}.conf").read_text()

    def _read_k8s(self) -> None:
        found = list(yaml.safe_load_all((self.folder / "rmq.yaml").read_text()))
        self.settings = {
            name.removesuffix(".conf"): text for name, text in found[0]["data"].items()
        }
        secret = self.folder / "accounts" / "secret.json"
        data = json.loads(secret.read_text())["stringData"] if secret.exists() else {}
        for each in found:
            if each["kind"] == "StatefulSet":
                (container,) = each["spec"]["template"]["spec"]["containers"]
                self.words[container["name"]] = [
                    word.replace("$(POD_IP)", LOOPBACK).replace("$(POD_NAME)", "rmq-broker-0")
                    for word in container["args"]
                ]
                for variable in container.get("env", ()):
                    if "secretKeyRef" in variable["valueFrom"]:
                        key = variable["valueFrom"]["secretKeyRef"]["key"]
                        self.environment[variable["name"]] = data[key]


class Started:
    """The two servers of generated files, as processes on free ports of the loopback."""

    def __init__(self, ends: ExitStack, made: Generated, folder: Path) -> None:
        self._ends, self._made, self._folder = ends, made, folder
        self._logs: dict[str, Path] = {}
        line = self._start("namesrv", [])
        found = re.search(r"name server (\d\S+:\d+)", line)
        assert found is not None, line
        self.namesrv = found[1].rstrip(",")
        line = self._start("broker", ["--port", "0", *PATIENT])
        found = re.search(r"broker (\S+) at ", line)
        assert found is not None, line
        self.broker = found[1]
        wait_until(lambda: re.search(r"metrics at http://", self.log("broker")))
        found = re.search(r"metrics at (http://[\w.:]+)/metrics", self.log("broker"))
        assert found is not None
        self.metrics = found[1]

    def log(self, server: str) -> str:
        return self._logs[server].read_text()

    def _start(self, server: str, more: list[str]) -> str:
        settings = self._folder / f"{server}.conf"
        settings.write_text(self._moved(self._made.settings[server]))
        words = list(self._made.words[server])
        assert words[words.index("-c") + 1] == f"/etc/rmq/{server}.conf"
        words[words.index("-c") + 1] = str(settings)
        self._logs[server] = self._folder / f"{server}.txt"
        with self._logs[server].open("w") as log:
            process = start_rmq(
                [*words, *more], stderr=log, environment={**os.environ, **self._made.environment}
            )
        self._ends.callback(_stop, process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "ready" in line, self.log(server)
        return line

    def _moved(self, text: str) -> str:
        """The settings with the test's directories and ports. `rmqLogFormat` stays, because the
        test can read its lines, too."""
        text = text.replace("/var/lib/rmq", str(self._folder)).replace("=0.0.0.0", f"={LOOPBACK}")
        text = text.replace("listenPort=9876", "listenPort=0").replace("Port=5557", "Port=0")
        if "namesrvAddr=" in text:
            text = re.sub("namesrvAddr=.*", f"namesrvAddr={self.namesrv}", text)
            text += "mappedFileSizeCommitLog=4194304\n"
        return text


def _stop(process: AnyProcess) -> None:
    process.terminate()
    code = process.wait(HANG_S)
    assert process.stdout is not None
    process.stdout.close()
    assert code == 0


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def status_of(url: str, *secret: str) -> int:
    asked = urllib.request.Request(url)
    if secret:
        token = base64.b64encode(":".join(secret).encode()).decode()
        asked.add_header("Authorization", f"Basic {token}")
    try:
        with urllib.request.urlopen(asked, timeout=HANG_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


WAYS = {
    "systemd": ("systemd",),
    "compose": ("compose",),
    "compose-outside": ("compose", "--address", "10.0.0.1"),
    "k8s": ("k8s", *IMAGE),
    "k8s-insecure": ("k8s", *IMAGE, "--insecure"),
}
WITH_ACCOUNTS = ("compose-outside", "k8s")


@pytest.mark.parametrize("way", WAYS)
def test_servers_start_by_it_and_take_messages(way: str, tmp_path: Path, ends: ExitStack) -> None:
    made = Generated(tmp_path / "made", *WAYS[way])
    for words in made.words.values():  # this machine does not have that address
        words[:] = [word.replace("10.0.0.1", LOOPBACK) for word in words]
    started = Started(ends, made, tmp_path)
    assert started.broker == ("rmq-broker-0" if way.startswith("k8s") else "broker-a")
    assert (tmp_path / "store" / "commitlog").is_dir()
    asked = ("-n", started.namesrv, *made.credentials)
    wait_until(lambda: status_of(started.metrics + "/readyz") == 200)
    done = rmq("send", "greetings", "hello", *asked)
    assert done.returncode == 0, done.stderr + started.log("broker")
    done = rmq("consume", "greetings", "--json", *asked)
    assert [json.loads(line)["body"] for line in done.stdout.splitlines()] == ["hello"]
    assert status_of(started.metrics + "/healthz") == 200
    if way not in WITH_ACCOUNTS:
        assert not made.credentials and not made.environment
        assert status_of(started.metrics + "/metrics") == 200
        return
    stranger = rmq("send", "greetings", "hello", "-n", started.namesrv)
    assert stranger.returncode == 1 and "the request had no account" in stranger.stderr
    assert status_of(started.metrics + "/metrics") == 401
    metrics = json.loads(made.environment["RMQ_METRICS"])
    secret = (metrics["username"], metrics["password"])
    assert status_of(started.metrics + "/metrics", *secret) == 200
    if way == "compose-outside":
        (job,) = yaml.safe_load((made.folder / "prometheus.yml").read_text())["scrape_configs"]
        assert job["basic_auth"]["username"] == secret[0]
        assert (made.folder / "accounts" / "metrics-password").read_text() == secret[1]
        assert job["basic_auth"]["password_file"] in (made.folder / "compose.yaml").read_text()


@pytest.mark.parametrize("way", WAYS)
def test_settings_are_taken_as_they_are_and_open_ones_are_said_to_be(
    way: str, tmp_path: Path
) -> None:
    """Every generated setting has an effect. A server that is open to strangers has --insecure in
    its command, and would not start without it."""
    made = Generated(tmp_path / "made", *WAYS[way])
    for server in SERVERS:
        path = tmp_path / f"{server}.conf"
        path.write_text(made.settings[server])
        insecure = "--insecure" in made.words[server]
        settings = load_properties(path, server=server)
        assert settings.without_effect() == []
        settle_addresses(settings, insecure)
        assert (settings.bindAddress == "127.0.0.1") == (way == "systemd")
        if insecure:
            with pytest.raises(ConfigError, match="--insecure"):
                settle_addresses(load_properties(path, server=server), False)


@pytest.mark.parametrize("way", [way for way in WAYS if way.startswith("compose")])
def test_the_console_shows_the_servers_beside_it(way: str, tmp_path: Path, ends: ExitStack) -> None:
    """The console's container uses the machine's network (`network_mode: host`), and the console
    listens on the loopback only."""
    made = Generated(tmp_path / "made", *WAYS[way])
    assert made.console["network_mode"] == "host"
    assert made.console.get("env_file", []) == []
    name, option, namesrv = made.console["command"]
    assert (name, option) == ("console", "-n")
    assert namesrv == ("10.0.0.1:9876" if way == "compose-outside" else "127.0.0.1:9876")
    for words in made.words.values():
        words[:] = [word.replace("10.0.0.1", LOOPBACK) for word in words]
    started = Started(ends, made, tmp_path)
    console = ends.enter_context(console_process(tmp_path / "console", started.namesrv))
    health = made.console["healthcheck"]["test"][-1]
    assert "127.0.0.1:8380" in health
    done = run_python("-c", health.replace("http://127.0.0.1:8380", console.base))
    assert done.returncode == 0, done.stderr
    page = console.browser.get("/brokers")
    if way == "compose-outside":
        assert page.headers["location"].startswith("/login")
        admin = json.loads((made.folder / "accounts" / "admin.json").read_text())
        assert console.browser.log_in(admin["username"], admin["password"]).status_code == 303
        page = console.browser.get("/brokers")
    assert "broker-a" in text_of(page.text)


def test_systemd_hears_of_the_console_of_its_unit(tmp_path: Path, ends: ExitStack) -> None:
    """That it is ready, lives and stops; its environment is that of the file of its unit."""
    made = Generated(tmp_path / "made", "systemd")
    started = Started(ends, made, tmp_path)
    lines = (made.folder / "console.conf").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    assert given == {"NAMESRV_ADDR": "127.0.0.1:9876", "CONSOLE_OPTIONS": ""}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "manager"))
        manager.settimeout(HANG_S)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "manager"), "WATCHDOG_USEC": "200000"}
        console = ends.enter_context(
            console_process(tmp_path / "console", started.namesrv, environment=environment)
        )
        assert [manager.recv(100) for _ in range(3)] == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]
        assert "broker-a" in text_of(console.browser.get("/brokers").text)
        console.process.terminate()
        while (told := manager.recv(100)) == b"WATCHDOG=1":
            pass
        assert told == b"STOPPING=1"
        assert console.process.wait(HANG_S) == 0


def test_the_image_has_what_the_console_needs(tmp_path: Path) -> None:
    """Runs the shell line of the Containerfile with printf instead of pip."""
    Generated(tmp_path, "compose")
    recipe = (tmp_path / "Containerfile").read_text().replace("\\\n", "")
    (line,) = re.findall(r"^RUN python -m venv .* && (.*)$", recipe, re.MULTILINE)
    wheel = tmp_path / "wheels" / "rmq-0.1.0-cp313-cp313-manylinux_2_28_x86_64.whl"
    wheel.parent.mkdir()
    wheel.touch()
    told = line.replace("/opt/rmq/bin/pip", "printf '%s\\n'").replace("/wheels", str(wheel.parent))
    done = subprocess.run(["sh", "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["install", "--no-cache-dir", f"{wheel}[console]"]


def families(text: str) -> dict[str, list[dict[str, str]]]:
    """{metric: the labels of each of its samples}; the list of a metric without samples is empty"""
    parser = pytest.importorskip("prometheus_client.parser")
    found: dict[str, list[dict[str, str]]] = {}
    for family in parser.text_string_to_metric_families(text):
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
        for ending in endings.get(family.type, ("",)):
            found.setdefault(family.name + ending, [])
        for row in family.samples:
            found.setdefault(row.name, []).append(dict(row.labels))
    return found


def expressions() -> dict[str, str]:
    """{name of the alert or panel: its PromQL}, with values for Grafana's variables."""
    found = {rule.name: rule.expression.replace("@{job}", "rmq") for rule in RULES}
    for row, panels in ROWS.items():
        for panel in panels:
            for at, (expression, _) in enumerate(panel.queries):
                text = chosen(expression).replace("$__rate_interval", "5m")
                text = text.replace("$cluster", ".*").replace("$broker", ".*")
                found[f"{row}: {panel.title} {at}"] = text
    return found


def selectors(expression: str) -> list[tuple[str, set[str]]]:
    """(metric, labels by which it is selected) of each selector. ValueError: it is no PromQL."""
    promql = pytest.importorskip("promql_parser")
    found = []

    def visit(node: object) -> bool:
        if isinstance(node, promql.VectorSelector):
            found.append((node.name, {matcher.name for matcher in node.matchers.matchers}))
        return True

    promql.walk(promql.parse(expression), visit)
    return found


def test_every_metric_and_label_is_one_that_a_broker_gives(tmp_path: Path) -> None:
    options = ("--set", "metricsExporterType=PROM", "--set", "metricsPromExporterPort=0",
               "--set", "mappedFileSizeCommitLog=4194304")  # fmt: skip
    with broker_process(tmp_path, options) as broker:
        address = {"namesrv_addr": broker.namesrv}
        with Producer("p", **address) as producer:
            for at in range(4):
                producer.send(Message("orders", f"{at}"))
            producer.send(Message("orders", "late", delay_level=1))
        first = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET"}
        with PullConsumer("billing", **address, **first) as consumer:
            consumer.subscribe("orders")
            assert consumer.poll(timeout_ms=60_000)
            consumer.commit()
            url = broker.logged(r"metrics at (http://\S+/metrics)")[1]
            with urllib.request.urlopen(url, timeout=HANG_S) as answer:
                given = families(answer.read().decode())
    named = set()
    for of, expression in expressions().items():
        for metric, labels in selectors(expression):
            if metric == "up":  # Prometheus' own
                continue
            named.add(metric)
            assert metric in given, f"{of}: no broker gives {metric}"
            for sample in given[metric]:
                assert labels <= sample.keys(), f"{of}: {metric} has no {labels - sample.keys()}"
    shown = {metric for metric in named if given[metric]}
    assert len(named) > 50 and len(shown) > 30, "the broker has something to show"


def test_a_metric_that_is_none_and_what_is_no_promql_are_found() -> None:
    """The test above would notice an unknown metric, and an expression that is no PromQL."""
    assert selectors('sum(rate(no_such_total{topic="a"}[5m]))') == [("no_such_total", {"topic"})]
    with pytest.raises(ValueError):
        selectors("sum by (node_id) rate(rmq_pulls_total[5m])")
