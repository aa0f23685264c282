"""Group: what its members ask brokers: who the other members are, and where a queue begins.

    members_of(instance, "billing", route)                  # client ids, as a broker knows them
    ids, is_certain = Members(instance, "billing").of(route, silent)
    assignment_of(instance, "billing", route, "AVG", silent)    # the queues, as brokers share them
    check_filter(instance, "billing", subscription)     # before the topic is read
    initial_offset_request(parameters)      # where a group begins that never committed
    queue_offset(instance, GET_MIN_OFFSET, queue)

Topics have their names on the wire.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

from rmq.base import clock
from rmq.client.connection.instance import ClientInstance
from rmq.client.connection.replicas import Purpose
from rmq.client.connection.routes import Route
from rmq.client.consumer.subscription import TAG, Subscription
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ProtocolError, RemoteError, RmqError, RouteError, UnreachableError
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.names import LOGIC_QUEUE_BROKER

log = logging.getLogger("rmq.client")

T = TypeVar("T")
HALF_AN_HOUR_MS = 1_800_000
RETURN_S = 5.0  # long enough: members try a lost broker, and send a heartbeat, every second


class StartParameters(Protocol):
    """The parameters that say where a group begins."""

    consume_from_where: str
    consume_timestamp: int | None


def of_any_broker(
    instance: ClientInstance, route: Route, silent: set[str], ask: Callable[[str], T]
) -> T:
    """Returns ask(address) of the first broker of the topic that answers. Brokers that do not
    answer are added to `silent`; brokers in `silent` are not asked."""
    failure: RmqError | None = None
    if route.brokers and silent.issuperset(route.brokers):
        raise UnreachableError(f"no broker of {route.topic} answers")
    for name in sorted(set(route.brokers) - silent):
        try:
            return _of_any_replica(instance, name, ask)
        except RmqError as error:
            failure = error
            if not isinstance(error, RemoteError):
                silent.add(name)
    raise failure or RouteError(ResponseCode.TOPIC_NOT_EXIST, f"{route.topic} has no broker")


def _of_any_replica(instance: ClientInstance, name: str, ask: Callable[[str], T]) -> T:
    """Returns ask(address) of the master, or of another replica if the master does not answer."""
    address = instance.routes.address_of(name, Purpose.STATE)
    try:
        return ask(address)
    except UnreachableError as error:
        if not instance.routes.has_other(name, address, error):
            raise
    return ask(instance.routes.address_of(name, Purpose.STATE))


def members_of(
    instance: ClientInstance, group: str, route: Route, silent: set[str] | None = None
) -> list[str]:
    """The client ids of the group's members."""

    def ask(address: str) -> list[str]:
        code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
        reply = instance.call(address, code, {"consumerGroup": group})
        found = fastjson.loads_object(reply.body).get("consumerIdList") or []
        return [str(each) for each in found]

    return of_any_broker(instance, route, set() if silent is None else silent, ask)


class Members:
    """The members of a group, as one consumer knows them; one call at a time.

    A broker that was restarted knows only the members that have sent a heartbeat since. The first
    of them would take the queues of all others, and read again what they have read. For a while
    after a broker has come back, members that it no longer knows are therefore still counted.
    Meanwhile is_certain is False, and the caller looks again soon.
    """

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._before: dict[str, set[str]] = {}  # by topic

    def of(self, route: Route, silent: set[str] | None = None) -> tuple[list[str], bool]:
        """The client ids in order, and whether this list is certain."""
        found = set(members_of(self._instance, self._group, route, silent))
        missing = self._before.get(route.topic, set()) - found
        if self._instance.client_id not in found:
            return sorted(found), True  # the caller sends the broker a heartbeat first
        is_certain = (
            not missing or clock.monotonic() - self._instance.heartbeats.returned_at > RETURN_S
        )
        self._before[route.topic] = found if is_certain else found | missing
        return sorted(self._before[route.topic]), is_certain


