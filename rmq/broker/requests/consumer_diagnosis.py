"""Consumer diagnosis: 307 running info, 309 consume directly (both forwarded), 223 status.

    307, 309   go to the group's member with the given client id, for 10 s; its reply is passed back
    223        sends 221 to every member (or the one named), 5 s each, all at once; merges replies

Example: 307 for a client that is not connected is answered with 1; for a silent client, with 207.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Protocol

from rmq.auth.permissions import SUB
from rmq.broker.access import Access
from rmq.broker.clients.broker_to_client import BrokerToClient, CallTimeout, ClientGone
from rmq.broker.clients.client import Client
from rmq.broker.clients.consumers import ConsumerTable
from rmq.broker.core_seam import LogCalls
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.siblings import Siblings
from rmq.broker.tables.groups import GroupTable
from rmq.broker.tables.topics import TopicTable
from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.config import Settings
from rmq.errors import ProtocolError
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.format.message import decode_message_id
from rmq.format.remoting import Command
from rmq.format.signature import without_asker
from rmq.refusal import Refusal

log = logging.getLogger("rmq.broker.consumer_diagnosis")

FORWARD_TIMEOUT_S = 10.0
STATUS_TIMEOUT_S = 5.0
VERSION_FORWARD_MIN = 62  # V3_1_8_SNAPSHOT
VERSION_NOTICE_MIN = 28  # V3_0_7_SNAPSHOT
MEMBERS_MAX = 1000  # how many members one 223 may ask


class Context(Protocol):
    """What these handlers use of the broker."""

    access: Access
    broker_to_client: BrokerToClient
    consumers: ConsumerTable
    groups: GroupTable
    settings: Settings
    siblings: Siblings
    topics: TopicTable

    @property
    def core(self) -> LogCalls: ...


def get_running_info(context: Context, request: Request) -> Awaitable[Reply]:
    command = request.command
    return _forward(context, request, command.fields, command.body)


def consume_directly(context: Context, request: Request) -> Awaitable[Reply]:
    command = request.command
    if request.of_sibling:  # the other shard has already found the message
        return _forward(context, request, command.fields, command.body)
    fields = {**command.fields, "brokerName": context.settings.brokerName}
    topic = context.topics.get(command.text_field("topic") or "")
    if topic is not None:
        fields["topicSysFlag"] = str(topic.sys_flag)
    group = context.groups.get(command.require("consumerGroup"))
    if group is not None:
        fields["groupSysFlag"] = str(group.sys_flag)
    _, offset = decode_message_id(command.require("msgId"))
    record = context.core.read_record(offset)
    if record is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no message starts at offset {offset}")
    context.access.require_record(request.asker, record, SUB)
    return _forward(context, request, fields, record)


async def _forward(
    context: Context, request: Request, fields: dict[str, str], body: bytes
) -> Reply:
    command = request.command
    group, client_id = command.require("consumerGroup"), command.require("clientId")
    members = context.consumers.get(group)
    client = members.find(client_id) if members is not None else None
    if client is None:
        found = await _from_sibling(context, request, fields, body)
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
    call = Command(code=command.code, fields=without_asker(fields), body=body)
    try:
        answer = await context.broker_to_client.call(client.connection, call, FORWARD_TIMEOUT_S)
    except CallTimeout as error:
        raise Refusal(ResponseCode.CONSUME_MSG_TIMEOUT, f"timeout: {error}") from None
    except ClientGone as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from None
    reply = command.reply(remark=answer.remark, fields=answer.fields, body=answer.body)
    reply.code = answer.code
    return reply


async def _from_sibling(
    context: Context, request: Request, fields: dict[str, str], body: bytes
) -> Command | None:
    """The reply of the shard that the client is connected to; None when there is none."""
    command = request.command
    if request.of_sibling:
        return None
    call = Command(
        code=command.code, opaque=command.opaque, fields=without_asker(fields), body=body,
        serialize_type=command.serialize_type,
    )  # fmt: skip
    for reply in await context.siblings.ask(call):
        if reply.code != ResponseCode.SYSTEM_ERROR:
            return reply
    return None


async def get_consumer_status(context: Context, request: Request) -> Reply:
    command = request.command
    topic, group = command.require("topic"), command.require("group")
    wanted = (command.text_field("clientAddr") or "").strip()
    members = context.consumers.get(group)
    if members is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no consumer of group {group[:300]} is online")
    clients = [c for c in members.clients.values() if wanted in ("", c.client_id)][:MEMBERS_MAX]
    for client in clients:
        refuse_old(client)
    answers = await asyncio.gather(*(_status(context, client, topic, group) for client in clients))
    table = {
        client.client_id: offsets
        for client, offsets in zip(clients, answers, strict=True)
        if offsets is not None
    }
    return command.reply(body=fastjson.dumps({"consumerTable": table}))


async def _status(
    context: Context, client: Client, topic: str, group: str
) -> dict[MessageQueue, int] | None:
    call = Command(
        code=Code.GET_CONSUMER_STATUS_FROM_CLIENT, fields={"topic": topic, "group": group}
    )
    try:
        answer = await context.broker_to_client.call(client.connection, call, STATUS_TIMEOUT_S)
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


def refuse_old(client: Client) -> None:
    if client.version < VERSION_NOTICE_MIN:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"the client {client.client_id[:300]} of version {client.version} is too old for this",
        )


HANDLERS: dict[int, Handler[Context]] = {
    Code.GET_CONSUMER_RUNNING_INFO: get_running_info,
    Code.CONSUME_MESSAGE_DIRECTLY: consume_directly,
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: get_consumer_status,
}
