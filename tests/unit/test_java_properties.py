"""java.util.Properties text: the cases of its specification, and that writing reads back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq import java_properties
from rmq.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a:b\nc d\n  e  =  f g \n", {"a": "b", "c": "d", "e": "f g "}),
        ("# no\n ! no\n\n\t\na", {"a": ""}),
        ("a=b\\\n   c\\\n\td", {"a": "bcd"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# part of the value", {"a": "b# part of the value"}),
        ("a\\:b\\=c\\ d=e", {"a:b=c d": "e"}),
        ("a=\\u4e2d\\uD83D\\uDE00\\t\\q", {"a": "中😀\tq"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a==b", {"a": "=b"}),
        ("a=\\", {"a": ""}),
        ("\ufeffa=1", {"a": "1"}),
    ],
)
def test_cases_of_the_specification(text: str, expected: dict[str, str]) -> None:
    assert java_properties.parse(text) == expected


def test_broken_unicode_escape_names_the_line() -> None:
    with pytest.raises(ConfigError, match=r"broker\.conf, line 2: \\u12"):
        java_properties.parse("a=1\nb=\\u12", "broker.conf")


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_what_is_written_reads_back(pairs: dict[str, str]) -> None:
    pairs = {key: value for key, value in pairs.items() if not key.startswith("\ufeff")}
    assert java_properties.parse(java_properties.format(pairs.items())) == pairs
