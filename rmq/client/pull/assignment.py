"""Assignment: the queues a pull consumer reads now, and how far its group is in them.

    assignment.change("orders", subscription, queues, pause_ms)      # reads these from now on
    assignment.of(queue)                     # PullQueue; ConfigError: it is not read here
    assignment.commit_in_time(); assignment.commit(); assignment.end(finished=True)

A commit settles first: what poll has returned so far counts as consumed.
"""

from __future__ import annotations

import functools
import logging

from cext.base import clock
from rmq.client.connection.instance import ClientInstance
from rmq.client.connection.namespaces import wrap
from rmq.client.consumer.subscription import Subscription
from rmq.client.parameters import PullConsumerParameters
from rmq.client.pull.commits import Commits
from rmq.client.pull.pull_queue import PullQueue
from rmq.client.pull.puller import Puller
from rmq.errors import ConfigError
from rmq.format.fastjson import MessageQueue

log = logging.getLogger("rmq.client")

COMMIT_MS_MIN = 1_000


class Assignment:
    """The queues of one consumer; one thread at a time changes them."""

    def __init__(
        self,
        instance: ClientInstance,
        parameters: PullConsumerParameters,
        puller: Puller,
        commits: Commits,
    ) -> None:
        self._instance = instance
        self._given = parameters
        self._puller = puller
        self._commits = commits
        self.commits_by_chore = False  # whether commit_in_time leaves its work to a chore
        self._commit_at = 0.0
        if parameters.auto_commit:
            puller.keeper = functools.partial(instance.timers.soon, self._commit_starts)
        self.queues: dict[MessageQueue, PullQueue] = {}

    def all(self) -> list[PullQueue]:
        """The queues that are read at the moment."""
        return list(self.queues.values())

    def of(self, queue: MessageQueue) -> PullQueue:
        found = self.queues.get(queue)
        if found is None:
            raise ConfigError(f"{queue} is not assigned to this consumer")
        return found

    def named(self, queue: MessageQueue) -> PullQueue:
        """The queue's state; a new one for a queue that is not read here."""
        found = self.queues.get(queue)
        if found is None:
            subscription = Subscription.of(wrap(self._given.namespace, queue.topic))
            found = PullQueue(queue, subscription.topic, subscription)
        return found

    def change(
        self, topic: str, subscription: Subscription | None, mine: list[MessageQueue], pause_ms: int
    ) -> bool:
        """From now on reads these queues of the topic. Returns whether that is a change."""
        wanted = set(mine)
        puller = self._puller
        gone: list[PullQueue] = []
        new: list[PullQueue] = []
        with puller.lock:
            for queue in self.all():
                if queue.queue.topic == topic and (
                    queue.queue not in wanted or queue.subscription is not subscription
                ):
                    puller.drop(queue)
                    gone.append(self.queues.pop(queue.queue))
            for each in mine:
                if each not in self.queues:
                    assert subscription is not None
                    queue = PullQueue(each, subscription.topic, subscription)
                    self.queues[each] = queue
                    new.append(queue)
        if gone and self._given.auto_commit:
            self._commits.soon(gone, wait=False)
        for queue in new:
            log.info("%s reads %s", self._instance.client_id, queue.queue)
            if pause_ms:
                begin = functools.partial(puller.put, queue)
                self._instance.timers.after(pause_ms, begin, chore=True)
            else:
                puller.put(queue)
        return bool(gone or new)

    # ---- how far the group is

    def _settle(self) -> None:
        self._puller.settle()
        for queue in self.queues.values():
            queue.done = queue.position

    def commit(self) -> None:
        """Commits what poll has returned so far, and returns when brokers have answered."""
        with self._puller.lock:
            self._settle()
        for queue in self.all():
            if queue.done >= 0 and queue.done != queue.committed:
                self._commits.now(queue)

    def _commit_done(self) -> None:
        with self._commits.order:
            if not self._puller.closed:  # else end() commits, or has committed
                self._commits.soon(self.all(), wait=False)

    def commit_in_time(self) -> None:
        """With auto_commit, and if the interval is over, commits without waiting for the answers.
        With commits_by_chore a chore does this, one at a time, so that the caller does not wait for
        connections or for a store either, which may be the user's."""
        now = clock.monotonic()
        if not self._given.auto_commit or now < self._commit_at:
            return
        pause_ms = max(self._given.auto_commit_interval_millis, COMMIT_MS_MIN)
        self._commit_at = now + pause_ms / 1000
        with self._puller.lock:
            self._settle()
        if self.commits_by_chore:
            self._instance.timers.soon(self._commit_done)
        else:
            self._commit_done()

    def _commit_starts(self) -> None:
        with self._commits.order:
            if not self._puller.closed:
                self._commits.starts(self.all())

    def end(self, *, finished: bool) -> None:
        """Commits for the last time (with auto_commit). finished: also what the last poll
        returned."""
        with self._puller.lock:
            if finished:
                self._settle()
        if self._given.auto_commit:
            self._commits.soon(self.queues.values(), wait=True)
