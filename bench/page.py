"""Page: plots and tables of a comparison in one file, and the table in README.md.

    python bench/page.py                              of bench/results/peers.json
    python bench/page.py build/bench/peers.json --no-readme

The page is written beside the JSON, as NAME.html. It loads nothing from elsewhere. The same JSON
gives the same page, byte for byte.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import click
from comparison import BUSY, CPU, MEASURES, RATE, Comparison, Measure, Row, Spread, load, ratio
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from plot import COLOURS, bars, drawn
from servers import ROOT

RESULTS = ROOT / "bench" / "results" / "peers.json"
README = ROOT / "README.md"
OWN = "rmq"
# The section of README.md that is written here, and the heading before which it is put.
HEADING, BEFORE = "## Beside its peers", "## What it does not do yet"
# The rows for which README.md has room: one of each kind, also where a peer is ahead.
IN_README = ("single-256", "many-256", "one-256", "batch-256", "pull-256", "read-256",
             "sync-many-256", "java-256")  # fmt: skip


class Number(NamedTuple):
    """A cell of a table. When there is no number to show, it may have the reason instead."""

    shown: str = ""
    range: str = ""
    why: str = ""


Cells = list[str | Number]


class Found(Protocol):
    """Results of which a page can be made."""

    machine: dict[str, Any]


def digits(value: float) -> str:
    """Three significant digits; from 1000 on without decimals."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 1000 else f"{rounded:.3g}"


def number(found: Spread | None, unit: str = "") -> Number:
    if found is None:
        return Number()
    return Number(digits(found.median) + unit, f"{digits(found.low)} to {digits(found.high)}")


def table_of(found: Comparison, measure: Measure) -> list[Cells]:
    """A line for each row: every peer's number, and the ratios of rmq's to each of the others."""
    peers = list(found.servers)
    others = [key for key in peers if key != OWN]
    titles = [found.servers[key].title for key in peers]
    lines: list[Cells] = [
        ["load", *titles, *(f"{OWN} / {found.servers[key].title}" for key in others)]
    ]
    for row in found.rows:
        cells = [row.cells.get(key) for key in peers]
        values = [measure.spread(cell) if cell is not None else None for cell in cells]
        if any(values):
            numbers = [
                number(each) if each is not None or cell is None else Number(why=cell.not_offered)
                for each, cell in zip(values, cells, strict=True)
            ]
            ratios = [number(ratio(row, measure, OWN, key), "x") for key in others]
            pace = f", {digits(row.pace)}/s" if measure.paced else ""
            lines.append([row.title + pace, *numbers, *ratios])
    return lines


def headline(found: Comparison, rows: list[Row]) -> list[Cells]:
    """A table whose cells each have a peer's rate, its CPU and how busy it was."""
    lines: list[Cells] = [["load", *(each.title for each in found.servers.values())]]
    for row in rows:
        lines.append([row.title, *(in_short(row, key) for key in found.servers)])
    return lines


def in_short(row: Row, key: str) -> Number:
    cell = row.cells.get(key)
    rate = RATE.spread(cell) if cell is not None else None
    cpu = CPU.spread(cell) if cell is not None else None
    busy = BUSY.spread(cell) if cell is not None else None
    if rate is None or cpu is None or busy is None:
        return Number(why=cell.not_offered if cell is not None else "")
    costs = f"{digits(cpu.median)} {CPU.unit}, {busy.median:.2f} busy"
    return Number(f"{digits(rate.median)}/s", costs)


# ------------------------------------------------------------------- plots


