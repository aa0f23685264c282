"""Topic configurations from JSON and attribute changes."""

import pytest

from rmq.broker.tables.topic_config import TopicConfig
from rmq.errors import ProtocolError
from rmq.refusal import Refusal


def test_members_go_around() -> None:
    topic = TopicConfig("t", 4, 8, 6, True, attributes={"message.type": "FIFO"})
    assert TopicConfig.of(topic.members()) == topic


def test_numbers_may_be_text_as_old_java_writes_them() -> None:
    assert TopicConfig.of({"topicName": "t", "perm": "6", "readQueueNums": "3"}).read_queues == 3


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"topicName": 1},
        {"topicName": "a/b"},
        {"topicName": "t", "perm": 8},
        {"topicName": "t", "perm": -1},
        {"topicName": "t", "readQueueNums": 65536},
        {"topicName": "t", "writeQueueNums": -1},
        {"topicName": "t", "order": 3},
        {"topicName": "t", "attributes": [1]},
    ],
)
def test_wrong_members_are_refused(members: dict[str, object]) -> None:
    with pytest.raises((ProtocolError, Refusal)):
        TopicConfig.of(members)


def test_the_mask_of_the_broker_keeps_inheritance() -> None:
    assert TopicConfig("TBW102", perm=7).masked(4).perm == 5
