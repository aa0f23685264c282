"""Transactions: handlers of 37 (ends that the reactor could not do) and 323 (check again).

Example: 37 commits a half message whose topic was deleted meanwhile: the topic is made anew, and
the frame goes back to the reactor. Or 37 names the place that a half message had before it was
stored anew, and the reactor does not remember the move: the frame goes back with the new place.
"""

from collections.abc import Awaitable
from typing import Protocol

from rmq import names
from rmq.auth.permissions import PUB, UPDATE
from rmq.broker.access import Access, topic_of
from rmq.broker.core_seam import (
    HALF_DOUBTED,
    HALF_OPEN,
    ConnectionCalls,
    LogCalls,
    TransactionCalls,
)
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.dispatch.topic_creations import TopicCreations
from rmq.broker.replication.replication import Replication
from rmq.broker.store.durability import durable
from rmq.broker.tables.topic_config import TopicConfig
from rmq.broker.tables.topics import TopicTable
from rmq.broker.tasks.moved_halves import MovedHalves, Place, Sought, sought_of
from rmq.broker.tasks.transaction_checks import OFFSET_DIGITS_MAX, Transactions
from rmq.codes import TRANSACTION_COMMIT_TYPE, ResponseCode
from rmq.codes import RequestCode as Code
from rmq.config import Settings
from rmq.errors import StoreError
from rmq.format.message import StoredMessage, decode_message, decode_message_id
from rmq.limits import TOPIC_QUEUES_MAX
from rmq.refusal import Refusal

_HALF_TOPICS = (names.HALF_TOPIC, names.TRANS_CHECK_MAX_TIME_TOPIC)


class CoreCalls(ConnectionCalls, LogCalls, TransactionCalls, Protocol):
    """What is used here of the core."""


class Context(Protocol):
    """What these handlers use of the broker."""

    access: Access
    creations: TopicCreations
    moved_halves: MovedHalves
    replication: Replication
    settings: Settings
    topics: TopicTable
    transactions: Transactions

    @property
    def core(self) -> CoreCalls: ...


def end_transaction(context: Context, request: Request) -> Reply | Awaitable[Reply]:
    """37 that the reactor could not do: the topic is gone, or the half message is ended; it may
    have been given up before, or stored anew."""
    message, topic = _half(context, request)
    context.access.require(request.asker, topic.name, PUB)
    if message.properties.get("PGROUP") == request.command.require("producerGroup"):
        state = context.core.half_state(message.queue_offset, message.physical_offset)
        if state != HALF_OPEN:
            request.command.body = b""  # not kept in memory, as thousands of ends may wait
            sought = sought_of(message) if state == HALF_DOUBTED else None
            return _end_moved(context, request, sought, topic)
    return _give_back(context, request, topic)


def _half(context: Context, request: Request) -> tuple[StoredMessage, TopicConfig]:
    """The half message at the place that an end names, and the topic that it is for."""
    record = context.core.read_record(request.command.int_field("commitLogOffset", minimum=0))
    if record is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")
    message, _ = decode_message(record)
    topic = message.properties.get("REAL_TOPIC", "")
    queues = _number(message.properties.get("REAL_QID", ""), 0) + 1
    if message.topic != names.HALF_TOPIC or names.topic_fault(topic) or queues > TOPIC_QUEUES_MAX:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")
    return message, TopicConfig(topic, queues, queues)


async def _end_moved(
    context: Context, request: Request, sought: Sought | None, topic: TopicConfig
) -> Reply:
    """Ends a half message that is not open at the place that the end names: it may be at another
    place, or set aside."""
    place: Place | None = None
    if sought is not None:
        place = await context.moved_halves.place_of(sought)
    if place is None and _commits(request):
        place = context.transactions.revive(_half(context, request)[0])
    if place is None:  # the half message is ended: the reactor answers when that is safe
        context.core.resubmit(request.connection.number, request.frame)
        return None
    waits = _give_back(context, _moved(request, *place), topic)
    return None if waits is None else await waits


def _give_back(context: Context, request: Request, topic: TopicConfig) -> Awaitable[Reply] | None:
    """Gives the end back to the reactor, after the topic that a commit goes to was made."""
    if _commits(request):
        if not context.creations.is_made(topic.name):
            return context.creations.wait(request, topic)
        context.topics.put_in_core(topic.name)
    context.core.resubmit(request.connection.number, request.frame)
    return None


def _commits(request: Request) -> bool:
    decision: int = request.command.int_field("commitOrRollback")
    return decision == TRANSACTION_COMMIT_TYPE


async def resume_check(context: Context, request: Request) -> Reply:
    """323: lets the half message with this offset id, usually one set aside, be checked again."""
    command = request.command
    _, offset = decode_message_id(command.require("msgId"))
    record = context.core.read_record(offset)
    message = decode_message(record)[0] if record is not None else None
    if message is None or message.topic not in _HALF_TOPICS:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no half message starts at offset {offset}")
    context.access.require(request.asker, topic_of(message), UPDATE)
    try:
        context.transactions.check_again(message)
    except StoreError as error:
        raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, str(error)) from None
    code, remark = await durable(context)
    return command.reply(code, remark)


def _moved(request: Request, physical_offset: int, queue_offset: int) -> Request:
    """The same end (37), but for the copy to which the half message has moved."""
    command = request.command
    command.fields = {
        **command.fields,
        "commitLogOffset": str(physical_offset),
        "tranStateTableOffset": str(queue_offset),
    }
    return Request(request.connection, command)


def _number(text: str, otherwise: int) -> int:
    return int(text) if text.isdecimal() and len(text) < OFFSET_DIGITS_MAX else otherwise


HANDLERS: dict[int, Handler[Context]] = {
    Code.END_TRANSACTION: end_transaction,
    Code.RESUME_CHECK_HALF_MESSAGE: resume_check,
}
