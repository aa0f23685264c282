"""A worker: one measured run in a process of its own, which prints a line of JSON.

    run_worker("client_worker.py", "send", "ours", "127.0.0.1:9876", 128, 1_000_000)
    ->  {"rate": 312000.0, "cpu_per_million": 3.1}

Each worker is a program of this folder. A new process has no memory, connection or thread of
another run, and its CPU seconds are those of the run alone. compared() makes outcomes of the
results of rounds: messages, or rows, a second, and CPU seconds for a million of them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rounds import Outcome

HERE = Path(__file__).resolve().parent
RUN_SECONDS_MAX = 300

Found = dict[str, float]  # rate, cpu_per_million


def run_worker(program: str, *words: object) -> Found:
    """Runs the program; returns what it found. RuntimeError with its output when it failed."""
    path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(HERE / program), *map(str, words)], capture_output=True, text=True,
        timeout=RUN_SECONDS_MAX, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{program} {words}: {done.stdout}{done.stderr}")
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


def compared(
    rate: Outcome, cpu: Outcome, pairs: Sequence[tuple[Found, Found]], names: tuple[str, str]
) -> list[Outcome]:
    """Gives both outcomes the ratios first / second of all rounds, and notes with the values."""
    for outcome, key, unit, scale in (
        (rate, "rate", "k/s", 1e-3),
        (cpu, "cpu_per_million", "CPU-s/M", 1.0),
    ):
        outcome.values = [mine[key] / theirs[key] for mine, theirs in pairs]
        for name, side in zip(names, zip(*pairs, strict=True), strict=True):
            found = [each[key] * scale for each in side]
            outcome.notes.append(f"{name} {min(found):.2f} .. {max(found):.2f} {unit}")
        outcome.details = {"rounds": pairs}
    return [rate, cpu]
