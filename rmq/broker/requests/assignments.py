"""Assignments: handlers of 400 query, 401 set mode, 402 all modes.

A 5.x consumer with clientRebalance=false asks one broker which queues it must consume. The answer
is its share of the topic's queues on all brokers (routes.py; only this broker's as long as no name
server knows others), by one of two strategies over the sorted queues and client ids:

    AVG            neighbours: 5 queues, 2 clients -> 0 1 2 | 3 4
    AVG_BY_CIRCLE  in turn:                        -> 0 2 4 | 1 3

In mode POP (request_modes.py) members share queues. With popShareQueueNum 0, or not less than the
number of other members, each pops from all queues, which is queue -1. With a smaller number n it
pops from its own queues and those of the n members behind it. If there are more members than
queues, each pops from one queue.
"""

import logging
from typing import Protocol

from rmq import names
from rmq.broker.clients.consumers import ConsumerTable
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.json_members import text_member
from rmq.broker.name_checks import check_group, check_topic
from rmq.broker.registration.routes import Routes
from rmq.broker.tables.groups import GroupTable
from rmq.broker.tables.request_modes import POP, PULL, RequestModes
from rmq.broker.tables.topics import TopicTable
from rmq.codes import PERM_READ, ResponseCode
from rmq.codes import RequestCode as Code
from rmq.config import Settings
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.refusal import Refusal

log = logging.getLogger("rmq.broker.assignments")

ALL_QUEUES = -1  # the queue id of a pop from any queue


class Context(Protocol):
    """What these handlers use of the broker."""

    consumers: ConsumerTable
    groups: GroupTable
    request_modes: RequestModes
    routes: Routes
    settings: Settings
    topics: TopicTable


async def query_assignment(context: Context, request: Request) -> Reply:
    body = request.json_body()
    topic_name = check_topic(text_member(body, "topic"))
    group = check_group(text_member(body, "consumerGroup"))
    client_id = text_member(body, "clientId")
    broadcasting = text_member(body, "messageModel", "CLUSTERING") == "BROADCASTING"
    strategy = text_member(body, "strategyName", "AVG")
    mode = context.request_modes.of(topic_name, group)
    topic = context.topics.get(topic_name)
    if topic is None or not topic.perm & PERM_READ:
        return request.command.reply(body=b"{}")  # null: the client keeps what it has
    queues = await context.routes.queues(topic_name) or [
        MessageQueue(topic_name, context.settings.brokerName, queue_id)
        for queue_id in range(topic.read_queues)
    ]
    if not broadcasting:
        members = context.consumers.get(group)
        if members is None or strategy not in ("AVG", "AVG_BY_CIRCLE"):
            return request.command.reply(body=b"{}")
        ids = sorted({client.client_id for client in members.clients.values()})
        if mode.mode == POP:
            queues = allocate_popping(queues, ids, client_id, strategy, mode.share)
        else:
            queues = allocate(queues, ids, client_id, strategy)
    assignments = [
        {"messageQueue": queue.members(), "mode": mode.mode, "attachments": None}
        for queue in queues
    ]
    return request.command.reply(body=fastjson.dumps({"messageQueueAssignments": assignments}))


def allocate(
    queues: list[MessageQueue], ids: list[str], client_id: str, strategy: str
) -> list[MessageQueue]:
    """This client's part of the sorted queues; none for a client that is no member."""
    if client_id not in ids:
        return []
    position = ids.index(client_id)
    if strategy == "AVG_BY_CIRCLE":
        return queues[position :: len(ids)]
    each, left_over = divmod(len(queues), len(ids))
    start = position * each + min(position, left_over)
    return queues[start : start + each + (1 if position < left_over else 0)]


def allocate_popping(
    queues: list[MessageQueue], ids: list[str], client_id: str, strategy: str, neighbours: int
) -> list[MessageQueue]:
    """The queues that a member pops from, by Java's rules, which let queues have several owners."""
    if neighbours <= 0 or neighbours >= len(ids) - 1:
        names_of = sorted({queue.broker_name for queue in queues})
        return [MessageQueue(queues[0].topic, name, ALL_QUEUES) for name in names_of]
    if client_id not in ids:
        return []
    position = ids.index(client_id)
    if len(ids) > len(queues):
        return queues[position % len(queues) :][:1]
    owners = [ids[(position + n) % len(ids)] for n in range(neighbours + 1)]
    return [queue for owner in owners for queue in allocate(queues, ids, owner, strategy)]


async def set_request_mode(context: Context, request: Request) -> Reply:
    body = request.json_body()
    topic = check_topic(text_member(body, "topic"))
    if topic.startswith(names.RETRY_PREFIX):
        raise Refusal(ResponseCode.NO_PERMISSION, "retry topics are always pulled")
    context.topics.require(topic)
    group = check_group(text_member(body, "consumerGroup"))
    context.groups.require(group)
    mode = text_member(body, "mode", PULL)
    if mode not in (PULL, POP):
        raise Refusal(
            ResponseCode.INVALID_PARAMETER, f"mode {mode[:50]!r}: there is PULL and there is POP"
        )
    neighbours = body.get("popShareQueueNum", 0)
    if not isinstance(neighbours, int) or not -(2**31) <= neighbours < 2**31:
        raise Refusal(ResponseCode.INVALID_PARAMETER, "popShareQueueNum is no whole number")
    await context.request_modes.set(topic, group, mode, neighbours)
    return request.command.reply()


def get_request_modes(context: Context, request: Request) -> Reply:
    return request.command.reply(body=fastjson.dumps(context.request_modes.members()))


HANDLERS: dict[int, Handler[Context]] = {
    Code.QUERY_ASSIGNMENT: query_assignment,
    Code.SET_MESSAGE_REQUEST_MODE: set_request_mode,
    Code.GET_ALL_MESSAGE_REQUEST_MODE: get_request_modes,
}
