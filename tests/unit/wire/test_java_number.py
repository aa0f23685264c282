"""Numbers are read as Java's Integer.valueOf, Long.valueOf and Double.valueOf read them.

The judge is Python's int() and float() behind Java's grammar (tests/support/sql_model.py).
"""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import sql_model
from support.sql_model import bits
from support.volume import volume

from cext.testing.text_probe import double_of, integer_of


def model_integer(text: str, size: int) -> int | None:
    try:
        return sql_model.java_integer(text, size - 1)
    except sql_model.Failed:
        return None


def model_double(text: str) -> float | None:
    try:
        return sql_model.java_double(text)
    except sql_model.Failed:
        return None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7), ("+7", 7), ("-7", -7), ("007", 7), ("2147483647", 2**31 - 1),
        ("-2147483648", -(2**31)), ("2147483648", None), ("-2147483649", None),
        ("99999999999999999999999", None), ("", None), ("-", None), ("+", None), (" 7", None),
        ("7 ", None), ("7.0", None), ("1e3", None), ("0x7", None), ("--7", None), ("7l", None),
        ("٧", 7), ("٧1", 71), ("７", 7), ("²", None), ("𝟕", None), ("é", None),
    ],
)  # fmt: skip
def test_an_int_is_a_sign_and_digits_of_any_script(text: str, value: int | None) -> None:
    assert integer_of(text.encode()) == value


def test_a_long_reaches_to_both_ends() -> None:
    for value in (2**63 - 1, -(2**63)):
        assert integer_of(str(value).encode(), 64) == value
    assert integer_of(str(2**63).encode(), 64) is None
    assert integer_of(str(-(2**63) - 1).encode(), 64) is None


def test_every_digit_of_the_basic_plane_is_one_and_nothing_else() -> None:
    for point in range(0x10000):
        if not 0xD800 <= point < 0xE000:
            assert integer_of(chr(point).encode()) == model_integer(chr(point), 32), hex(point)


def test_broken_utf8_is_no_digit() -> None:
    for text in (b"\xd9", b"\xd9\xa7\xd9", b"\xef\xbc", b"\xff", b"1\x80"):
        assert integer_of(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5", 1.5), (" 1.5\t", 1.5), ("\x001\x1f", 1.0), ("1.", 1.0), (".5", 0.5), ("1e3", 1e3),
        ("1E-3d", 1e-3), ("1f", 1.0), ("1D", 1.0), ("-0", -0.0), ("0x1p3", 8.0),
        ("0x.8p1f", 1.0), ("-0X1.p-1", -0.5), ("1e400", float("inf")), ("-1e400", -float("inf")),
        ("1e-400", 0.0), ("0x1p99999999999", float("inf")), ("Infinity", float("inf")),
        ("-Infinity", -float("inf")), ("NaN", float("nan")), ("-NaN", float("nan")),
        ("9007199254740993", 9007199254740992.0), ("0.1000000000000000055511151231257827", 0.1),
        ("1" + "0" * 400, float("inf")), ("0." + "0" * 330 + "1", 0.0),
    ],
)  # fmt: skip
def test_a_double_has_javas_spellings(text: str, value: float) -> None:
    found = double_of(text.encode())
    assert found is not None and bits(found) == bits(value)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", ".", "+", "-.", "e5", "1e", "1e+", "1.5.1", "1_0", "0x1", "0x", "0xp1", "0x.p1",
        "0x1p", "nan", "inf", "infinity", "NaNd", "Infinityf", "1ff", "1 2", "٧", "1,5", "\xa01",
        "1.5\xa0", "0x1p1.5",
    ],
)  # fmt: skip
def test_what_java_throws_at_is_none(text: str) -> None:
    assert double_of(text.encode()) is None


@given(st.floats(allow_nan=False))
def test_every_double_is_read_back(value: float) -> None:
    found = double_of(repr(value).replace("inf", "Infinity").encode())
    assert found is not None and bits(found) == bits(value)


@settings(max_examples=volume(600, 2000))
@given(st.text("0123456789.+-eExXpPaAfFdD NInity\t", max_size=24))
@example("9" * 15)
@example("9" * 16)
@example("9" * 19)
@example("900719925474099.5")
def test_any_text_is_read_as_the_model_reads_it(text: str) -> None:
    found, expected = double_of(text.encode()), model_double(text)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert bits(found) == bits(expected)
    assert integer_of(text.encode()) == model_integer(text, 32)


@given(st.integers(0, 10**20), st.integers(-30, 30))
def test_decimals_are_rounded_once(digits: int, places: int) -> None:
    text = f"{digits}e{places}" if places >= 0 else f"{digits:040d}"
    if places < 0:
        text = text[:places] + "." + text[places:]
    found = double_of(text.encode())
    assert found is not None and bits(found) == bits(float(text))


def test_a_spelling_of_any_length_is_read() -> None:
    assert double_of(b"1" + b"0" * 30_000 + b"e-30000") == 1.0
    assert double_of(b"0" * 32_767) == 0.0
