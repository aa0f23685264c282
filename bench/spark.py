"""Spark: our source against Kafka's, against Parquet and against the most that Spark's API can do.

    python bench/spark.py                    the whole table, some minutes; `make bench-spark`
    python bench/spark.py --no-kafka         without Kafka: nothing is downloaded
    python bench/spark.py --rounds 1 --rows 100000          a smoke, numbers mean nothing

All sources read the same messages (rows x size) in two partitions, with local[2] and in one
session; they take turns, so that each round is a fair comparison. CPU is that of the JVM and of
Spark's Python workers, per million rows; that of the brokers is not included. All run on the
PySpark for which Kafka's source is published (tools/peers/kafka.py), unless --no-kafka is given.
build/bench/spark.json keeps every round.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "bench" / "spark.json"
sys.path.insert(0, str(ROOT))

from random_rows import send_rows  # noqa: E402
from spark_session import WARM_UPS, Read, Run, Session, sums  # noqa: E402

from rmq.client.blocking.admin import create_topic  # noqa: E402
from rmq.client.blocking.cluster import Cluster  # noqa: E402
from tools.peers.cache import cache_directory  # noqa: E402
from tools.peers.kafka import SOURCE_VERSION, Kafka, source_jars  # noqa: E402

PORT = 28500
# More rounds, because empty queues cost some ms of about 400, and single runs differ by a half.
QUEUE_ROUNDS = 6  # for each round of the table


def pyspark_for_kafka() -> Path:
    """A folder with the PySpark for which Kafka's source is made; downloads it once."""
    folder = cache_directory() / f"pyspark-{SOURCE_VERSION}"
    if not folder.exists():
        partial = folder.with_suffix(".partial")
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target",
                        partial, f"pyspark=={SOURCE_VERSION}"], check=True)  # fmt: skip
        partial.rename(folder)
    return folder


