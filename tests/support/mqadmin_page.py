"""mqadmin page: the tables of docs/mqadmin.md, how rmq answers each command of RocketMQ's mqadmin.

read_page()["clusterList"].tests == ("test_cluster_list_shows_the_broker",)
read_page()["addBroker"].codes == (902,)
"""

from __future__ import annotations

import re
from typing import NamedTuple

from support.source_tree import ROOT

PAGE = ROOT / "docs" / "mqadmin.md"
ROW = re.compile(r"^\| `(\w+)` \|(.*)\|$", re.MULTILINE)


class Row(NamedTuple):
    """tests: names of those that show that the command is served; codes: of requests that are
    answered as not supported. With neither, the command asks no server."""

    tests: tuple[str, ...]
    codes: tuple[int, ...]


def read_page() -> dict[str, Row]:
    """The rows by command. ValueError if a command has two rows."""
    found: dict[str, Row] = {}
    for command, rest in ROW.findall(PAGE.read_text()):
        if command in found:
            raise ValueError(f"{command} has two rows")
        first = rest.split("|")[0]
        codes = re.findall(r"\b\d+\b", first) if re.fullmatch(r"[\d, ]+", first) else ()
        found[command] = Row(tuple(re.findall(r"`(test_\w+)`", rest)), tuple(map(int, codes)))
    return found
