"""Instructions per operation of each stage, by callgrind, against those that are kept in a file.

    python -m bench.stages.instructions             counts, compares, prints the table
    python -m bench.stages.instructions --update    writes bench/stages/instructions.json anew

Counts do not depend on what else the machine does. They do depend on who compiled: where the
compiler, Cython, the C library, OpenSSL or the processor differs from the file's, nothing can be
compared, and the counts are written to build/bench/instructions.json instead. Whoever builds with
another compiler has nothing to mend, so that is no failure, unless RMQ_INSTRUCTIONS=compare says
that this is the machine whose counts are kept, as the project's CI does: there it would switch the
comparison off for good, and nobody would see it. One file is kept and not one for each compiler: no
CI would count the others, and the next growth that is meant would fail at whoever has such a
compiler. The exit status is 1
when a stage or a whole turn grew by more than 3 %; and when a turn of a broker without accounts
and TLS takes more than 1 % above what it took before there were any, however small the steps in
which that came.
"""

import json
import os
import platform
import re
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click

from bench.stages.table import STAGES

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "bench" / "stages" / "instructions.json"
RECORDED = ROOT / "build" / "bench" / "instructions.json"
DUMPS = 3  # of a stage: warm-up, N, 2 N
TIMEOUT_S = 300
MUST_COMPARE = "RMQ_INSTRUCTIONS"  # in the environment, with the value "compare"
# Programs under callgrind see one processor of x86, a Haswell, on every machine that has these
# features; what theirs has beyond that (erms, fsrm, AVX-512) chooses nothing.
CHOSEN_BY = {"avx2", "bmi2", "pclmulqdq", "crc32", "pmull"}
# Whole turns before there were accounts and TLS, by the compiler of the file: whoever changes that
# counts these anew with it. The stages of these names have both, and have them off.
BEFORE_SECURITY = {
    "turn_send": 4004.0, "turn_pull": 13009.0, "turn_pop": 15459.0, "turn_timer": 13594.0,
}  # fmt: skip
SECURITY_OFF_RATIO_MAX = 1.01
GROWTH_MAX = 1.03  # two runs differ by 0.1 % at most, whole turns among them
HEADINGS = ("stage", "before", "now", "ratio", "")


@dataclass
class Counts:
    """Instructions per operation of each stage, and what they depend on."""

    made_by: dict[str, str]
    stages: dict[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Counts":
        return cls(**json.loads(path.read_text()))

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"made_by": self.made_by, "stages": self.stages}, indent=2)
        path.write_text(text + "\n")


@dataclass(frozen=True)
class Row:
    stage: str
    before: float | None  # None: the file does not have it
    now: float

    @property
    def ratio(self) -> float:
        return 1.0 if self.before is None else self.now / self.before

    @property
    def grew(self) -> bool:
        return self.ratio > GROWTH_MAX


def made_by() -> dict[str, str]:
    """Everything but the source on which instruction counts depend."""
    import Cython

    gcc = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=True)
    return {
        "gcc": gcc.stdout.strip(),
        "cython": Cython.__version__,
        "libc": " ".join(platform.libc_ver()),
        "openssl": "{}.{}".format(*ssl.OPENSSL_VERSION_INFO),  # signatures are hashed by it
        "machine": platform.machine(),
        "processor": processor(),
    }


def processor() -> str:
    """The processor's features by which glibc and rmq choose how to copy bytes and sum them up."""
    text = Path("/proc/cpuinfo").read_text()
    flags = re.search(r"^(?:flags|Features)\s*:(.*)", text, re.MULTILINE)
    return " ".join(sorted(CHOSEN_BY & set(flags[1].split() if flags else ())))


