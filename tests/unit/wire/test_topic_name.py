"""The reactor and control agree on which names a topic may have.

Method: names of all kinds, against rmq.names.topic_fault().
"""

from hypothesis import example, given
from hypothesis import strategies as st

from cext.testing.text_probe import topic_named
from rmq.names import topic_fault

PARTS = st.sampled_from(
    ["", "%RETRY%", "%DLQ%", "%RETRY", "a", "Z9", "_-|%", "+", "+", " ", "\n", "\0", "é", "x" * 120,
     "y" * 7, "z" * 8]
)  # fmt: skip


@given(st.lists(PARTS, max_size=5).map("".join))
@example("x" * 127)
@example("x" * 128)
@example("%DLQ%" + "x" * 250)
@example("%DLQ%" + "x" * 251)
@example("%RETRY%g+t")
@example("%RETRY%g+t+u")
@example("g+t")
def test_a_name_is_legal_for_both_or_for_none(name: str) -> None:
    assert topic_named(name.encode()) == (topic_fault(name) is None)
