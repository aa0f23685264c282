"""Goal: a batch is taken apart exactly, and a batch whose lengths do not add up is refused as a
whole."""

import struct

from hypothesis import given
from hypothesis import strategies as st
from support.wire_frames import MALFORMED, batch_body

from cext.testing.request_probe import batch_messages

SMALL = [(0, b"x", b""), (7, b"", b"K\x01v\x02"), (-1, b"body" * 30, b"TAGS\x01a")]


@given(
    st.lists(
        st.tuples(
            st.integers(-(2**31), 2**31 - 1), st.binary(max_size=300), st.binary(max_size=60)
        ),
        min_size=1,
        max_size=20,
    )
)
def test_what_was_packed_is_found(packed: list[tuple[int, bytes, bytes]]) -> None:
    body = batch_body(packed)
    assert batch_messages(body) == packed


def test_every_cut_that_is_not_a_boundary_is_malformed() -> None:
    body = batch_body(SMALL)
    boundaries = {len(batch_body(SMALL[:count])): count for count in (1, 2, 3)}
    for cut in range(1, len(body) + 1):
        found = batch_messages(body[:cut])
        assert found == (SMALL[: boundaries[cut]] if cut in boundaries else MALFORMED), cut


def test_lengths_that_do_not_add_up_are_malformed() -> None:
    body = batch_body([(0, b"body", b"prop")])
    for at, width in ((0, 4), (16, 4), (24, 2)):
        right = int.from_bytes(body[at : at + width], "big")
        low = -(2 ** (8 * width - 1))
        for wrong in {right - 1, right + 1, 0, -1, low, -low - 1} - {right}:
            bad = body[:at] + wrong.to_bytes(width, "big", signed=True) + body[at + width :]
            assert batch_messages(bad) == MALFORMED, (at, wrong)


def test_magic_and_checksum_are_not_looked_at() -> None:
    body = bytearray(batch_body(SMALL[:1]))
    struct.pack_into(">ii", body, 4, 0x12345678, -1)
    assert batch_messages(bytes(body)) == SMALL[:1]
