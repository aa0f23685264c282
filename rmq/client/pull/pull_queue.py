"""PullQueue: one queue a pull consumer reads; what was pulled ahead and how far the user is.

    committed <= done <= position <= pull_offset
        committed     the offset that the broker got last
        done          position when poll was called last: what the user surely has dealt with
        position      the next message poll returns
        pull_offset   the next message that is pulled; None: not known yet where to begin

All of it is guarded by the consumer's lock. `life` grows when the queue begins elsewhere (seek), so
that the answers to older pulls are recognised.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from cext.client.message import MessageExt
from rmq.client.consumer.subscription import Subscription
from rmq.format.fastjson import MessageQueue


class PullQueue:
    """State of one queue; no I/O."""

    def __init__(self, queue: MessageQueue, wire_topic: str, subscription: Subscription) -> None:
        self.queue = queue  # as the user names it
        self.wire_topic = wire_topic
        self.subscription = subscription
        self.pull_offset: int | None = None
        self.position = -1
        self.done = -1
        self.committed = -1
        self.start: int | None = None  # where it begins, as long as the group's offset says nothing
        self.taker: str | None = None  # the address of the master that took it
        self.life = 0
        self.pulling = False
        self.paused = False
        self.dropped = False
        self.listed = False  # in the consumer's list of queues with messages
        self.count = 0
        self.size = 0  # bytes of the bodies of all pulls that are not taken to their end
        self._pulls: deque[tuple[list[MessageExt], int]] = deque()  # with the bytes of each
        self._taken = 0  # of the first pull

    @property
    def wire(self) -> MessageQueue:
        """As brokers name it."""
        return self.queue._replace(topic=self.wire_topic)

    def members(self) -> dict[str, Any]:
        """ProcessQueueInfo of a consumer's running info."""
        some = self.count > 0
        return {
            "commitOffset": self.committed, "cachedMsgMinOffset": self.position if some else 0,
            "cachedMsgMaxOffset": (self.pull_offset or 1) - 1 if some else 0,
            "cachedMsgCount": self.count, "cachedMsgSizeInMiB": self.size >> 20,
            "droped": self.dropped,
        }  # fmt: skip

    def begin(self, offset: int) -> None:
        """Goes on at this offset: what was pulled ahead is forgotten."""
        self._forget()
        self.pull_offset = self.position = self.done = offset
        if self.start is not None:
            self.start = offset

    def step_back(self, end: int) -> None:
        """Goes on in a queue that is shorter than what was pulled of it, where the user is: what
        lies here may not be what is there."""
        self._forget()
        self.pull_offset = self.position = min(self.position, end)
        self.done = min(self.done, end)
        if self.start is not None:
            self.start = min(self.start, end)

    def _forget(self) -> None:
        self.life += 1
        self.pulling = False
        self._pulls.clear()
        self._taken = self.count = self.size = 0

    def add(self, messages: list[MessageExt], following: int) -> None:
        """What a pull brought, and where the next one begins."""
        self.pull_offset = following
        if messages:
            size = sum([each.stored_body_bytes for each in messages])
            self._pulls.append((messages, size))
            self.count += len(messages)
            self.size += size
        elif not self.count:  # nothing there that is wanted
            if self.done == self.position:
                self.done = following
            self.position = following

    def take(self, most: int, out: list[MessageExt]) -> None:
        """Up to `most` messages, in order, to the end of `out`."""
        while most > 0 and self._pulls:
            pulled, size = self._pulls[0]
            if self._taken == 0 and len(pulled) <= most:
                part = pulled
            else:
                part = pulled[self._taken : self._taken + most]
            self._taken += len(part)
            if self._taken == len(pulled):
                self._pulls.popleft()
                self._taken = 0
                self.size -= size
            out += part
            most -= len(part)
            self.count -= len(part)
            self.position = part[-1].queue_offset + 1
        if not self._pulls and self.pull_offset is not None:
            self.position = self.pull_offset

    def is_full(self, count: int, size: int, span: int) -> bool:
        """Whether it holds as much as may be pulled ahead."""
        return (
            self.count >= count
            or self.size >= size
            or (self.count > 0 and self.pull_offset is not None
                and self.pull_offset - self.position > span)
        )  # fmt: skip
