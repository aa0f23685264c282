"""A Spark driver as a process of its own, for tests that kill it or give it a cluster.

python spark_driver.py stream NAMESRV TOPIC FOLDER    to JSON files until killed; prints "running"
                                                      when its first batch is done
python spark_driver.py finish NAMESRV TOPIC FOLDER    the same query to the end of what there is
python spark_driver.py count MASTER NAMESRV TOPIC     prints rows, distinct offsets, hosts of tasks
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from rmq.spark.session import build_session

SETTINGS = {"spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "512m"}  # fmt: skip


def query(spark: Any, namesrv: str, topic: str, folder: Path, **trigger: Any) -> Any:
    reader = spark.readStream.format("rmq").option("nameserver", namesrv).option("topic", topic)
    reader = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=2000)
    frame = reader.schema("queueId int, queueOffset long, body string").load()
    writer = frame.writeStream.format("json").option("checkpointLocation", str(folder / "point"))
    return writer.trigger(**trigger).start(str(folder / "out"))


def stream(namesrv: str, topic: str, folder: str) -> None:
    spark = build_session("stream", "local[2]", SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    running = query(spark, namesrv, topic, Path(folder), processingTime="0 seconds")
    while running.lastProgress is None and running.isActive:
        time.sleep(0.05)
    print("running", flush=True)
    running.awaitTermination()


def finish(namesrv: str, topic: str, folder: str) -> None:
    spark = build_session("finish", "local[2]", SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    query(spark, namesrv, topic, Path(folder), availableNow=True).awaitTermination()
    rows = spark.read.schema("queueId int, queueOffset long, body string").json(
        str(Path(folder) / "out")
    )
    print(json.dumps([rows.count(), rows.distinct().count()]), flush=True)
    spark.stop()


def count(master: str, namesrv: str, topic: str) -> None:
    settings = {**SETTINGS, "spark.executor.memory": "512m", "spark.cores.max": "2",
                "spark.executor.cores": "1"}  # fmt: skip
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


if __name__ == "__main__":
    {"stream": stream, "finish": finish, "count": count}[sys.argv[1]](*sys.argv[2:])
