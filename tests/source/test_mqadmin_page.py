"""docs/mqadmin.md: each command that it says is served is called by the test that it names, and no
server of rmq has a handler for what it says is not supported. The jar's own list of commands is
compared in tests/compat/test_mqadmin_rest.py."""

from __future__ import annotations

import ast

from support.mqadmin_page import read_page
from support.source_tree import ROOT

from rmq.broker.requests.handlers import HANDLERS
from rmq.codes import RequestCode
from rmq.controller.requests import _table as controller_table
from rmq.namesrv.requests import _table as namesrv_table


def sources() -> dict[str, str]:
    """{name: source text} of the tests with official clients."""
    found = {}
    for path in (ROOT / "tests" / "compat").glob("test_*.py"):
        text = path.read_text()
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[node.name] = ast.get_source_segment(text, node) or ""
    return found


def test_what_is_served_is_called_by_the_test_that_is_named() -> None:
    known, page = sources(), read_page()
    assert len([row for row in page.values() if row.tests]) > 70
    for command, row in page.items():
        for name in row.tests:
            assert name in known, f"{command}: there is no {name}"
            assert f'"{command}"' in known[name], f"{name} does not call {command}"


def test_what_is_not_supported_has_no_handler() -> None:
    answered = {int(code) for table in (namesrv_table, controller_table) for code in table.codes}
    answered |= {int(code) for code in HANDLERS}
    for command, row in read_page().items():
        assert not (row.codes and row.tests), command
        for code in row.codes:
            assert RequestCode(code) not in answered, command
