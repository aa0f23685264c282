"""PushPulls: pulls ahead for the queues of one push consumer.

    pulls = PushPulls(consumer); pulls.put(queue); pulls.go_on(queue)

A queue has one pull under way at a time, which the broker holds while there is nothing new. The
thread that gets the answer gives the messages to the consumer and sends the next pull at once. When
more messages lie here than the thresholds allow, no pull is sent; the end of a listener's call then
sends the next one. Pulls carry the group's progress, so that as a rule brokers know it before it is
committed. None of these threads waits for a connection: a chore does (request_round.py).
"""

from __future__ import annotations

import functools
import logging
from typing import Protocol

from cext.client.message import MessageExt, decode_pulled
from cext.client.reply import Reply
from rmq.base import clock
from rmq.client.connection.instance import ClientInstance
from rmq.client.connection.read_warnings import ReadWarnings
from rmq.client.connection.replicas import Purpose, Replica
from rmq.client.connection.request_round import Submit
from rmq.client.connection.routes import MASTER
from rmq.client.consumer.offset_stores import OffsetStore
from rmq.client.consumer.pull_answers import is_reset, pause_ms
from rmq.client.consumer.start_offsets import Start, StartOffsets
from rmq.client.parameters.consumer import CLUSTERING, PushConsumerParameters
from rmq.client.push.consume_stats import ConsumeStats
from rmq.client.push.process_queue import ProcessQueue
from rmq.codes import (
    FLAG_COMMIT_OFFSET,
    FLAG_SUBSCRIPTION,
    FLAG_SUSPEND,
    RequestCode,
    ResponseCode,
)
from rmq.errors import RemoteError, RmqError, exception_of
from rmq.names import RETRY_PREFIX

log = logging.getLogger("rmq.client")

BROKER_SUSPENDS_MS, PATIENCE_MS = 15_000, 30_000
FLOW_CONTROL_PAUSE_MS = 20
NOTHING = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)
UNKNOWN_HERE = (ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST)


class PullOwner(Protocol):
    """What pulls need of the consumer."""

    @property
    def group(self) -> str: ...

    @property
    def parameters(self) -> PushConsumerParameters: ...

    @property
    def store(self) -> OffsetStore: ...

    @property
    def stats(self) -> ConsumeStats: ...

    @property
    def is_suspended(self) -> bool: ...

    def commit_soon(self) -> None:
        """Tells the store how far the group is in each queue, in another thread."""

    def take(
        self, queue: ProcessQueue, messages: list[MessageExt], following: int, bytes_: int
    ) -> None:
        """Takes the messages of a pull; the queue's next pull begins at `following`."""

    def restart_soon(self, queue: ProcessQueue, offset: int) -> None:
        """An operator has moved the group's offset: the queue goes on at this one."""

    def step_back_soon(self, queue: ProcessQueue, end: int) -> None:
        """The broker's queue ends at this offset, before what was pulled."""


