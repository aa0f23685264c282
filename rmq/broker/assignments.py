"""Handlers of server-side assignment: 400 query, 401 set mode, 402 all modes.

A 5.x consumer with clientRebalance=false asks which queues are its own. Answered is the share of
this broker's queues of the topic, by one of two strategies over the sorted queues and client ids:

    AVG            neighbours: 5 queues, 2 clients -> 0 1 2 | 3 4
    AVG_BY_CIRCLE  in turn:                        -> 0 2 4 | 1 3

The mode is always PULL: POP is a later piece, so 401 with mode POP is refused with 16 instead of
being promised. Modes set to PULL are the default and need no file.
"""

import logging
from typing import TYPE_CHECKING

from rmq.broker import names
from rmq.broker.request import Refusal, Reply, Request, text_member
from rmq.broker.topic_config import PERM_READ
from rmq.codes import ResponseCode
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue

if TYPE_CHECKING:
    from rmq.broker.broker import Broker

log = logging.getLogger("rmq.broker.assignments")


def query_assignment(broker: "Broker", request: Request) -> Reply:
    body = request.json_body()
    topic_name = names.check_topic(text_member(body, "topic"))
    group = names.check_group(text_member(body, "consumerGroup"))
    client_id = text_member(body, "clientId")
    broadcasting = text_member(body, "messageModel", "CLUSTERING") == "BROADCASTING"
    strategy = text_member(body, "strategyName", "AVG")
    topic = broker.topics.get(topic_name)
    if topic is None or not topic.perm & PERM_READ:
        return request.command.reply(body=b"{}")  # null: the client keeps what it has
    queues = [
        MessageQueue(topic_name, broker.settings.brokerName, queue_id)
        for queue_id in range(topic.read_queues)
    ]
    if not broadcasting:
        members = broker.consumers.get(group)
        if members is None or strategy not in ("AVG", "AVG_BY_CIRCLE"):
            return request.command.reply(body=b"{}")
        ids = sorted({client.client_id for client in members.clients.values()})
        queues = share(queues, ids, client_id, strategy)
    assignments = [
        {"messageQueue": queue.members(), "mode": "PULL", "attachments": None} for queue in queues
    ]
    return request.command.reply(body=fastjson.dumps({"messageQueueAssignments": assignments}))


def share(
    queues: list[MessageQueue], ids: list[str], client_id: str, strategy: str
) -> list[MessageQueue]:
    """This client's part of the sorted queues; nothing for a client that is no member."""
    if client_id not in ids:
        return []
    position = ids.index(client_id)
    if strategy == "AVG_BY_CIRCLE":
        return queues[position :: len(ids)]
    each, left_over = divmod(len(queues), len(ids))
    start = position * each + min(position, left_over)
    return queues[start : start + each + (1 if position < left_over else 0)]


def set_request_mode(broker: "Broker", request: Request) -> Reply:
    body = request.json_body()
    topic = names.check_topic(text_member(body, "topic"))
    if topic.startswith(names.RETRY_PREFIX):
        raise Refusal(ResponseCode.NO_PERMISSION, "retry topics are always pulled")
    broker.topics.require(topic)
    broker.groups.require(names.check_group(text_member(body, "consumerGroup")))
    mode = text_member(body, "mode", "PULL")
    if mode != "PULL":
        raise Refusal(
            ResponseCode.NO_PERMISSION,
            f"mode {mode[:50]!r}: this version of rmq serves mode PULL only",
        )
    return request.command.reply()


def get_request_modes(broker: "Broker", request: Request) -> Reply:
    return request.command.reply(body=fastjson.dumps({"messageRequestModeMap": {}}))
