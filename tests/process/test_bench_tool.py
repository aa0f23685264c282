"""`rmq bench` and bench/run.py work as commands, with real processes and real sockets.

Goal: the options reach the loops, and the output says what happened. Method: short runs against the
bare C floor, most of them in this process. Cannot show: that the numbers are good, as nothing here
is timed.
"""

import json
import shutil
import signal
import socket
import subprocess

import pytest
from support.broker_process import broker_process
from support.command_line import rmq
from support.source_tree import ROOT
from support.tree_process import run_python
from support.waiting import HANG_S

from rmq.demo.ports import free_port

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for floor.c")


@pytest.fixture(scope="module")
def floor_program(tmp_path_factory):
    program = tmp_path_factory.mktemp("floor") / "floor"
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-Icext/c"]
    subprocess.run(["gcc", *flags, "-o", program, "bench/floor.c"], cwd=ROOT, check=True)
    return program


@pytest.fixture(params=[(), ("--sync",)], ids=["async", "sync"])
def floor(request, floor_program, tmp_path):
    command = [floor_program, "--port", "0", "--file-mb", "16", "--file", tmp_path / "data"]
    process = subprocess.Popen(
        [*command, *request.param], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    word, port = process.stdout.readline().split()
    assert word == "ready"
    yield process, int(port)
    process.send_signal(signal.SIGTERM)
    assert process.wait(HANG_S) in (0, 3)
    assert not (tmp_path / "data").exists()


def rmq_bench(*arguments, check=True, command=rmq):
    done = command("bench", *map(str, arguments))
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done


def in_a_process(*words):
    return run_python("-m", "rmq", *words)


@pytest.mark.parametrize(
    "arguments",
    [
        ("producer", "--window", 16, "--connections", 3),
        ("producer", "--binary", "--size", 0),
        ("batch", "--batch", 8, "--size", 100),
        ("latency",),
        ("latency", "--rate", 500),
    ],
    ids=lambda arguments: "-".join(map(str, arguments)),
)
def test_sends_are_acked_and_counted(floor, arguments):
    process, port = floor
    output = rmq_bench(
        *arguments, "--broker", f"127.0.0.1:{port}", "--in-order", "--count", 400,
        "--duration", 60, "--warmup", 0, "--pid", process.pid, "--json",
    ).stdout  # fmt: skip
    result = json.loads(output)
    assert result["messages"] == 400
    assert (result["failures"], result["unanswered"]) == ({}, 0)
    assert result["cpu_seconds_per_million"] > 0
    table = result["latency_us"]
    assert 0 < table["p50"] <= table["p99"] <= table["p99.99"] <= table["max"]


def test_the_page_of_text_names_everything(floor):
    process, port = floor
    text = rmq_bench(
        "producer", "--broker", f"127.0.0.1:{port}", "--in-order", "--count", 50,
        "--duration", 30, "--warmup", 0, "--pid", process.pid, command=in_a_process,
    ).stdout  # fmt: skip
    assert "msg/s" in text and "MB/s" in text
    assert f"CPU-s per million messages (pids {process.pid})" in text
    for name in ("p50", "p90", "p99", "p99.9", "p99.99", "max"):
        assert f"{name} " in text


def test_a_ping_pong_needs_no_broker():
    result = json.loads(
        rmq_bench("pingpong", "--duration", 0.3, "--json", command=in_a_process).stdout
    )
    assert result["messages"] > 0
    assert result["latency_us"]["p50"] > 0


def test_what_was_sent_is_popped_and_acknowledged(tmp_path):
    with broker_process(tmp_path, ["--set", "mappedFileSizeCommitLog=16777216"]) as broker:
        where = ("-n", broker.namesrv, "--duration", 60, "--warmup", 0, "--json")
        sent = json.loads(rmq_bench("batch", *where, "--batch", 10, "--count", 2000).stdout)
        assert sent["messages"] == 2000
        popped = json.loads(
            rmq_bench("pop", *where, "-c", 2, "-w", 3, "--count", 2000, "--pid", broker.pid).stdout
        )
        again = json.loads(rmq_bench("pop", "-n", broker.namesrv, "-d", 0.2, "--json").stdout)
    assert (popped["messages"], popped["failures"]) == (2000, {})
    assert popped["cpu_seconds_per_million"] > 0
    assert (again["messages"], again["failures"]) == (0, {})


def test_what_was_sent_is_pulled_on_one_connection_or_as_many_as_are_asked_for(tmp_path):
    with broker_process(tmp_path, ["--set", "mappedFileSizeCommitLog=16777216"]) as broker:
        where = ("-n", broker.namesrv, "--duration", 60, "--warmup", 0, "--json", "--count", 2000)
        rmq_bench("batch", *where, "--batch", 10)
        for more, connections in (((), 1), (("-c", 3), 3), (("--connections", 20), 8)):
            pulled = json.loads(rmq_bench("consumer", *where, *more).stdout)
            assert (pulled["messages"], pulled["failures"], pulled["skipped"]) == (2000, {}, 0)
            assert pulled["live_connections"] == connections


@pytest.mark.parametrize("command", ["producer", "batch", "latency", "consumer", "pop"])
def test_a_broker_that_is_not_there_is_named(command):
    port = free_port()
    failed = rmq_bench(command, "-n", f"127.0.0.1:{port}", check=False)
    assert failed.returncode == 3
    assert f"127.0.0.1:{port}" in failed.stderr


def test_the_disk_probe_prints_a_rate(floor_program, tmp_path):
    for extra in ((), ("--fresh",)):
        output = subprocess.run(
            [floor_program, "--probe", "0.05", "--file-mb", "16", *extra],
            cwd=tmp_path, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        assert json.loads(output)["per_second"] > 0
    assert list(tmp_path.iterdir()) == []


def test_a_malformed_frame_closes_only_its_connection(floor):
    _, port = floor
    with socket.create_connection(("127.0.0.1", port)) as bad:
        bad.sendall(b"\xff" * 8)
        assert bad.recv(1) == b""
    result = json.loads(
        rmq_bench(
            "producer", "--broker", f"127.0.0.1:{port}", "--in-order", "--count", 10,
            "--warmup", 0, "--json",
        ).stdout
    )  # fmt: skip
    assert result["messages"] == 10


def test_an_unknown_row_of_the_table_is_refused():
    failed = run_python("bench/run.py", "--only", "nonsense")
    assert failed.returncode == 2
    assert "nonsense" in failed.stderr and "single" in failed.stderr
