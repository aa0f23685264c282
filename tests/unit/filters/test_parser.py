"""Wrong SQL92 expressions are refused with the place and the reason, right ones are read.

Apache's grammar decides which are right; tests/compat/test_sql_filters.py compares with it.
"""

import pytest
from hypothesis import example, given, settings
from support import sql_makers as makers
from support.volume import volume

from rmq.filters.parser import CHARACTERS_MAX, TrailingText, parse
from rmq.filters.tokens import SqlError, cut
from rmq.filters.tree import (
    BOOL,
    DOUBLE,
    INT,
    LONG,
    TEXT,
    Both,
    Cast,
    Compare,
    Constant,
    Equal,
    In,
    Negate,
    Not,
    Property,
    Search,
)


def test_not_binds_tighter_than_and_which_binds_tighter_than_or() -> None:
    a, b, c = (Equal(Property(name), Constant(1, INT)) for name in "abc")
    assert parse("a = 1 OR b = 1 AND c = 1") == Both("OR", a, Both("AND", b, c))
    assert parse("(a = 1 or b = 1) And c = 1") == Both("AND", Both("OR", a, b), c)
    assert parse("NOT (a = 1) AND b = 1") == Both("AND", Not(a), b)
    assert parse("NOT a AND b = 1") == Both("AND", Not(Cast(Property("a"))), b)


def test_literals_have_javas_types() -> None:
    for text, value, kind in (
        ("5", 5, INT), ("2147483647", 2**31 - 1, INT), ("2147483648", 2**31, LONG), ("7L", 7, INT),
        ("5.5", 5.5, DOUBLE), ("5.", 5.0, DOUBLE), (".5", 0.5, DOUBLE), ("5E2", 500.0, DOUBLE),
        ("TRUE", True, BOOL), ("'it''s'", "it's", TEXT), ("''", "", TEXT), ("''''", "'", TEXT),
        ("'a\nb'", "a\nb", TEXT),
    ):  # fmt: skip
        assert parse(f"a = {text}") == Equal(Property("a"), Constant(value, kind)), text


def test_signs_and_comments() -> None:
    assert parse("a > -5") == Compare(">", Property("a"), Negate(Constant(5, INT)))
    assert parse("a > --5") == Compare(">", Property("a"), Negate(Negate(Constant(5, INT))))
    assert parse("a > +5 -- five\n") == Compare(">", Property("a"), Constant(5, INT))
    assert parse("/* x * / **/a/**/>/***/5") == Compare(">", Property("a"), Constant(5, INT))
    assert parse("a --b\r\n> 5") == Compare(">", Property("a"), Constant(5, INT))


def test_searches_and_lists() -> None:
    assert parse("a not Contains 'x'") == Search("CONTAINS", True, Property("a"), "x")
    assert parse("+(a) IN ('x', 'y')") == In(Property("a"), ("x", "y"), False)
    assert parse("$a_1 NOT IN ('x')") == In(Property("$a_1"), ("x",), True)


@pytest.mark.parametrize(
    ("expression", "position", "says"),
    [
        ("", 1, "a property or a value was expected, not the end"),
        ("a >", 4, "not the end"), ("a = 'x", 5, "without its closing quote"),
        ("a = 1 /* x", 7, "without its \\*/"), ("a == 1", 4, "not '='"), ("a != 1", 3, "'!'"),
        ("a = 1; b", 6, "';'"), ('a = "x"', 5, "nothing an expression may hold"),
        ("a LIKE 'x%'", 3, "no LIKE; use CONTAINS"), ("a = 1 b = 2", 7, "complete before 'b'"),
        ("a = 07", 6, "complete before '7'"), ("a = 5x", 6, "complete before 'x'"),
        ("(a = 1", 7, "\\) was expected, not the end"), ("a = 1)", 6, "complete"),
        ("5", 1, "a condition was expected"), ("'x' AND a = 1", 1, "a condition was expected"),
        ("a = 1 AND -b", 11, "a condition was expected"), ("NOT 5", 5, "a condition"),
        ("a > 'x'", 3, "only numbers can be compared with >"), ("TRUE < a", 6, "only numbers"),
        ("a > (b = 1)", 3, "only numbers"), ("a > 1 > 2", 7, "only numbers"),
        ("a = NULL", 3, "use IS NULL"), ("NULL <> a", 6, "use IS NULL"),
        ("TRUE = 5", 6, "cannot be compared"), ("a IS 5", 6, "NULL was expected"),
        ("a IS NOT", 9, "NULL was expected"), ("a NOT = 5", 7, "must follow NOT"),
        ("a IN ()", 7, "'string' was expected"), ("a IN (5)", 7, "'string' was expected"),
        ("a IN 'x'", 6, "\\( was expected"), ("'a' IN ('a')", 5, "only a property"),
        ("a BETWEEN 5 AND 3", 3, "lower bound"), ("a BETWEEN 'a' AND 'b'", 3, "only numbers"),
        ("a BETWEEN 5", 12, "AND was expected"), ("a CONTAINS b", 12, "'string' was expected"),
        ("a = 9223372036854775808", 5, "greater than"), ("a = 1e999", 5, "greater than"),
        ("a = 0.0", 5, "write 0"), ("a = 1e-999", 5, "write 0"), ("a = é", 5, "'é'"),
        ("a" + " = 1" * 66, 263, "comparisons in a row"),
        ("a" + " IS NULL" * 66, 523, "in a row"),
        ("a" + " CONTAINS 'x'" * 66, 848, "in a row"),
        ("((((((((((" * 7 + "a", 65, "nested deeper"), ("a-b = 1", 2, "complete before '-'"),
    ],
)  # fmt: skip
def test_what_is_wrong_and_where(expression: str, position: int, says: str) -> None:
    with pytest.raises(SqlError, match=f"character {position}: .*{says}") as caught:
        parse(expression)
    assert caught.value.position == position


def test_an_expression_has_a_largest_length() -> None:
    assert parse("a = '" + "x" * (CHARACTERS_MAX - 6) + "'")
    with pytest.raises(SqlError, match="longer than"):
        parse("a = '" + "x" * (CHARACTERS_MAX - 5) + "'")


@settings(max_examples=volume(400, 3000))
@example("a = 1 AND )")  # a case that is rarely drawn
@example("a BETWEEN ) AND 5")
@example("a BETWEEN 1 AND )")
@example("a IN )")
@example("a IN ('x', )")
@example("a IN ('x'")
@example("a = 1 AND 'x")
@example("NOT 'x")
@example("a CONTAINS 'x")
@example("a CONTAINS 'x' AND 'x")
@example("a = 99999999999999999999 'x")
@given(makers.word_soup | makers.spaced_soup | makers.expressions)
def test_any_text_is_read_or_refused_within_it(text: str) -> None:
    try:
        parse(text)
    except TrailingText as error:
        assert parse(text[: error.position - 1])
    except SqlError as error:
        assert 1 <= error.position <= len(text) + 1


def test_tokens_know_their_places() -> None:
    assert [(token.value, token.position) for token in cut("a  >=\n 'b'")] == [
        ("a", 1), (">=", 4), ("b", 8), ("", 11),
    ]  # fmt: skip
