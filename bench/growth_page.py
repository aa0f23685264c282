"""Growth page: a plot, a table and a reason for each dimension, in one file.

    python bench/growth_page.py                     of bench/results/growth.json

The page is written beside the JSON, as NAME.html. The reasons come from bench/growth_reasons.py
when a page is made, so a page that is made again has the current ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from comparison import spread
from growth_reasons import REASONS
from growth_results import Grown, Growth, Point, load
from markupsafe import Markup
from page import Cells, Number, number, rendered
from plot import COLOURS, bars, drawn
from servers import ROOT

RESULTS = ROOT / "bench" / "results" / "growth.json"


def chart(key: str, grown: Grown) -> Markup:
    """SVG of the ratios to the smallest size: medians, on bars from the least to the greatest."""
    points = [(point.size, found) for point in grown.points if (found := point.ratio) is not None]

    def draw(axes: Any) -> None:
        sizes = [size for size, _ in points]
        axes.errorbar(
            sizes, [each.median for _, each in points], yerr=bars([each for _, each in points]),
            fmt="o-", markersize=4.5, linewidth=1.2, capsize=2, color=COLOURS[0],
        )  # fmt: skip
        axes.axhline(1.0, color="#9ca3af", linewidth=0.8)
        if min(sizes, default=1):
            axes.set_xscale("log")
        else:  # zero has no logarithm: below the smallest other size the axis is linear
            axes.set_xscale("symlog", linthresh=min(filter(None, sizes), default=1), linscale=0.3)
        axes.set_xticks(sizes, [short(size) for size in sizes])
        axes.minorticks_off()
        if max((each.high for _, each in points), default=0.0) > 10:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0.0)
        axes.set_xlabel(grown.unit)
        axes.set_ylabel("CPU of a message, to the smallest's")
        axes.grid(axis="y", color="#e5e7eb", linewidth=0.6)

    return drawn(key, (7.5, 3.0), draw)


def short(size: int) -> str:
    """10,000 as 10k, 65,536 as 64Ki; a number that no unit divides stays as it is."""
    for unit, name in ((10**6, "M"), (10**3, "k"), (1 << 20, "Mi"), (1 << 10, "Ki")):
        if size and size % unit == 0:
            return f"{size // unit:,}{name}"
    return str(size)


def table_of(grown: Grown) -> list[Cells]:
    lines: list[Cells] = [[grown.unit, "CPU-s/M", "to the smallest", "messages a second"]]
    return lines + [line(point) for point in grown.points]


def line(point: Point) -> Cells:
    if point.error:
        return [f"{point.size:,}", Number(why=point.error), Number(), Number()]
    return [
        f"{point.size:,}", number(spread(point.cost)), number(point.ratio, "x"),
        number(spread(point.rate)),
    ]  # fmt: skip


def html(found: Growth) -> str:
    parts = [
        (key, grown, chart(key, grown), table_of(grown), REASONS[key])
        for key, grown in found.dimensions.items()
    ]
    return rendered("growth.html", found, parts=parts)


def write(path: Path) -> Path:
    """Makes the page of a JSON file, beside that file; returns its path."""
    page = path.with_suffix(".html")
    page.write_text(html(load(path)))
    return page


@click.command()
@click.argument("results", type=click.Path(exists=True, dir_okay=False, path_type=Path),
                default=RESULTS)  # fmt: skip
def main(results: Path) -> None:
    """Make the page of what `make bench-growth` found."""
    click.echo(write(results))


if __name__ == "__main__":
    main()
