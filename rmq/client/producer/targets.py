"""Targets: which queue of which broker a message is sent to.

    targets = Targets(producer)
    targets.choose(message, queue, selector, arg, avoid)     # Target
    targets.of("orders")                     # TopicQueues, all of them; looked up on first use

The queues are taken in turn, unless the message has a sharding_key (equal keys go to one queue), or
the caller gives a `queue` or a `selector(queues, message, arg)`. A topic that does not exist yet is
given the queues that it will be created with. Brokers that were slow or failed are left out for a
while (send_latency_enable, faults.py).
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import random
from collections.abc import Callable, Sequence
from typing import Any

from cext.client.message import Message
from cext.client.sender import check_topic
from cext.client.target import Target, TopicQueues
from rmq.client.connection.instance import ClientInstance
from rmq.client.connection.namespaces import unwrap, wrap
from rmq.client.connection.routes import Route
from rmq.client.connection.timers import Timer
from rmq.client.producer.base import ProducerBase
from rmq.client.producer.faults import BrokerFaults
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import (
    ClosedError,
    MessageError,
    RemoteError,
    RmqError,
    RouteError,
    UnreachableError,
)
from rmq.format.fastjson import MessageQueue
from rmq.names import SELF_TEST_TOPIC

log = logging.getLogger("rmq.client")

Selector = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]


class Targets:
    """The targets of one producer; any thread may use it."""

    def __init__(self, producer: ProducerBase) -> None:
        self._producer = producer
        self.faults = BrokerFaults()
        self._turns = itertools.count(random.getrandbits(16))
        self._probes: Timer | None = None
        self._incomplete: set[str] = set()  # topics whose queues will be looked up again

    def watch(self, instance: ClientInstance) -> None:
        """Begins to follow changes of routes, and to ask brokers that are left out whether they
        answer again (start_detector_enable)."""
        given = self._producer.parameters
        instance.routes.watch(self._route_changed)
        if given.start_detector_enable:
            self._probes = instance.timers.every(
                given.detect_interval, self._probe_avoided, chore=True
            )

    def unwatch(self, instance: ClientInstance) -> None:
        if self._probes is not None:
            self._probes.cancel()
        instance.routes.unwatch(self._route_changed)

    # ---- the queues of a topic

    def of(self, topic: str) -> TopicQueues:
        found = self._producer.topics.get(topic)
        return found if found is not None else self.find(topic)

    def find(self, topic: str) -> TopicQueues:
        """Looks up the queues of the topic, or those that it will have once its first message
        creates it."""
        producer, given = self._producer, self._producer.parameters
        instance = producer.instance
        name = wrap(given.namespace, topic)
        check_topic(name)
        instance.routes.want(name)
        try:
            route = instance.routes.of(name)
            queues = route.writable()
        except RouteError as error:
            try:
                route = instance.routes.of(given.create_topic_key)
            except RouteError:
                raise error from None
            counts = {each.broker_name: min(each.read_queues, given.default_topic_queue_nums)
                      for each in route.entries}  # fmt: skip
            queues = [each._replace(topic=name) for each in route.writable()
                      if each.queue_id < counts[each.broker_name]]  # fmt: skip
        if not queues:
            raise RouteError(ResponseCode.NO_PERMISSION, f"no queue of {topic} is writable")
        targets = self._targets_of(instance, name, topic, queues)
        found = TopicQueues(targets, route, next(self._turns) & 0xFFFF)
        producer.topics[topic] = found
        return found

    def _targets_of(
        self, instance: ClientInstance, name: str, topic: str, queues: list[MessageQueue]
    ) -> list[Target]:
        """The targets of these queues, without those at brokers whose host names have no address;
        UnreachableError if there are no others. No connection is made: a send that finds its broker
        away tries another one."""
        producer, given = self._producer, self._producer.parameters
        fields = {
            "a": producer.group, "c": given.create_topic_key,
            "d": given.default_topic_queue_nums, "k": given.unit_mode,
        }  # fmt: skip
        targets = []
        nowhere: dict[str, UnreachableError] = {}
        for queue in queues:
            address = instance.routes.address_of(queue.broker_name)
            if address in nowhere:
                continue
            try:
                link = instance.link_number(address)
            except UnreachableError as unknown:
                nowhere[address] = unknown
                continue
            targets.append(
                Target(producer, name, topic, queue.broker_name, address, queue.queue_id, link,
                       fields)
            )  # fmt: skip
        for error in nowhere.values():
            if not targets:
                raise error
            log.warning("queues of %s are left out: %s", topic, error)
        if nowhere:
            self._find_later(instance, topic)
        return targets

    def _find_later(self, instance: ClientInstance, topic: str) -> None:
        """Looks up the topic's queues again later, when the hosts that had no address may have
        one."""

        def find_again() -> None:
            self._incomplete.discard(topic)
            try:
                self.find(topic)
            except ClosedError:
                pass
            except RmqError:
                self._find_later(instance, topic)

        if topic not in self._incomplete:
            self._incomplete.add(topic)
            pause_ms = max(self._producer.parameters.poll_name_server_interval, 10)
            instance.timers.after(pause_ms, find_again, chore=True)

    def listed(self, topic: str) -> list[MessageQueue]:
        """The topic's queues, with the topic's name as the user knows it."""
        return [
            MessageQueue(topic, each.broker_name, each.queue_id) for each in self.of(topic).targets
        ]

    def _route_changed(self, name: str, route: Route) -> None:
        """Replaces the topic's queues. Messages gathered for the old queues are still sent when
        their time has come."""
        topic = unwrap(self._producer.parameters.namespace, name)
        known = self._producer.topics.get(topic)
        if known is not None and known.route != route:
            try:
                self.find(topic)
            except RmqError as error:
                log.warning("queues of %s: %s", topic, error)

    def look_again(self, topic: str) -> None:
        """Asks for the topic's route again, after a failure that a changed route may explain."""
        name = wrap(self._producer.parameters.namespace, topic)
        with contextlib.suppress(RmqError):
            self._producer.instance.routes.of(name, refresh=True)

    # ---- one of them

    def choose(
        self,
        message: Message,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        avoid: str | None = None,
    ) -> Target:
        """The target for a message. `avoid`: the name of a broker that has just failed."""
        queues = self.of(message.topic)
        key = message.sharding_key
        if queue is None and selector is None and key is None:
            return queues.choose(avoid, self._usable())
        if queue is None and selector is not None:
            queue = selector(self.listed(message.topic), message, arg)
            if queue is None:
                raise MessageError("the selector chose no queue")
        if queue is not None:
            _check_queue(queue, message)
        if queue is None:
            import mmh3

            return queues.targets[mmh3.hash(key or "", signed=False) % len(queues.targets)]
        for target in queues.targets:
            if target.queue_id == queue.queue_id and (
                target.broker_name == queue.broker_name or queues.route.leaders
            ):  # a logical queue is the same one at another broker
                return target
        raise RemoteError(
            ResponseCode.INVALID_PARAMETER,
            f"topic {message.topic} has no queue {queue.queue_id} on broker {queue.broker_name}",
        )

    def following(self, topic: str, target: Target) -> Target:
        """The target for a message that this one did not take: at another broker, if there is
        one."""
        return self.of(topic).choose(target.broker_name, self._usable())

    def has_other_name(self, failed: Target) -> bool:
        """Whether the topic has queues at a broker other than this target's."""
        known = self._producer.topics.get(failed.shown)
        return known is not None and any(
            each.broker_name != failed.broker_name for each in known.targets
        )

    # ---- brokers that do not do well

    def _usable(self) -> Callable[[str], bool] | None:
        return self.faults.is_usable if self._producer.tracks_latency else None

    def note(self, target: Target, latency_ms: float, error: Exception | None) -> None:
        """Notes how long the target's broker took for a send, and with which error it ended."""
        if error is not None:
            with contextlib.suppress(ClosedError):  # the last sends of a producer that closes
                self._producer.instance.routes.look_again_for(target.topic, error)
        if self._producer.tracks_latency:
            self.faults.note(target.broker_name, latency_ms, isinstance(error, UnreachableError))

    def _probe_avoided(self) -> None:
        instance = self._producer.instance
        for name in self.faults.avoided():
            try:
                address = instance.routes.address_of(name)
                instance.ask(
                    address, RequestCode.GET_MAX_OFFSET, {"topic": SELF_TEST_TOPIC, "queueId": 0},
                    timeout_ms=self._producer.parameters.detect_timeout,
                )  # fmt: skip
                self.faults.forgive(name)
            except RmqError:
                continue


def _check_queue(queue: Any, message: Message) -> None:
    if not isinstance(queue, MessageQueue):
        raise MessageError(f"a MessageQueue is wanted, one of queues(topic), not {queue!r}")
    if queue.topic != message.topic:
        raise MessageError(f"a message of topic {message.topic} for a queue of {queue.topic}")
