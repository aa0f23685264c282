"""Base64 with the URL-safe alphabet, compared with Python's own."""

import base64
import random

import pytest

from cext.testing.text_probe import base64url_decoded, base64url_encoded


def test_what_is_written_is_what_python_writes_and_is_read_again() -> None:
    source = random.Random(5)
    for length in [*range(70), 500, 3071, 3072]:
        data = source.randbytes(length)
        text = base64url_encoded(data)
        assert text == base64.urlsafe_b64encode(data)
        assert base64url_decoded(text) == data
        assert base64url_decoded(text.rstrip(b"=")) == data


@pytest.mark.parametrize(
    "text",
    [
        b"=", b"==", b"===", b"====", b"A", b"AAAAA", b"A===", b"AA=", b"AAA==", b"AA==AA==",
        b"A=AA", b"AAA=AAAA", b"AA==\n", b" AA=", b"AAA+", b"AAA/", b"AAA\0", b"AAA\x80",
        b"\xff" * 4, b"AAA.", b"AAA@", b"AAA[", b"AAA`", b"AAA{", b"AAA:", b"AAA^", b"AAA,",
    ],
)  # fmt: skip
def test_what_java_does_not_decode_is_refused(text: bytes) -> None:
    assert base64url_decoded(text) is None


def test_bits_that_are_left_over_do_not_count() -> None:
    """As in Java: no encoder sets these bits."""
    assert base64url_decoded(b"AB") == base64url_decoded(b"AA==") == b"\0"
    assert base64url_decoded(b"") == b""
