"""Handlers that show who is connected: 203, 204, 300, 328, 343, 345.

Example: 203 for group "g" with one Java consumer answers

    {"connectionSet":[{"clientAddr":"10.0.0.9:50312","clientId":"10.0.0.9@123#4",
     "language":"JAVA","version":513}],"consumeFromWhere":..,"consumeType":..,
     "messageModel":..,"subscriptionTable":{"t":{..}}}

and without a connected consumer 206.
"""

from typing import TYPE_CHECKING

from rmq.broker import names
from rmq.broker.request import Refusal, Reply, Request
from rmq.codes import ResponseCode
from rmq.format import fastjson

if TYPE_CHECKING:
    from rmq.broker.broker import Broker


def get_consumer_connections(broker: "Broker", request: Request) -> Reply:
    name = request.command.require("consumerGroup")
    group = broker.consumers.get(name)
    if group is None:
        raise Refusal(
            ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name[:300]}] is not online"
        )
    body = {
        "connectionSet": [client.members() for client in group.clients.values()],
        "consumeFromWhere": group.consume_from_where,
        "consumeType": group.consume_type,
        "messageModel": group.message_model,
        "subscriptionTable": {
            topic: subscription.members() for topic, subscription in group.subscriptions.items()
        },
    }
    return request.command.reply(body=fastjson.dumps(body))


def get_producer_connections(broker: "Broker", request: Request) -> Reply:
    name = request.command.require("producerGroup")
    clients = broker.producers.clients(name)
    if not clients:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the producer group[{name[:300]}] is not online")
    body = {"connectionSet": [client.members() for client in clients]}
    return request.command.reply(body=fastjson.dumps(body))


def get_all_producers(broker: "Broker", request: Request) -> Reply:
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
        for group, clients in broker.producers.groups().items()
    }
    return request.command.reply(body=fastjson.dumps({"data": data}))


def query_groups_of_topic(broker: "Broker", request: Request) -> Reply:
    topic = names.check_topic(request.command.require("topic"))
    groups = set(broker.consumers.groups_subscribing(topic))
    groups.update(broker.offsets.groups_of(topic))
    return request.command.reply(body=fastjson.dumps({"groupList": groups}))


def query_topics_of_group(broker: "Broker", request: Request) -> Reply:
    group = names.check_group(request.command.require("group"))
    body = {"brokerAddr": broker.address, "topicList": broker.offsets.topics_of(group)}
    return request.command.reply(body=fastjson.dumps(body))


def query_subscription(broker: "Broker", request: Request) -> Reply:
    command = request.command
    group = names.check_group(command.require("group"))
    topic = command.require("topic")
    subscription = broker.consumers.subscription(group, topic)
    body = {
        "group": group,
        "topic": topic,
        "subscriptionData": subscription.members() if subscription is not None else None,
    }
    return command.reply(body=fastjson.dumps(body))
