"""docs/promises.md has a row for every request that the broker knows, and for no other."""

from __future__ import annotations

import re

from support.promise_cases import CASES
from support.promises import PAGE, WORDS, rows
from support.source_tree import ROOT

from rmq.broker.requests.handlers import HANDLERS
from rmq.codes import RequestCode

# Codes that the reactor answers: those its router has rows for, by their names in the source.
ROUTER = ROOT / "cext" / "flow" / "request_router.pyx"
POPS = ROOT / "cext" / "wire" / "pop_request.pyx"
NAME = re.compile(r"\b[A-Z][A-Z_0-9]+\b")


def test_every_request_has_a_row_and_every_row_is_a_request() -> None:
    known = {int(code) for code in HANDLERS}
    assert known <= set(RequestCode)
    assert {row.code for row in rows()} == known
    for row in rows():
        assert RequestCode(row.code).name == row.name


def test_what_the_reactor_answers_has_a_row_too() -> None:
    words = {word for path in (ROUTER, POPS) for word in NAME.findall(path.read_text())}
    reactor = {code.value for code in RequestCode if code.name in words}
    assert len(reactor) >= 17
    assert reactor <= {row.code for row in rows()}


def test_each_row_is_one_case_in_words_that_the_page_explains() -> None:
    keys = [row.key for row in rows()]
    assert len(keys) == len(set(keys))
    assert {code for code, case in keys if not case} | {37} == {code for code, _ in keys}
    for row in rows():
        assert set(row.words.values()) <= set(WORDS), row
        assert (row.words["ASYNC_FLUSH"], row.words["SYNC_FLUSH"]) in (
            ("written", "durable"), ("file", "durable"), ("written", "written"),
            ("file", "file"), ("offsets", "offsets"), ("memory", "memory"), ("read", "read"),
        ), row  # fmt: skip
    text = PAGE.read_text()
    assert all(f"| `{word}` |" in text for word in WORDS)


def test_each_row_is_tried_with_a_slow_disk() -> None:
    assert set(CASES) == {row.key for row in rows()}
