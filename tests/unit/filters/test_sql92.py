"""Which expressions ask for a function of the broker's owner, and which part is left for the
program."""

import pytest
from support.sql_model import stored

from cext.testing.message_probe import Program
from rmq.filters.sql92 import compile_expression
from rmq.filters.tokens import SqlError


def test_an_expression_without_the_property_names_no_function() -> None:
    assert compile_expression("filter = 'vip' AND a = 'x'").function == ""
    assert compile_expression("a = '$filter'").function == ""


@pytest.mark.parametrize(
    ("expression", "rest"),
    [
        ("$filter = 'vip'", "TRUE"),
        ("($filter = 'vip')", "TRUE"),
        ("$filter = 'vip' AND a > 5", "a > 5"),
        ("a > 5 AND $filter = 'vip' AND b = 'x'", "a > 5 AND b = 'x'"),
        ("a > 5 AND (b = 'x' AND $filter = 'vip')", "a > 5 AND b = 'x'"),
        ("(a > 5 OR b = 'x') AND $filter = 'vip'", "a > 5 OR b = 'x'"),
    ],
)
def test_the_term_is_taken_out_and_the_rest_is_the_program(expression: str, rest: str) -> None:
    found = compile_expression(expression)
    assert found.function == "vip"
    program, expected = Program(found.program), Program(compile_expression(rest).program)
    for a in ("", "7", "3"):
        for b in ("x", "y"):
            properties = stored({"a": a, "b": b})
            assert program.result(properties) == expected.result(properties)


@pytest.mark.parametrize(
    ("expression", "position"),
    [
        ("$filter = 'vip' OR a = 1", 1),
        ("a = 1 AND NOT ($filter = 'vip')", 16),
        ("a = 1 AND $filter <> 'vip'", 11),
        ("$filter = 'a' AND $filter = 'b'", 1),
        ("'vip' = $filter", 9),
        ("$filter IN ('vip')", 1),
        ("$filter", 1),
        ("$filter = 5", 1),
        ("a > -$filter AND $filter = 'vip'", 6),
    ],
)
def test_the_term_anywhere_else_is_refused(expression: str, position: int) -> None:
    with pytest.raises(SqlError, match=r"joined by AND") as caught:
        compile_expression(expression)
    assert caught.value.position == position
