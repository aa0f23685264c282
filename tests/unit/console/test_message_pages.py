"""Browsing: messages of several queues on one page, and what is left of each for the next one.

Cannot show: that brokers are asked rightly (tests/process/test_console_pages.py).
"""

from __future__ import annotations

from rmq.client.blocking.tail import ReceivedMessage, received
from rmq.format.fastjson import MessageQueue
from rmq.format.message import StoredMessage
from rmq.operations.message_pages import merged

QUEUES = [MessageQueue("t", "broker-a", queue_id) for queue_id in range(3)]


def messages(queue_id: int, *stored_ms: int, first: int = 0) -> list[ReceivedMessage]:
    return [
        received(
            "broker-a",
            StoredMessage(topic="t", queue_id=queue_id, queue_offset=at, store_timestamp_ms=ms),
        )
        for at, ms in enumerate(stored_ms, first)
    ]


def places(found: list[ReceivedMessage]) -> list[tuple[int, int]]:
    return [(each.stored.queue_id, each.stored.queue_offset) for each in found]


def test_pages_hold_each_message_once_and_the_oldest_first() -> None:
    left = {
        QUEUES[0]: messages(0, 10, 20, 50),
        QUEUES[1]: messages(1, 15, 20, 30, 30, first=100),
        QUEUES[2]: messages(2, 12),
    }
    seen: list[tuple[int, int]] = []
    for count in (3, 3, 2):
        found, offsets = merged(left, 3)
        seen += places(found)
        left = {
            queue: [each for each in left[queue] if each.stored.queue_offset >= offsets[queue]]
            for queue in offsets
        }
        assert len(found) == count
    assert offsets == {}
    assert seen == [(0, 0), (2, 0), (1, 100), (0, 1), (1, 101), (1, 102), (1, 103), (0, 2)]


def test_a_queue_keeps_its_order_where_a_clock_was_set_back() -> None:
    found, left = merged({QUEUES[0]: messages(0, 50, 10, 20), QUEUES[1]: messages(1, 30)}, 2)
    assert places(found) == [(1, 0), (0, 0)]
    assert left == {QUEUES[0]: 1}
