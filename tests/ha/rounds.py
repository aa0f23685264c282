"""Rounds: one after the other (round.py), and a table of them.

    python -m tests.ha.rounds [20] [--cluster pair] [--fault kill] [--seed 7] [--folder build/ha/7]
    python -m tests.ha.rounds 300 --folder build/ha/kept --go-on $(git rev-parse HEAD)

Without a number of rounds, each fault of each kind of cluster is played once. What is known of the
rounds so far is in the folder: a table, and rounds.json, so that a run that was interrupted has
lost nothing. With --go-on the folder's rounds of the same name count, and their seed is used. The
exit code is 0 when all rounds were good. Several runs go side by side: each has a folder of its own
(build/ha/PID by default), ports that no other process has (rmq/demo/ports.py), and networks of its
own name (network.py).
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import click
import msgspec

from tests.ha.findings import Findings
from tests.ha.losses import FAULTS_TOO_MUCH, SETTINGS, WEAKER
from tests.ha.round import CLUSTERS, Round, run

HEADINGS = ("round", "cluster", "fault", "acked", "unknown", "refused", "delivered", "again",
            "broken", "seconds")  # fmt: skip
KEPT = ("number", "kind", "fault", "target", "seed", "settings", "java", "failure", "seconds")


def table(rounds: list[Round]) -> str:
    rows = [HEADINGS, *(each.cells() for each in rounds)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEADINGS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
             for row in rows]  # fmt: skip
    lines += [f"round {each.number}, seed {each.seed}: {each.failure}"
              for each in rounds if each.failure]  # fmt: skip
    for settings in WEAKER:
        if weak := [each for each in rounds if each.settings == settings]:
            those = sum(each.lost > 0 for each in weak)
            lines.append(f"{settings} settings: {sum(each.lost for each in weak)} acknowledged "
                         f"messages were lost, in {those} of {len(weak)} rounds")  # fmt: skip
    good = sum(each.is_good for each in rounds)
    return "\n".join([*lines, f"{good} of {len(rounds)} rounds broke no rule"]) + "\n"


# ---- which rounds


def with_settings(kinds: list[str], settings: str) -> list[str]:
    """Kinds of cluster that can have these settings: all but `safe` are for controlled brokers."""
    return [kind for kind in kinds if settings == "safe" or CLUSTERS[kind].is_controlled]


def choices(
    kinds: list[str], fault: str | None, settings: str = "safe"
) -> list[tuple[str, str, str]]:
    """Cluster, fault and node: all that there are, or those with this fault."""
    left_out = FAULTS_TOO_MUCH.get(settings, set())
    rows = [
        (kind, name, target)
        for kind in kinds
        for name, target in (*CLUSTERS[kind].faults, ("none", ""))
        if name == (fault or name) and (fault or name != "none") and name not in left_out
    ]
    if not rows:
        raise click.UsageError(f"no cluster of {kinds} is to survive {fault}")
    return rows


def chosen(
    number: int, seed: int, kinds: list[str], fault: str | None, settings: str = "safe"
) -> tuple[str, str, str]:
    """Cluster, fault and node of a round. All are played before one is played again, each time in
    another order, which the seed makes."""
    rows = choices(kinds, fault, settings)
    turn, at = divmod(number - 1, len(rows))
    Random(f"{seed} {turn}").shuffle(rows)
    return rows[at]


# ---- what is kept of them


class KeptRounds(msgspec.Struct):
    """The content of rounds.json."""

    of: str  # what was tested, and with which rounds
    seed: int
    rounds: list[dict[str, Any]]


def kept_row(this: Round) -> dict[str, Any]:
    return {**{name: getattr(this, name) for name in KEPT},
            "counts": dict(this.findings.counts), "broken": dict(this.findings.broken)}  # fmt: skip


def round_of(row: dict[str, Any]) -> Round:
    """The round without the texts of its violations, which were printed when it was played."""
    findings = Findings(broken=Counter(row.pop("broken")), counts=Counter(row.pop("counts")))
    return Round(**row, findings=findings)


def silent(_: str) -> None:
    pass


@dataclass
class Rounds:
    """Rounds of the same choices. `of` names what is tested: then the folder's rounds of the same
    name are the first ones, and the seed is theirs."""

    kinds: list[str]
    folder: Path
    seed: int
    fault: str | None = None
    settings: str = "safe"
    java: bool = False
    seconds: float = 8.0  # how long clients and fault take, about
    of: str = ""
    done: list[Round] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.of:
            return
        self.of = " ".join([self.of, self.settings, self.fault or "", *["java"] * self.java,
                            *self.kinds])  # fmt: skip
        try:
            content = (self.folder / "rounds.json").read_bytes()
            kept = msgspec.json.decode(content, type=KeptRounds)
        except (OSError, msgspec.DecodeError):
            return
        if kept.of == self.of:
            self.seed, self.done = kept.seed, [round_of(row) for row in kept.rounds]

    def play(self, count: int | None = None, say: Callable[[str], None] = silent) -> bool:
        """Plays until there are so many rounds, and says the row of each; by default, each fault
        is played once. Returns whether all of them were good."""
        total = count or len(choices(self.kinds, self.fault, self.settings))
        del self.done[total:]
        for number in range(len(self.done) + 1, total + 1):
            which = chosen(number, self.seed, self.kinds, self.fault, self.settings)
            self.done.append(run(number, *which, self.seed + number, self.folder, self.seconds,
                                 self.settings, self.java))  # fmt: skip
            say(table(self.done[-1:]).splitlines()[1])
            self._keep()
        return all(each.is_good for each in self.done)

    def _keep(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "table.txt").write_text(table(self.done))
        kept = KeptRounds(self.of, self.seed, [kept_row(each) for each in self.done])
        new = self.folder / "rounds.json.new"
        new.write_bytes(msgspec.json.encode(kept))
        new.replace(self.folder / "rounds.json")


@click.command(help=__doc__)
@click.argument("rounds", type=click.IntRange(1), required=False)
@click.option("--cluster", "kinds", multiple=True, type=click.Choice(list(CLUSTERS)))
@click.option("--fault", default=None)
@click.option("--seed", type=int, default=lambda: time.time_ns() % 1_000_000)
@click.option("--settings", type=click.Choice(list(SETTINGS)), default="safe",
              help="Weaker ones lose messages: they are counted.")  # fmt: skip
@click.option("--java", is_flag=True, help="The official client, too, as it is by default.")
@click.option("--folder", type=click.Path(path_type=Path),
              default=lambda: Path("build/ha") / str(os.getpid()))  # fmt: skip
@click.option("--seconds", default=8.0, help="How long clients and fault take, about.")
@click.option("--go-on", "of", default="", metavar="COMMIT",
              help="What is tested: rounds of the same in --folder count.")  # fmt: skip
def main(
    rounds: int | None, kinds: tuple[str, ...], fault: str | None, seed: int, settings: str,
    java: bool, folder: Path, seconds: float, of: str,
) -> None:  # fmt: skip
    known = with_settings(list(kinds or CLUSTERS), settings)
    these = Rounds(known, folder, seed, fault, settings, java, seconds, of)
    click.echo(f"seed {these.seed}, in {folder}, {len(these.done)} rounds are kept")
    good = these.play(rounds, click.echo)
    click.echo(table(these.done))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
