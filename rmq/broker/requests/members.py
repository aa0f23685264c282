"""Members: handlers that show who is connected: 203, 204, 300, 328, 343, 345.

Example: 203 for group "g" with one Java consumer answers

    {"connectionSet":[{"clientAddr":"10.0.0.9:50312","clientId":"10.0.0.9@123#4",
     "language":"JAVA","version":513}],"consumeFromWhere":..,"consumeType":..,
     "messageModel":..,"subscriptionTable":{"t":{..}}}

and 206 without a connected consumer. On a machine of several shards 203 and 204 list the clients of
all shards: most clients are connected to each shard, but a new client may not be yet.
"""

from typing import Any, Protocol

from rmq.broker.clients.consumers import ConsumerGroup, ConsumerTable
from rmq.broker.clients.producers import ProducerTable
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.json_members import list_member, text_member
from rmq.broker.name_checks import check_group, check_topic
from rmq.broker.siblings import Siblings
from rmq.broker.tables.offsets import OffsetTable
from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.format import fastjson
from rmq.refusal import Refusal


class Context(Protocol):
    """What these handlers use of the broker."""

    consumers: ConsumerTable
    offsets: OffsetTable
    producers: ProducerTable
    siblings: Siblings

    @property
    def address(self) -> str: ...


async def get_consumer_connections(context: Context, request: Request) -> Reply:
    name = request.command.require("consumerGroup")
    group = context.consumers.get(name)
    bodies = [] if group is None else [_online(group)]
    bodies += await _of_siblings(context, request)
    if not bodies:
        raise Refusal(
            ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name[:300]}] is not online"
        )
    body = {**bodies[0], "connectionSet": _connections(bodies)}
    return request.command.reply(body=fastjson.dumps(body))


def _online(group: ConsumerGroup) -> dict[str, Any]:
    return {
        "connectionSet": [client.members() for client in group.clients.values()],
        "consumeFromWhere": group.consume_from_where,
        "consumeType": group.consume_type,
        "messageModel": group.message_model,
        "subscriptionTable": {
            topic: subscription.members() for topic, subscription in group.subscriptions.items()
        },
    }


async def _of_siblings(context: Context, request: Request) -> list[dict[str, Any]]:
    """The bodies of the other shards' answers to the same request, without failed ones."""
    if request.of_sibling:
        return []
    bodies = []
    for reply in await context.siblings.ask(request.command):
        if reply.code == ResponseCode.SUCCESS and reply.body:
            bodies.append(fastjson.loads_object(reply.body))
    return bodies


def _connections(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each client once, as in the first body that has it."""
    found: dict[str, dict[str, Any]] = {}
    for body in bodies:
        for each in list_member(body, "connectionSet"):
            found.setdefault(text_member(each, "clientId"), each)
    return list(found.values())


async def get_producer_connections(context: Context, request: Request) -> Reply:
    name = request.command.require("producerGroup")
    own = [client.members() for client in context.producers.clients(name)]
    connections = _connections([{"connectionSet": own}, *await _of_siblings(context, request)])
    if not connections:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the producer group[{name[:300]}] is not online")
    return request.command.reply(body=fastjson.dumps({"connectionSet": connections}))


def get_all_producers(context: Context, request: Request) -> Reply:
    data = {
        group: [
            {
                "clientId": client.client_id,
                "remoteIP": client.connection.address,
                "language": client.language,
                "version": client.version,
                "lastUpdateTimestamp": client.seen_ms,
            }
            for client in clients
        ]
        for group, clients in context.producers.groups().items()
    }
    return request.command.reply(body=fastjson.dumps({"data": data}))


def query_groups_of_topic(context: Context, request: Request) -> Reply:
    topic = check_topic(request.command.require("topic"))
    groups = set(context.consumers.groups_subscribing(topic))
    groups.update(context.offsets.groups_of(topic))
    return request.command.reply(body=fastjson.dumps({"groupList": groups}))


def query_topics_of_group(context: Context, request: Request) -> Reply:
    group = check_group(request.command.require("group"))
    body = {"brokerAddr": context.address, "topicList": context.offsets.topics_of(group)}
    return request.command.reply(body=fastjson.dumps(body))


def query_subscription(context: Context, request: Request) -> Reply:
    command = request.command
    group = check_group(command.require("group"))
    topic = command.require("topic")
    subscription = context.consumers.subscription(group, topic)
    body = {
        "group": group,
        "topic": topic,
        "subscriptionData": subscription.members() if subscription is not None else None,
    }
    return command.reply(body=fastjson.dumps(body))


HANDLERS: dict[int, Handler[Context]] = {
    Code.GET_CONSUMER_CONNECTION_LIST: get_consumer_connections,
    Code.GET_PRODUCER_CONNECTION_LIST: get_producer_connections,
    Code.GET_ALL_PRODUCER_INFO: get_all_producers,
    Code.QUERY_TOPIC_CONSUME_BY_WHO: query_groups_of_topic,
    Code.QUERY_TOPICS_BY_CONSUMER: query_topics_of_group,
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: query_subscription,
}
