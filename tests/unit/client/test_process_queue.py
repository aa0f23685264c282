"""ProcessQueue: progress never passes a message that is not handled, in whatever order calls
end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.volume import volume

from rmq.client.consumer.subscription import Subscription
from rmq.client.push.process_queue import Batch, ProcessQueue
from rmq.format.fastjson import MessageQueue

QUEUE = MessageQueue("t", "b", 0)


def queue_at(offset: int) -> ProcessQueue:
    queue = ProcessQueue(QUEUE, QUEUE, Subscription.of("t"))
    queue.begin(offset)
    return queue


def messages(*offsets: int) -> Any:
    return [SimpleNamespace(queue_offset=each) for each in offsets]


@settings(max_examples=volume(60, 200), deadline=None)
@given(st.data())
def test_progress_is_the_first_message_not_dealt_with(data: st.DataObject) -> None:
    queue = queue_at(7)
    waiting: list[Batch] = []
    running: list[Batch] = []
    unfinished: set[int] = set()
    following = 7
    for _ in range(data.draw(st.integers(1, 30))):
        step = data.draw(st.sampled_from(["pull", "begin", "end", "part", "forget"]))
        if step == "pull":
            found = sorted(data.draw(st.sets(st.integers(following, following + 9), max_size=6)))
            following += 10
            most = data.draw(st.integers(1, 4))
            batches = queue.put_batches(messages(*found), following, 1_000, most)
            assert [len(each.messages) <= most for each in batches].count(False) == 0
            waiting += batches
            unfinished.update(found)
        elif step == "begin" and waiting:
            batch = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
            if queue.begun(batch):
                running.append(batch)
        elif step == "end" and running:
            batch = running.pop(data.draw(st.integers(0, len(running) - 1)))
            unfinished.difference_update(each.queue_offset for each in batch.messages)
            queue.ended(batch)
        elif step == "part" and running:
            batch = running.pop(data.draw(st.integers(0, len(running) - 1)))
            left = [each for each in batch.messages if data.draw(st.booleans())]
            if not batch.done:
                kept = {each.queue_offset for each in left}
                unfinished.difference_update(
                    each.queue_offset for each in batch.messages if each.queue_offset not in kept
                )
            queue.ended(batch, left)
            if left:
                waiting.append(batch)
        elif step == "forget" and running:
            batch = data.draw(st.sampled_from(running))
            if queue.forget(batch):
                unfinished.difference_update(each.queue_offset for each in batch.messages)
            assert not queue.forget(batch)
        assert queue.progress == min(unfinished, default=following)
        assert queue.count == len(unfinished)
    if not unfinished:
        assert queue.size == 0


def test_a_dropped_queue_begins_nothing_and_a_released_one_counts_nothing() -> None:
    queue = queue_at(0)
    one, two = queue.put_batches(messages(0, 1), 2, 100, 1)
    assert queue.begun(one)
    queue.drop()
    assert not queue.begun(two)
    queue.ended(one)
    assert queue.progress == 1
    other = queue_at(0)
    (batch,) = other.put_batches(messages(0), 1, 100, 1)
    assert other.begun(batch)
    assert other.release() == 0
    other.ended(batch)
    assert other.progress == 0


@settings(max_examples=volume(60, 200), deadline=None)
@given(st.data())
def test_in_order_nothing_is_skipped_and_nothing_repeated(data: st.DataObject) -> None:
    queue = queue_at(0)
    following = 0
    done: list[int] = []
    for _ in range(data.draw(st.integers(1, 30))):
        step = data.draw(st.sampled_from(["pull", "take", "commit", "again", "rollback"]))
        if step == "pull":
            count = data.draw(st.integers(0, 5))
            queue.put_messages(messages(*range(following, following + count)), following + count,
                               500)  # fmt: skip
            following += count
        elif step == "take":
            taken = queue.take(data.draw(st.integers(1, 4)))
            if data.draw(st.booleans()):
                queue.again(taken)
        elif step == "commit":
            done += [message.queue_offset for message, _ in queue.taken]
            queue.commit()
        elif step == "again" and queue.taken:
            last = [message for message, _ in queue.taken][-data.draw(st.integers(1, 2)) :]
            queue.again(last)
        elif step == "rollback":
            queue.again()
        assert done == list(range(len(done)))
        assert queue.progress == len(done)
        assert queue.count == following - len(done)
    queue.again()
    while taken := queue.take(3):
        done += [each.queue_offset for each in taken]
        queue.commit()
    assert done == list(range(following))
    assert queue.size == queue.count == 0


def test_it_is_full_by_count_size_and_span() -> None:
    queue = queue_at(0)
    assert not queue.is_full(0, 0, 0)
    queue.put_batches(messages(0, 50), 51, 1_000, 1)
    assert queue.is_full(1, 10_000, 100)
    assert not queue.is_full(2, 10_000, 50)
    assert queue.is_full(2, 900, 50)
    assert queue.is_full(2, 10_000, 49)
    assert not queue.is_full(2, 10_000, None)
