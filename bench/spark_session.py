"""Spark session: one session, and the CPU of its JVM and its Python workers for what it reads.

    spark = Session({"spark.jars": jars})
    read = sums(spark.topic(namesrv, "bench"), "body")
    spark.run(read)         Run(seconds=0.9, jvm_s=0.7, python_s=0.7, rows=1000000)
    spark.stop()

It is local[2]: two tasks run at a time, on two cores. The CPU of a run is that of the JVM and of
all Python processes that it has started, also during the run; a broker's CPU is not included.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rmq.load.cpu import tick_seconds, with_descendants
from rmq.spark.session import build_session

CORES = 2
WARM_UPS = 3  # rounds that do not count, in which the JVM compiles the code
SUM = ("count(*)", "sum(length({}))")
SETTINGS = {"spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g",
            "spark.sql.shuffle.partitions": str(CORES)}  # fmt: skip

Read = Callable[[], tuple[int, int]]  # rows, and the bytes of their bodies


class Run(NamedTuple):
    """What one read took."""

    seconds: float
    jvm_s: float
    python_s: float
    rows: int


def sums(frame: Any, column: str) -> Read:
    """A read of every row that asks only for the length of each body."""
    return lambda: tuple(frame.selectExpr(*(each.format(column) for each in SUM)).first())


class Session:
    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self.spark = build_session("bench", f"local[{CORES}]", {**SETTINGS, **(settings or {})})
        self.spark.sparkContext.setLogLevel("ERROR")
        self.jvm = self.spark.sparkContext._gateway.proc.pid

    def stop(self) -> None:
        self.spark.stop()

    def topic(self, namesrv: str, name: str) -> Any:
        reader = self.spark.read.format("rmq").option("nameserver", namesrv)
        return reader.option("topic", name).option("columns", "body").load()

    def run(self, read: Read) -> Run:
        before = self._cpu()
        began = time.monotonic()
        rows, _ = read()
        seconds = time.monotonic() - began
        return Run(seconds, *self._spent(before), rows)

    def _cpu(self) -> dict[int, float]:
        return {pid: tick_seconds(pid) for pid in with_descendants(self.jvm)}

    def _spent(self, before: dict[int, float]) -> tuple[float, float]:
        after = {pid: seconds - before.get(pid, 0.0) for pid, seconds in self._cpu().items()}
        jvm = after.pop(self.jvm, 0.0)
        return jvm, sum(after.values())

    def worker_mib(self) -> float:
        """The largest resident memory that a Python worker has ever had."""
        peaks = [0.0]
        for pid in with_descendants(self.jvm):
            if pid == self.jvm:
                continue
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmHWM"):
                    peaks.append(int(line.split()[1]) / 1024)
        return max(peaks)
