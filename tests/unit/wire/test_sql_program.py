"""Compiled SQL92 filters give what Apache's evaluator gives.

Method: a table of the rules, a differential test against the plain model
(tests/support/sql_model.py), and bytes that are no program. That the model is right is shown by
tests/compat/test_sql_filters.py, against Apache's own evaluator.
"""

import random

import pytest
from hypothesis import example, given, settings
from support import sql_makers as makers
from support.sql_model import evaluate, stored
from support.sql_table import TABLE
from support.volume import volume

from cext.testing.message_probe import Program
from rmq.filters.parser import parse
from rmq.filters.program import compile_tree
from rmq.filters.sql92 import compile_expression
from rmq.filters.tokens import SqlError


def result(expression: str, **properties: str) -> object:
    return Program(compile_expression(expression).program).result(stored(properties))


@pytest.mark.parametrize(("expression", "properties", "expected"), TABLE)
def test_the_rules_of_nulls_and_types(
    expression: str, properties: dict[str, str], expected: object
) -> None:
    assert evaluate(parse(expression), properties) == expected
    assert result(expression, **properties) == expected


@settings(max_examples=volume(400, 3000), deadline=None)
@example("a > 1.5", {"a": "0x1p3"})  # a case that is rarely drawn
@example("a > 1.5", {"a": "0x1p99999"})
@example("a > 1.5", {"a": "-0x1p99999"})
@example("a > b", {"a": "NaN", "b": "NaN"})
@example("a > 1.5", {"a": "-Infinity"})
@example("a > b", {"a": "x", "b": "1"})
@example("a > b", {"a": "-0.0", "b": "0.0"})
@given(makers.expressions, makers.properties)
def test_any_expression_is_as_the_model_says(expression: str, properties: dict[str, str]) -> None:
    try:
        tree = parse(expression)
    except SqlError:
        return
    assert Program(compile_tree(tree)).result(stored(properties)) == evaluate(tree, properties)


def test_the_last_of_equal_names_counts_and_pieces_that_are_no_pairs_do_not() -> None:
    program = Program(compile_expression("a = '2'").program)
    assert program.matches(b"a\x011\x02b\x01x\x02a\x012\x02")
    assert program.matches(b"a\x012")
    assert not program.matches(b"a\x012\x02a\x011\x02")
    assert program.matches(b"a\x012\x02a\x01\x02a\x02\x01a\x02")


def test_properties_of_any_length_are_looked_through() -> None:
    program = Program(compile_expression("last = 'here' AND first = '0'").program)
    for filler in range(0, 200):
        middle = b"m\x01" + b"x" * filler + b"\x02" if filler else b""
        assert program.matches(b"first\x010\x02" + middle + b"last\x01here\x02")


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        (" AND ".join(f"p{n} = 1" for n in range(65)), "properties"),
        ("a IN (" + ", ".join(f"'{n}'" for n in range(2049)) + ")", "values"),
        (" OR ".join("a = 1" for _ in range(2000)), "terms"),
    ],
)
def test_what_is_larger_than_programs_may_be_is_refused(expression: str, says: str) -> None:
    with pytest.raises(SqlError, match=says):
        compile_expression(expression)


def test_the_largest_program_runs() -> None:
    expression = "a IN (" + ", ".join(f"'{n}'" for n in range(2048)) + ")"
    assert result(expression, a="2047") is True
    assert result(expression, a="2048") is False
    names = [f"p{n}" for n in range(64)]
    both = " AND ".join(f"{name} = 1" for name in names)
    assert result(both, **dict.fromkeys(names, "1")) is True
    assert result("(a = 1 OR " * 60 + "b = 1" + ")" * 60, b="1", a="2") is True


def test_bytes_that_are_no_program_are_refused_or_run_within_their_bounds() -> None:
    numbers = random.Random(7)
    good = [
        compile_expression(text).program
        for text in ("a > 5 AND NOT (b IN ('x', 'y') OR c CONTAINS 'z')", "a > -(b = 1)")
    ]
    refused = 0
    for _ in range(20_000):
        broken = bytearray(numbers.choice(good))
        for _ in range(numbers.randrange(1, 4)):
            broken[numbers.randrange(len(broken))] = numbers.choice((0, 1, 2, 255, 16, 128))
        if numbers.random() < 0.2:
            del broken[numbers.randrange(len(broken)) :]
        try:
            program = Program(bytes(broken))
        except ValueError:
            refused += 1
            continue
        program.result(b"a\x017\x02b\x01x\x02c\x01az\x02")
    assert 1000 < refused < 20_000
