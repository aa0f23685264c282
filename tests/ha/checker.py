"""Checker: reads what clients wrote of a run (history.py) and the stores of the brokers, and names
every rule of replication that was broken, with the events that show it.

    python -m tests.ha.checker HISTORY.. [--logs A/store B/store].. [--all-copies] [--json]

A HISTORY is a file, or a folder of them. --logs takes the stores of one broker name, which are
replicas of one log, and may be given several times; the brokers have stopped. The exit code is 1
when a rule was broken. The rules stand in findings.py.

Cannot show: what happened between events that no client saw; an order of sends that overlap.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from tests.ha.ackers import check_ackers
from tests.ha.epochs import date
from tests.ha.findings import RULES, Findings
from tests.ha.group_offsets import check_group_offsets
from tests.ha.history import HistoryError, place_text, read
from tests.ha.messages import Messages
from tests.ha.places import check_places
from tests.ha.readers import check_readers
from tests.ha.stores import check_stores
from tests.ha.sync_sets import check_sync_sets
from tests.ha.topics import check_topics

SHOWN = 8  # violations of one rule in the table; JSON has them all


def check(
    histories: list[Path], replicas: list[list[Path]] | None = None, all_copies: bool = False
) -> Findings:
    """`replicas`: the stores of each broker name. all_copies: each has what was acknowledged."""
    findings = Findings()
    collecting = gc.isenabled()
    # A million events are no garbage, but the collector would look through them again and again.
    gc.disable()
    try:
        messages = Messages(read(histories), findings)
        check_places(messages, findings)
        check_readers(messages, findings)
        check_group_offsets(messages, findings)
        date(messages, replicas or [], findings)
        check_ackers(messages, findings)
        check_sync_sets(messages, findings)
        check_topics(messages, findings)
        for stores in replicas or []:
            check_stores(stores, messages, findings, all_copies)
    finally:
        if collecting:
            gc.enable()
    return findings


def files_of(paths: list[Path]) -> list[Path]:
    """The histories among them, folders opened."""
    found: list[Path] = []
    for path in paths:
        found += sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    return found


def as_json(findings: Findings, histories: list[Path]) -> dict[str, Any]:
    return {
        "broken": dict(findings.broken),
        "counts": dict(findings.counts),
        "violations": [
            {"rule": each.rule, "text": each.text,
             "events": [place_text(histories, place) for place in each.places]}
            for each in findings.violations
        ],
    }  # fmt: skip


def print_tables(findings: Findings, histories: list[Path]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    counts = Table("counted", "how many", box=None)
    for name, number in sorted(findings.counts.items()):
        counts.add_row(name, f"{number:,}")
    console.print(counts)
    if not findings.violations:
        console.print(f"no rule of {len(RULES)} was broken")
        return
    table = Table("rule", "what", "events", show_lines=True)
    shown: Counter[str] = Counter()
    for each in findings.violations:
        shown[each.rule] += 1
        if shown[each.rule] > SHOWN:
            continue
        table.add_row(
            each.rule, each.text, "\n".join(place_text(histories, p) for p in each.places)
        )
    console.print(table)
    for rule, number in findings.broken.most_common():
        console.print(f"{rule}: {number:,} times broken: {RULES[rule]}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.ha.checker", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("histories", nargs="*", type=Path, metavar="HISTORY")
    parser.add_argument("--logs", nargs="+", action="append", type=Path, default=[], metavar="DIR")
    parser.add_argument("--all-copies", action="store_true", help="each store has all of it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    histories = files_of(given.histories)
    if not histories and not given.logs:
        parser.error("no history (*.jsonl) and no store is given")
    try:
        findings = check(histories, given.logs, given.all_copies)
    except (HistoryError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(msgspec.json.encode(as_json(findings, histories)).decode())
    else:
        print_tables(findings, histories)
    return 1 if findings.broken else 0


if __name__ == "__main__":
    sys.exit(main())
