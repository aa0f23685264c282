"""Suite rounds: the tests again and again, every other time beside a load, and a table of them.

    python tools/suite_rounds.py 20 -- .venv/bin/python -m pytest -n 4 ...
    python tools/suite_rounds.py 20 --go-on $(git rev-parse HEAD) -- ...

Each round's output and JUnit file are in --folder, with the table of the rounds so far in
table.txt: a run that is interrupted has lost nothing, and --go-on adds to it. Even rounds have the
load beside them: a busy process for each processor, one that fills memory, and one that writes and
syncs files. All of them work in bursts that begin and end at random, and rest so long that together
they take half of the processors: a round beside them lasts up to twice as long. The exit code is 0
when every test of every round passed.
"""

import contextlib
import ctypes
import mmap
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import Process, get_context
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import msgspec

MIB = 1 << 20
EATEN_BYTES = 512 * MIB
STEP_BYTES = 16 * MIB
WRITTEN_BYTES = 128 * MIB
BURST_S = 2.0  # at most
TAKEN = 0.5  # share of the machine that all processes of the load take together
PR_SET_PDEATHSIG = 1
HEADINGS = ("round", "load", "exit", "passed", "failed", "skipped", "seconds", "cpu")


@dataclass(frozen=True)
class Round:
    number: int
    loaded: bool
    exit_code: int | None  # None: the round took too long, and was ended
    passed: int
    failed: tuple[str, ...]  # names of tests, also of those that ended in an error
    skipped: int
    seconds: float
    cpu_seconds: float  # of the tests and the processes they waited for

    @property
    def is_good(self) -> bool:
        return self.exit_code == 0 and not self.failed and self.passed > 0

    def cells(self) -> tuple[str, ...]:
        ended = "time" if self.exit_code is None else str(self.exit_code)
        return (str(self.number), "yes" if self.loaded else "no", ended, str(self.passed),
                str(len(self.failed)), str(self.skipped), f"{self.seconds:.0f}",
                f"{self.cpu_seconds:.0f}")  # fmt: skip


def outcome(junit: Path) -> tuple[int, tuple[str, ...], int]:
    """(passed, names of failed tests, skipped) of a JUnit file; all zero when it is not whole."""
    try:
        cases = list(ElementTree.parse(junit).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return 0, (), 0
    failed, skipped, names = [], 0, set()
    for case in cases:
        name = f"{case.get('classname')}::{case.get('name')}"
        names.add(name)
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
        elif case.find("skipped") is not None:
            skipped += 1
    once = tuple(dict.fromkeys(failed))  # a test that fails in its teardown, too, is listed twice
    return len(names) - len(once) - skipped, once, skipped


def table(rounds: list[Round]) -> str:
    rows = [HEADINGS, *(each.cells() for each in rounds)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEADINGS))]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    lines += [f"round {each.number}: {name}" for each in rounds for name in each.failed]
    good = sum(each.is_good for each in rounds)
    return "\n".join([*lines, f"{good} of {len(rounds)} rounds without a failure"]) + "\n"


class Kept(msgspec.Struct):
    """The earlier rounds in a folder."""

    of: str  # what was tested
    rounds: list[Round]


def kept_of(folder: Path, tested: str) -> list[Round]:
    try:
        kept = msgspec.json.decode((folder / "rounds.json").read_bytes(), type=Kept)
    except (OSError, msgspec.DecodeError):
        return []
    return kept.rounds if tested and kept.of == tested else []


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


Steps = Callable[[Path], Iterator[None]]


def use_processor(_: Path) -> Iterator[None]:
    while True:
        sum(range(100_000))
        yield


def fill_memory(_: Path) -> Iterator[None]:
    while True:
        with mmap.mmap(-1, EATEN_BYTES) as memory:
            for at in range(0, EATEN_BYTES, mmap.PAGESIZE):
                memory[at] = 1
                if at % STEP_BYTES == 0:
                    yield


