"""Messages of a stream: in whatever pieces it comes, the messages are what lies between
delimiters."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq.cli import send_records
from rmq.cli.send_records import records
from rmq.errors import MessageError


class Pieces(io.BytesIO):
    """A stream that gives at most so many bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self._size = size

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(self._size)


@given(
    st.lists(st.binary(max_size=5).filter(lambda body: b"ab" not in body), max_size=6),
    st.integers(1, 4),
)
def test_pieces_do_not_matter(bodies: list[bytes], size: int) -> None:
    whole = b"ab".join(bodies)
    found = [body for _, body in records(Pieces(whole, size), b"ab", None)]
    assert found == [body for body in whole.split(b"ab") if body]


def test_one_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_records, "RECORD_BYTES_MAX", 100)
    with pytest.raises(MessageError, match="is b',' the right delimiter"):
        list(records(Pieces(b"x" * 101, 10), b",", None))


def test_keys_that_are_no_text_are_named() -> None:
    read = records(io.BytesIO(b"ok:1\n\xff:2\n"), b"\n", b":")
    assert next(read) == ("ok", b"1")
    with pytest.raises(MessageError, match="message 2: its keys are not UTF-8 text"):
        next(read)
