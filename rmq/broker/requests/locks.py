"""Locks: handlers of queue locks of orderly consumers: 41 lock, 42 unlock.

    body      {"clientId":"c","consumerGroup":"g","mqSet":[MQ,..]}
    41 reply  {"lockOKMQSet":[MQ,..]}     the queues of the request that this client holds now
    MQ        {"brokerName":"b","queueId":0,"topic":"t"}

Example: a queue that another client holds is left out of the reply; the client asks again later.
"""

from collections.abc import Mapping
from typing import Protocol

from rmq import names
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.json_members import list_member, text_member
from rmq.broker.name_checks import check_group
from rmq.broker.tables.locks import LockTable
from rmq.broker.tables.queue_mappings import QueueMappings
from rmq.broker.tables.topics import TopicTable
from rmq.codes import RequestCode as Code
from rmq.config import Settings
from rmq.errors import ProtocolError
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.limits import LOCKED_QUEUES_MAX


class Context(Protocol):
    """What these handlers use of the broker."""

    locks: LockTable
    queue_mappings: QueueMappings
    settings: Settings
    topics: TopicTable


async def lock_batch(context: Context, request: Request) -> Reply:
    group, queues, client_id = _read(context, request)
    held = context.locks.lock(group, queues, client_id)
    await context.locks.saved()
    return request.command.reply(
        body=fastjson.dumps({"lockOKMQSet": [queue.members() for queue in held]})
    )


async def unlock_batch(context: Context, request: Request) -> Reply:
    group, queues, client_id = _read(context, request)
    context.locks.unlock(group, queues, client_id)
    await context.locks.saved()
    return request.command.reply()


def _read(context: Context, request: Request) -> tuple[str, list[MessageQueue], str]:
    """(group, the queues that exist here, client id) of a lock request."""
    body = request.json_body()
    group = check_group(text_member(body, "consumerGroup"))
    client_id = text_member(body, "clientId")
    if not names.is_client_id(client_id):
        raise ProtocolError("clientId of the lock request is empty, too long or not printable")
    items = list_member(body, "mqSet")
    if len(items) > LOCKED_QUEUES_MAX:
        raise ProtocolError(f"a lock request for more than {LOCKED_QUEUES_MAX} queues")
    queues = []
    for item in items:
        if not isinstance(item, Mapping):
            raise ProtocolError("mqSet of the lock request holds something else than queues")
        queue = MessageQueue.of(item)
        topic = context.topics.get(queue.topic)
        if topic is None or not 0 <= queue.queue_id < topic.queues:
            continue
        if _is_called_so(context, queue):
            queues.append(queue)
    return group, queues, client_id


def _is_called_so(context: Context, queue: MessageQueue) -> bool:
    """Whether the request uses the broker name under which clients know the queue: this broker's,
    or for a static topic that of logical queues. Any other name would make a second lock of the
    same queue."""
    called = queue.broker_name
    if called in (context.settings.brokerName, names.LOGIC_QUEUE_BROKER):
        return True
    mapping = context.queue_mappings.get(queue.topic)
    return mapping is not None and called == names.LOGIC_QUEUE_PREFIX + mapping.scope


HANDLERS: dict[int, Handler[Context]] = {
    Code.LOCK_BATCH_MQ: lock_batch,
    Code.UNLOCK_BATCH_MQ: unlock_batch,
}
