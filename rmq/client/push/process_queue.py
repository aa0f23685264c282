"""ProcessQueue: one queue that a push consumer reads, with messages pulled and not consumed yet.

    progress <= offsets of the messages held here < pull_offset
        progress      where the group goes on: the first message not consumed
        pull_offset   the next message that is pulled; None: not known yet where to begin

A listener's concurrent calls end in any order. Their batches are kept in the order of the queue and
leave it from the front, so keeping progress costs one object per batch. A listener that is called
in order has one batch at a time: `take` moves messages to `taken`, `commit` forgets them, `again`
puts them back.

A queue has three states. In use. `dropped`: no new call begins, because another member has the
queue, or because it begins again at another offset. `released`: progress was committed for the last
time, and calls that end later do not count. A queue that begins at another offset is a new
ProcessQueue with the same consume_lock.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from cext.base import clock
from cext.client.message import MessageExt
from rmq.client.consumer.subscription import Subscription
from rmq.format.fastjson import MessageQueue

LOCK_LIVES_S = 30.0


class Batch:
    """The messages of one call of a concurrent listener."""

    __slots__ = ("began", "done", "messages", "queue", "size")

    def __init__(self, queue: ProcessQueue, messages: list[MessageExt], size: int) -> None:
        self.queue = queue
        self.messages = messages
        self.size = size
        self.began = 0.0  # when the call began, monotonic; 0: it has not begun
        self.done = False


class ProcessQueue:
    """The state of one queue; no I/O. Any thread may use it."""

    def __init__(self, wire: MessageQueue, shown: MessageQueue, subscription: Subscription) -> None:
        self.wire = wire
        self.queue = shown  # as the user names it
        self.subscription = subscription
        self.lock = threading.Lock()
        self.pull_offset: int | None = None
        self.pulling = False
        self.is_waiting = False  # for room before the next pull
        self.dropped = False
        self.released = False
        self.count = 0
        self.size = 0
        self.running = 0  # calls of the listener under way
        self.first = self.committed = -1  # where it began; the offset committed last
        self.pulled_ms = self.consumed_ms = clock.now_ms()
        self._batches: deque[Batch] = deque()  # concurrent
        self.consume_lock = threading.Lock()  # in order: one call at a time
        self.is_consuming = False  # in order: a task is waiting or at work
        self.locked_at = 0.0  # monotonic; 0: not locked
        self.locked_ms = 0
        self._messages: deque[tuple[MessageExt, int]] = deque()  # in order, with their sizes
        self.taken: list[tuple[MessageExt, int]] = []

    # ---- both

    def begin(self, offset: int, *, is_kept: bool = True) -> None:
        """Sets where to begin, if that was not known. is_kept: the group has committed this offset
        before."""
        with self.lock:
            if self.pull_offset is None:
                self.pull_offset = self.first = offset
                self.committed = offset if is_kept else -1

    @property
    def progress(self) -> int:
        """Where the group goes on in this queue; -1: not known."""
        with self.lock:
            return self._progress()

    def _progress(self) -> int:
        if self._batches:
            return self._batches[0].messages[0].queue_offset
        if self.taken:
            return self.taken[0][0].queue_offset
        if self._messages:
            return self._messages[0][0].queue_offset
        return -1 if self.pull_offset is None else self.pull_offset

    def is_full(self, count: int, size: int, span: int | None) -> bool:
        """Whether too much lies here to pull ahead. The caller holds the lock."""
        if self.count > count or self.size > size:
            return True
        return (
            span is not None
            and self.count > 0
            and self.pull_offset is not None
            and self.pull_offset - 1 - self._progress() > span
        )

    def drop(self) -> None:
        with self.lock:
            self.dropped = True

    def release(self) -> int:
        """Makes calls that end from now on not count, and returns the progress so far."""
        with self.lock:
            self.dropped = self.released = True
            return self._progress()

    # ---- concurrent

    def put_batches(
        self, messages: list[MessageExt], following: int, bytes_: int, most: int
    ) -> list[Batch]:
        """Takes the messages of a pull, and returns them in batches of `most`. From now on the next
        pull may be sent."""
        found = []
        with self.lock:
            self.pull_offset, self.pulling = following, False
            if messages:
                each = bytes_ // len(messages) + 1
                for at in range(0, len(messages), most):
                    part = messages[at : at + most]
                    found.append(Batch(self, part, each * len(part)))
                self._batches.extend(found)
                self.count += len(messages)
                self.size += each * len(messages)
        return found

    def begun(self, batch: Batch) -> bool:
        """The call of a batch begins. False: the batch must not be consumed any more."""
        with self.lock:
            if self.dropped or batch.done:
                return False
            batch.began = clock.monotonic()
            self.running += 1
        return True

    def ended(self, batch: Batch, left: list[MessageExt] | None = None) -> bool:
        """The call of a batch has ended, and all messages but `left` are consumed. Returns whether
        a pull waits for room."""
        with self.lock:
            self.running -= 1
            self.consumed_ms = clock.now_ms()
            batch.began = 0.0
            if batch.done or self.released:
                return False
            gone = len(batch.messages) - len(left or ())
            size = batch.size if not left else batch.size * gone // len(batch.messages)
            self.count -= gone
            self.size -= size
            batch.size -= size
            if left:
                batch.messages = left
            else:
                self._finish(batch)
            return self.is_waiting

    def _finish(self, batch: Batch) -> None:
        batch.done = True
        batches = self._batches
        while batches and batches[0].done:
            batches.popleft()

    def expired(self, before: float, most: int) -> list[Batch]:
        """The first batches of the queue, at most `most`, whose calls began before that time. It
        ends at the first batch whose call did not."""
        found: list[Batch] = []
        with self.lock:
            for batch in self._batches:
                if batch.done:
                    continue
                if len(found) == most or not 0 < batch.began < before:
                    break
                found.append(batch)
        return found

    def forget(self, batch: Batch) -> bool:
        """Makes the end of the batch's call not count. False: the call has already ended."""
        with self.lock:
            if batch.done or self.released:
                return False
            self.count -= len(batch.messages)
            self.size -= batch.size
            self._finish(batch)
            return True

    # ---- in order

    def put_messages(self, messages: list[MessageExt], following: int, bytes_: int) -> bool:
        """Takes the messages of a pull. True: nobody is consuming the queue, so the caller must
        see to it."""
        with self.lock:
            self.pull_offset, self.pulling = following, False
            if messages:
                each = bytes_ // len(messages) + 1
                self._messages.extend([(message, each) for message in messages])
                self.count += len(messages)
                self.size += each * len(messages)
            if self.is_consuming or not self._messages:
                return False
            self.is_consuming = True
            return True

    def take(self, most: int) -> list[MessageExt]:
        """Moves the next messages to `taken`, and returns them. Empty: there are none, and from now
        on nobody is consuming the queue."""
        with self.lock:
            self.consumed_ms = clock.now_ms()
            found = [self._messages.popleft() for _ in range(min(most, len(self._messages)))]
            self.taken += found
            if not found:
                self.is_consuming = False
            return [message for message, _ in found]

    def commit(self) -> bool:
        """All messages in `taken` are consumed. Returns whether a pull waits for room."""
        with self.lock:
            self.count -= len(self.taken)
            self.size -= sum(size for _, size in self.taken)
            self.taken = []
            return self.is_waiting

    def again(
        self, messages: list[MessageExt] | None = None, left: list[MessageExt] | None = None
    ) -> None:
        """Puts `messages`, the last of those in `taken`, back into the queue; by default all of
        them. left: only these are put back, since the others are consumed."""
        with self.lock:
            at = 0 if messages is None else len(self.taken) - len(messages)
            back = self.taken[at:]
            del self.taken[at:]
            if left is not None:
                comes = set(map(id, left))
                self.count -= sum(id(message) not in comes for message, _ in back)
                self.size -= sum(size for message, size in back if id(message) not in comes)
                back = [each for each in back if id(each[0]) in comes]
            self._messages.extendleft(reversed(back))

    def locked(self, now: float) -> None:
        self.locked_at = now
        self.locked_ms = clock.now_ms()

    def holds_lock(self) -> bool:
        return self.locked_at > 0 and clock.monotonic() - self.locked_at < LOCK_LIVES_S

    # ---- what operators see

    def members(self) -> dict[str, Any]:
        """The fields of ProcessQueueInfo in a consumer's running info."""
        with self.lock:
            first = self._progress() if self.count else 0
            last = (self.pull_offset or 1) - 1 if self.count else 0
            taken = [message.queue_offset for message, _ in self.taken]
            return {
                "commitOffset": self.committed, "cachedMsgMinOffset": first,
                "cachedMsgMaxOffset": last, "cachedMsgCount": self.count,
                "cachedMsgSizeInMiB": self.size >> 20,
                "transactionMsgMinOffset": taken[0] if taken else 0,
                "transactionMsgMaxOffset": taken[-1] if taken else 0,
                "transactionMsgCount": len(taken), "locked": self.holds_lock(),
                "tryUnlockTimes": 0, "lastLockTimestamp": self.locked_ms, "droped": self.dropped,
                "lastPullTimestamp": self.pulled_ms, "lastConsumeTimestamp": self.consumed_ms,
            }  # fmt: skip
