"""Rebalance: which queues a push consumer reads, and how a queue passes to another member.

    rebalance.begin()            # first share; then every 20 s, and when brokers tell of changes
    rebalance.restart(queue, offset); rebalance.step_back(queue, end); rebalance.leave()

All members of a group compute the shares by themselves from the same lists. With
client_rebalance=False a broker computes them, and says which topics are popped (pops.py).

A member that loses a queue drops it at once (no new calls), gives its calls under way a moment to
end, and commits progress. The member that gets the queue waits a little longer before it asks where
to begin. The hand-over therefore repeats few messages, and as a rule none. A queue that is consumed
in order must not repeat messages out of order: it passes on by its lock (orderly_service.py), which
is renewed until the last call has ended.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from rmq.base import clock, waits
from rmq.client.allocation import allocation_of, strategy_of
from rmq.client.connection.instance import ClientInstance
from rmq.client.connection.namespaces import unwrap
from rmq.client.connection.repeated_warnings import RepeatedWarnings
from rmq.client.connection.routes import Route
from rmq.client.connection.timers import Timer
from rmq.client.consumer.group import Members, TopicAssignment, assignment_of
from rmq.client.consumer.rebalance_retry import RebalanceRetry
from rmq.client.consumer.subscription import Subscription
from rmq.client.parameters.consumer import BROADCASTING, CLUSTERING, PushConsumerParameters
from rmq.client.push.missing_topics import MissingTopics
from rmq.client.push.pops import PushPops
from rmq.client.push.process_queue import ProcessQueue
from rmq.client.push.pulls import PushPulls
from rmq.client.push.queue_locks import RENEW_MS, QueueLocks
from rmq.client.push.send_back import pop_retry_topic
from rmq.errors import RmqError, RouteError
from rmq.format.fastjson import MessageQueue
from rmq.names import RETRY_PREFIX

log = logging.getLogger("rmq.client")

REBALANCE_MS = 20_000
AGAIN_MS, LOCK_AGAIN_MS = 1_000, 500  # until the next run after one that could not do everything
CALLS_END_S, HAND_OVER_MS = 0.15, 300


class RebalanceOwner(Protocol):
    """What rebalance needs of the consumer whose queues are assigned."""

    @property
    def group(self) -> str: ...

    @property
    def parameters(self) -> PushConsumerParameters: ...

    @property
    def subscriptions(self) -> dict[str, Subscription]: ...  # by the topic's name on the wire

    def commit(self, queues: Iterable[ProcessQueue] | None = None, *, wait: bool = False) -> None:
        """Tells the store how far the group is in each queue."""

    def commit_instead(self, queue: ProcessQueue, offset: int) -> None:
        """Releases the process queue, and commits this offset."""


class Rebalance:
    """The queues of one consumer; any thread may use it."""

    def __init__(
        self, consumer: RebalanceOwner, instance: ClientInstance, pulls: PushPulls, pops: PushPops
    ) -> None:
        self._consumer = consumer
        self._instance = instance
        self._pulls = pulls
        self._pops = pops
        given = consumer.parameters
        self._strategy = strategy_of(given.allocate_message_queue_strategy)
        self._asks_brokers = not (
            given.client_rebalance or given.consume_orderly or given.message_model == BROADCASTING
        )
        self._has_locks = given.consume_orderly and given.message_model == CLUSTERING
        self._members = Members(instance, consumer.group)
        self._locks = QueueLocks(instance, consumer.group)
        self._lock = threading.RLock()  # one change at a time
        self._queues: dict[MessageQueue, ProcessQueue] = {}  # by name on the wire
        self._leaving: dict[MessageQueue, ProcessQueue] = {}  # lost, not unlocked yet
        self._consume_locks: dict[MessageQueue, threading.Lock] = {}  # they outlive process queues
        self._silent: set[str] = set()  # brokers that did not answer in this round
        self._missing = MissingTopics()
        self._rebalance_retry = RebalanceRetry(instance.timers, self.run)
        self._ended = False
        self._warnings = RepeatedWarnings()
        self._timers: list[Timer] = []

    # ---- life

    def begin(self) -> None:
        instance = self._instance
        instance.routes.watch(self._route_changed)
        for topic in list(self._consumer.subscriptions):
            instance.routes.want(topic)
            try:
                instance.routes.of(topic)
            except RmqError as error:
                if not topic.startswith(RETRY_PREFIX):
                    log.warning("%s; its queues are read as soon as there are some", error)
        instance.heartbeats.send(wait_ms=self._consumer.parameters.mq_client_api_timeout)
        self._timers = [instance.timers.every(REBALANCE_MS, self.run, chore=True)]
        if self._has_locks:
            self._timers.append(instance.timers.every(RENEW_MS, self.renew_locks, chore=True))
        self.run()
        self._pulls.wait_begun()

    def end(self) -> None:
        """From now on the queues do not change any more."""
        for timer in self._timers:
            timer.cancel()
        self._instance.routes.unwatch(self._route_changed)
        with self._lock:
            self._ended = True
            self._rebalance_retry.cancel()

    def leave(self) -> None:
        """Commits, and gives locks back. If a call of a queue is still under way, because it does
        not return or because it closes its own consumer, the queue's lock is kept until the broker
        ends it."""
        consumer = self._consumer
        with self._lock:
            queues = [*self._queues.values(), *self._leaving.values()]
            self._queues, self._leaving = {}, {}
        consumer.commit(queues, wait=True)
        for queue in queues:
            queue.release()
        if self._has_locks:
            self._locks.unlock([each.wire for each in queues if not each.consume_lock.locked()])

    def process_queues(self) -> list[ProcessQueue]:
        return list(self._queues.values())

    # ---- shares

    def run_soon(self) -> None:
        if not self._ended:
            self._instance.timers.soon(self.run)

    def _route_changed(self, name: str, route: Route) -> None:
        if name in self._consumer.subscriptions:
            self.run_soon()

    def run(self) -> None:
        """Takes this consumer's share of the queues, among the members that the group has now."""
        with self._lock:
            self._rebalance_retry.cancel()
            if self._ended:
                return
            subscriptions = self._consumer.subscriptions
            lost = [each for each in self._queues.values()
                    if subscriptions.get(each.wire.topic) is not each.subscription]  # fmt: skip
            self._give_up(lost)
        self._let_all_go()
        try:
            with self._lock:
                if not self._ended:
                    self._rebalance_all()
        finally:
            self._let_all_go()

    def _rebalance_all(self) -> None:
        self._silent = set()
        subscriptions = dict(self._consumer.subscriptions)
        self._pops.keep(subscriptions)
        self._missing.keep(subscriptions)
        for topic, subscription in subscriptions.items():
            what = f"group {self._consumer.group}, rebalance of {topic}"
            try:
                self._rebalance_topic(topic, subscription)
            except RouteError as error:
                if topic.startswith(RETRY_PREFIX):  # brokers make it when they know the group
                    log.debug("%s: %s", what, error)
                    self._rebalance_retry.within(self._missing.pause_ms(topic))
                else:
                    self._warnings.begin(what, error)
            except Exception as error:  # also from a hook: the other topics must be shared, too
                self._warnings.begin(what, error)
                self._rebalance_retry.within(AGAIN_MS)
            else:
                self._warnings.end(what)
                self._missing.found(topic)

    def _rebalance_topic(self, topic: str, subscription: Subscription) -> None:
        instance = self._instance
        route = instance.routes.known(topic) or instance.routes.of(topic, refresh=True)
        queues = route.in_order()
        share = self._of_broker(route) if self._asks_brokers else self._of_members(route, queues)
        if share is None:
            instance.heartbeats.send()  # the queues stay until the broker knows this member
            self._rebalance_retry.within(AGAIN_MS)
            return
        if self._asks_brokers and not topic.startswith(RETRY_PREFIX):
            self._follow_mode(topic, share)
        wanted = set(share.pulled)
        lost = [each for wire, each in self._queues.items()
                if wire.topic == topic and wire not in wanted]  # fmt: skip
        self._give_up(lost)
        new = [wire for wire in share.pulled if wire not in self._queues]
        if new:
            new = self._take(new, subscription, HAND_OVER_MS if share.has_others else 0)
        elif lost:
            self._pulls.divide_limits(len(self._queues))
        if self._pops.assign(topic, subscription, share.popped) or new or lost:
            self._tell(topic, queues)

    def _of_members(self, route: Route, queues: list[MessageQueue]) -> TopicAssignment | None:
        """This member's share, as all members compute it by themselves; None: the brokers do not
        know this member yet."""
        consumer, own = self._consumer, self._instance.client_id
        if consumer.parameters.message_model == BROADCASTING:
            return TopicAssignment(queues, [], False)
        members, is_certain = self._members.of(route, self._silent)
        if not is_certain:
            self._rebalance_retry.within(AGAIN_MS)
        if own not in members:
            return None
        mine = allocation_of(self._strategy, consumer.group, own, queues, members)
        return TopicAssignment(mine, [], len(members) > 1)

    def _of_broker(self, route: Route) -> TopicAssignment | None:
        """This member's share, as a broker assigns it."""
        return assignment_of(
            self._instance, self._consumer.group, route, self._strategy.name, self._silent
        )

    def _follow_mode(self, topic: str, share: TopicAssignment) -> None:
        """Subscribes to the topic's retry topic of pops when the topic is pulled, so that messages
        are read that were popped before and not acknowledged; ends that when it is popped."""
        subscriptions = self._consumer.subscriptions
        retry = pop_retry_topic(self._consumer.group, topic)
        if share.popped:
            subscriptions.pop(retry, None)
        elif share.pulled and retry not in subscriptions:
            subscriptions[retry] = Subscription.of(retry)
            self._rebalance_retry.within(AGAIN_MS)

    def _tell(self, topic: str, queues: list[MessageQueue]) -> None:
        listener = self._consumer.parameters.message_queue_listener
        if listener is None:
            return
        name = unwrap(self._consumer.parameters.namespace, topic)
        own = [wire for wire in (*self._queues, *(each.wire for each in self._pops.queues))
               if wire.topic == topic]  # fmt: skip
        try:
            listener(name, [each._replace(topic=name) for each in queues],
                     sorted(each._replace(topic=name) for each in own))  # fmt: skip
        except Exception:
            log.exception("the message_queue_listener of %s", self._consumer.group)

    # ---- taking and giving up

    def _new(self, wire: MessageQueue, subscription: Subscription) -> ProcessQueue:
        shown = wire._replace(topic=unwrap(self._consumer.parameters.namespace, wire.topic))
        queue = ProcessQueue(wire, shown, subscription)
        queue.consume_lock = self._consume_locks.setdefault(wire, queue.consume_lock)
        return queue

    def _take(
        self, new: list[MessageQueue], subscription: Subscription, pause_ms: int
    ) -> list[MessageQueue]:
        """Takes new queues, and returns those that it got: in order, those whose locks are
        held."""
        asked = clock.monotonic()
        if self._has_locks:
            held = self._locks.lock([wire for wire in new if wire not in self._leaving])
            if not all(held.get(wire) for wire in new):
                self._rebalance_retry.within(LOCK_AGAIN_MS)
            new = [wire for wire in new if held.get(wire)]
            pause_ms = 0
        begun = []
        for wire in new:
            queue = self._queues[wire] = self._new(wire, subscription)
            if self._has_locks:
                queue.locked(asked)
            log.info("%s reads %s", self._instance.client_id, wire)
            begun.append(functools.partial(self._pulls.put, queue))
        self._pulls.divide_limits(len(self._queues))  # before one of them pulls
        for begin in begun:
            if pause_ms:
                self._instance.timers.after(pause_ms, begin, chore=True)
            else:
                begin()
        return new

    def _give_up(self, lost: list[ProcessQueue]) -> None:
        if not lost:
            return  # do not wait for another thread that commits
        for queue in lost:
            log.info("%s leaves %s", self._instance.client_id, queue.wire)
            queue.drop()
            del self._queues[queue.wire]
        if self._has_locks:
            self._leaving.update({each.wire: each for each in lost})
            return
        until = clock.monotonic() + CALLS_END_S
        waits.until(lambda: not any(each.running for each in lost), until)
        self._consumer.commit(lost)
        for queue in lost:
            queue.release()

    def let_go(self, queue: ProcessQueue) -> None:
        """The last call of a queue in order has ended: the queue is given up now if it was lost."""
        if self._leaving.get(queue.wire) is queue:
            self._let_go([queue])

    def _let_all_go(self) -> None:
        leaving = list(self._leaving.values())
        if leaving:
            self._let_go(leaving)
            with self._lock:
                if self._leaving and not self._ended:
                    self._rebalance_retry.within(LOCK_AGAIN_MS)

    def _let_go(self, queues: list[ProcessQueue]) -> None:
        """Commits and unlocks queues in order that were lost. A queue with a call under way is
        left out: the end of that call comes here again. All of them are done together, and without
        self._lock, because their broker may not answer, and the locks of other queues must be
        renewed meanwhile."""
        free = [each for each in queues if each.consume_lock.acquire(blocking=False)]
        try:
            going = [each for each in free if self._leaving.get(each.wire) is each]
            if not going:
                return
            self._consumer.commit(going, wait=True)
            with self._lock:  # a renewal under way ends first, and none includes these afterwards
                for queue in going:
                    queue.release()
            self._locks.unlock([each.wire for each in going])
            for queue in going:
                self._leaving.pop(queue.wire, None)  # only now, or it could be taken too early
        finally:
            for queue in free:
                queue.consume_lock.release()

    def restart(self, queue: ProcessQueue, offset: int) -> None:
        """Makes a queue go on at another offset."""
        self._replace(queue, lambda: offset)

    def step_back(self, queue: ProcessQueue, end: int) -> None:
        """Makes a queue go on that ends before what was pulled of it, for example at a new master
        that lacks the tail of the log. It goes on where the group is, because the messages held
        here may differ from those that the broker has."""
        self._replace(queue, lambda: min(queue.release(), end))

    def _replace(self, queue: ProcessQueue, begin_at: Callable[[], int]) -> None:
        with self._lock:
            if self._ended or self._queues.get(queue.wire) is not queue:
                return
            new = self._new(queue.wire, queue.subscription)
            new.locked_at, new.locked_ms = queue.locked_at, queue.locked_ms
            offset = begin_at()
            new.begin(offset)
            self._consumer.commit_instead(queue, offset)
            self._queues[queue.wire] = new
        self._pulls.go_on(new)

    # ---- locks

    def lock_is_lost(self, queue: ProcessQueue) -> None:
        """Gives the queue up and asks for its lock again, unless the lock was renewed meanwhile."""
        with self._lock:
            if self._queues.get(queue.wire) is queue and not queue.holds_lock():
                log.warning("the lock of %s is lost", queue.wire)
                queue.release()
                del self._queues[queue.wire]
                self._rebalance_retry.within(LOCK_AGAIN_MS)

    def renew_locks(self) -> None:
        """Renews the locks of the queues in use, and of those lost whose last call has not
        ended."""
        with self._lock:
            asked = clock.monotonic()
            busy = {wire: each for wire, each in self._leaving.items() if not each.released}
            queues = {**self._queues, **busy}
            for wire, holds in self._locks.lock(queues).items():
                queue = queues[wire]
                if holds:
                    queue.locked(asked)
                else:
                    queue.locked_at = 0.0
                    self.lock_is_lost(queue)
