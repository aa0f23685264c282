"""What members of a group ask brokers: who else is there, and where a queue begins.

    members_of(instance, "billing", route)                  # client ids
    first_offset(instance, queue, parameters)               # of a group that never committed
    queue_offset(instance, GET_MIN_OFFSET, queue)

Topics are named as on the wire.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

from rmq.client.connecting.instance import ClientInstance
from rmq.client.connecting.routes import Route
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RemoteError, RmqError, RouteError, UnreachableError
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue

HALF_AN_HOUR_MS = 1_800_000


class FromWhere(Protocol):
    """The parameters that say where a group begins."""

    consume_from_where: str
    consume_timestamp: int | None


def members_of(
    instance: ClientInstance, group: str, route: Route, silent: set[str] | None = None
) -> list[str]:
    """The client ids of the group, of the first broker that answers. Those that do not are added
    to `silent`, and those in it are not asked."""
    failure: RmqError | None = None
    silent = set() if silent is None else silent
    if route.brokers and silent.issuperset(route.brokers):
        raise UnreachableError(f"no broker of {route.topic} answers")
    for name in sorted(set(route.brokers) - silent):
        try:
            address = instance.address_of(name, any_id=True)
            code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
            reply = instance.call(address, code, {"consumerGroup": group})
            found = fastjson.loads_object(reply.body).get("consumerIdList") or []
            return [str(each) for each in found]
        except RmqError as error:
            failure = error
            if not isinstance(error, RemoteError):
                silent.add(name)
    raise failure or RouteError(ResponseCode.TOPIC_NOT_EXIST, f"{route.topic} has no broker")


def queue_offset(instance: ClientInstance, code: int, queue: MessageQueue, **more: Any) -> int:
    """The answer to a question about one queue's offsets."""
    address = instance.address_of(queue.broker_name)
    fields = {"topic": queue.topic, "queueId": queue.queue_id, **more}
    return instance.call(address, code, fields).int_field("offset")


def first_offset(instance: ClientInstance, queue: MessageQueue, given: FromWhere) -> int:
    """Where a group without an offset begins, as consume_from_where says."""
    if given.consume_from_where == "CONSUME_FROM_FIRST_OFFSET":
        return queue_offset(instance, RequestCode.GET_MIN_OFFSET, queue)
    if given.consume_from_where == "CONSUME_FROM_LAST_OFFSET":
        return queue_offset(instance, RequestCode.GET_MAX_OFFSET, queue)
    when = given.consume_timestamp
    if when is None:
        when = int(time.time() * 1000) - HALF_AN_HOUR_MS
    code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    return queue_offset(instance, code, queue, timestamp=when)