def write_files(folder: Path) -> Iterator[None]:
    piece = os.urandom(MIB)
    while True:
        with tempfile.TemporaryFile(dir=folder) as file:
            for _ in range(WRITTEN_BYTES // MIB):
                file.write(piece)
                yield
            file.flush()
            os.fsync(file.fileno())


def burden(steps: Steps, folder: Path, share: float) -> None:
    """A process of the load, which works for `share` of the time."""
    die_with_parent()
    work = steps(folder)
    while True:
        length, began = random.uniform(0, BURST_S), time.monotonic()
        while time.monotonic() - began < length:
            next(work)
        time.sleep((time.monotonic() - began) * (1 / share - 1))


@contextlib.contextmanager
def load(folder: Path) -> Iterator[None]:
    """Keeps the machine busy during the block."""
    processors = os.cpu_count() or 1
    tasks: list[Steps] = [*[use_processor] * processors, fill_memory, write_files]
    share = TAKEN * processors / len(tasks)
    spawn: Any = get_context("spawn")
    processes: list[Process] = []
    try:
        for task in tasks:
            processes.append(spawn.Process(target=burden, args=(task, folder, share)))
            processes[-1].start()
        yield
        assert all(each.is_alive() for each in processes), "the load has ended before the tests"
    finally:
        for each in processes:
            if each.pid is not None:
                each.kill()
                each.join()


def run(number: int, loaded: bool, command: tuple[str, ...], folder: Path, limit_s: float) -> Round:
    """Runs one round in a process group of its own, all of which is killed afterwards."""
    junit = folder / f"{number:02d}.xml"
    junit.unlink(missing_ok=True)
    code: int | None
    with contextlib.ExitStack() as stack:
        if loaded:
            stack.enter_context(load(folder))
        said = stack.enter_context((folder / f"{number:02d}.txt").open("w"))
        # pytest keeps the folders of its last three runs in one place, and removes older ones. A
        # round has a folder of its own, or other runs of a round's time might remove its files.
        files = stack.enter_context(
            tempfile.TemporaryDirectory("-round", ignore_cleanup_errors=True)
        )
        options = (f"--junitxml={junit}", f"--basetemp={files}/0")
        before, began = os.times(), time.monotonic()
        process = subprocess.Popen([*command, *options], stdin=subprocess.DEVNULL, stdout=said,
                                   stderr=said, start_new_session=True)  # fmt: skip
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:  # also after an interruption
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        seconds, after = time.monotonic() - began, os.times()
    cpu = sum(after[2:4]) - sum(before[2:4])  # of children that were waited for
    return Round(number, loaded, code, *outcome(junit), seconds, cpu)


@click.command(help=__doc__)
@click.argument("rounds", type=click.IntRange(1))
@click.argument("command", nargs=-1, required=True)
@click.option("--folder", type=click.Path(path_type=Path), default=Path("build/test-rounds"))
@click.option("--limit", "limit_s", default=3600.0, help="Seconds a round may take.")
@click.option("--go-on", "tested", default="", metavar="COMMIT",
              help="What is tested: rounds of the same that --folder has count.")  # fmt: skip
def main(
    rounds: int, command: tuple[str, ...], folder: Path, limit_s: float, tested: str
) -> None:  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    done = kept_of(folder, tested)[:rounds]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a round's processes end with it
    try:
        for number in range(len(done) + 1, rounds + 1):
            done.append(run(number, number % 2 == 0, command, folder, limit_s))
            (folder / "table.txt").write_text(table(done))
            (folder / "rounds.json").write_bytes(msgspec.json.encode(Kept(tested, done)))
            click.echo(f"{', '.join(done[-1].failed) or 'no failure'} in round "
                       f"{number} of {rounds}, {done[-1].seconds:.0f} s")  # fmt: skip
    except KeyboardInterrupt:
        click.echo("interrupted")
    click.echo(table(done))
    sys.exit(0 if len(done) == rounds and all(each.is_good for each in done) else 1)


if __name__ == "__main__":
    main()
