"""Spark in processes of its own: drivers that are killed, a cluster with two workers, the
example."""

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from support.broker_process import BrokerProcess
from support.reading import read_all
from support.sharded_broker import sharded_broker
from support.source_tree import ROOT
from support.spark_topics import make, producer
from support.waiting import HANG_S, wait_until

from rmq import Message
from rmq.demo.ports import free_port
from rmq.format.fastjson import MessageQueue

EXAMPLE = ROOT / "tools" / "examples" / "orders.py"
DRIVER = ROOT / "tests" / "support" / "spark_driver.py"
ROUNDS = int(os.environ.get("RMQ_SPARK_ROUNDS", "20"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}


def driver(*arguments: str, **more: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(DRIVER), *arguments], stdout=subprocess.PIPE,
                            text=True, env=ENVIRONMENT, start_new_session=True, **more)  # fmt: skip


def load_example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("orders_example", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def last_line(process: subprocess.Popen[str], seconds: float = 240) -> str:
    said, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0
    return said.strip().splitlines()[-1]


def kill_session(process: subprocess.Popen[str]) -> None:
    """Kills the driver with its JVM and workers, as if a machine dies."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def kill_drivers(
    broker: BrokerProcess, topic: str, folder: Path, rounds: int, pause: float, *target: str
) -> int:
    """Sends messages while drivers are killed; the last driver reads to the end. Returns how many
    were sent."""
    sent, stop = [0], threading.Event()
    make(broker, topic, 3)

    def produce() -> None:
        with producer(broker) as sender:
            while not stop.is_set():
                sender.send(Message(topic, b"%d" % sent[0]))
                sent[0] += 1
                time.sleep(pause)

    thread = threading.Thread(target=produce)
    thread.start()
    chance = random.Random(20)
    arguments = (broker.namesrv, topic, str(folder), *target)
    try:
        for _ in range(rounds):
            process = driver("stream", *arguments)
            assert process.stdout is not None
            assert process.stdout.readline() == "running\n"
            time.sleep(chance.uniform(0, 3))
            kill_session(process)
    finally:
        stop.set()
        thread.join()
    assert json.loads(last_line(driver("finish", *arguments), 900)) == [sent[0], sent[0]]
    return sent[0]


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_driver_killed_twenty_times_writes_every_message_exactly_once(
    spark, broker: BrokerProcess, tmp_path: Path
) -> None:
    sent = kill_drivers(broker, "twenty", tmp_path, ROUNDS, 0.001)
    rows = spark.read.schema("body string").json(str(tmp_path / "out")).collect()
    assert sorted(int(row.body) for row in rows) == list(range(sent))


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_driver_killed_over_its_transactions_shows_every_row_once(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    make(broker, "ended", 2)
    sent = kill_drivers(broker, "to-end", tmp_path, ROUNDS // 2, 0.01, "ended")
    rows = sorted(int(each.body) for each in read_all(broker.namesrv, "ended"))
    assert rows == list(range(sent))


@contextmanager
def spark_cluster(folder: Path) -> Iterator[str]:
    """One master and two workers with one core each; yields the master's URL."""
    import pyspark

    from rmq.spark.jdk import need_java_home

    home = Path(pyspark.__file__).parent
    environment = {**ENVIRONMENT, "JAVA_HOME": str(need_java_home()), "SPARK_HOME": str(home),
                   "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}  # fmt: skip
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    classes = [["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    # Two hosts, because Spark runs a speculative task on another host than the first attempt.
    classes += [["worker.Worker", url, "--cores", "1", "--memory", "600m", "--host", host,
                 "--webui-port", "0", "--work-dir", str(folder / host)]
                for host in ("127.0.0.1", "127.0.0.2")]  # fmt: skip
    processes = []
    try:
        for at, (name, *arguments) in enumerate(classes):
            with (folder / f"{at}.log").open("w") as log:
                command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
                processes.append(
                    subprocess.Popen(
                        [*command, *arguments], stdout=log, stderr=log, env=environment
                    )
                )
        log = (folder / "0.log").read_text
        wait_until(lambda: log().count("Registering worker") >= 2, log=log)
        yield url
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(30)


@pytest.mark.slow
def test_a_cluster_of_two_workers_reads_a_broker_of_two_shards(tmp_path: Path) -> None:
    with sharded_broker(tmp_path, 2) as broker, spark_cluster(tmp_path) as url:
        make(broker, "spread", 2)  # type: ignore[arg-type]
        with producer(broker) as sender:
            for at in range(4000):
                sender.send(Message("spread", b"%d" % at))
        rows, distinct, brokers, executors = json.loads(
            last_line(driver("count", url, broker.namesrv, "spread"))
        )
    assert (rows, distinct) == (4000, 4000)
    assert len(brokers) == 2
    assert executors == 2


@pytest.mark.slow
def test_speculative_tasks_change_no_result(broker: BrokerProcess, tmp_path: Path) -> None:
    """The stuck task has sent some rows, so the rows of its second attempt are there twice."""
    make(broker, "speculated", 2)
    make(broker, "written", 2)
    make(broker, "written-once", 2)
    sent = [b"%04d" % at * 250 for at in range(3000)]  # more than Spark's buffers hold back
    queue = MessageQueue("speculated", "broker-a", 0)
    with producer(broker) as sender:
        for body in sent:
            sender.send(Message("speculated", body), queue=queue)
    with spark_cluster(tmp_path) as url:
        rows, distinct, attempts = json.loads(
            last_line(driver("speculate", url, broker.namesrv, "speculated", "written"))
        )
    assert (rows, distinct) == (3000, 3000)
    assert attempts == [0, 1]  # the speculative attempt was the one that counted
    assert sorted(each.body for each in read_all(broker.namesrv, "written-once")) == sorted(sent)
    written = read_all(broker.namesrv, "written")
    assert len(written) > len(sent)
    once = {each.properties["UNIQ_KEY"]: each.body for each in written}
    assert sorted(once.values()) == sorted(sent)


def test_the_example_counts_every_click_and_writes_windows_to_files_and_back(
    spark, broker: BrokerProcess, tmp_path: Path
) -> None:
    from rmq.spark.repeats import drop_repeats

    example = load_example()
    example.produce(broker.namesrv, 600)
    for query in example.start(spark, broker.namesrv, tmp_path, availableNow=True):
        assert query.awaitTermination(240)
        assert query.exception() is None
    stored = spark.read.parquet(str(tmp_path / "windows")).collect()
    assert sum(row.clicks for row in stored) == 600
    assert sum(row.revenue for row in stored) > 0
    assert len({(row.start, row.page) for row in stored}) == len(stored) >= 40
    reader = spark.read.format("rmq").option("nameserver", broker.namesrv)
    messages = drop_repeats(reader.option("topic", example.WINDOWS).load()).collect()
    back = sorted(
        (row["page"], row["clicks"]) for row in map(json.loads, (m.body for m in messages))
    )
    assert back == sorted((row.page, row.clicks) for row in stored)


@pytest.mark.slow
def test_the_example_and_the_shell_run_as_programs(broker: BrokerProcess, tmp_path: Path) -> None:
    example = [str(EXAMPLE), "--namesrv", broker.namesrv, "--folder", str(tmp_path)]
    shell = ["-m", "rmq", "spark", "shell", "-n", broker.namesrv, "-c"]
    for arguments, said in (
        ([*example, "--produce", "100"], " 100 clicks, revenue "),
        ([*shell, "print('rows', topic('clickstream').count())"], "rows 101"),
    ):
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True,
                              env=ENVIRONMENT, timeout=HANG_S)  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        assert said in done.stdout
