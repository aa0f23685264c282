"""Table rows: what reading a topic, or a store's files, as a table costs compared with other ways.

All read the same number of messages with random bodies of 1 KiB. read_table and Spark's
`format("rmq")` read two queues of our running broker; confluent-kafka's consumer reads from Kafka
4.1, a thousand at a time, and looks at each value; scan_store reads our store's files; pyarrow
reads the same rows from a Parquet file, which is not compressed. CPU-s/M is CPU seconds of the
reader per million rows, for Spark those of the JVM and its Python workers; a broker's are not
included. Each reader runs in a process of its own for each round (bench/table_worker.py), except
Spark, whose session stays and is warm; so each process reads twice, and the second time counts.

Spark's rate for one core is half of what local[2] reads; it is compared with one thread of
read_table.

    outcomes = TABLE_ROWS["read_spark"](Bench(root=Path("/tmp/x"), rounds=5))
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from random_rows import send_rows
from rounds import Outcome, in_turns, interleaved, middle
from rows import Bench, Row
from servers import Ours
from table_worker import ROW_BYTES, TOPIC
from worker import Found, compared, run_worker

import rmq
from rmq.demo.ports import free_port

QUEUES = 2
BODY = "body"
COLUMNS = "queueOffset,storeTimestamp,body"  # of files: those a reader of messages would store
ROW_GROUP = 16 << 10  # rows: 16 MiB, as much as scan_store reads at once


@contextmanager
def filled(bench: Bench) -> Iterator[Ours]:
    with bench.ours(name="tables") as ours:
        send_rows(ours.name_server, TOPIC, QUEUES, bench.table_rows, ROW_BYTES)
        yield ours


def reader(
    what: str, bench: Bench, place: object, columns: str, threads: int
) -> Callable[[], Found]:
    words = (what, place, bench.table_rows, columns, threads)
    return lambda: run_worker("table_worker.py", *words)


def read_spark(bench: Bench) -> list[Outcome]:
    from spark_session import CORES, WARM_UPS, Session, sums

    with filled(bench) as ours:
        session = Session()
        try:
            read = sums(session.topic(ours.name_server, TOPIC), BODY)

            def of_a_core() -> Found:
                run = session.run(read)
                if run.rows != bench.table_rows:
                    raise RuntimeError(f"Spark read {run.rows} rows of {bench.table_rows}")
                cost = (run.jvm_s + run.python_s) / run.rows * 1e6
                return {"rate": run.rows / run.seconds / CORES, "cpu_per_million": cost}

            for _ in range(WARM_UPS):
                of_a_core()
            ours_first = reader("read", bench, ours.name_server, BODY, 1)
            pairs = interleaved(bench.rounds, ours_first, of_a_core)
        finally:
            session.stop()
    return compared(
        Outcome("read_spark", "read_table: rows/s of a core to the Spark source's", 2.0, ">="),
        Outcome("read_spark", "read_table: CPU-s/M to the Spark source's", 0.5),
        pairs, ("read_table", "Spark"),
    )  # fmt: skip


def read_kafka(bench: Bench) -> list[Outcome]:
    from client_worker import POLL_MESSAGES, topic_of

    from tools.peers.kafka import Kafka

    kafka = Kafka(bench.root / "kafka", free_port(0, 1))
    kafka.start()
    try:
        with filled(bench) as ours:
            # A tenth more is read before the rows that count, and the last polls may read too many.
            count = bench.table_rows * 11 // 10 + 2 * POLL_MESSAGES
            kafka.fill(topic_of(ROW_BYTES), QUEUES, count, ROW_BYTES)
            words = ("poll", "confluent", kafka.address, ROW_BYTES, bench.table_rows)
            pairs = interleaved(
                bench.rounds,
                reader("read", bench, ours.name_server, BODY, usual_threads()),
                lambda: run_worker("client_worker.py", *words),
            )
    finally:
        kafka.stop()
    return compared(
        Outcome("read_kafka", "read_table: rows/s to confluent-kafka's consume", 3.0, ">="),
        Outcome("read_kafka", "read_table: CPU-s/M to confluent-kafka's consume", 0.333),
        pairs, ("read_table", "confluent-kafka"),
    )  # fmt: skip


def scan_parquet(bench: Bench) -> list[Outcome]:
    from pyarrow.parquet import write_table

    file = bench.root / "rows.parquet"
    with filled(bench) as ours:
        table = rmq.scan_store(ours.store, TOPIC, columns=COLUMNS.split(",")).read_all()
        write_table(table, file, compression="none", use_dictionary=False, row_group_size=ROW_GROUP)
        del table
        threads = usual_threads()
        pairs = interleaved(
            bench.rounds,
            reader("scan", bench, ours.store, COLUMNS, threads),
            reader("parquet", bench, file, COLUMNS, threads),
        )
    return compared(
        Outcome("scan_parquet", "scan_store: rows/s to pyarrow's of Parquet", 0.6, ">="),
        Outcome("scan_parquet", "scan_store: CPU-s/M to pyarrow's of Parquet", 1.67),
        pairs, ("scan_store", "Parquet"),
    )  # fmt: skip


def usual_threads() -> int:
    """The default number of threads (rmq/arrow/tables.py)."""
    return len(os.sched_getaffinity(0))


def threads(bench: Bench) -> list[Outcome]:
    """What more threads gain and cost, when all is read once, and when it is read again."""
    numbers = sorted({1, 2, usual_threads(), 2 * usual_threads()})
    outcomes = []
    with filled(bench) as ours:
        for what, place, columns in (
            ("read", ours.name_server, BODY),
            ("scan", ours.store, COLUMNS),
        ):
            each = [reader(what, bench, place, columns, number) for number in numbers]
            rounds = in_turns(bench.rounds, each)
            for at, number in enumerate(numbers[1:], 1):
                outcome = Outcome("threads", f"{what} by {number} threads: rows/s to one", None)
                outcome.values = ratios(rounds, at, "first_rate")
                outcome.notes = [
                    f"CPU-s/M {middle(ratios(rounds, at, 'first_cpu_per_million')):.2f}x",
                    f"read again {middle(ratios(rounds, at, 'rate')):.2f}x, "
                    f"CPU-s/M {middle(ratios(rounds, at, 'cpu_per_million')):.2f}x",
                ]
                outcome.details = {"threads": numbers, "rounds": rounds}
                outcomes.append(outcome)
    return outcomes


def ratios(rounds: list[list[Found]], at: int, key: str) -> list[float]:
    return [found[at][key] / found[0][key] for found in rounds]


TABLE_ROWS: dict[str, Row] = {
    "read_spark": read_spark,
    "read_kafka": read_kafka,
    "scan_parquet": scan_parquet,
    "threads": threads,
}
