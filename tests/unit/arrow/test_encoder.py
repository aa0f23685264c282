"""Rows as the body of a batch send: what C encodes is taken apart again by plain Python."""

import pytest

pa = pytest.importorskip("pyarrow", reason="needs the extra: pip install -e .[spark]")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from cext.arrow.encoder import encode_rows  # noqa: E402
from rmq.format.message import decode_properties  # noqa: E402

KEY = b"K" * 24
WORDS = st.none() | st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), max_size=9)


def buffers(array) -> tuple:
    return (*array.buffers(), array.offset)


def messages(data: bytes) -> list[tuple[bytes, dict[str, str]]]:
    found, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        assert data[at + 4 : at + 16] == bytes(12)
        length = int.from_bytes(data[at + 16 : at + 20], "big")
        body = data[at + 20 : at + 20 + length]
        start = at + 22 + length
        assert int.from_bytes(data[start - 2 : start], "big") == at + size - start
        found.append((body, decode_properties(data[start : at + size])))
        at += size
    assert at == len(data)
    return found


BODY = st.binary(min_size=1, max_size=60)


@given(st.lists(st.tuples(BODY, WORDS, WORDS), min_size=1, max_size=40),
       st.integers(0, 5), st.integers(30, 2000))  # fmt: skip
def test_every_row_is_one_message_in_batches_of_bounded_size(rows, skipped, most) -> None:
    padded = [(b"before", "x", "y")] * skipped + rows
    columns = tuple(
        buffers(pa.array([row[at] for row in padded], kind).slice(skipped))
        for at, kind in enumerate((pa.binary(), pa.string(), pa.string()))
    )
    at, found = 0, []
    while at < len(rows):
        data, following = encode_rows(columns, at, len(rows), most, KEY, 7 + at)
        assert following == at + 1 or len(data) <= most
        found += messages(data)
        at = following
    for number, ((body, properties), row) in enumerate(zip(found, rows, strict=True), 7):
        wanted = {"UNIQ_KEY": f"{KEY.decode()}{number:08X}"}
        wanted |= {name: text for name, text in (("TAGS", row[1]), ("KEYS", row[2])) if text}
        assert (body, properties) == (row[0], wanted)


def test_a_batch_has_8192_messages_at_most_however_small_they_are() -> None:
    columns = (buffers(pa.array([b"x"] * 10_000, pa.binary())), None, None)
    data, following = encode_rows(columns, 0, 10_000, 3 << 20, KEY, 0)
    assert (following, len(messages(data))) == (8192, 8192)
    assert encode_rows(columns, following, 10_000, 3 << 20, KEY, following)[1] == 10_000


def test_rows_that_are_no_plain_messages_are_refused() -> None:
    body = buffers(pa.array([b"x", None]))
    with pytest.raises(ValueError):
        encode_rows((body, None, None), 0, 2, 1 << 20, KEY, 0)
    assert encode_rows((body, None, None), 0, 1, 1 << 20, KEY, 0)[1] == 1
    with pytest.raises(ValueError):
        encode_rows((buffers(pa.array([b""])), None, None), 0, 1, 1 << 20, KEY, 0)
    tags = buffers(pa.array(["a\x01b"]))
    with pytest.raises(ValueError):
        encode_rows((body, tags, None), 0, 1, 1 << 20, KEY, 0)
    long = buffers(pa.array(["t" * 40_000]))
    with pytest.raises(ValueError):
        encode_rows((body, long, None), 0, 1, 1 << 20, KEY, 0)
    with pytest.raises(ValueError):
        encode_rows((body, None, None), 0, 9, 1 << 20, KEY, 0)
    with pytest.raises(ValueError):
        encode_rows((None, None, None), 0, 1, 1 << 20, KEY, 0)
