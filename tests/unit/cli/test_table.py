"""Tables on a terminal: drawn if they fit, otherwise a line for each row with every value whole."""

from __future__ import annotations

import io
import sys

import pytest

from rmq.cli.table import Column, columns, moment, show_table

pytest.importorskip("rich")

ID = "C000020210F3207A69DD9A5358C44FCA"
COLUMNS = (*columns("BROKER", "QUEUE"), moment("STORED"), *columns("ID", "KEYS"), Column("BODY"))
ROW = ("broker-a", 1, 1_763_726_400_123, ID, "order-1")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, width: int, body: str) -> list[str]:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    for name, value in (("COLUMNS", str(width)), ("NO_COLOR", "1"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    show_table(COLUMNS, [(*ROW, body)])
    return [line.rstrip() for line in terminal.getvalue().splitlines() if line.strip()]


def test_where_it_fits_it_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    _, rule, row = shown(monkeypatch, 130, "eins")
    assert set(rule.strip()) <= set("─- ") and ID in row and row.endswith("eins")


def test_a_long_body_is_folded_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, first, *more = shown(monkeypatch, 130, "x" * 60)
    assert ID in first and "order-1" in first and ".123" in first
    assert more and {each.strip().strip("x") for each in more} == {""}


@pytest.mark.parametrize("width", [30, 80])
def test_where_it_does_not_each_row_is_a_line(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    head, row = shown(monkeypatch, width, "eins")
    assert head.split() == ["BROKER", "QUEUE", "STORED", "ID", "KEYS", "BODY"]
    assert row.split()[:2] == ["broker-a", "1"] and row.split()[-3:] == [ID, "order-1", "eins"]
