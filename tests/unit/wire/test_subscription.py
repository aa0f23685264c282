"""Goal: tag expressions mean what they mean in Java's FilterAPI."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.wire_frames import MALFORMED, TOO_LARGE

from cext.testing.message_probe import code_of_tag
from cext.testing.request_probe import tag_subscription
from rmq.broker.clients.subscription import tag_codes


def codes(*tags: str) -> list[int]:
    return [code_of_tag(tag.encode()) for tag in tags]


def test_absent_empty_and_star_want_everything() -> None:
    assert (
        tag_subscription(None)
        == tag_subscription(b"")
        == tag_subscription(b"*")
        == tag_subscription(rb"\u002a", True)
        == "all"
    )


def test_tags_are_split_and_stripped() -> None:
    assert tag_subscription(b"A") == codes("A")
    assert (
        tag_subscription(b"A||B")
        == tag_subscription(b" A || B ")
        == tag_subscription(b"\tA||\n B||")
        == codes("A", "B")
    )
    assert tag_subscription(b"||A||||B") == codes("A", "B")
    assert tag_subscription("中文 || Ünï".encode()) == codes("中文", "Ünï")
    assert tag_subscription(b"A|B") == codes("A|B")
    assert tag_subscription(b"|||") == codes("|")
    assert tag_subscription(b" * ") == codes("*")


def test_escapes_are_undone_first() -> None:
    assert tag_subscription(rb"A\u007c|B\u003c", True) == codes("A", "B<")
    assert tag_subscription(rb"A\q", True) == MALFORMED
    assert tag_subscription(rb"\u0041" * 1000, True) == TOO_LARGE


def test_separators_alone_are_an_error_but_blanks_between_match_nothing() -> None:
    assert tag_subscription(b"||") == tag_subscription(b"||||") == MALFORMED
    assert tag_subscription(b" || ") == tag_subscription(b" ") == []


def by_control(expression: str) -> list[int] | str | int:
    try:
        found = tag_codes(expression)
    except ValueError:
        return MALFORMED
    return "all" if found is None else found


def by_reactor(expression: str) -> list[int] | str | int:
    found = tag_subscription(expression.encode())
    return sorted(set(found)) if isinstance(found, list) else found


@given(st.text(st.sampled_from("ab*| \t\x00\u00a0\u3000"), max_size=12))
def test_control_reads_those_that_heartbeats_bring_the_same_way(expression: str) -> None:
    assert by_control(expression) == by_reactor(expression)


@pytest.mark.parametrize("expression", ["", "*", " ", " * ", "* ||", "||", "|||", " || ", "\u00a0a",
                                        "a\u2003||b", "\x1fa\x00"])  # fmt: skip
def test_what_stands_at_the_edge_of_everything_is_the_same_on_both_sides(expression: str) -> None:
    assert by_control(expression) == by_reactor(expression)


def test_more_tags_than_room_are_refused() -> None:
    assert tag_subscription(b"A||B||C", capacity=3) == codes("A", "B", "C")
    assert tag_subscription(b"A||B||C", capacity=2) == TOO_LARGE
