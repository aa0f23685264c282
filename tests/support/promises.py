"""Promises: the table of docs/promises.md, which says what the answer to each request promises.

rows()[0] == Row(10, "SEND_MESSAGE", "", {"ASYNC_FLUSH": "written", "SYNC_FLUSH": "durable"})
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from support.source_tree import ROOT

PAGE = ROOT / "docs" / "promises.md"
WORDS = ("durable", "written", "file", "offsets", "memory", "read")
ROW = re.compile(r"\| \d+ \|")


@dataclass(frozen=True)
class Row:
    code: int
    name: str
    case: str  # "": the ordinary request
    words: dict[str, str]  # flush mode -> one of WORDS

    @property
    def key(self) -> tuple[int, str]:
        return self.code, self.case


def rows() -> list[Row]:
    """The rows in their order. AssertionError if a row does not have six columns."""
    found = []
    for line in PAGE.read_text().splitlines():
        if not ROW.match(line):
            continue
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        assert len(cells) == 6, line
        words = {"ASYNC_FLUSH": cells[3], "SYNC_FLUSH": cells[4]}
        found.append(Row(int(cells[0]), cells[1], cells[2], words))
    return found