def check_filter(instance: ClientInstance, group: str, subscription: Subscription) -> None:
    """Has a broker of the topic check the filter. RemoteError: the expression is wrong, with
    position and reason. If no broker answers, or the topic does not exist yet, nothing is checked
    here, and the pulls fail later."""
    if subscription.kind == TAG:
        return
    body = fastjson.dumps({
        "clientId": instance.client_id, "group": group,
        "subscriptionData": subscription.members(),
    })  # fmt: skip
    try:
        brokers = sorted(instance.routes.of(subscription.topic).brokers)
    except RmqError as error:
        log.info("the filter of %s is not looked at: %s", subscription.topic, error)
        return
    for name in brokers:
        try:
            reply = instance.ask(
                instance.routes.address_of(name, Purpose.STATE),
                RequestCode.CHECK_CLIENT_CONFIG,
                None,
                body,
            )
        except RmqError as error:
            log.info("the filter of %s is not looked at by %s: %s", subscription.topic, name, error)
            continue
        if reply.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            reply.check()
        return


def _as_led(queue: MessageQueue, route: Route) -> MessageQueue:
    """The queue; a logical queue with the name that this client uses, that of its leading
    broker."""
    if queue.broker_name == LOGIC_QUEUE_BROKER and queue.queue_id in route.leaders:
        return queue._replace(broker_name=route.leaders[queue.queue_id])
    return queue


class TopicAssignment(NamedTuple):
    """The queues of one topic that a member pulls, and those that it pops."""

    pulled: list[MessageQueue]
    popped: list[MessageQueue]
    has_others: bool = True  # whether another member may have had some of them until now


def assignment_of(
    instance: ClientInstance, group: str, route: Route, strategy: str, silent: set[str]
) -> TopicAssignment | None:
    """This client's share of the topic, as a broker assigns it; None: the broker cannot say, or
    does not know this member."""
    body = fastjson.dumps(
        {"topic": route.topic, "consumerGroup": group, "clientId": instance.client_id,
         "strategyName": strategy, "messageModel": "CLUSTERING"}
    )  # fmt: skip

    def ask(address: str) -> TopicAssignment | None:
        reply = instance.call(address, RequestCode.QUERY_ASSIGNMENT, {}, body)
        rows = fastjson.loads_object(reply.body).get("messageQueueAssignments")
        if rows is None:
            return None
        if not isinstance(rows, list):
            raise ProtocolError("messageQueueAssignments is no list")
        found = TopicAssignment([], [])
        for row in rows:
            if not isinstance(row, dict):
                raise ProtocolError("an assignment is no object")
            queue = row.get("messageQueue")
            if isinstance(queue, dict):
                part = found.popped if row.get("mode") == "POP" else found.pulled
                part.append(_as_led(MessageQueue.of(queue), route))
        return found

    return of_any_broker(instance, route, silent, ask)


def queue_offset(instance: ClientInstance, code: int, queue: MessageQueue, **more: Any) -> int:
    """The answer to a question about one queue's offsets."""
    address = instance.routes.address_of(queue.broker_name, Purpose.STATE)
    fields = {"topic": queue.topic, "queueId": queue.queue_id, **more}
    return instance.call(address, code, fields).int_field("offset")


def initial_offset_request(given: StartParameters) -> tuple[int, dict[str, int]]:
    """The request that finds where a group without an offset begins, as consume_from_where says:
    its code, and its fields besides the queue."""
    if given.consume_from_where == "CONSUME_FROM_FIRST_OFFSET":
        return RequestCode.GET_MIN_OFFSET, {}
    if given.consume_from_where == "CONSUME_FROM_LAST_OFFSET":
        return RequestCode.GET_MAX_OFFSET, {}
    when = given.consume_timestamp
    if when is None:
        when = clock.now_ms() - HALF_AN_HOUR_MS
    return RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"timestamp": when}
