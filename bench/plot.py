"""Plot: axes drawn by matplotlib, as SVG for a page.

    drawn("cpu", (9.5, 4.0), lambda axes: axes.errorbar([1], [2], xerr=bars([spread])))

The same numbers make the same text, byte for byte.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from comparison import Spread
from markupsafe import Markup

COLOURS = ("#0b66c2", "#c2410c", "#15803d", "#7c3aed", "#52525b")  # of the series, in order


def bars(spreads: list[Spread]) -> list[list[float]]:
    """The lengths of the bars below and above the medians, to the least and greatest values."""
    return [[each.median - each.low for each in spreads],
            [each.high - each.median for each in spreads]]  # fmt: skip


def drawn(key: str, inches: tuple[float, float], draw: Callable[[Any], None]) -> Markup:
    """SVG of what draw() draws. Each plot of a page needs a key of its own."""
    # Imported here: these draw without a display, and load nothing for interactive use.
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    # With the salt, ids are the same in each run but differ from plot to plot of a page; fonttype
    # "none" keeps text as text.
    settings = {"svg.hashsalt": key, "svg.fonttype": "none", "font.size": 9.0}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=inches, layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots()
        draw(axes)
        axes.set_axisbelow(True)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return Markup(text[text.index("<svg") :].replace("<svg ", '<svg role="img" ', 1))
