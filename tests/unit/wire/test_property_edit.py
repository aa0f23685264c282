"""A property string is rewritten: properties that are left out go wholly, the others stay as they
were."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cext.testing.message_probe import properties_without
from rmq.format.message import decode_properties


@pytest.mark.parametrize(
    ("data", "names", "left"),
    [
        (b"", [b"A"], b""),
        (b"A\x011\x02B\x012\x02", [b"A"], b"B\x012\x02"),
        (b"A\x011\x02B\x012", [b"A"], b"B\x012\x02"),
        (b"B\x012\x02A\x011", [b"A"], b"B\x012\x02"),
        (b"A\x011\x02AA\x012\x02A\x013\x02", [b"A"], b"AA\x012\x02"),
        (b"AA\x011\x02A\x01", [b"A"], b"AA\x011\x02"),
        (b"A\x02B\x011\x02\x02\x02", [b"A"], b"A\x02B\x011\x02"),
        (b"A\x011\x02B\x012\x02C\x013\x02", [b"C", b"A"], b"B\x012\x02"),
    ],
)
def test_named_pairs_go_and_the_rest_is_closed(
    data: bytes, names: list[bytes], left: bytes
) -> None:
    assert properties_without(data, names) == left


@given(
    st.lists(st.tuples(st.sampled_from("ABCD"), st.text("xy", min_size=1, max_size=3))),
    st.sets(st.sampled_from("ABCD")),
)
def test_it_is_a_dictionary_without_the_names(
    pairs: list[tuple[str, str]], names: set[str]
) -> None:
    data = "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode()
    left = decode_properties(properties_without(data, [name.encode() for name in sorted(names)]))
    assert left == {name: value for name, value in pairs if name not in names}
