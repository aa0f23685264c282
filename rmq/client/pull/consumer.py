"""PullConsumerImpl: returns messages when poll is called (RocketMQ's lite pull consumer).

If an offset is outside a queue, the broker moves it to the nearer end of the queue.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any

from cext.client.message import MessageExt, milliseconds
from rmq.client.allocation import allocation_of, strategy_of
from rmq.client.connection.instance import ClientInstance, not_open
from rmq.client.connection.namespaces import unwrap, wrap
from rmq.client.connection.repeated_warnings import RepeatedWarnings
from rmq.client.connection.routes import Route
from rmq.client.consumer.group import Members, queue_offset
from rmq.client.consumer.member import Member
from rmq.client.consumer.offset_stores import offset_store
from rmq.client.consumer.rebalance_retry import RebalanceRetry
from rmq.client.consumer.subscription import EVERYTHING
from rmq.client.parameters import PullConsumerParameters
from rmq.client.parameters.consumer import BROADCASTING
from rmq.client.pull.assignment import Assignment
from rmq.client.pull.commits import Commits
from rmq.client.pull.pull_queue import PullQueue
from rmq.client.pull.puller import Puller
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ConfigError, RouteError
from rmq.format.fastjson import MessageQueue

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rmq.client.parameters.keywords import PullConsumerKeywords

log = logging.getLogger("rmq.client")

REBALANCE_MS, AGAIN_MS = 20_000, 1_000
HAND_OVER_MS = 200  # meanwhile the member that had the queue before commits
OFFSET_MAX = 2**63 - 1  # as brokers count


class PullConsumerImpl(Member[PullConsumerParameters]):
    """The work of a pull consumer; any thread may use it."""

    consume_type = "CONSUME_ACTIVELY"

    def __init__(
        self,
        consumer_group: str | None = None,
        *,
        parameters: PullConsumerParameters | None = None,
        **changes: Unpack[PullConsumerKeywords],
    ) -> None:
        """`changes` are parameters by name. ConfigError: one of them is not valid."""
        super().__init__(parameters or PullConsumerParameters(), consumer_group, {**changes})
        self._puller: Puller | None = None
        self._assignment: Assignment | None = None
        self._by_hand = False
        self._strategy = strategy_of(self.parameters.allocate_message_queue_strategy)
        self._rebalancing = threading.RLock()
        self._warnings = RepeatedWarnings()

    # ---- life

    @property
    def _pulls(self) -> Puller:
        if self._puller is None:
            raise not_open("consumer", is_closed=self._closed)
        return self._puller

    @property
    def _assigned(self) -> Assignment:
        if self._assignment is None:
            raise not_open("consumer", is_closed=self._closed)
        return self._assignment

    def _prepare(self, instance: ClientInstance) -> None:
        given = self.parameters
        store = None
        if given.offset_store is not None or given.message_model == BROADCASTING:
            store = offset_store(given, instance, self.group)
            store.load()
        self._puller = Puller(instance, self.group, given, store)
        self._members = Members(instance, self.group)
        self._rebalance_retry = RebalanceRetry(instance.timers, self.rebalance)
        self._commits = Commits(instance, self.group, store)
        self._assignment = Assignment(instance, given, self._puller, self._commits)

    def _begin(self, instance: ClientInstance) -> None:
        instance.routes.watch(self._route_changed)
        self._timer = instance.timers.every(REBALANCE_MS, self.rebalance, chore=True)
        for topic in self.parameters.register_topics:
            self.subscribe(topic)

    def close(self, *, finished: bool = True) -> None:
        """Commits (with auto_commit) what poll has returned, and leaves the group. finished: what
        the last poll returned counts as consumed, too."""
        self._closed = True
        instance, puller = self._instance, self._puller
        if instance is None or puller is None:
            return
        if self._is_forked:
            self._leave()
            return
        puller.close()
        self._timer.cancel()
        instance.routes.unwatch(self._route_changed)
        with self._rebalancing:  # no rebalance is under way from now on
            if self._instance is None:
                return
            self._rebalance_retry.cancel()
            self._assigned.end(finished=finished)
        self._leave()

    def wake_by(self, waker: Callable[[], object]) -> None:
        """For polls in an event loop (rmq.aio): `waker` is called in any thread when poll may have
        something, and from now on poll leaves to chores the work that may wait."""
        self._pulls.waker = waker
        self._assigned.commits_by_chore = True

    # ---- what is read

    def subscribe(self, topic: str, tags: str = EVERYTHING, *, sql: str | None = None) -> None:
        """Reads a share of the topic's queues, which the group's members divide among themselves:
        messages with one of the tags ("a || b"), or for which the SQL92 expression is true."""
        instance = self.instance
        if self._by_hand:
            raise ConfigError("queues are assigned: subscribe() would take them away")
        subscription = self._subscription(topic, tags, sql)
        self.subscriptions[subscription.topic] = subscription
        self._read(instance, subscription)
        self.rebalance()
        self._pulls.wait_begun()

    def unsubscribe(self, topic: str) -> None:
        with self._rebalancing:
            if self.subscriptions.pop(wrap(self.parameters.namespace, topic), None) is not None:
                self._assigned.change(topic, None, [], 0)
        self.instance.heartbeats.send()

    def assign(
        self, queues: Iterable[MessageQueue], tags: str = EVERYTHING, *, sql: str | None = None
    ) -> None:
        """Reads exactly these queues, each from the offset that the group has committed. After an
        empty list topics may be subscribed again. RouteError: a topic does not exist, and nothing
        has changed."""
        instance = self.instance
        if self.subscriptions and not self._by_hand:
            raise ConfigError("topics are subscribed: unsubscribe() them first")
        wanted = list(dict.fromkeys(queues))
        topics = {each.topic for each in wanted}
        chosen = [self._subscription(topic, tags, sql) for topic in topics]
        for subscription in chosen:
            instance.routes.of(subscription.topic)
        with self._rebalancing:
            self._by_hand = bool(wanted)
            space = self.parameters.namespace
            before = {unwrap(space, name) for name in self.subscriptions}
            names = {topic: wrap(space, topic) for topic in topics}
            self.subscriptions = {each.topic: each for each in chosen}
            instance.heartbeats.send(wait_ms=self.parameters.mq_client_api_timeout)
            for topic in before | topics:
                mine = [each for each in wanted if each.topic == topic]
                self._assigned.change(topic, self.subscriptions.get(names.get(topic, "")), mine, 0)
        self._pulls.wait_begun()

    def assignment(self) -> list[MessageQueue]:
        """The queues this consumer reads now."""
        return sorted(self._assignment.queues) if self._assignment is not None else []

    def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of the topic."""
        name = wrap(self.parameters.namespace, topic)
        return [each._replace(topic=topic) for each in self.instance.routes.of(name).readable()]

    # ---- the group

    def group_changed(self) -> None:
        """Members of the group came or went: the queues are shared out again at once."""
        instance = self._instance
        if instance is not None:
            instance.timers.soon(self.rebalance)

    def offsets_reset(self, offsets: dict[MessageQueue, int]) -> None:
        """An operator moves the group's offsets."""
        for wire, offset in offsets.items():
            queue = self._assigned.queues.get(
                wire._replace(topic=unwrap(self.parameters.namespace, wire.topic))
            )
            if queue is not None:
                log.info("%s: reset to offset %d", queue.queue, offset)
                self._pulls.seek(queue, offset)
                queue.committed = -1
                self._commits.soon([queue], wait=False)

    def offsets_of(self, topic: str) -> dict[MessageQueue, int]:
        """How far the group is in each queue of the topic (its name on the wire; empty: in all
        queues)."""
        return {each.wire: each.done for each in self._assigned.all()
                if not topic or each.wire.topic == topic}  # fmt: skip

    def running_info(self) -> dict[str, Any]:
        """The fields of ConsumerRunningInfo that are known here (broker_calls.py adds more)."""
        table = {each.wire: each.members() for each in self._assigned.all()}
        return super().running_info() | {"mqTable": table}

    def _route_changed(self, name: str, route: Route) -> None:
        if name in self.subscriptions:
            self.group_changed()

    def rebalance(self) -> None:
        """Takes this consumer's share of the queues, among the members that the group has now."""
        with self._rebalancing:
            self._rebalance_retry.cancel()
            if self._by_hand or self._closed:
                return
            for name, subscription in list(self.subscriptions.items()):
                topic = unwrap(self.parameters.namespace, name)
                what = f"group {self.group}, rebalance of {topic}"
                try:
                    route = self.instance.routes.of(name)
                    share = self._allocation(route)
                except Exception as error:  # also from a hook: the other topics must be shared
                    self._warnings.begin(what, error)
                    if not isinstance(error, RouteError):  # for that _route_changed comes later
                        self._rebalance_retry.within(AGAIN_MS)
                    continue
                self._warnings.end(what)
                if share is None:
                    self.instance.heartbeats.send()  # the queues stay until brokers know it
                    self._rebalance_retry.within(AGAIN_MS)
                    continue
                mine, others = share
                own = [each._replace(topic=topic) for each in mine]
                if self._assigned.change(topic, subscription, own, HAND_OVER_MS if others else 0):
                    self._tell(topic, route)

    def _allocation(self, route: Route) -> tuple[list[MessageQueue], bool] | None:
        """This consumer's queues, and whether the group has other members; None while brokers do
        not know this member yet."""
        queues = route.in_order()
        if self.parameters.message_model == BROADCASTING:
            return queues, False
        members, is_certain = self._members.of(route)
        if not is_certain:
            self._rebalance_retry.within(AGAIN_MS)
        if self.client_id not in members:
            return None
        mine = allocation_of(self._strategy, self.group, self.client_id, queues, members)
        return mine, len(members) > 1

    def _tell(self, topic: str, route: Route) -> None:
        listener = self.parameters.message_queue_listener
        if listener is None:
            return
        own = [each for each in self.assignment() if each.topic == topic]
        try:
            listener(topic, [each._replace(topic=topic) for each in route.readable()], own)
        except Exception:
            log.exception("the message_queue_listener of %s", self.group)

    # ---- messages

    def poll(self, timeout_ms: float | None = None, max_messages: int = 1_000) -> list[MessageExt]:
        """Returns up to max_messages of the messages that were pulled ahead. If there are none, it
        waits for some, at most timeout_ms (by default poll_timeout_millis). The messages of each
        queue are in order."""
        if max_messages < 1:
            raise ConfigError(f"max_messages={max_messages}: at least 1")
        self._assigned.commit_in_time()
        return self._pulls.take(
            self.parameters.poll_timeout_millis if timeout_ms is None else timeout_ms, max_messages
        )

    def pause(self, queues: MessageQueue | Iterable[MessageQueue]) -> None:
        """Makes poll return nothing from these queues until they are resumed."""
        for each in _several(queues):
            self._pulls.pause(self._assigned.of(each))

    def resume(self, queues: MessageQueue | Iterable[MessageQueue]) -> None:
        for each in _several(queues):
            self._pulls.resume(self._assigned.of(each))

    def paused(self) -> list[MessageQueue]:
        if self._assignment is None:
            return []
        return sorted(each.queue for each in self._assignment.all() if each.paused)

    # ---- offsets

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Makes poll go on at this offset of the queue. ConfigError: no queue can have it."""
        self._pulls.seek(self._assigned.of(queue), _offset(offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        self.seek(queue, self._ask_offset(RequestCode.GET_MIN_OFFSET, self._assigned.of(queue)))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Makes poll go on behind the message that is now the queue's last one."""
        self.seek(queue, self._ask_offset(RequestCode.GET_MAX_OFFSET, self._assigned.of(queue)))

    def seek_to_time(self, queue: MessageQueue, timestamp: Any) -> None:
        """Makes poll go on at the first message stored at or after a time (ms since 1970, or a
        datetime)."""
        self.seek(queue, self.offset_for_timestamp(queue, timestamp))

    def offset_for_timestamp(self, queue: MessageQueue, timestamp: Any) -> int:
        """The offset of the first message stored at or after a time; the queue's end if there is
        none."""
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        return self._ask_offset(
            code, self._assigned.named(queue), timestamp=milliseconds(timestamp)
        )

    def position(self, queue: MessageQueue) -> int:
        """The offset of the next message of this queue that poll returns."""
        found = self._assigned.of(queue)
        if found.pull_offset is None:
            self._pulls.put(found)
            self._pulls.wait_begun()
        if found.pull_offset is None:
            raise RouteError(ResponseCode.BROKER_NOT_EXIST, f"{queue.broker_name} does not answer")
        return found.position

    def committed(self, queue: MessageQueue) -> int | None:
        """The offset that the group has committed for this queue; None if it never committed."""
        return self._commits.committed(self._assigned.named(queue))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commits these offsets, or by default the position behind what poll has returned so far.
        Returns when the brokers have answered. ConfigError: no queue can have one of the offsets,
        and nothing is committed. Whether a queue is that long is not asked: a group that goes on
        beyond the end of a queue begins at the end."""
        if offsets is None:
            self._assigned.commit()
            return
        checked = {queue: _offset(offset) for queue, offset in offsets.items()}
        for each, offset in checked.items():
            self._commits.now(self._assigned.named(each), offset)

    def _ask_offset(self, code: int, queue: PullQueue, **more: Any) -> int:
        return queue_offset(self.instance, code, queue.wire, **more)


def _offset(given: Any) -> int:
    """The offset, which may be an integer of another library. ConfigError: it is none."""
    offset = int(given) if isinstance(given, Integral) else -1
    if not 0 <= offset <= OFFSET_MAX:
        raise ConfigError(f"offset {given!r}: a whole number of 0 to {OFFSET_MAX} is wanted")
    return offset


def _several(queues: MessageQueue | Iterable[MessageQueue]) -> list[MessageQueue]:
    return [queues] if isinstance(queues, MessageQueue) else list(queues)