def count(names: list[str] | None = None) -> dict[str, float]:
    """Instructions per operation; RuntimeError with the process's error output if it fails."""
    names = names or list(STAGES)
    with tempfile.TemporaryDirectory(prefix="rmq-stages-") as folder:
        out = Path(folder) / "counts"
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--dump-before=stage_mark",
             "--dump-line=no", f"--callgrind-out-file={out}", sys.executable, "-m",
             "bench.stages.process", folder, *names],
            cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S,
            env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1",
                 "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"},
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"callgrind ended with {done.returncode}: {done.stderr[-2000:]}")
        totals = [total_of(Path(f"{out}.{i}")) for i in range(1, DUMPS * len(names) + 1)]
    return {
        name: round(
            (totals[DUMPS * i + 2] - totals[DUMPS * i + 1]) / STAGES[name].operations, 2
        )
        for i, name in enumerate(names)
    }  # fmt: skip


def total_of(path: Path) -> int:
    """The number of instructions in one of callgrind's files."""
    found = re.search(r"^totals: (\d+)", path.read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{path.name} has no totals: callgrind was ended")
    return int(found[1])


def measure(names: list[str] | None = None) -> Counts:
    return Counts(made_by(), count(names))


def compare(before: Counts, now: Counts) -> list[Row]:
    return [Row(name, before.stages.get(name), value) for name, value in now.stages.items()]


def dear_when_off(stages: dict[str, float]) -> list[str]:
    """A line for each turn in which accounts and TLS that are off cost more than is allowed."""
    return [
        f"{name} takes {now:.2f} instructions with accounts and TLS off, {now / before:.3f} times "
        f"the {before:.0f} from before there were any"
        for name, before in BEFORE_SECURITY.items()
        if (now := stages.get(name, 0.0)) > SECURITY_OFF_RATIO_MAX * before
    ]


def table(rows: list[Row]) -> str:
    """The comparison as text."""
    cells = [HEADINGS]
    for row in rows:
        before = "-" if row.before is None else f"{row.before:.2f}"
        ratio = "-" if row.before is None else f"{row.ratio:.3f}x"
        cells.append((row.stage, before, f"{row.now:.2f}", ratio, verdict(row)))
    widths = [max(len(line[i]) for line in cells) for i in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if i in (0, 4) else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )


def verdict(row: Row) -> str:
    if row.before is None:
        return "NEW: make bench-stages UPDATE=1"
    return f"GREW by more than {GROWTH_MAX - 1:.0%}" if row.grew else ""


def difference(before: Counts, now: Counts) -> str:
    """Why the two counts cannot be compared; "" if they can."""
    return ", ".join(
        f"{name} {now.made_by.get(name)} instead of {value}"
        for name, value in before.made_by.items()
        if now.made_by.get(name) != value
    )


def uncompared(why: str, environment: Mapping[str, str] = os.environ) -> tuple[str, bool]:
    """(what to say where counts cannot be compared, whether that is a failure)."""
    if environment.get(MUST_COMPARE) != "compare":
        return f"instructions not compared: {why}; {RECORDED} has them", False
    return (
        f"instructions are not compared any more: {why}. {MUST_COMPARE}=compare says that they "
        f"are to be: look at what has changed, and count anew with this compiler "
        f"(make bench-stages UPDATE=1 on a commit that is known to be good)"
    ), True


@click.command(help=__doc__)
@click.option("--update", is_flag=True, help="Write the file anew: the growth is meant.")
@click.option("--only", default="", metavar="STAGE,..", help="Count some stages.")
def main(update: bool, only: str) -> None:
    names = [name for name in only.split(",") if name]
    if unknown := set(names) - set(STAGES):
        raise click.ClickException(f"no stage {', '.join(sorted(unknown))}: {', '.join(STAGES)}")
    now = measure(names)
    before = Counts.read(KEPT) if KEPT.exists() else Counts(now.made_by)
    rows = compare(before, now)
    click.echo(table(rows))
    why = difference(before, now)
    if update:
        Counts(now.made_by, {**(before.stages if names else {}), **now.stages}).write(KEPT)
        click.echo(f"written to {KEPT.relative_to(ROOT)}")
    elif why:
        now.write(RECORDED)
        text, is_failure = uncompared(why)
        click.echo(text)
        if is_failure:
            sys.exit(1)
    dear = [] if why else dear_when_off(now.stages)
    for line in dear:
        click.echo(line)
    if dear or (not (update or why) and any(row.grew for row in rows)):
        sys.exit(1)


if __name__ == "__main__":
    main()
