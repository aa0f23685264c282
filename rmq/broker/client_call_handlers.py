"""Handlers that ask or tell clients: 307, 309 (forwarded), 222 reset offsets, 223 consumer status.

    307, 309   to the member of the group with the asked client id, 10 s; its reply comes back as is
    223        221 to every member (or the asked one), 5 s each, all at once; replies merged
    222        offsets searched by time, stored at once, then 220 one-way to every member

222 works for a group without connected consumers too. Apache 5.x also makes the next pull of each
queue answer 21; here connected consumers are told by 220, which all clients since 3.0.7 know.

Example: 307 for a client that is not connected is answered with 1, one that stays silent with 207.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from rmq.broker import names
from rmq.broker.client_calls import CallTimeout, ClientGone
from rmq.broker.producers import Client
from rmq.broker.request import Refusal, Reply, Request
from rmq.broker.topic_config import TopicConfig
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ProtocolError
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.format.message import decode_message_id
from rmq.format.remoting import Command

if TYPE_CHECKING:
    from rmq.broker.broker import Broker

log = logging.getLogger("rmq.broker.client_calls")

FORWARD_TIMEOUT_S = 10.0
STATUS_TIMEOUT_S = 5.0
VERSION_FORWARD_MIN = 62  # V3_1_8_SNAPSHOT
VERSION_RESET_MIN = 28  # V3_0_7_SNAPSHOT
MEMBERS_MAX = 1000  # asked by one 223


def get_running_info(broker: "Broker", request: Request) -> Awaitable[Reply]:
    command = request.command
    return _forward(broker, request, command.fields, command.body)


def consume_directly(broker: "Broker", request: Request) -> Awaitable[Reply]:
    command = request.command
    if request.of_sibling:  # it found the message already
        return _forward(broker, request, command.fields, command.body)
    fields = {**command.fields, "brokerName": broker.settings.brokerName}
    topic = broker.topics.get(command.text_field("topic") or "")
    if topic is not None:
        fields["topicSysFlag"] = str(topic.sys_flag)
    group = broker.groups.get(command.require("consumerGroup"))
    if group is not None:
        fields["groupSysFlag"] = str(group.sys_flag)
    _, offset = decode_message_id(command.require("msgId"))
    record = broker.core.read_record(offset)
    if record is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no message starts at offset {offset}")
    return _forward(broker, request, fields, record)


async def _forward(
    broker: "Broker", request: Request, fields: dict[str, str], body: bytes
) -> Reply:
    command = request.command
    group, client_id = command.require("consumerGroup"), command.require("clientId")
    members = broker.consumers.get(group)
    client = members.find(client_id) if members is not None else None
    if client is None:
        found = await _from_sibling(broker, request, fields, body)
        if found is not None:
            return found
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"the consumer <{group[:300]}> <{client_id[:300]}> is not online",
        )
    if client.version < VERSION_FORWARD_MIN:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"the consumer <{client_id[:300]}> of version {client.version} is too old for this",
        )
    call = Command(code=command.code, fields=dict(fields), body=body)
    try:
        answer = await broker.client_calls.call(client.connection, call, FORWARD_TIMEOUT_S)
    except CallTimeout as error:
        raise Refusal(ResponseCode.CONSUME_MSG_TIMEOUT, f"timeout: {error}") from None
    except ClientGone as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from None
    reply = command.reply(remark=answer.remark, fields=answer.fields, body=answer.body)
    reply.code = answer.code
    return reply


async def _from_sibling(
    broker: "Broker", request: Request, fields: dict[str, str], body: bytes
) -> Command | None:
    """The reply of the shard that the client is connected to; None when there is none."""
    command = request.command
    if request.of_sibling:
        return None
    call = Command(
        code=command.code, opaque=command.opaque, fields=dict(fields), body=body,
        serialize_type=command.serialize_type,
    )  # fmt: skip
    for reply in await broker.siblings.ask(call):
        if reply.code != ResponseCode.SYSTEM_ERROR:
            return reply
    return None


async def get_consumer_status(broker: "Broker", request: Request) -> Reply:
    command = request.command
    topic, group = command.require("topic"), command.require("group")
    wanted = (command.text_field("clientAddr") or "").strip()
    members = broker.consumers.get(group)
    if members is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no consumer of group {group[:300]} is online")
    clients = [c for c in members.clients.values() if wanted in ("", c.client_id)][:MEMBERS_MAX]
    for client in clients:
        _refuse_old(client)
    answers = await asyncio.gather(*(_status(broker, client, topic, group) for client in clients))
    table = {
        client.client_id: offsets
        for client, offsets in zip(clients, answers, strict=True)
        if offsets is not None
    }
    return command.reply(body=fastjson.dumps({"consumerTable": table}))


async def _status(
    broker: "Broker", client: Client, topic: str, group: str
) -> dict[MessageQueue, int] | None:
    call = Command(
        code=RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, fields={"topic": topic, "group": group}
    )
    try:
        answer = await broker.client_calls.call(client.connection, call, STATUS_TIMEOUT_S)
        if answer.code != ResponseCode.SUCCESS or not answer.body:
            return None
        table = fastjson.loads_object(answer.body).get("messageQueueTable") or {}
    except (CallTimeout, ClientGone, ProtocolError) as error:
        log.warning("status of consumer %s: %s", client.client_id, error)
        return None
    if not isinstance(table, dict):
        return None
    return {
        queue: offset
        for queue, offset in table.items()
        if isinstance(queue, MessageQueue) and isinstance(offset, int)
    }


def reset_offset(broker: "Broker", request: Request) -> Reply:
    command = request.command
    topic = broker.topics.require(command.require("topic"))
    group = names.check_group(command.require("group"))
    broker.groups.require_present(group)
    command.require("isForce")
    time_ms = command.int_field("timestamp")
    members = broker.consumers.get(group)
    for client in members.clients.values() if members is not None else ():
        _refuse_old(client)
    table = _offsets_to_reset(broker, command, topic, time_ms)
    for queue_id, offset in table.items():
        broker.offsets.commit(group, topic.name, queue_id, offset)
    log.info("offsets of group %s on topic %s are reset: %s", group, topic.name, table)
    queues = {
        MessageQueue(topic.name, broker.settings.brokerName, queue_id): offset
        for queue_id, offset in table.items()
    }
    for client in members.clients.values() if members is not None else ():
        fields = {
            "topic": topic.name, "group": group, "timestamp": str(time_ms), "isForce": "true",
        }  # fmt: skip
        call = Command(
            code=RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
            fields=fields,
            body=_reset_body(client, queues),
        )
        broker.client_calls.one_way(client.connection, call)
    return command.reply(body=fastjson.dumps({"offsetTable": queues}))


def _offsets_to_reset(
    broker: "Broker", command: Command, topic: TopicConfig, time_ms: int
) -> dict[int, int]:
    """queue id -> new offset: as asked for one queue, by time for one or all."""
    queue_id = command.int_field("queueId", -1)
    asked = command.int_field("offset", -1)
    if queue_id >= topic.queues:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"queueId {queue_id}: topic {topic.name} has {topic.queues} queues",
        )
    if queue_id >= 0 and asked != -1:
        minimum, maximum = broker.queues.range(topic.name, queue_id)
        if not minimum <= asked <= maximum + 1:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"offset {asked} is outside {minimum}..{maximum} of queue {queue_id}",
            )
        return {queue_id: asked}
    chosen = [queue_id] if queue_id >= 0 else range(topic.read_queues)
    if not chosen:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"topic {topic.name} has no queue to reset")
    return {each: _offset_at(broker, topic.name, each, time_ms) for each in chosen}


def _offset_at(broker: "Broker", topic: str, queue_id: int, time_ms: int) -> int:
    if time_ms < 0:
        return broker.queues.range(topic, queue_id)[1]
    return broker.queues.search(topic, queue_id, time_ms)


def _reset_body(client: Client, queues: dict[MessageQueue, int]) -> bytes:
    """C++ clients read a list, all others the map."""
    if client.language != "CPP":
        return fastjson.dumps({"offsetTable": queues})
    rows: list[dict[str, Any]] = [
        {**queue.members(), "offset": offset} for queue, offset in queues.items()
    ]
    return fastjson.dumps({"offsetTable": rows})


def _refuse_old(client: Client) -> None:
    if client.version < VERSION_RESET_MIN:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"the client {client.client_id[:300]} of version {client.version} is too old for this",
        )
