"""PopConsumerImpl: takes messages for a while, and acknowledges each (RocketMQ 5's pop, as its
simple consumers do).

A poll asks all brokers of the subscribed topics at once, and returns the messages that come first.
Messages that other brokers send meanwhile are kept for the next poll, as long as at least half of
their invisible time is left.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import TYPE_CHECKING

from cext.base import clock
from cext.client.message import MessageExt
from cext.client.reply import Reply
from rmq.base.clock import sleep_s
from rmq.client.connection.instance import ClientInstance, not_open
from rmq.client.connection.namespaces import wrap
from rmq.client.connection.read_warnings import ReadWarnings
from rmq.client.connection.replicas import Purpose
from rmq.client.consumer.member import Member
from rmq.client.consumer.subscription import EVERYTHING, Subscription
from rmq.client.parameters import PopConsumerParameters
from rmq.client.parameters.consumer import POP_RANGES
from rmq.client.pop.acks import Acks
from rmq.client.pop.handles import Handle
from rmq.client.pop.request import (
    NOTHING,
    PATIENCE_MS,
    Target,
    pop_fields,
    popped,
    without,
)
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ClosedError, ConfigError, MessageError, RemoteError, RmqError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rmq.client.parameters.keywords import PopConsumerKeywords

log = logging.getLogger("rmq.client")

PASSING = (ResponseCode.SYSTEM_BUSY, ResponseCode.TOPIC_NOT_EXIST)  # asked again, and not raised
HELD_MS_MAX = 15_000  # how long a broker may hold one pop; a longer poll asks again
FULL_PAUSE_S = 0.05
MOST = 32


class PopConsumerImpl(Member[PopConsumerParameters]):
    """The work of a pop consumer; any thread may use it."""

    consume_type = "CONSUME_POP"

    def __init__(
        self,
        consumer_group: str | None = None,
        *,
        parameters: PopConsumerParameters | None = None,
        **changes: Unpack[PopConsumerKeywords],
    ) -> None:
        """`changes` are parameters by name. ConfigError: one of them is not valid."""
        super().__init__(parameters or PopConsumerParameters(), consumer_group, {**changes})
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        self._ready: deque[tuple[float, MessageExt]] = deque()  # (until when it is good, message)
        self._in_flight: set[Target] = set()
        self._warnings = ReadWarnings()
        self._not_before: dict[Target, float] = {}
        self._problem: RmqError | None = None
        self._waker: Callable[[], object] = lambda: None
        self._acks: Acks | None = None
        self._awaited: Acks | None = None  # those of ack()

    # ---- life

    def _prepare(self, instance: ClientInstance) -> None:
        timeout_ms = self.parameters.mq_client_api_timeout
        self._acks = Acks(instance, self.group, timeout_ms)
        # All callback threads may be in callbacks that wait in ack(), or for a lock that a caller
        # of ack() has. The thread of notices calls nobody's callbacks.
        self._awaited = Acks(instance, self.group, timeout_ms, instance.engine.notices)

    def close(self) -> None:
        """Tells brokers what was acknowledged, and leaves the group. Messages that were not
        acknowledged become visible to others when their invisible time ends."""
        if self._is_forked:
            super().close()
            return
        with self._lock:
            self._closed = True
            self._news.notify_all()
        self._waker()
        until = clock.monotonic() + self.parameters.mq_client_api_timeout / 1000
        for acks in (self._acks, self._awaited):
            if acks is not None:
                acks.drain(until)
        self._leave()

    # ---- what is read

    def subscribe(self, topic: str, tags: str = EVERYTHING, *, sql: str | None = None) -> None:
        """Subscribes to the topic's messages with one of the tags ("a || b"), or to those for
        which the SQL92 expression is true."""
        instance = self.instance
        subscription = self._subscription(topic, tags, sql)
        self.subscriptions[subscription.topic] = subscription
        self._read(instance, subscription)

    def unsubscribe(self, topic: str) -> None:
        if self.subscriptions.pop(wrap(self.parameters.namespace, topic), None) is not None:
            self.instance.heartbeats.send()

    # ---- messages

    def poll(
        self,
        timeout_ms: float | None = None,
        max_messages: int | None = None,
        *,
        invisible_ms: int | None = None,
    ) -> list[MessageExt]:
        """Returns up to max_messages messages (by default pop_batch_nums), which no other consumer
        gets for invisible_ms (at least 5000; by default pop_invisible_time). Waits until there is
        one, at most timeout_ms, after which the list is empty. With timeout_ms=0 it returns what
        has already arrived, and asks brokers for more, which the next poll returns."""
        timeout_ms = self.parameters.poll_timeout_millis if timeout_ms is None else timeout_ms
        until = clock.monotonic() + timeout_ms / 1000
        has_asked = False
        while True:
            found = self.take(max_messages)
            left = max(until - clock.monotonic(), 0.0)
            if found or (has_asked and not left):
                return found
            pause = self.ask(left, max_messages, invisible_ms)
            has_asked = True
            with self._lock:
                if not self._ready and self._problem is None and not self._closed:
                    self._news.wait(sleep_s(min(left, pause)))

    def wake_by(self, waker: Callable[[], object]) -> None:
        """From now on calls `waker`, in any thread, when take may have something (rmq.aio)."""
        self._waker = waker

    def _most(self, max_messages: int | None) -> int:
        most = self.parameters.pop_batch_nums if max_messages is None else max_messages
        if not 1 <= most <= MOST:
            raise ConfigError(f"max_messages={most}: 1 to {MOST}")
        return most

    def _invisible_ms(self, given: int | None) -> int:
        """The invisible time of a pop. ConfigError: it is too short. No message would then reach
        the caller of poll: each would be delivered again at once, and soon be a dead letter."""
        if given is None:
            return self.parameters.pop_invisible_time
        least, _ = POP_RANGES["pop_invisible_time"]
        if not isinstance(given, int) or given < least:
            raise ConfigError(f"invisible_ms={given!r}: at least {least}")
        return given

    def take(self, max_messages: int | None = None) -> list[MessageExt]:
        """Returns messages that have already arrived. If there are none, raises what a broker has
        refused."""
        most = self._most(max_messages)
        found: list[MessageExt] = []
        late = 0
        with self._lock:
            if self._closed:
                raise ClosedError("the consumer is closed")
            now = clock.monotonic()
            while self._ready and len(found) < most:
                good_until, message = self._ready.popleft()
                if now < good_until:
                    found.append(message)
                else:
                    late += 1
            if late:
                log.warning("group %s: %d popped messages are left to others: nobody took them in "
                            "half of their invisible time", self.group, late)  # fmt: skip
            if not found and self._problem is not None:
                problem, self._problem = self._problem, None
                raise problem
        return found

    def ask(
        self, left_s: float, max_messages: int | None = None, invisible_ms: int | None = None
    ) -> float:
        """Sends a pop to each broker that has none under way. Returns after how many seconds to
        call it again."""
        most = self._most(max_messages)
        invisible = self._invisible_ms(invisible_ms)
        now = clock.monotonic()
        pause = 1.0
        for name, subscription in list(self.subscriptions.items()):
            route = self.instance.routes.known(name)
            for broker in sorted({each.broker_name for each in route.readable()}) if route else ():
                target = Target(name, broker)
                with self._lock:
                    due = self._not_before.get(target, 0.0)
                    if due > now:
                        pause = min(pause, due - now)
                    if target in self._in_flight or due > now:
                        continue
                    self._in_flight.add(target)
                try:
                    self._pop(target, subscription, most, invisible, left_s)
                except Exception as error:  # also from a hook: the broker is asked again
                    self._ended(target, error)
        return pause

    def _pop(
        self, target: Target, subscription: Subscription, most: int, invisible_ms: int,
        left_s: float,
    ) -> None:  # fmt: skip
        held = int(min(left_s * 1000, HELD_MS_MAX))
        fields = pop_fields(self.group, self.parameters, target, subscription, most=most,
                            invisible_ms=invisible_ms, held_ms=held)  # fmt: skip
        address = self.instance.routes.address_of(target.broker_name)
        self.instance.submit(
            address, RequestCode.POP_MESSAGE, fields, b"", held + PATIENCE_MS,
            functools.partial(self._popped, target, subscription),
        )  # fmt: skip

    def _popped(
        self, target: Target, subscription: Subscription, reply: Reply | None,
        error: Exception | None,
    ) -> None:  # fmt: skip
        if reply is None:
            self._ended(target, error)
            return
        if reply.code in NOTHING:
            self._warnings.answered(target)
            is_full = reply.code == ResponseCode.POLLING_FULL
            self._ended(target, None, FULL_PAUSE_S if is_full else 0.0)
            return
        try:
            found = popped(reply.check(), target, self.group, self.parameters.namespace)
            # half of the time is left to consume it; it began at the broker, before the answer came
            good_until = clock.monotonic() + reply.int_field("invisibleTime") / 2000
            wanted = subscription.wanted(found)
            self.ack_async(without(found, wanted))
        except RmqError as problem:
            self._ended(target, problem)
            return
        self._warnings.answered(target)
        with self._lock:
            self._in_flight.discard(target)
            self._ready.extend((good_until, message) for message in wanted)
            self._news.notify_all()
        self._waker()

    def _ended(self, target: Target, error: Exception | None, pause_s: float = 0.0) -> None:
        with self._lock:
            self._in_flight.discard(target)
            if error is not None:
                if not self._closed:
                    self._warnings.failed(target, error)
                pause_s = self.parameters.pull_time_delay_mills_when_exception / 1000
                if isinstance(error, RemoteError) and error.code not in PASSING:
                    self._problem = error
            self._not_before[target] = clock.monotonic() + pause_s
            self._news.notify_all()
        self._waker()

    # ---- acks

    def _open(self, acks: Acks | None) -> Acks:
        if acks is None or self._instance is None:
            raise not_open("consumer", is_closed=self._closed)
        return acks

    def handle(self, message: MessageExt) -> Handle:
        """The handle by which the broker knows this delivery of the message."""
        text = message.get_property("POP_CK")
        if text is None:
            raise MessageError("this message was not popped")
        return Handle.of(text, wrap(self.parameters.namespace, message.topic), self.group)

    def is_at_hand(self, messages: Iterable[MessageExt]) -> bool:
        """Whether the brokers of these messages are known and connected, so that ack_async does
        not have to wait (rmq.aio)."""
        instance = self._instance
        return instance is None or all(
            instance.routes.is_at_hand(name, Purpose.WRITE)
            for name in {each.broker_name for each in messages}
        )

    def ack(self, messages: MessageExt | Iterable[MessageExt]) -> None:
        """Acknowledges messages, and returns when the brokers have confirmed it. Raises the first
        refusal: RemoteError when a broker no longer knows one of the deliveries."""
        ended: SimpleQueue[Exception | None] = SimpleQueue()
        self._acknowledge(messages, ended.put, is_awaited=True)
        error = ended.get()
        if error is not None:
            raise error

    def ack_async(
        self,
        messages: MessageExt | Iterable[MessageExt],
        callback: Callable[[Exception | None], object] | None = None,
    ) -> None:
        """Acknowledges messages without waiting: the acks are sent soon, as many in one request as
        have gathered. callback(error) is called once for all of them, in a callback thread, with
        None when brokers have confirmed all. Without a callback a refusal is logged."""
        self._acknowledge(messages, callback or _log_refusal, is_awaited=False)

    def _acknowledge(
        self,
        messages: MessageExt | Iterable[MessageExt],
        end: Callable[[Exception | None], object],
        *,
        is_awaited: bool,
    ) -> None:
        several = [messages] if isinstance(messages, MessageExt) else list(messages)
        handles = [self.handle(each) for each in several]
        if not handles:
            end(None)
            return
        acks = self._open(self._awaited if is_awaited else self._acks)
        lock = threading.Lock()
        left = len(handles)
        first: Exception | None = None

        def completed(error: Exception | None) -> None:
            nonlocal left, first
            with lock:
                left -= 1
                first = first or error
                if left:
                    return
            end(first)

        acks.add(handles, completed)

    def change_invisible_time(self, message: MessageExt, invisible_ms: int) -> None:
        """Makes the message visible again, to any consumer, invisible_ms from now, unless it is
        acknowledged before."""
        handle = self.handle(message)
        fields = {**self._open(self._acks).fields(handle), "invisibleTime": invisible_ms}
        address = self.instance.routes.address_of(handle.broker_name)
        code = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
        reply = self.instance.call(address, code, fields)
        message.properties["POP_CK"] = handle.renewed(
            reply.int_field("popTime"), reply.int_field("invisibleTime"),
            reply.int_field("reviveQid"),
        ).text  # fmt: skip


def _log_refusal(error: Exception | None) -> None:
    if error is not None:
        log.warning("an ack failed, the message comes again: %s", error)
