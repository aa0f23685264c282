"""Which names are legal, at their limits."""

import pytest

from rmq import names
from rmq.broker.name_checks import check_topic
from rmq.refusal import Refusal


@pytest.mark.parametrize("topic", ["t", "%RETRY%g", "a|b-c_D9", "x" * 127, "%DLQ%" + "g" * 250])
def test_legal_topics(topic: str) -> None:
    assert check_topic(topic) == topic


@pytest.mark.parametrize(
    "topic",
    ["", "  ", "a b", "a/b", "..", "a\0", "a\n", "tópico", "x" * 128, "%RETRY%" + "g" * 249],
)
def test_illegal_topics(topic: str) -> None:
    with pytest.raises(Refusal) as caught:
        check_topic(topic)
    assert caught.value.code == 29


def test_groups_end_at_120_characters() -> None:
    assert names.group_fault("g" * 120) is None
    assert "120" in (names.group_fault("g" * 121) or "")
    assert names.group_fault("../g") is not None


def test_the_longest_group_fits_its_retry_topic() -> None:
    assert names.topic_fault(names.retry_topic("g" * 120)) is None