class Servers:
    """Our broker, with a store of its own, and Kafka if it takes part."""

    def __init__(self, folder: Path, kafka: bool) -> None:
        self.folder = folder
        self.store = folder / "store"
        self.namesrv = f"127.0.0.1:{PORT}"
        self.broker = subprocess.Popen(
            [sys.executable, "-m", "rmq", "standalone", "--store", str(self.store), "--port",
             str(PORT + 10), "--namesrv-port", str(PORT), "--set",
             f"mappedFileSizeCommitLog={256 << 20}"],
            stdout=subprocess.PIPE, stderr=(folder / "broker.log").open("w"), text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert self.broker.stdout is not None
        if "ready" not in self.broker.stdout.readline():
            raise click.ClickException((folder / "broker.log").read_text()[-2000:])
        self.kafka = Kafka(folder / "kafka", PORT + 20) if kafka else None
        if self.kafka is not None:
            self.kafka.start()

    def close(self) -> None:
        self.broker.terminate()
        self.broker.wait(30)
        if self.kafka is not None:
            self.kafka.stop()


class Bench(Session):
    """The session and the frames that are compared."""

    def __init__(self, servers: Servers, rows: int, size: int) -> None:
        from memory_source import MemorySource

        settings = {}
        if servers.kafka is not None:
            settings["spark.jars"] = ",".join(map(str, sorted(source_jars().glob("*.jar"))))
        super().__init__(settings)
        self.servers = servers
        self.spark.dataSource.register(MemorySource)
        self.rounds: dict[str, list[Run]] = {}
        self.frames: dict[str, Read] = {
            "rmq": sums(self.topic(servers.namesrv, "bench"), "body"),
            "rmq path": sums(self._store(), "body"),
            "ceiling": sums(self._memory(rows, size), "body"),
            "parquet": sums(self._parquet(), "body"),
        }
        if servers.kafka is not None:
            frame = self.spark.read.format("kafka").option(
                "kafka.bootstrap.servers", servers.kafka.address
            )
            self.frames["kafka"] = sums(frame.option("subscribe", "bench").load(), "value")

    def _store(self) -> Any:
        reader = self.spark.read.format("rmq").option("path", str(self.servers.store))
        return reader.option("topic", "bench").option("columns", "body").load()

    def _memory(self, rows: int, size: int) -> Any:
        return self.spark.read.format("memory_rows").options(rows=rows, size=size).load()

    def _parquet(self) -> Any:
        """The same rows as a Parquet file, not compressed, with the columns that a reader of
        messages would store."""
        folder = str(self.servers.folder / "parquet")
        reader = self.spark.read.format("rmq").option("nameserver", self.servers.namesrv)
        frame = reader.option("topic", "bench").option("columns", "queueOffset,body").load()
        frame.write.option("compression", "none").parquet(folder)
        return self.spark.read.parquet(folder).select("body")

    def measure(self, name: str, keep: bool) -> None:
        run = self.run(self.frames[name])
        if keep:
            self.rounds.setdefault(name, []).append(run)


def queue_seconds(bench: Bench, rounds: int, rows: int) -> dict[str, list[float]]:
    """The seconds of reads of 10 full queues, and of 100 queues with the same messages in 10 of
    them; in turns, each of the two first equally often."""
    servers = bench.servers
    for name in ("ten", "hundred"):
        send_rows(servers.namesrv, name, 10, rows, 256)
    with Cluster(servers.namesrv) as cluster:
        create_topic(cluster, "hundred", 100)
    names = ["ten", "hundred"]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for at in range(rounds + WARM_UPS):
        for name in names:
            began = time.monotonic()
            found, _ = sums(bench.topic(servers.namesrv, name), "body")()
            if at >= WARM_UPS:
                seconds[name].append(time.monotonic() - began)
            if found != rows:
                raise click.ClickException(f"{found} messages of {rows} in topic {name}")
        names.reverse()
    return seconds


def queue_verdict(seconds: dict[str, list[float]]) -> None:
    """Prints the median of the ratios of all rounds, and the range of their middle half."""
    few_s, many_s = map(np.array, seconds.values())
    quarter, overhead, three_quarters = np.percentile(many_s / few_s, (25, 50, 75))
    few, many = np.median(few_s) * 1000, np.median(many_s) * 1000
    click.echo(f"{'100 queues, 90 empty / 10':28} {overhead:6.2f}   goal <= 1.1   "
               f"{'reached' if overhead <= 1.1 else 'MISSED'} ({many:.0f} ms / {few:.0f} ms,"
               f" half of {len(few_s)} rounds {quarter:.2f} to {three_quarters:.2f})")  # fmt: skip


def stream_latency(bench: Bench, seconds: float) -> list[float]:
    """Seconds from when a message was stored to the end of the batch with it, at 1 s triggers."""
    import threading

    from rmq import Message, Producer

    servers, found, stop = bench.servers, [], threading.Event()
    with Cluster(servers.namesrv) as cluster:
        create_topic(cluster, "latency", 2)

    def produce() -> None:
        with Producer("bench-latency", namesrv_addr=servers.namesrv) as producer:
            while not stop.wait(0.05):
                producer.send(Message("latency", b"x"))

    def take(frame: Any, batch: int) -> None:
        stamps = [row.storeTimestamp.timestamp() for row in frame.collect()]
        if batch > 3:
            found.extend(time.time() - stamp for stamp in stamps)

    reader = bench.spark.readStream.format("rmq").option("nameserver", servers.namesrv)
    frame = reader.option("topic", "latency").option("columns", "storeTimestamp").load()
    query = frame.writeStream.foreachBatch(take).trigger(processingTime="1 second").start()
    thread = threading.Thread(target=produce)
    thread.start()
    query.awaitTermination(seconds)
    stop.set()
    thread.join()
    query.stop()
    return sorted(found)


def report(bench: Bench) -> dict[str, dict[str, float]]:
    """Prints the medians of each source, rows/s and CPU-s per million rows, and returns them."""
    found = {}
    for name, rounds in bench.rounds.items():
        jvm = statistics.median(jvm * 1e6 / rows for _, jvm, _, rows in rounds)
        python = statistics.median(python * 1e6 / rows for _, _, python, rows in rounds)
        found[name] = {
            "rows/s": statistics.median(rows / seconds for seconds, _, _, rows in rounds),
            "CPU-s/M": statistics.median((a + b) * 1e6 / rows for _, a, b, rows in rounds),
        }
        click.echo(f"{name:10} {found[name]['rows/s'] / 1e6:6.2f} M rows/s   JVM {jvm:5.2f}"
                   f" + Python {python:5.2f} CPU-s per million rows")  # fmt: skip
    return found


def verdicts(found: dict[str, dict[str, float]]) -> None:
    ours, path, parquet = found["rmq"], found["rmq path"], found["parquet"]
    rows = [
        ("CPU, ceiling / rmq", 0.8, found["ceiling"]["CPU-s/M"] / ours["CPU-s/M"]),
        ("rows/s, rmq path / parquet", 0.6, path["rows/s"] / parquet["rows/s"]),
        ("CPU, parquet / rmq path", 0.6, parquet["CPU-s/M"] / path["CPU-s/M"]),
    ]  # fmt: skip
    if "kafka" in found:
        rows.insert(0, ("rows/s, rmq / kafka", 2.5, ours["rows/s"] / found["kafka"]["rows/s"]))
        rows.insert(1, ("CPU, kafka / rmq", 2.5, found["kafka"]["CPU-s/M"] / ours["CPU-s/M"]))
    for name, goal, value in rows:
        click.echo(f"{name:28} {value:6.2f}   goal >= {goal}   "
                   f"{'reached' if value >= goal else 'MISSED'}")  # fmt: skip


@click.command()
@click.option("--rounds", default=5, show_default=True)
@click.option("--rows", default=1_000_000, show_default=True)
@click.option("--size", default=1024, show_default=True)
@click.option("--kafka/--no-kafka", default=True, help="Compare with Kafka's source.")
def main(rounds: int, rows: int, size: int, kafka: bool) -> None:
    """Print the table of the Spark source."""
    if kafka and "RMQ_BENCH_PYSPARK" not in os.environ:
        folder = pyspark_for_kafka()
        paths = f"{folder}{os.pathsep}{ROOT}{os.pathsep}{ROOT / 'bench'}"
        environment = {**os.environ, "RMQ_BENCH_PYSPARK": str(folder), "PYTHONPATH": paths}
        environment["SPARK_HOME"] = str(folder / "pyspark")
        raise SystemExit(subprocess.call([sys.executable, *sys.argv], env=environment))
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [os.environ.get("PYTHONPATH", ""), str(ROOT), str(ROOT / "bench")]
    )
    folder = Path(tempfile.mkdtemp(prefix="rmq-bench-spark-"))
    servers = Servers(folder, kafka)
    try:
        click.echo(f"filling {rows} messages of {size} bytes ...", err=True)
        send_rows(servers.namesrv, "bench", 2, rows, size)
        if servers.kafka is not None:
            servers.kafka.fill("bench", 2, rows, size)
        bench = Bench(servers, rows, size)
        for at in range(rounds + WARM_UPS):
            for name in bench.frames:
                bench.measure(name, keep=at >= WARM_UPS)
        click.echo(f"PySpark {bench.spark.version}, {rows} rows of {size} bytes, {rounds} rounds")
        found = report(bench)
        verdicts(found)
        click.echo(f"{'largest Python worker':28} {bench.worker_mib():6.0f} MiB   goal <= 256")
        queues = queue_seconds(bench, rounds * QUEUE_ROUNDS, rows // 5)
        queue_verdict(queues)
        delays = stream_latency(bench, 20.0)
        click.echo(f"{'send to sink, 1 s triggers':28} {statistics.median(delays):6.2f} s median,"
                   f" {delays[-1]:.2f} s most   goal <= 1.3")  # fmt: skip
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps({"rounds": bench.rounds, "medians": found,
                                       "queues": queues, "latency": delays}))  # fmt: skip
        bench.stop()
    finally:
        servers.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
