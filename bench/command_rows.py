"""Command rows: how long a person waits for `rmq`, from exec to its end.

A value is wall time: the median of several runs of each command in a round. `help` asks no server;
`answers` are commands that ask a broker on loopback, which has a topic with messages, and the
slowest of them counts. The note has the time of the interpreter alone, and the CPU time, because on
a machine that others use the wall time shows mostly how much of it they left.

    outcome = COMMAND_ROWS["help"](Bench(root=Path("/tmp/x"), rounds=5))
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence

from random_rows import send_rows
from rounds import Outcome, in_turns, middle
from rows import TOPIC, Bench, Row
from servers import ROOT

from rmq.client.blocking.admin import create_group
from rmq.client.blocking.cluster import Cluster

HELP_MS, ANSWER_MS = 100.0, 250.0
GROUP = "bench-group"
BARE = (sys.executable, "-c", "pass")
RMQ = (sys.executable, "-m", "rmq")
ANSWERS = (
    ("topic", "list"), ("topic", "describe", TOPIC), ("group", "list"),
    ("group", "describe", GROUP), ("cluster", "list"), ("broker", "status"), ("config", "get"),
    ("consume", TOPIC, "--from", "-1"), ("message", "query", TOPIC, "--unique-key", "0" * 32),
    ("dlq", "list"), ("send", TOPIC, "one more"),
)  # fmt: skip


def times_ms(command: Sequence[str], runs: int) -> tuple[float, float]:
    """Median of the wall times, and of the CPU times, in ms."""
    walls, processors = [], []
    for _ in range(runs):
        before, began = children_s(), time.perf_counter()
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        walls.append((time.perf_counter() - began) * 1e3)
        processors.append((children_s() - before) * 1e3)
        if done.returncode != 0:
            raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")
    return middle(walls), middle(processors)


def children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def help_(bench: Bench) -> Outcome:
    outcome = Outcome("help", "rmq --help: exec to end", HELP_MS, unit=" ms")
    times_ms((*RMQ, "--help"), 1)  # so that its bytecode is there
    rounds = in_turns(
        bench.rounds,
        [
            lambda: times_ms((*RMQ, "--help"), bench.command_runs),
            lambda: times_ms(BARE, bench.command_runs),
        ],
    )
    outcome.values = [ours[0] for ours, _ in rounds]
    outcome.notes.append(f"CPU {middle([ours[1] for ours, _ in rounds]):.0f} ms")
    outcome.notes.append(f"the interpreter alone {middle([bare[0] for _, bare in rounds]):.0f} ms")
    outcome.details = {"wall_and_cpu_ms": rounds}
    return outcome


def answers(bench: Bench) -> Outcome:
    outcome = Outcome("answers", "the slowest command's answer: exec to end", ANSWER_MS, unit=" ms")
    with bench.ours(name="commands") as ours:
        send_rows(ours.name_server, TOPIC, 8, 1000, bench.body_bytes)
        with Cluster(ours.name_server) as cluster:
            create_group(cluster, GROUP, {})
        asked = [(*RMQ, *words, "-n", ours.name_server) for words in ANSWERS]
        for command in asked:
            times_ms(command, 1)
        rounds = in_turns(
            bench.rounds,
            [lambda command=each: times_ms(command, bench.command_runs) for each in asked],
        )
    outcome.values = [max(wall for wall, _ in found) for found in rounds]
    medians = {
        " ".join(words[:2]): middle([found[at][0] for found in rounds])
        for at, words in enumerate(ANSWERS)
    }
    slowest, fastest = max(medians, key=medians.__getitem__), min(medians, key=medians.__getitem__)
    outcome.notes.append(
        f"{slowest} {medians[slowest]:.0f} ms, {fastest} {medians[fastest]:.0f} ms"
    )
    processors = [middle([cpu for _, cpu in found]) for found in rounds]
    outcome.notes.append(f"CPU of the middle one {middle(processors):.0f} ms")
    outcome.details = {"median_ms": medians, "wall_and_cpu_ms": rounds}
    return outcome


COMMAND_ROWS: dict[str, Row] = {"help": help_, "answers": answers}
