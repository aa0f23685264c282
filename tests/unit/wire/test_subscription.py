"""Goal: tag expressions mean what they mean in Java's FilterAPI."""

from support.wire_frames import MALFORMED, TOO_LARGE

from cext.wire.properties import code_of_tag
from cext.wire.subscription import parsed


def codes(*tags: str) -> list[int]:
    return [code_of_tag(tag.encode()) for tag in tags]


def test_absent_empty_and_star_want_everything() -> None:
    assert parsed(None) == parsed(b"") == parsed(b"*") == parsed(rb"\u002a", True) == "all"


def test_tags_are_split_and_stripped() -> None:
    assert parsed(b"A") == codes("A")
    assert parsed(b"A||B") == parsed(b" A || B ") == parsed(b"\tA||\n B||") == codes("A", "B")
    assert parsed(b"||A||||B") == codes("A", "B")
    assert parsed("中文 || Ünï".encode()) == codes("中文", "Ünï")
    assert parsed(b"A|B") == codes("A|B")
    assert parsed(b"|||") == codes("|")
    assert parsed(b" * ") == codes("*")


def test_escapes_are_undone_first() -> None:
    assert parsed(rb"A\u007c|B\u003c", True) == codes("A", "B<")
    assert parsed(rb"A\q", True) == MALFORMED
    assert parsed(rb"\u0041" * 1000, True) == TOO_LARGE


def test_separators_alone_are_an_error_but_blanks_between_match_nothing() -> None:
    assert parsed(b"||") == parsed(b"||||") == MALFORMED
    assert parsed(b" || ") == parsed(b" ") == []


def test_more_tags_than_room_are_refused() -> None:
    assert parsed(b"A||B||C", capacity=3) == codes("A", "B", "C")
    assert parsed(b"A||B||C", capacity=2) == TOO_LARGE
