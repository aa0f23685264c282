"""PushConsumerImpl: calls a function with the messages of topics, as they come.

Closing ends pulls, waits for the calls under way, commits, gives locks back and leaves the group.
The parts are rebalance (which member reads which queue), pulls and process_queue (messages pulled),
pops and pop_queue (messages popped), concurrent_service, orderly_service and pop_service (calls of
the listener), and send_back (messages that failed). A part knows the consumer only by a narrow
Protocol in its own file, which lists what the part needs of its owner.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cext.client.message import MessageExt
from rmq.base import clock
from rmq.client.connection.instance import ClientInstance, not_open
from rmq.client.connection.namespaces import unwrap, wrap
from rmq.client.connection.timers import Timer
from rmq.client.connection.workers import Workers
from rmq.client.consumer.listener import (
    ConsumeConcurrentlyContext,
    ConsumeOrderlyContext,
    Listen,
    function_of,
    is_coroutine,
)
from rmq.client.consumer.member import Member
from rmq.client.consumer.offset_stores import KeptOffsets, offset_store
from rmq.client.consumer.subscription import EVERYTHING, Subscription
from rmq.client.parameters.consumer import (
    CLUSTERING,
    MAX_RECONSUME_TIMES,
    PushConsumerParameters,
)
from rmq.client.push.concurrent_service import ConcurrentService
from rmq.client.push.consume_stats import SAMPLE_MS, ConsumeStats
from rmq.client.push.orderly_service import OrderlyService
from rmq.client.push.pops import PushPops
from rmq.client.push.process_queue import ProcessQueue
from rmq.client.push.pulls import PushPulls
from rmq.client.push.rebalance import Rebalance
from rmq.client.push.send_back import SendBack, original_topic, pop_retry_topic
from rmq.client.tracer import ConsumeTracer
from rmq.errors import ConfigError
from rmq.format.fastjson import MessageQueue
from rmq.names import RETRY_PREFIX

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from rmq.client.parameters.keywords import PushConsumerKeywords

log = logging.getLogger("rmq.client")

CALLS_IN_FLIGHT_S, ACKS_IN_FLIGHT_S = 30.0, 3.0  # how long close waits for them


class PushConsumerImpl(Member[PushConsumerParameters]):
    """The work of a push consumer; any thread may use it."""

    consume_type = "CONSUME_PASSIVELY"

    pulls: PushPulls
    pops: PushPops
    workers: Workers
    sender: SendBack
    store: KeptOffsets
    service: ConcurrentService | OrderlyService
    rebalance: Rebalance

    def __init__(
        self,
        consumer_group: str | None = None,
        message_listener: Any = None,
        *,
        parameters: PushConsumerParameters | None = None,
        **changes: Unpack[PushConsumerKeywords],
    ) -> None:
        """`changes` are parameters by name. ConfigError: one of them is not valid."""
        given: dict[str, Any] = {**changes}
        if message_listener is not None:
            given["message_listener"] = message_listener
        super().__init__(parameters or PushConsumerParameters(), consumer_group, given)
        self.stats = ConsumeStats()
        self.is_closing = self.is_suspended = False
        self._commits = threading.RLock()  # offsets are committed in the order of reading them
        self._timers: list[Timer] = []
        self._tracer: ConsumeTracer | None = None
        for topic, tags in (self.parameters.subscription or {}).items():
            self.subscribe(topic, tags)

    # ---- life

    def start(self) -> Self:
        """Connects and begins to read. A closed consumer does not start again."""
        self.parameters.check()
        if is_coroutine(function_of(self.parameters.message_listener)):
            raise ConfigError("the listener is a coroutine function: rmq.aio.PushConsumer calls it")
        return super().start()

    def _prepare(self, instance: ClientInstance) -> None:
        given = self.parameters
        self.store = offset_store(given, instance, self.group)
        self.store.load()
        self.pulls = PushPulls(self, instance)
        self.pops = PushPops(self, instance)
        self.rebalance = Rebalance(self, instance, self.pulls, self.pops)
        self.workers = Workers(f"consume-{self.group}", given.consume_thread_min)
        self.sender = SendBack(instance, self.group, self.times_max)

    def _begin(self, instance: ClientInstance) -> None:
        given, timers = self.parameters, instance.timers
        if given.enable_trace:
            self._tracer = ConsumeTracer(instance, given, self.group)
        service = OrderlyService if given.consume_orderly else ConcurrentService
        self.service = service(self, function_of(given.message_listener), timers, self.pulls)
        if given.message_model == CLUSTERING:
            retry = RETRY_PREFIX + self.group
            self.subscriptions[retry] = Subscription.of(retry)
        self._timers = [
            timers.every(max(given.persist_consumer_offset_interval, 10), self.commit, chore=True),
            timers.every(SAMPLE_MS, self.stats.sample),
        ]
        self.rebalance.begin()

    @property
    def listen(self) -> Listen:
        """The listener's function."""
        return self.service.listen

    @property
    def times_max(self) -> int:
        """The number of tries after which a message that is not consumed in order has failed for
        good."""
        most = self.parameters.max_reconsume_times
        return MAX_RECONSUME_TIMES if most == -1 else most

    def close(self, *, own: threading.Thread | None = None) -> None:
        """Ends pulls, waits for calls of the listener under way, commits, and leaves the group. A
        call in the thread `own` (by default this thread) is not waited for."""
        was_open, self._closed = self.is_open, True
        if not was_open or self._is_forked:
            self.is_closing = True
            return
        own = own or threading.current_thread()
        try:
            self._end(own)
        except BaseException:  # Ctrl-C: close is not called again, so leave the group now
            self.is_closing = True
            self.workers.close(clock.monotonic(), own)
            raise
        finally:
            self._leave()

    def _end(self, own: threading.Thread) -> None:
        for timer in self._timers:
            timer.cancel()
        self.rebalance.end()
        self.pulls.closed = self.pops.closed = True
        grace_s = self.parameters.await_termination_millis_when_shutdown / 1000
        self.workers.drain(clock.monotonic() + grace_s, own)
        self.is_closing = True
        ended = self.workers.close(clock.monotonic() + CALLS_IN_FLIGHT_S, own)
        self.service.close()
        if not ended:
            log.warning("a listener of %s does not return: it is left behind", self.group)
        self.rebalance.leave()
        self.pops.service.acks.drain(clock.monotonic() + ACKS_IN_FLIGHT_S)
        if self._tracer is not None:
            self._tracer.close()

    # ---- what is read

    def subscribe(self, topic: str, tags: str = EVERYTHING, *, sql: str | None = None) -> None:
        """Subscribes to the topic's messages with one of the tags ("a || b"), or to those for
        which the SQL92 expression is true. It may be called before or after the start."""
        subscription = self._subscription(topic, tags, sql)
        self.subscriptions[subscription.topic] = subscription
        if self.is_open:
            self._read(self.instance, subscription)
            self.rebalance.run()
            self.pulls.wait_begun()

    def unsubscribe(self, topic: str) -> None:
        name = wrap(self.parameters.namespace, topic)
        self.subscriptions.pop(pop_retry_topic(self.group, name), None)
        if self.subscriptions.pop(name, None) is not None and self.is_open:
            self.instance.heartbeats.send()
            self.rebalance.run()

    def assignment(self) -> list[MessageQueue]:
        """The queues this consumer reads now, without those of its retry topics. Queue id -1
        stands for all queues of a topic at one broker, which this and other members pop."""
        retry = RETRY_PREFIX + self.group
        pulled = [each.queue for each in self.process_queues()
                  if not each.wire.topic.startswith(retry)]  # fmt: skip
        popped = [each.queue for each in self.pops.queues] if self.started_ms else []
        return sorted([*pulled, *popped])

    def process_queues(self) -> list[ProcessQueue]:
        return self.rebalance.process_queues() if self.started_ms else []

    def suspend(self) -> None:
        """Stops pulling. Messages that were already pulled are still given to the listener."""
        self.is_suspended = True

    def resume(self) -> None:
        self.is_suspended = False
        for queue in self.process_queues():
            self.pulls.go_on(queue)
        if self.started_ms:
            self.pops.resume()

    def update_core_pool_size(self, count: int) -> None:
        """Sets the number of threads that call the listener, at most consume_thread_max. The
        number never gets smaller."""
        if not 1 <= count <= self.parameters.consume_thread_max:
            raise ConfigError(f"{count} threads: 1 to {self.parameters.consume_thread_max}")
        if not self.is_open:
            raise not_open("consumer", is_closed=self._closed)
        self.workers.count = max(self.workers.count, count)

    # ---- offsets

    def commit(self, queues: Iterable[ProcessQueue] | None = None, *, wait: bool = False) -> None:
        """Tells the store how far the listener is in each queue, if that has changed. wait: return
        only when brokers have answered."""
        news: dict[MessageQueue, int] = {}
        with self._commits:
            for queue in self.process_queues() if queues is None else queues:
                progress = queue.progress
                # with wait also offsets that were sent before, since they may have been lost
                is_news = (
                    progress != queue.committed
                    or (wait and progress > queue.first)
                    or self.store.owes(queue.wire)
                )
                if progress >= 0 and is_news and not queue.released:
                    queue.committed = progress
                    news[queue.wire] = progress
            if news:
                self.store.persist(news, wait=wait)

    def commit_soon(self) -> None:
        """The same, soon, in another thread; once for all queues that begin meanwhile."""
        if self.is_open:
            self.instance.timers.soon(self.commit)

    def commit_instead(self, queue: ProcessQueue, offset: int) -> None:
        """Releases the process queue, and commits this offset, whatever was read of the queue."""
        with self._commits:
            queue.release()
            self.store.persist({queue.wire: offset}, wait=False)

    def restart_soon(self, queue: ProcessQueue, offset: int) -> None:
        """Soon makes the queue go on at another offset; what was pulled no longer counts."""
        if self.is_open:
            self.instance.timers.after(0, lambda: self.rebalance.restart(queue, offset), chore=True)

    def step_back_soon(self, queue: ProcessQueue, end: int) -> None:
        """Soon makes the queue, which ends before what was pulled, go on where the group is;
        messages that are not consumed yet are read again."""
        if self.is_open:
            self.instance.timers.after(0, lambda: self.rebalance.step_back(queue, end), chore=True)

    # ---- what pulls and services need

    def take(
        self, queue: ProcessQueue, messages: list[MessageExt], following: int, bytes_: int
    ) -> None:
        """Takes the messages of a pull, and has the listener called with them."""
        self.service.take(queue, messages, following, bytes_)

    def show(self, messages: list[MessageExt]) -> None:
        """Gives messages the topic's name that the user knows; retried messages get the topic that
        they were first sent to."""
        namespace = self.parameters.namespace
        if namespace or messages[0].topic.startswith(RETRY_PREFIX):
            for message in messages:
                message.topic = original_topic(message, self.group)
                message.topic = unwrap(namespace, message.topic)

    def traced(
        self, messages: list[MessageExt], good: bool | None, took_ms: float = 0.0,
        raised: bool = False,
    ) -> None:  # fmt: skip
        """Traces that a call begins (good is None) or has ended."""
        if self._tracer is not None:
            self._tracer.consumed(messages, good, took_ms, raised)

    def lock_is_lost(self, queue: ProcessQueue) -> None:
        self.rebalance.lock_is_lost(queue)

    def let_go(self, queue: ProcessQueue) -> None:
        self.rebalance.let_go(queue)

    # ---- what brokers ask (rmq/client/connection/broker_calls.py)

    def group_changed(self) -> None:
        """Members of the group came or went."""
        self.rebalance.run_soon()

    def offsets_reset(self, offsets: dict[MessageQueue, int]) -> None:
        """An operator moves the group's offsets."""
        for queue in self.process_queues():
            if queue.wire in offsets:
                log.info("%s: reset to offset %d", queue.queue, offsets[queue.wire])
                self.restart_soon(queue, offsets[queue.wire])

    def offsets_of(self, topic: str) -> dict[MessageQueue, int]:
        """How far the group is in each queue of the topic (its name on the wire; empty: in all
        queues)."""
        return {each.wire: each.progress for each in self.process_queues()
                if not topic or each.wire.topic == topic}  # fmt: skip

    def running_info(self) -> dict[str, Any]:
        """The fields of ConsumerRunningInfo that are known here (broker_calls.py adds more)."""
        info = super().running_info()
        info["properties"]["PROP_THREADPOOL_CORE_SIZE"] = str(self.workers.count)
        return info | {
            "mqTable": {each.wire: each.members() for each in self.process_queues()},
            "mqPopTable": {each.wire: each.members() for each in self.pops.queues},
            "statusTable": {
                topic: self.stats.members(unwrap(self.parameters.namespace, topic))
                for topic in list(self.subscriptions)
            },
        }

    def consume_directly(self, message: MessageExt) -> dict[str, Any]:
        """Calls the listener with one message for an operator, and returns the fields of
        ConsumeMessageDirectlyResult."""
        self.show([message])
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        began = clock.monotonic()
        context: ConsumeOrderlyContext | ConsumeConcurrentlyContext
        if isinstance(self.service, OrderlyService):
            context = ConsumeOrderlyContext(queue)
            ordered, problem = self.service.call([message], context)
            name = "" if ordered is None else ordered.name
            auto_commit = context.auto_commit
        else:
            context = ConsumeConcurrentlyContext(queue)
            status, problem = self.service.call([message], context)
            name = "" if status is None else status.name
            auto_commit = True
        results = {"CONSUME_SUCCESS": "CR_SUCCESS", "SUCCESS": "CR_SUCCESS",
                   "COMMIT": "CR_COMMIT", "ROLLBACK": "CR_ROLLBACK"}  # fmt: skip
        return {
            "order": self.service.is_orderly, "autoCommit": auto_commit,
            "consumeResult": "CR_THROW_EXCEPTION" if problem else results.get(name, "CR_LATER"),
            "remark": repr(problem) if problem else None,
            "spentTimeMills": int((clock.monotonic() - began) * 1000),
        }  # fmt: skip
