"""An example pipeline: clicks of a shop are counted in windows, to Parquet files and back to rmq.

    python tools/examples/orders.py --namesrv 127.0.0.1:9876 --folder orders-data --seconds 20

    topic clickstream  --readStream-->  JSON parsed, 10 s windows per page with revenue
                                        |--> Parquet files in FOLDER/windows
                                        `--> messages in topic page-windows, keyed by page

Every window is written once it is over (watermark of 5 s). The checkpoints in FOLDER make a restart
go on where it ended; drop_repeats on the way back takes care of what a crash may have sent twice.
`--produce N` first sends N made-up clicks, so that there is something to see.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

CLICKS, WINDOWS = "clickstream", "page-windows"
PAGES = ("home", "basket", "shoes", "hats")


def produce(namesrv: str, count: int, seed: int = 1) -> None:
    """Made-up clicks of the last two minutes; every tenth buys something."""
    from rmq import Message, Producer
    from rmq.client.blocking.admin import create_topic
    from rmq.client.blocking.cluster import Cluster

    chance = random.Random(seed)
    start = time.time() - 120
    with Cluster(namesrv) as cluster:
        create_topic(cluster, CLICKS, 4)
        create_topic(cluster, WINDOWS, 2)
    with Producer("orders-example", namesrv_addr=namesrv) as producer:
        for at in range(count):
            click = {
                "at": start + 120 * at / count,
                "page": chance.choice(PAGES),
                "amount": 5 * chance.randrange(1, 20) if at % 10 == 0 else 0,
            }
            tags = "buy" if click["amount"] else None
            producer.send(Message(CLICKS, json.dumps(click), tags=tags))
        # A late click closes the windows of the others.
        last = {"at": time.time() + 60, "page": "home", "amount": 0}
        producer.send(Message(CLICKS, json.dumps(last)))


def windows(spark: Any, namesrv: str) -> Any:
    """Clicks and revenue per page and 10 seconds."""
    from pyspark.sql import functions as f

    clicks = (
        spark.readStream.format("rmq")
        .option("nameserver", namesrv)
        .option("topic", CLICKS)
        .option("startingOffsets", "earliest")
        .option("group", "orders-example")
        .option("commitOffsets", "true")
        .schema("body string")
        .load()
        .select(f.from_json("body", "at double, page string, amount long").alias("click"))
        .select(f.col("click.at").cast("timestamp").alias("at"), "click.page", "click.amount")
    )
    return (
        clicks.withWatermark("at", "5 seconds")
        .groupBy(f.window("at", "10 seconds"), "page")
        .agg(f.count("*").alias("clicks"), f.sum("amount").alias("revenue"))
        .select(f.col("window.start").alias("start"), "page", "clicks", "revenue")
    )


def start(spark: Any, namesrv: str, folder: Path, **trigger: Any) -> list[Any]:
    """Both queries, started."""
    from pyspark.sql import functions as f

    counted = windows(spark, namesrv)
    files = (
        counted.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint-files"))
        .trigger(**trigger)
        .start(str(folder / "windows"))
    )
    row = f.struct(f.date_format("start", "yyyy-MM-dd HH:mm:ss").alias("start"), "page", "clicks",
                   "revenue")  # fmt: skip
    messages = (
        counted.select(f.to_json(row).alias("body"), f.col("page").alias("shardingKey"))
        .writeStream.format("rmq")
        .option("nameserver", namesrv)
        .option("topic", WINDOWS)
        .option("checkpointLocation", str(folder / "checkpoint-messages"))
        .trigger(**trigger)
        .start()
    )
    return [files, messages]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876")
    parser.add_argument("--folder", type=Path, default=Path("orders-data"))
    parser.add_argument("--produce", type=int, default=0, metavar="N")
    parser.add_argument("--seconds", type=float, default=0, help="0: what is there, then end")
    given = parser.parse_args()

    from rmq.spark.repeats import drop_repeats
    from rmq.spark.session import build_session

    if given.produce:
        produce(given.namesrv, given.produce)
    quiet = {"spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2"}
    spark = build_session("orders", "local[2]", quiet)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        trigger = {"processingTime": "1 second"} if given.seconds else {"availableNow": True}
        queries = start(spark, given.namesrv, given.folder.absolute(), **trigger)
        for query in queries:
            query.awaitTermination(given.seconds) if given.seconds else query.awaitTermination()
            query.stop()
        back = spark.read.format("rmq").option("nameserver", given.namesrv)
        again = drop_repeats(back.option("topic", WINDOWS).load())
        stored = spark.read.parquet(str(given.folder.absolute() / "windows"))
        stored.orderBy("start", "page").show(8, truncate=False)
        total = stored.selectExpr("sum(clicks)", "sum(revenue)").first()
        print(f"{stored.count()} windows in files, {again.count()} as messages:"
              f" {total[0]} clicks, revenue {total[1]}")  # fmt: skip
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
