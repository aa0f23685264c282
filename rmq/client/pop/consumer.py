"""PopConsumer: takes messages for a while, acknowledges each (RocketMQ 5's pop, as its simple
consumers do).

    with PopConsumer("billing", namesrv_addr="127.0.0.1:9876") as consumer:
        consumer.subscribe("orders", "paid || sent")
        for message in consumer.poll(10_000):
            bill(message)
            consumer.ack(message)                  # or it is visible again after pop_invisible_time
            # consumer.change_invisible_time(message, 300_000)     more time, or less

The broker shares messages out, not queues: any number of consumers of a group read one queue at
the same time, and a slow one holds up nobody. A message that is not acknowledged in time comes
again, to whoever asks then, with reconsume_times grown by one, and is a dead letter after the
group's retryMaxTimes. With consume_orderly a queue has one batch in hand at a time.

A poll asks all brokers of the subscribed topics at once and returns what comes first; what others
send meanwhile is kept for the next poll, while most of its invisible time is left.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cext.client.message import MessageExt, decode_messages
from cext.client.reply import Reply
from rmq.client.connecting.namespaces import unwrap, wrap
from rmq.client.consuming.member import Member
from rmq.client.consuming.subscription import EVERYTHING, Subscription
from rmq.client.parameters import PopConsumerParameters
from rmq.client.pop.handles import Handle, handles_of, kind_of, order_counts
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ClosedError, ConfigError, MessageError, RemoteError, RmqError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rmq.client.parameters.keywords import PopConsumerKeywords

log = logging.getLogger("rmq.client")

POLLING_FULL, POLLING_TIMEOUT = 209, 210
NOTHING = (POLLING_FULL, POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND)
PASSING = (ResponseCode.SYSTEM_BUSY, ResponseCode.TOPIC_NOT_EXIST)  # asked again, not raised
HELD_MS_MAX = 15_000  # of one pop; a longer poll asks again
PATIENCE_MS = 10_000  # beyond that
FULL_PAUSE_S = 0.05
MOST = 32
Target = tuple[str, str]  # topic on the wire, broker name


class PopConsumer(Member[PopConsumerParameters]):
    """A member of one group; any thread may use it."""

    consume_type = "CONSUME_POP"

    def __init__(
        self,
        consumer_group: str | None = None,
        *,
        parameters: PopConsumerParameters | None = None,
        **changes: Unpack[PopConsumerKeywords],
    ) -> None:
        """`changes` are parameters by name (docs/client-parameters.md)."""
        super().__init__(parameters or PopConsumerParameters(), consumer_group, {**changes})
        self._news = threading.Condition()
        self._ready: deque[tuple[float, MessageExt]] = deque()  # until when, message
        self._under_way: set[Target] = set()
        self._not_before: dict[Target, float] = {}
        self._problem: RmqError | None = None

    # ---- life

    def close(self) -> None:
        """Leaves the group. What was not acknowledged is visible to others in its time."""
        with self._news:
            self._closed = True
            self._news.notify_all()
        self._leave()

    # ---- what is read

    def subscribe(self, topic: str, tags: str = EVERYTHING, *, sql: str | None = None) -> None:
        """Messages with one of the tags ("a || b"), or for which the SQL92 expression holds."""
        instance = self.instance
        name = wrap(self.parameters.namespace, topic)
        subscription = self.subscriptions[name] = Subscription.of(name, tags, sql)
        self._read(instance, subscription)

    def unsubscribe(self, topic: str) -> None:
        if self.subscriptions.pop(wrap(self.parameters.namespace, topic), None) is not None:
            self.instance.heartbeat()

    # ---- messages

    def poll(
        self,
        timeout_ms: float | None = None,
        max_messages: int | None = None,
        *,
        invisible_ms: int | None = None,
    ) -> list[MessageExt]:
        """Up to max_messages (pop_batch_nums unless given), which are nobody else's for
        invisible_ms (pop_invisible_time). Waits for the first one; nothing after timeout_ms."""
        given = self.parameters
        most = given.pop_batch_nums if max_messages is None else max_messages
        if not 1 <= most <= MOST:
            raise ConfigError(f"max_messages={most}: 1 to {MOST}")
        invisible = given.pop_invisible_time if invisible_ms is None else invisible_ms
        timeout_ms = given.poll_timeout_millis if timeout_ms is None else timeout_ms
        until = time.monotonic() + timeout_ms / 1000
        while True:
            with self._news:
                if self._closed:
                    raise ClosedError("the consumer is closed")
                found = self._take(most)
                if found:
                    return found
                if self._problem is not None:
                    problem, self._problem = self._problem, None
                    raise problem
            left = until - time.monotonic()
            if left <= 0:
                return []
            pause = self._ask_all(most, invisible, left)
            with self._news:
                if not self._ready and self._problem is None and not self._closed:
                    self._news.wait(min(left, pause))

    def _take(self, most: int) -> list[MessageExt]:
        now = time.monotonic()
        found: list[MessageExt] = []
        while self._ready and len(found) < most:
            good_until, message = self._ready.popleft()
            if now < good_until:  # the others come again by themselves
                found.append(message)
        return found

    def _ask_all(self, most: int, invisible_ms: int, left_s: float) -> float:
        """Pops at all brokers where none is under way; after how many seconds to look again."""
        now = time.monotonic()
        pause = 1.0
        for name, subscription in list(self.subscriptions.items()):
            route = self.instance.known_route(name)
            for broker in sorted({each.broker_name for each in route.readable()}) if route else ():
                target = (name, broker)
                with self._news:
                    due = self._not_before.get(target, 0.0)
                    if due > now:
                        pause = min(pause, due - now)
                    if target in self._under_way or due > now:
                        continue
                    self._under_way.add(target)
                try:
                    self._ask(target, subscription, most, invisible_ms, left_s)
                except RmqError as error:
                    self._ended(target, error)
        return pause

    def _ask(
        self, target: Target, subscription: Subscription, most: int, invisible_ms: int,
        left_s: float,
    ) -> None:  # fmt: skip
        held = int(min(left_s * 1000, HELD_MS_MAX))
        first = self.parameters.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"
        fields = {
            "consumerGroup": self.group, "topic": target[0], "queueId": -1, "maxMsgNums": most,
            "invisibleTime": invisible_ms, "pollTime": held, "bornTime": int(time.time() * 1000),
            "initMode": 0 if first else 1, "expType": subscription.kind,
            "exp": subscription.text, "order": self.parameters.consume_orderly,
            "bname": target[1],
        }  # fmt: skip
        address = self.instance.address_of(target[1])
        self.instance.submit(
            address, RequestCode.POP_MESSAGE, fields, b"", held + PATIENCE_MS,
            functools.partial(self._popped, target, subscription, time.monotonic()),
        )  # fmt: skip

    def _popped(
        self, target: Target, subscription: Subscription, asked: float, reply: Reply | None,
        error: Exception | None,
    ) -> None:  # fmt: skip
        if reply is None:
            self._ended(target, error)
            return
        if reply.code in NOTHING:
            self._ended(target, None, FULL_PAUSE_S if reply.code == POLLING_FULL else 0.0)
            return
        try:
            found = self._messages(target, subscription, reply.check())
            # half of the time is for dealing with it; the broker's clock began before ours
            good_until = time.monotonic() + reply.int_field("invisibleTime") / 2000
        except RmqError as problem:
            self._ended(target, problem)
            return
        with self._news:
            self._under_way.discard(target)
            self._ready.extend((good_until, message) for message in found)
            self._news.notify_all()

    def _messages(
        self, target: Target, subscription: Subscription, reply: Reply
    ) -> list[MessageExt]:
        name, broker = target
        found = decode_messages(reply, broker)
        handles = handles_of(reply, found, name, self.group, broker)
        counts = order_counts(reply)
        shown = unwrap(self.parameters.namespace, name)
        for message, handle in zip(found, handles, strict=True):
            kind = kind_of(message.topic)
            for at in ((kind, message.queue_id, message.queue_offset),
                       (kind, message.queue_id, -1)):  # fmt: skip
                if counts.get(at):
                    message.reconsume_times = counts[at]
                    break
            message.properties["POP_CK"] = handle.text
            message.topic = shown
        wanted = subscription.wanted(found)
        if len(wanted) < len(found):  # tags of equal hash: nobody of the group wants them
            kept = {id(each) for each in wanted}
            for message in found:
                if id(message) not in kept:
                    self._send_ack(message, lambda *_: None)
        return wanted

    def _ended(self, target: Target, error: Exception | None, pause_s: float = 0.0) -> None:
        with self._news:
            self._under_way.discard(target)
            if error is not None:
                log.info("popping %s from %s: %s", *target, error)
                pause_s = self.parameters.pull_time_delay_mills_when_exception / 1000
                if isinstance(error, RemoteError) and error.code not in PASSING:
                    self._problem = error
            self._not_before[target] = time.monotonic() + pause_s
            self._news.notify_all()

    # ---- what becomes of them

    def handle(self, message: MessageExt) -> Handle:
        """What the broker knows this delivery of the message by."""
        text = message.get_property("POP_CK")
        if text is None:
            raise MessageError("this message was not popped")
        return Handle.of(text, wrap(self.parameters.namespace, message.topic), self.group)

    def ack(self, messages: MessageExt | Iterable[MessageExt]) -> None:
        """They are dealt with. RemoteError when a broker knows nothing of one any more."""
        several = [messages] if isinstance(messages, MessageExt) else list(messages)
        ended = threading.Semaphore(0)
        failures: list[Exception] = []

        def told(reply: Reply | None, error: Exception | None) -> None:
            if reply is not None and reply.code != ResponseCode.SUCCESS:
                error = RemoteError(reply.code, reply.remark or "no reason given")
            if error is not None:
                failures.append(error)
            ended.release()

        for message in several:
            self._send_ack(message, told)
        for _ in several:
            ended.acquire()
        if failures:
            raise failures[0]

    def _send_ack(self, message: MessageExt, told: Any) -> None:
        handle = self.handle(message)
        address = self.instance.address_of(handle.broker_name)
        self.instance.submit(
            address, RequestCode.ACK_MESSAGE, self._fields(handle), b"",
            self.parameters.mq_client_api_timeout, told,
        )  # fmt: skip

    def _fields(self, handle: Handle) -> dict[str, Any]:
        return {
            "consumerGroup": self.group, "topic": handle.topic, "queueId": handle.queue_id,
            "extraInfo": handle.text, "offset": handle.queue_offset, "bname": handle.broker_name,
        }  # fmt: skip

    def change_invisible_time(self, message: MessageExt, invisible_ms: int) -> None:
        """It comes again (to anyone) so long from now, unless it is acknowledged before."""
        handle = self.handle(message)
        fields = {**self._fields(handle), "invisibleTime": invisible_ms}
        address = self.instance.address_of(handle.broker_name)
        code = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
        reply = self.instance.call(address, code, fields)
        message.properties["POP_CK"] = handle.renewed(
            reply.int_field("popTime"), reply.int_field("invisibleTime"),
            reply.int_field("reviveQid"),
        ).text  # fmt: skip
