"""The Python client against confluent-kafka on Kafka 4.1: `make bench-client`.

    python bench/client.py --rounds 5
    python bench/client.py --quick

Measures asynchronous sends of 128 B and 1 KiB with a callback for each message, and polls of 1000
of the sent 1 KiB messages, whose bodies are looked at: messages a second (goal >= 1x) and CPU
seconds of the client's process per million messages (goal <= 1x). Each round runs both clients, one
after the other in alternating order, on the same cores, each against its own broker, and makes a
ratio of its own. Both brokers run all the time. Needs a JDK, Maven and confluent-kafka (the extra
`peers`).
"""

import json
import sys
import tempfile
from pathlib import Path

import click
from machine import machine
from rounds import Outcome, interleaved
from run import RESULTS, print_table
from worker import compared, run_worker

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tools/ is not installed

from rmq.demo.ports import free_port
from rmq.pytest_plugin import embedded_broker
from tools.peers.kafka import Kafka

WORKER = "client_worker.py"
SIZES = {128: 1_000_000, 1024: 500_000}
POLLED = 1024  # the one of SIZES whose messages are polled
TITLES = {"send": "async send {} B, callback each", "poll": "consumer, {} B, batch poll"}


def rows_of(work: str, size: int, count: int, rounds: int, ours: str, kafka: str) -> list[Outcome]:
    name, title = f"client_{work}_{size}", TITLES[work].format(size)
    pairs = interleaved(
        rounds,
        lambda: run_worker(WORKER, work, "ours", ours, size, count),
        lambda: run_worker(WORKER, work, "confluent", kafka, size, count),
    )
    rate = Outcome(name, f"client: {title}: msg/s", 1.0, ">=")
    cpu = Outcome(f"{name}_cpu", f"client: {title}: client CPU-s/M", 1.0)
    return compared(rate, cpu, pairs, ("ours", "confluent-kafka"))


@click.command()
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 100))
@click.option("--quick", is_flag=True, help="Tiny rounds, to see that everything runs.")
def main(rounds: int, quick: bool) -> None:
    """Measure the Python client against confluent-kafka."""
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="rmq-bench-") as directory:
        kafka = Kafka(Path(directory) / "kafka", free_port(0, 1))
        kafka.start()
        try:
            with embedded_broker(Path(directory) / "ours") as broker:
                for size, count in SIZES.items():
                    click.echo(f"measuring {size} B ...", err=True)
                    number = count // 50 if quick else count
                    # A run that is not measured: Kafka's JVM compiles code, topics are created.
                    run_worker(WORKER, "send", "confluent", kafka.address, size, number)
                    # The polls read what the sends of all rounds have left.
                    for work in ("send", "poll") if size == POLLED else ("send",):
                        outcomes += rows_of(
                            work, size, number, 1 if quick else rounds, broker.namesrv_addr,
                            kafka.address,
                        )  # fmt: skip
        finally:
            kafka.stop()
    print_table(outcomes)
    results = RESULTS.with_name("client.json")
    results.parent.mkdir(parents=True, exist_ok=True)
    report = {"machine": machine(), "rows": [outcome.as_json() for outcome in outcomes]}
    results.write_text(json.dumps(report, indent=1) + "\n")
    click.echo(f"rounds kept in {results}", err=True)


if __name__ == "__main__":
    main()