class PushPulls:
    """The pulls of one consumer; any thread may use it."""

    def __init__(self, consumer: PullOwner, instance: ClientInstance) -> None:
        self._consumer = consumer
        self._given = consumer.parameters
        self._instance = instance
        self._start_offsets = StartOffsets(
            instance, consumer.group, consumer.parameters, consumer.store
        )
        self._warnings = ReadWarnings()
        self.limits = (0, 0)  # messages and bytes of one queue
        self.closed = False
        self.divide_limits(1)

    def divide_limits(self, queues: int) -> None:
        """Sets how much one queue may hold when there are `queues` of them."""
        given = self._given
        count, size = given.pull_threshold_for_queue, given.pull_threshold_size_for_queue
        if given.pull_threshold_for_topic != -1:
            count = max(1, given.pull_threshold_for_topic // max(queues, 1))
        if given.pull_threshold_size_for_topic != -1:
            size = max(1, given.pull_threshold_size_for_topic // max(queues, 1))
        self.limits = (count, size << 20)

    def put(self, queue: ProcessQueue) -> None:
        """Begins with a queue: asks at which offset to begin, then pulls."""
        if queue.dropped or self.closed:
            return
        first = 0 if queue.wire.topic.startswith(RETRY_PREFIX + self._consumer.group) else None
        self._start_offsets.ask(queue.wire, functools.partial(self._begun, queue), first)

    def wait_begun(self) -> None:
        """Returns when it is known where the queues begin, or when brokers have not answered in
        time."""
        self._start_offsets.wait(self._given.mq_client_api_timeout / 1000)

    def _begun(self, queue: ProcessQueue, start: Start | None, error: Exception | None) -> None:
        if start is None:
            self._later(queue, error, self.put)
            return
        queue.begin(start.offset, is_kept=start.is_kept)
        if not start.is_kept:
            self._consumer.commit_soon()
        self.go_on(queue)

    def go_on(self, queue: ProcessQueue) -> None:
        """Sends the queue's next pull, unless one is under way or too much lies here."""
        if self.closed or self._consumer.is_suspended:
            return
        span = None if self._given.consume_orderly else self._given.consume_concurrently_max_span
        with queue.lock:
            offset = queue.pull_offset
            if queue.dropped or queue.pulling or offset is None:
                return
            queue.is_waiting = queue.is_full(*self.limits, span)
            if queue.is_waiting:
                return
            queue.pulling = True
            queue.pulled_ms = clock.now_ms()
        send = functools.partial(self._send, queue, offset)
        self._instance.rounds.send(queue.wire, Purpose.READ, send)

    def _send(self, queue: ProcessQueue, offset: int, submit: Submit) -> None:
        if queue.dropped or self.closed:
            return  # dropped or closed meanwhile
        address = ""
        try:
            routes = self._instance.routes
            replica = routes.replica_of(queue.wire.broker_name, Purpose.READ, queue.wire)
            address = replica.address
            submit(
                address, RequestCode.PULL_MESSAGE, self._fields(queue, offset, replica), b"",
                PATIENCE_MS, functools.partial(self._pulled, queue, offset, address),
            )  # fmt: skip
        except BaseException as error:  # also from a hook: the queue is pulled again
            self._failed(queue, exception_of(error), address)
            if isinstance(error, KeyboardInterrupt):  # Ctrl-C
                raise
            if not isinstance(error, Exception):  # not raised: the caller's work must go on
                log.exception("a pull from %s", queue.queue)

    def _fields(self, queue: ProcessQueue, offset: int, replica: Replica) -> dict[str, object]:
        given, subscription, progress = self._given, queue.subscription, queue.progress
        commits = given.message_model == CLUSTERING and progress > 0
        commits = commits and replica.is_master  # a slave does not pass it on to its master
        flag = FLAG_SUSPEND | (FLAG_COMMIT_OFFSET if commits else 0)
        fields = {
            "consumerGroup": self._consumer.group, "topic": queue.wire.topic,
            "queueId": queue.wire.queue_id, "queueOffset": offset,
            "maxMsgNums": given.pull_batch_size, "commitOffset": progress if commits else 0,
            "suspendTimeoutMillis": BROKER_SUSPENDS_MS, "subVersion": subscription.version,
            "expressionType": subscription.kind, "maxMsgBytes": given.pull_batch_size_in_bytes,
            "bname": queue.wire.broker_name,
        }  # fmt: skip
        if given.post_subscription_when_pull:
            flag |= FLAG_SUBSCRIPTION
            fields["subscription"] = subscription.text
        fields["sysFlag"] = flag
        return fields

    def _pulled(
        self, queue: ProcessQueue, asked: int, address: str, reply: Reply | None,
        error: Exception | None,
    ) -> None:  # fmt: skip
        if reply is None:
            self._failed(queue, error, address)
            return
        code = reply.code
        found: list[MessageExt] = []
        try:
            if code == ResponseCode.SUCCESS:
                wire = queue.wire
                pulled = decode_pulled(reply, wire.broker_name, wire.queue_id)
                found = queue.subscription.wanted(pulled)
                self._consumer.stats.pulled(queue.queue.topic, len(found), reply.waited_us / 1000)
            elif code == ResponseCode.PULL_OFFSET_MOVED:
                moved = reply.int_field("nextBeginOffset")
                log.warning("%s: offset %d is moved to %d", queue.queue, asked, moved)
                if is_reset(reply):
                    self._consumer.restart_soon(queue, moved)
                    return
                if moved < asked:
                    self._consumer.step_back_soon(queue, moved)
                    return
            elif code not in NOTHING:
                reply.check()
            following = reply.int_field("nextBeginOffset")
            suggested = reply.int_field("suggestWhichBrokerId", MASTER)
            self._instance.routes.replicas.suggest(queue.wire, suggested)
        except RmqError as problem:
            self._failed(queue, problem)
            return
        self._warnings.answered(queue.wire)
        with queue.lock:
            if queue.dropped or self.closed:
                queue.pulling = False
                return
        self._consumer.take(queue, found, following, reply.body_bytes)
        pause = pause_ms(reply, asked, following) or (self._given.pull_interval if found else 0)
        if pause:
            self._instance.timers.after(pause, functools.partial(self.go_on, queue))
        else:
            self.go_on(queue)

    def _failed(self, queue: ProcessQueue, error: Exception | None, address: str = "") -> None:
        with queue.lock:
            queue.pulling = False
        if self._instance.routes.has_other(queue.wire.broker_name, address, error):
            log.info("pulling from %s: %s; another replica is asked", queue.queue, error)
            self.go_on(queue)
            return
        if isinstance(error, RemoteError) and error.code in UNKNOWN_HERE:
            self._instance.heartbeats.send()
        self._instance.routes.look_again_for(queue.wire.topic, error)
        self._later(queue, error, self.go_on)

    def _later(self, queue: ProcessQueue, error: Exception | None, function: object) -> None:
        if queue.dropped or self.closed:
            return
        pause = self._given.pull_time_delay_mills_when_exception
        if isinstance(error, RemoteError) and error.code == ResponseCode.FLOW_CONTROL:
            pause = FLOW_CONTROL_PAUSE_MS
        else:
            self._warnings.failed(queue.wire, error)
        assert callable(function)
        self._instance.timers.after(pause, functools.partial(function, queue), chore=True)
