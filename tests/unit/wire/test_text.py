"""Goal: escapes are undone as Java does it, in exactly the room that they need; numbers keep their
range.

Method: Python's json judges escapes and int() judges numbers, both over generated input.
"""

import json

from hypothesis import example, given
from hypothesis import strategies as st
from support.wire_frames import MALFORMED, TOO_LARGE

from cext.testing.text_probe import text_copied, text_is, text_number, text_true


@given(st.text(max_size=200), st.booleans())
@example("\x01" * 30 + "K" * 40 + "\x02", True)
@example('\U0001f600中é"\\/\b\f\n\r\t\x00', True)
def test_copy_equals_json(text: str, ascii_only: bool) -> None:
    inside = json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode()
    assert text_copied(inside, b"\\" in inside, len(inside)) == text.encode()


def test_lone_surrogates_become_question_marks() -> None:
    for inside, meant in {
        rb"\ud83d": b"?", rb"\ude00": b"?", rb"\ud83dx": b"?x", rb"\ud83d\u0041": b"?A",
        rb"\ud83d\ud83d\ude00": "?\U0001f600".encode(), rb"\ude00\ud83d": b"??",
        rb"\uD83D\uDE00": "\U0001f600".encode(), rb"\ud83d\n": b"?\n",
    }.items():  # fmt: skip
        assert text_copied(inside, True, len(inside)) == meant, inside


def test_broken_escapes_are_malformed() -> None:
    for inside in (
        b"\\", b"ab\\", rb"\q", rb"\u", rb"\u00", rb"\u000", rb"\u00g0", rb"\U0041", rb"\u-001",
    ):  # fmt: skip
        assert text_copied(inside, True, 100) == MALFORMED, inside


def test_text_that_may_not_fit_is_refused() -> None:
    assert text_copied(b"abc", False, 2) == TOO_LARGE
    assert text_copied(rb"\u0041", True, 5) == TOO_LARGE
    assert text_copied(b"", False, 0) == b""


def test_equality_looks_through_escapes() -> None:
    assert text_is(b"topic", False, b"topic")
    assert text_is(rb"t\u006fpic", True, b"topic")
    assert not text_is(rb"t\u006fpic", True, b"topiC")
    assert not text_is(b"topic2", False, b"topic")
    assert not text_is(rb"\q", True, b"q")
    assert text_is(rb"\u0061" * 255, True, b"a" * 255)


@given(st.integers(-(2**65), 2**65))
@example(2**63 - 1)
@example(-(2**63))
@example(2**63)
@example(-(2**63) - 1)
@example(2**31)
@example(-(2**31) - 1)
@example(9999999999999999999)
def test_numbers_keep_to_their_range(value: int) -> None:
    for bits in (32, 64):
        inside = -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)
        for spelled in (str(value), f"{value:030d}", f"{value:+d}"):
            assert text_number(spelled.encode(), bits) == (value if inside else None)
    assert text_number(b"\\u00" + str(abs(value) % 10 + 30).encode(), 64, True) == abs(value) % 10


@given(st.binary(max_size=24))
@example(b"")
@example(b"-")
@example(b"+")
@example(b" 1")
@example(b"1_0")
@example(b"1.0")
def test_only_signs_and_digits_are_numbers(data: bytes) -> None:
    digits = data[1:] if data[:1] in (b"-", b"+") else data
    meant = None
    if digits and all(48 <= byte <= 57 for byte in digits) and -(2**63) <= int(data) < 2**63:
        meant = int(data)
    assert text_number(data, 64) == meant


def test_only_true_in_any_case_is_true() -> None:
    assert [text_true(text) for text in (b"true", b"TRUE", b"tRue")] == [True] * 3
    assert [text_true(text) for text in (b"", b"1", b"yes", b"false", b"true ")] == [False] * 5