def chart(found: Comparison, measure: Measure) -> str:
    """SVG of medians as dots, on bars from the least to the greatest, for each row and peer."""
    rows = [row for row in found.rows if any(map(measure.spread, row.cells.values()))]

    def draw(axes: Any) -> None:
        for at, (key, server) in enumerate(found.servers.items()):
            points = [(line, found_one) for line, row in enumerate(rows) if key in row.cells
                      if (found_one := measure.spread(row.cells[key])) is not None]  # fmt: skip
            shift = (at - (len(found.servers) - 1) / 2) * 0.16
            axes.errorbar(
                [each.median for _, each in points],
                [line + shift for line, _ in points],
                xerr=bars([each for _, each in points]),
                fmt="o", markersize=4.5, capsize=2, color=COLOURS[at % len(COLOURS)],
                label=f"{server.title} {server.version}",
            )  # fmt: skip
        axes.set_yticks(range(len(rows)), [row.title for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xscale("log")
        axes.set_xlabel(f"{measure.title} ({measure.unit}), logarithmic")
        axes.grid(axis="x", which="both", color="#e5e7eb", linewidth=0.6)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)

    return drawn(measure.key, (9.5, 1.2 + 0.42 * len(rows)), draw)


# ------------------------------------------------------------------- the page


def html(found: Comparison) -> str:
    measures = []
    for each in MEASURES:
        cells = table_of(found, each)
        if len(cells) > 1:
            measures.append((each.key, each, chart(found, each), cells))
    short = headline(found, found.rows)
    return rendered("page.html", found, headline=short, measures=measures)


def rendered(template: str, found: Found, **more: object) -> str:
    """Renders a template of this folder, with the facts of the machine that both pages show."""
    environment = Environment(
        loader=FileSystemLoader(ROOT / "bench"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    facts = [(key, plain(value)) for key, value in found.machine.items()]
    return environment.get_template(template).render(
        found=found, made=made(found), facts=facts, **more
    )


def plain(value: object) -> str:
    """A fact of the machine as text for a reader."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {plain(each)}" for key, each in value.items())
    if isinstance(value, list):
        return " ".join(map(plain, value))
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def made(found: Found) -> str:
    return f"{str(found.machine['time'])[:10]}, {found.machine['cpus']} x {found.machine['cpu']}"


# ------------------------------------------------------------------- README.md


def section(found: Comparison) -> str:
    """The section of README.md, with its heading."""
    lines = [
        [each if isinstance(each, str) else
         f"{each.shown}, {each.range}" if each.shown else "-" for each in cells]
        for cells in headline(found, [row for row in found.rows if row.name in IN_README])
    ]  # fmt: skip
    table = [f"| {' | '.join(cells)} |" for cells in lines]
    table.insert(1, "|---" * len(lines[0]) + "|")
    earlier = ", some rows before" if any(row.measured for row in found.rows) else ""
    text = (
        f"Messages a second, the server's CPU seconds for a million ({CPU.unit}), and how many "
        f"processors it kept busy: medians of {found.rounds} rounds, peers in turns. Of a server "
        "that is not busy the rate is its client's.\n"
        f"{made(found)}, commit {found.commit}{earlier}. "
        f"[All {len(found.rows)} loads](bench/results/peers.html), "
        "[how to read them](bench/README.md#beside-its-peers).\n"
    )
    return "\n".join([HEADING, "", text, *table, "", ""])


def with_section(readme: str, text: str) -> str:
    """README.md with the section, which replaces the old one or is put before the heading BEFORE.
    ValueError: README.md has neither."""
    there = re.compile(rf"^{re.escape(HEADING)}\n.*?(?=^## )", re.MULTILINE | re.DOTALL)
    if there.search(readme):
        return there.sub(lambda _: text, readme, count=1)
    if f"\n{BEFORE}\n" not in readme:
        raise ValueError(f"README has no heading {BEFORE!r}, before which the table stands")
    return readme.replace(f"\n{BEFORE}\n", f"\n{text}{BEFORE}\n", 1)


def write(path: Path, readme: Path | None) -> Path:
    """Makes the page of a JSON file, beside that file, and puts the table into README.md unless
    `readme` is None. Returns the page's path."""
    found = load(path)
    page = path.with_suffix(".html")
    page.write_text(html(found))
    if readme is not None:
        readme.write_text(with_section(readme.read_text(), section(found)))
    return page


@click.command()
@click.argument("results", type=click.Path(exists=True, dir_okay=False, path_type=Path),
                default=RESULTS)  # fmt: skip
@click.option("--readme/--no-readme", default=True, help="Put the table into README.md, too.")
def main(results: Path, readme: bool) -> None:
    """Make the page of what `make bench-peers` found."""
    click.echo(write(results, README if readme else None))


if __name__ == "__main__":
    main()
