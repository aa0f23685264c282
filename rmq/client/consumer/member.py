"""Member: the base class of all consumers: a member of a group, with a client's connections.

    class PullConsumerImpl(Member[PullConsumerParameters]):
        consume_type = "CONSUME_ACTIVELY"

        def _prepare(self, instance): ...       # before brokers can ask for anything
        def _begin(self, instance): ...         # the rest of start()
        def close(self): ...; self._leave()

A consumer starts once and closes once. In a forked child, which has none of the client's threads,
leaving tells brokers nothing.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar

from cext.client.sender import check_topic
from rmq.base import clock
from rmq.client.connection.instance import ClientInstance, not_open
from rmq.client.connection.namespaces import wrap, wrap_group
from rmq.client.consumer.group import check_filter
from rmq.client.consumer.subscription import Subscription
from rmq.client.parameters.consumer import CLUSTERING, GroupParameters
from rmq.errors import ClosedError, RouteError, not_copied
from rmq.format.fastjson import MessageQueue

if TYPE_CHECKING:
    from typing_extensions import Self

log = logging.getLogger("rmq.client")

P = TypeVar("P", bound=GroupParameters)


class Member(Generic[P]):
    """A member of a group; any thread may use it."""

    consume_type: ClassVar[str]

    def __init__(self, parameters: P, consumer_group: str | None, given: dict[str, Any]) -> None:
        """`given` are parameters by name."""
        if consumer_group is not None:
            given["consumer_group"] = consumer_group
        self.parameters = parameters.changed(given)
        self.group = wrap_group(self.parameters.namespace, self.parameters.consumer_group)
        self.subscriptions: dict[str, Subscription] = {}  # by the topic's name on the wire
        self.started_ms = 0
        self._closed = False
        self._instance: ClientInstance | None = None
        self._leaving = threading.Lock()
        self._started_with: ClientInstance | None = None  # kept after it has left

    def __reduce__(self) -> NoReturn:
        raise not_copied(self, "start one in each process, from its parameters")

    # ---- life

    @property
    def instance(self) -> ClientInstance:
        if self._instance is None:
            raise not_open("consumer", is_closed=self._closed)
        return self._instance

    @property
    def is_open(self) -> bool:
        return self._instance is not None and not self._closed

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def client_id(self) -> str:
        return self.instance.client_id

    def start(self) -> Self:
        """Connects and becomes a member of the group. A closed consumer does not start again."""
        if self._closed:
            raise ClosedError("the consumer is closed")
        if self._instance is not None:
            return self
        instance = ClientInstance.acquire(self.parameters)
        try:
            for subscription in list(self.subscriptions.values()):
                check_filter(instance, self.group, subscription)
            self._prepare(instance)
            instance.heartbeats.add_consumer(self.group, self)
        except BaseException:
            instance.release()
            raise
        self.started_ms = clock.now_ms()
        self._instance = self._started_with = instance
        if not self.is_open:  # by another thread meanwhile, which saw nothing to leave yet
            self._leave()
            raise ClosedError("the consumer is closed")
        try:
            self._begin(instance)
        except BaseException:  # brokers must not count a member that reads nothing
            self.close()
            raise
        return self

    def _prepare(self, instance: ClientInstance) -> None:
        """Makes what must be there before brokers know this member."""

    def _begin(self, instance: ClientInstance) -> None:
        """Does the rest of start(), when this consumer is a member."""

    def close(self) -> None:
        """Leaves the group."""
        self._closed = True
        self._leave()

    @property
    def _is_forked(self) -> bool:
        """Whether this process is a child of the one that started the consumer; known after it has
        left, too."""
        return self._started_with is not None and self._started_with.is_forked

    def _leave(self) -> None:
        with self._leaving:
            instance, self._instance = self._instance, None
        if instance is not None and not self._is_forked:
            instance.heartbeats.remove_consumer(self.group)
            instance.release()

    # ---- what is read

    def _subscription(self, topic: str, tags: str, sql: str | None) -> Subscription:
        """The subscription of a topic, by the name that the user knows. MessageError: the name is
        not valid. RemoteError: a broker finds the expression wrong; before the start this is not
        checked yet."""
        name = wrap(self.parameters.namespace, topic)
        check_topic(name)
        subscription = Subscription.of(name, tags, sql)
        if self.is_open:
            check_filter(self.instance, self.group, subscription)
        return subscription

    def _read(self, instance: ClientInstance, subscription: Subscription) -> None:
        """Looks up the topic's route, and tells brokers that the topic is subscribed."""
        instance.routes.want(subscription.topic)
        try:
            instance.routes.of(subscription.topic)
        except RouteError as error:
            log.warning("%s; it is read as soon as it exists", error)
        instance.heartbeats.send(wait_ms=self.parameters.mq_client_api_timeout)

    # ---- what brokers ask (rmq/client/connection/broker_calls.py)

    def heartbeat_data(self) -> dict[str, Any]:
        """The part of a heartbeat that describes this consumer."""
        return {
            "groupName": self.group, "consumeType": self.consume_type,
            "messageModel": getattr(self.parameters, "message_model", CLUSTERING),
            "consumeFromWhere": self.parameters.consume_from_where,
            "subscriptionDataSet": self._subscribed(), "unitMode": self.parameters.unit_mode,
        }  # fmt: skip

    def _subscribed(self) -> list[dict[str, Any]]:
        return [each.members() for each in list(self.subscriptions.values())]

    def group_changed(self) -> None:
        """Members of the group came or went."""

    def offsets_reset(self, offsets: dict[MessageQueue, int]) -> None:
        """An operator moves the group's offsets."""

    def offsets_of(self, topic: str) -> dict[MessageQueue, int]:
        """How far the group is in each queue of the topic (its name on the wire; empty: in all
        queues)."""
        return {}

    def running_info(self) -> dict[str, Any]:
        """The fields of ConsumerRunningInfo that all kinds of consumers have."""
        is_orderly = getattr(self.parameters, "consume_orderly", False)
        return {
            "properties": {
                "PROP_CONSUME_TYPE": self.consume_type,
                "PROP_CONSUMEORDERLY": str(is_orderly).lower(),
                "PROP_CONSUMER_START_TIMESTAMP": str(self.started_ms),
            },
            "subscriptionSet": self._subscribed(),
        }  # fmt: skip
