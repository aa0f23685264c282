"""Puller: pulls ahead from the queues of one consumer, and returns messages to poll.

    puller = Puller(instance, group, parameters); puller.put(PullQueue(...))
    puller.take(timeout_ms, 1000)        # [MessageExt, ..], queues in turn, each in order

A queue has one pull under way at a time, which the broker holds while there is nothing new (long
polling). The thread that gets the answer sends the next pull. When as much lies here as
pull_threshold_for_queue and the similar parameters allow, no pull is sent until `take` has made
room. A pull that fails is sent again after pull_time_delay_mills_when_exception. Requests are sent
without the lock.

A pull is sent by a callback thread, by the timers' thread, or by a poll, perhaps in an event loop,
and none of these may wait. If a broker must be looked up or connected first, a chore does it, one
at a time for all pulls to that broker (request_round.py). A broker that cannot be reached is not
dialled again for each of these pulls.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import deque
from collections.abc import Callable

from cext.base import clock
from cext.client.message import MessageExt, decode_pulled
from cext.client.reply import Reply
from rmq.base.clock import sleep_s
from rmq.client.connection.instance import ClientInstance
from rmq.client.connection.namespaces import unwrap
from rmq.client.connection.read_warnings import ReadWarnings
from rmq.client.connection.replicas import Purpose
from rmq.client.connection.request_round import Submit
from rmq.client.connection.routes import MASTER
from rmq.client.consumer.offset_stores import OffsetStore
from rmq.client.consumer.pull_answers import is_reset, pause_ms
from rmq.client.consumer.start_offsets import Start, StartOffsets
from rmq.client.parameters import PullConsumerParameters
from rmq.client.pull.pull_queue import PullQueue
from rmq.codes import (
    FLAG_LITE_PULL_MESSAGE,
    FLAG_SUBSCRIPTION,
    FLAG_SUSPEND,
    RequestCode,
    ResponseCode,
)
from rmq.errors import ClosedError, RemoteError, RmqError, exception_of

log = logging.getLogger("rmq.client")

SYS_FLAG = FLAG_SUSPEND | FLAG_SUBSCRIPTION | FLAG_LITE_PULL_MESSAGE
# Refusals that do not pass by themselves: poll raises them.
TOLD = {
    ResponseCode.NO_PERMISSION,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
}
# Brokers give 32 messages at a time. A pull that asks for more gets BULK_BYTES from rmq's brokers.
ORDINARY_BATCH, BULK_BYTES = 32, 512 << 10


class Puller:
    """The pulls of one consumer; any thread may use it."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        parameters: PullConsumerParameters,
        store: OffsetStore | None = None,
    ) -> None:
        self._instance = instance
        self._group = group
        self._given = parameters
        self.start_offsets = StartOffsets(instance, group, parameters, store)
        self.lock = threading.RLock()
        self._news = threading.Condition(self.lock)
        self.waker: Callable[[], object] = lambda: None  # called when take may have something
        self.keeper: Callable[[], object] = lambda: None  # called to commit where a queue begins
        self.closed = False
        self._listed: deque[PullQueue] = deque()  # queues with messages
        self._full: set[PullQueue] = set()
        self._total = 0  # messages held here
        self._last: list[PullQueue] = []  # queues of the last take
        self._problem: RmqError | None = None
        self._warnings = ReadWarnings()

    # ---- queues

    def put(self, queue: PullQueue) -> None:
        """Begins with a queue: asks at which offset to begin, then pulls."""
        self.start_offsets.ask(queue.wire, functools.partial(self._begun, queue, queue.life))

    def wait_begun(self) -> None:
        """Returns when it is known where the queues begin, or when brokers have not answered in
        time."""
        self.start_offsets.wait(self._given.mq_client_api_timeout / 1000)

    def _begun(
        self, queue: PullQueue, life: int, start: Start | None, error: Exception | None
    ) -> None:
        if start is None:
            self._again(queue, error, self.put)
            return
        with self.lock:
            if queue.dropped or queue.life != life or queue.pull_offset is not None:
                return
            queue.begin(start.offset)
            if start.is_kept:
                queue.committed = start.offset
            else:
                queue.committed, queue.start = -1, start.offset
        if not start.is_kept:
            self.keeper()
        self.pull(queue)

    def seek(self, queue: PullQueue, offset: int) -> None:
        with self.lock:
            self._total -= queue.count
            queue.begin(offset)
            self._news.notify_all()
        self.pull(queue)

    def drop(self, queue: PullQueue) -> None:
        with self.lock:
            queue.dropped = True
            self._total -= queue.count
            queue.count = 0
            self._full.discard(queue)

    def pause(self, queue: PullQueue) -> None:
        with self.lock:
            queue.paused = True

    def resume(self, queue: PullQueue) -> None:
        with self.lock:
            queue.paused = False
            self._list(queue)
            self._news.notify_all()
        self.waker()
        self.pull(queue)

    def close(self) -> None:
        with self.lock:
            self.closed = True
            self._news.notify_all()
        self.waker()

    # ---- pulls

    def pull(self, queue: PullQueue) -> None:
        """Sends the queue's next pull, unless one is under way or enough messages lie here."""
        given = self._given
        with self.lock:
            offset = queue.pull_offset
            if self.closed or queue.dropped or queue.paused or queue.pulling or offset is None:
                return
            size = given.pull_threshold_size_for_queue << 20
            if self._total >= given.pull_threshold_for_all or queue.is_full(
                given.pull_threshold_for_queue, size, given.consume_max_span
            ):
                self._full.add(queue)
                return
            self._full.discard(queue)
            queue.pulling = True
            life = queue.life
        send = functools.partial(self._send, queue, life, offset)
        self._instance.rounds.send(queue.wire, Purpose.READ, send)

    def _send(self, queue: PullQueue, life: int, offset: int, submit: Submit) -> None:
        if self.closed or queue.dropped or queue.life != life:
            return  # closed, dropped or moved meanwhile
        given, subscription = self._given, queue.subscription
        fields = {
            "consumerGroup": self._group, "topic": queue.wire_topic,
            "queueId": queue.queue.queue_id, "queueOffset": offset,
            "maxMsgNums": given.pull_batch_size, "sysFlag": SYS_FLAG,
            "commitOffset": 0, "suspendTimeoutMillis": given.broker_suspend_max_time_millis,
            "subscription": subscription.text, "subVersion": subscription.version,
            "expressionType": subscription.kind,
        }  # fmt: skip
        if given.pull_batch_size > ORDINARY_BATCH:
            fields["maxMsgBytes"] = BULK_BYTES
        address = ""
        try:
            routes = self._instance.routes
            address = routes.replica_of(queue.wire.broker_name, Purpose.READ, queue.wire).address
            submit(
                address, RequestCode.LITE_PULL_MESSAGE, fields, b"",
                given.consumer_timeout_millis_when_suspend,
                functools.partial(self._pulled, queue, life, offset, address),
            )  # fmt: skip
        except BaseException as error:  # also from a hook: the queue is pulled again
            self._failed(queue, life, exception_of(error), address)
            if not isinstance(error, Exception):  # SystemExit is raised to the caller
                raise

    def _pulled(
        self, queue: PullQueue, life: int, asked: int, address: str, reply: Reply | None,
        error: Exception | None,
    ) -> None:  # fmt: skip
        if reply is None:
            self._failed(queue, life, error, address)
            return
        code = reply.code
        messages: list[MessageExt] = []
        try:
            if code == ResponseCode.SUCCESS:
                messages = self._messages(queue, reply)
            elif code not in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY,
                              ResponseCode.PULL_OFFSET_MOVED):  # fmt: skip
                reply.check()
            following = reply.int_field("nextBeginOffset")
            suggested = reply.int_field("suggestWhichBrokerId", MASTER)
            self._instance.routes.replicas.suggest(queue.wire, suggested)
        except RmqError as problem:
            self._failed(queue, life, problem)
            return
        self._warnings.answered(queue.wire)
        with self.lock:
            if self.closed or queue.dropped or queue.life != life:
                return
            queue.pulling = False
            self._problem = None
            if code == ResponseCode.PULL_OFFSET_MOVED:
                log.warning("%s: offset %d is moved to %d", queue.queue, asked, following)
                self._move(queue, asked, following, is_reset(reply))
            else:
                queue.add(messages, following)
            if messages:
                self._total += len(messages)
                self._list(queue)
                self._news.notify_all()  # notify() might wake only a wait that Ctrl-C has ended
        if messages:
            self.waker()
        pause = pause_ms(reply, asked, following)
        if pause:
            self._instance.timers.after(pause, lambda: self.pull(queue))
        else:
            self.pull(queue)

    def _move(self, queue: PullQueue, asked: int, to: int, by_operator: bool) -> None:
        if to >= asked and not by_operator:
            queue.add([], to)  # messages held here may be gone from the broker: they are kept
            return
        self._total -= queue.count
        if by_operator:
            queue.begin(to)
        else:
            queue.step_back(to)

    def _messages(self, queue: PullQueue, reply: Reply) -> list[MessageExt]:
        found = decode_pulled(reply, queue.queue.broker_name, queue.queue.queue_id)
        namespace = self._given.namespace
        if namespace:
            for message in found:
                message.topic = unwrap(namespace, message.topic)
        return queue.subscription.wanted(found)

    def _list(self, queue: PullQueue) -> None:
        if queue.count and not queue.listed and not queue.paused:
            queue.listed = True
            self._listed.append(queue)

    def _failed(
        self, queue: PullQueue, life: int, error: Exception | None, address: str = ""
    ) -> None:
        with self.lock:
            if queue.life != life:
                return
            queue.pulling = False
        if self._instance.routes.has_other(queue.wire.broker_name, address, error):
            log.info("pulling from %s: %s; another replica is asked", queue.queue, error)
            self.pull(queue)
            return
        self._instance.routes.look_again_for(queue.wire.topic, error)
        self._again(queue, error, self.pull)

    def _again(
        self, queue: PullQueue, error: Exception | None, function: Callable[[PullQueue], object]
    ) -> None:
        """Calls function(queue) again after a pause. A refusal that does not pass by itself is kept
        for poll."""
        with self.lock:
            if self.closed or queue.dropped:
                return
            if isinstance(error, RemoteError) and error.code in TOLD:
                self._problem = error
                self._news.notify_all()
                self.waker()
        self._warnings.failed(queue.wire, error)
        pause = self._given.pull_time_delay_mills_when_exception
        self._instance.timers.after(pause, lambda: function(queue), chore=True)

    # ---- handing out

    def take(self, timeout_ms: float, most: int) -> list[MessageExt]:
        """Waits for the first message, and returns all that are here then, up to `most`."""
        until = clock.monotonic() + timeout_ms / 1000
        out: list[MessageExt] = []
        self._go_on()  # a seek or a dropped queue may have made room
        with self.lock:
            self.settle()
            while True:
                if self.closed:
                    raise ClosedError("the consumer is closed")
                self._collect(most, out)
                left = until - clock.monotonic()
                if out or (left <= 0 and self._problem is None):
                    break
                if self._problem is not None:
                    problem, self._problem = self._problem, None
                    raise problem
                self._news.wait(sleep_s(left))
        self._go_on()
        return out

    def _go_on(self) -> None:
        """Sends the next pulls of the queues that were full."""
        if self._full:
            with self.lock:
                waiting = list(self._full)
            for queue in waiting:
                self.pull(queue)

    def settle(self) -> None:
        """Counts the messages of the last take as consumed. The caller holds the lock."""
        for queue in self._last:
            queue.done = queue.position
        self._last.clear()

    def _collect(self, most: int, out: list[MessageExt]) -> None:
        while self._listed and len(out) < most:
            queue = self._listed.popleft()
            queue.listed = False
            if queue.dropped or queue.paused or not queue.count:
                continue
            before = len(out)
            queue.take(most - before, out)
            self._total -= len(out) - before
            self._last.append(queue)
            self._list(queue)
