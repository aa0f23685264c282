"""Reply messages: a consumer's answer (324, 325) goes to the producer of the request (326).

The reactor does this by itself (cext/flow/request_reply/reply_push.pxd) and passes on special
cases: a producer that is not connected here, a topic that is not known, a request that must be
refused, a batch.

    request    an ordinary message with CORRELATION_ID, REPLY_TO_CLIENT (a client id) and TTL
    reply      324 / 325 with the fields of a send, to <cluster>_REPLY_TOPIC
               -> 326 to a connection of the producer REPLY_TO_CLIENT, with PUSH_REPLY_TIME; 10 s
               -> stored in its topic as well, unless storeReplyMessageEnable=false

The answer to 324 says whether the push succeeded: code 0, or 1 with the reason; msgId, queueId and
queueOffset are those of the stored message ("0" and 0 when it is not stored). On a machine of
several shards the producer may be connected to another shard: all are asked, and the first one that
has pushed the reply is enough.

Example: a reply to a client that has left meanwhile is stored and answered with 1.
"""

from typing import Any, Protocol

from rmq import names
from rmq.base.clock import now_ms
from rmq.broker.clients.broker_to_client import BrokerToClient, CallTimeout, ClientGone
from rmq.broker.clients.producers import ProducerTable
from rmq.broker.core_seam import ConnectionCalls, LogCalls
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.name_checks import check_topic
from rmq.broker.replication.replication import Replication
from rmq.broker.requests.sends import SendHeader, check_broker, check_sizes, spelling
from rmq.broker.siblings import Siblings
from rmq.broker.store.durability import durable
from rmq.broker.tables.delay_levels import HOST_FLAGS
from rmq.broker.tables.topic_config import TopicConfig
from rmq.broker.tables.topics import TopicTable
from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.config import Settings
from rmq.errors import StoreError
from rmq.format.message import Host, encode_host, encode_message_id, encode_properties
from rmq.format.remoting import Command
from rmq.limits import I32_MAX, I32_MIN
from rmq.refusal import Refusal

PUSH_TIMEOUT_S = 10.0
_FORWARDED = (
    "producerGroup",
    "topic",
    "defaultTopic",
    "defaultTopicQueueNums",
    "queueId",
    "sysFlag",
    "bornTimestamp",
    "flag",
    "reconsumeTimes",
    "unitMode",
)


class CoreCalls(ConnectionCalls, LogCalls, Protocol):
    """What is used here of the core."""


class Context(Protocol):
    """What these handlers use of the broker."""

    broker_to_client: BrokerToClient
    producers: ProducerTable
    replication: Replication
    settings: Settings
    siblings: Siblings
    topics: TopicTable

    @property
    def core(self) -> CoreCalls: ...

    @property
    def address(self) -> str: ...


async def send_reply(context: Context, request: Request) -> Reply:
    command = request.command
    header = SendHeader.of(command)
    check_broker(context, header)
    topic = context.topics.require(check_topic(header.topic))
    if topic.name in names.CLOSED_TO_CLIENTS or names.is_inner(topic.name):
        raise Refusal(
            ResponseCode.NO_PERMISSION, f"sending to topic[{header.topic}] is not allowed"
        )
    if header.queue_id >= topic.queues:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"queueId {header.queue_id} is illegal: topic[{topic.name}] has {topic.queues} queues",
        )
    check_sizes(context, command, header)
    failure = await _push(context, request, header)
    if request.of_sibling:
        return command.reply(ResponseCode.SYSTEM_ERROR if failure else 0, failure)
    queue_id = max(0, header.queue_id)
    fields: dict[str, Any] = {"msgId": "0", "queueId": queue_id, "queueOffset": 0}
    if context.settings.storeReplyMessageEnable:
        fields.update(_store(context, request, header, topic, queue_id))
    fields["MSG_REGION"] = context.settings.regionId
    fields["TRACE_ON"] = context.settings.traceOn
    if failure:
        return command.reply(ResponseCode.SYSTEM_ERROR, failure, fields)
    if fields["msgId"] == "0":
        return command.reply(fields=fields)
    code, remark = await durable(context)
    return command.reply(code, remark, fields)


async def _push(context: Context, request: Request, header: SendHeader) -> str | None:
    """Pushes the reply; returns why the producer did not get it, or None."""
    properties = header.found()
    client_id = properties.get("REPLY_TO_CLIENT")
    if not client_id:
        return "the reply's property REPLY_TO_CLIENT is missing: nobody to push it to"
    client = context.producers.find(client_id)
    if client is None:
        if not request.of_sibling:
            copy, born_host = _copy(request.command), request.connection.address
            for reply in await context.siblings.ask(copy, born_host):
                if reply.code == ResponseCode.SUCCESS:
                    return None
        return f"push reply message fail, channel of <{client_id[:300]}> not found."
    call = _call(context, request, {**properties, "PUSH_REPLY_TIME": str(now_ms())})
    try:
        answer = await context.broker_to_client.call(client.connection, call, PUSH_TIMEOUT_S)
    except (CallTimeout, ClientGone) as error:
        return f"push reply message to {client_id[:300]} fail: {error}"
    if answer.code != ResponseCode.SUCCESS:
        return f"push reply message to {client_id[:300]} fail: {answer.remark}"
    return None


def _call(context: Context, request: Request, properties: dict[str, str]) -> Command:
    command = request.command
    fields = {
        name: value
        for name in _FORWARDED
        if (value := command.text_field(spelling(command, name))) is not None
    }
    fields["properties"] = encode_properties(properties).decode("utf-8", "replace")
    fields["bornHost"] = request.connection.address
    fields["storeHost"] = context.address
    fields["storeTimestamp"] = str(now_ms())
    return Command(code=Code.PUSH_REPLY_MESSAGE_TO_CLIENT, fields=fields, body=command.body)


def _copy(command: Command) -> Command:
    return Command(
        code=command.code, opaque=command.opaque, fields=dict(command.fields), body=command.body,
        serialize_type=command.serialize_type,
    )  # fmt: skip


def _store(
    context: Context, request: Request, header: SendHeader, topic: TopicConfig, queue_id: int
) -> dict[str, Any]:
    """Stores the reply; returns where it is, or nothing when the log does not take it, in which
    case it is pushed nevertheless."""
    command = request.command
    number = {
        name: command.int_field(spelling(command, name), 0, I32_MIN, I32_MAX)
        for name in ("flag", "sysFlag")
    }
    try:
        physical, offset = context.core.append(
            topic.name.encode(),
            queue_id,
            command.body,
            header.properties.encode("utf-8", "replace"),
            number["flag"],
            number["sysFlag"] & ~HOST_FLAGS,
            command.int_field(spelling(command, "bornTimestamp")),
            encode_host(_host(request.connection.address)),
            header.reconsume_times,
            0,
        )
    except StoreError:
        return {}
    store_host = Host(context.settings.brokerIP1, context.core.port)
    return {
        "msgId": encode_message_id(store_host, physical),
        "queueId": queue_id,
        "queueOffset": offset,
    }


def _host(address: str) -> Host:
    ip, _, port = address.rpartition(":")
    return Host(ip.strip("[]"), int(port))


HANDLERS: dict[int, Handler[Context]] = {
    Code.SEND_REPLY_MESSAGE: send_reply,
    Code.SEND_REPLY_MESSAGE_V2: send_reply,
}
