"""Spark driver: a driver in a process of its own, for tests that kill it or give it a cluster.

python spark_driver.py stream NAMESRV TOPIC FOLDER    writes JSON files until it is killed; prints
                                                      "running" after its first batch
python spark_driver.py finish NAMESRV TOPIC FOLDER    the same query up to the present end
python spark_driver.py stream|finish NAMESRV TOPIC FOLDER TARGET
                                                      writes to a topic, in transactions
python spark_driver.py count MASTER NAMESRV TOPIC     prints rows, distinct offsets, hosts of tasks
python spark_driver.py speculate MASTER NAMESRV TOPIC TARGET
                                                      reads, and writes to TARGET and TARGET-once,
                                                      with a task that is slow at its first attempt
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from rmq.spark.session import build_session

SETTINGS = {"spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "512m"}  # fmt: skip


def query(
    spark: Any, namesrv: str, topic: str, folder: Path, target: str | None, **trigger: Any
) -> Any:
    reader = spark.readStream.format("rmq").option("nameserver", namesrv).option("topic", topic)
    reader = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=2000)
    if target is None:
        frame = reader.schema("queueId int, queueOffset long, body string").load()
        writer = frame.writeStream.format("json").option("path", str(folder / "out"))
    else:
        writer = reader.schema("body string").load().writeStream.format("rmq")
        writer = writer.options(nameserver=namesrv, topic=target, transactional="true")
    writer = writer.option("checkpointLocation", str(folder / "point"))
    return writer.trigger(**trigger).start()


def stream(namesrv: str, topic: str, folder: str, target: str | None = None) -> None:
    spark = build_session("stream", "local[2]", SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    running = query(spark, namesrv, topic, Path(folder), target, processingTime="0 seconds")
    while running.lastProgress is None and running.isActive:
        time.sleep(0.05)
    print("running", flush=True)
    running.awaitTermination()


def finish(namesrv: str, topic: str, folder: str, target: str | None = None) -> None:
    spark = build_session("finish", "local[2]", SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    query(spark, namesrv, topic, Path(folder), target, availableNow=True).awaitTermination()
    if target is not None:
        rows = spark.read.format("rmq").options(nameserver=namesrv, topic=target).load()
        print(json.dumps([rows.count(), rows.select("body").distinct().count()]), flush=True)
    else:
        rows = spark.read.schema("queueId int, queueOffset long, body string").json(
            str(Path(folder) / "out")
        )
        print(json.dumps([rows.count(), rows.distinct().count()]), flush=True)
    spark.stop()


def count(master: str, namesrv: str, topic: str) -> None:
    settings = {**SETTINGS, "spark.executor.memory": "512m", "spark.cores.max": "2",
                "spark.executor.cores": "1",
                # Tasks begin only when both executors are there, however slow the machine is.
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
                "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s"}  # fmt: skip
    spark = build_session("count", master, settings)
    spark.sparkContext.setLogLevel("ERROR")
    reader = spark.read.format("rmq").option("nameserver", namesrv).option("topic", topic)
    frame = reader.option("columns", "brokerName,queueId,queueOffset").load()
    rows = frame.count()
    distinct = frame.distinct().count()
    brokers = sorted(row.brokerName for row in frame.select("brokerName").distinct().collect())
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    print(json.dumps([rows, distinct, brokers, executors]), flush=True)
    spark.stop()


def speculate(master: str, namesrv: str, topic: str, target: str) -> None:
    from pyspark.sql.functions import udf

    settings = {**SETTINGS, "spark.executor.memory": "512m", "spark.cores.max": "2",
                "spark.executor.cores": "1", "spark.speculation": "true",
                "spark.speculation.interval": "100ms", "spark.speculation.quantile": "0.5",
                "spark.speculation.multiplier": "1.2",
                "spark.speculation.minTaskRuntime": "200ms",
                "spark.sql.execution.pythonUDF.arrow.enabled": "false",
                "spark.sql.execution.arrow.maxRecordsPerBatch": "100"}  # fmt: skip
    spark = build_session("speculate", master, settings)
    spark.sparkContext.setLogLevel("ERROR")
    reader = spark.read.format("rmq").option("nameserver", namesrv).option("topic", topic)
    frame = reader.option("minPartitions", "6").option("columns", "queueOffset,body").load()
    stuck = udf(stuck_at_first, "struct<body:binary,attempt:int>")
    slow = frame.select("queueOffset", stuck("queueOffset", "body").alias("row"))
    rows = slow.select("queueOffset", "row.attempt").collect()
    sent = slow.select("row.body").write.format("rmq").mode("append").option("nameserver", namesrv)
    sent.option("topic", target).save()
    sent.option("topic", f"{target}-once").option("transactional", "true").save()
    offsets = [row.queueOffset for row in rows]
    again = sorted({row.attempt for row in rows})
    print(json.dumps([len(offsets), len(set(offsets)), again]), flush=True)
    spark.stop()


def stuck_at_first(offset: int, body: bytes) -> tuple[bytes, int]:
    """The first attempt of the task with message 900 hangs there; later attempts do not."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    if offset == 900 and context.attemptNumber() == 0:
        time.sleep(200)
    return body, context.attemptNumber()


if __name__ == "__main__":
    tasks = {"stream": stream, "finish": finish, "count": count, "speculate": speculate}
    tasks[sys.argv[1]](*sys.argv[2:])
