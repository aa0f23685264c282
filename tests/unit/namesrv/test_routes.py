"""Goal: routes and lists are answered byte for byte as Java's and Go's clients read them.

Method: brokers register over a socket, clients of several versions ask; bytes are compared whole.
Not shown here: that the clients do read them; the compat tests run them.
"""

import json

import pytest
from support.name_server import Client, in_loop, name_server, topic_config

QUEUES = (
    b'"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,'
    b'"topicSysFlag":0,"writeQueueNums":4}]}'
)


def brokers(quote: bytes) -> bytes:
    key0, key1 = quote + b"0" + quote, quote + b"1" + quote
    return (
        b'{"brokerDatas":[{"brokerAddrs":{' + key0 + b':"10.0.0.1:10911",' + key1 + b':"h2:1"},'
        b'"brokerName":"broker-a","cluster":"C","enableActingMaster":false}],'
    )


@pytest.mark.parametrize(
    ("version", "fields", "quote"),
    [
        (399, {}, b""),
        (317, {}, b""),  # the Go client
        (401, {}, b'"'),
        (513, {}, b'"'),
        (317, {"acceptStandardJsonOnly": True}, b'"'),
        (317, {"acceptStandardJsonOnly": False}, b""),
    ],
)
@in_loop
async def test_broker_ids_are_bare_for_old_clients_and_quoted_for_new_ones(
    version: int, fields: dict[str, bool], quote: bytes
) -> None:
    async with name_server() as server, Client(server.port, version) as client:
        await client.register()
        await client.register(address="h2:1", broker_id=1)
        reply = await client.call(105, topic="T", **fields)
        assert reply.code == 0
        assert reply.body == brokers(quote) + QUEUES


@pytest.mark.parametrize("serialize_type", [0, 1])
@in_loop
async def test_an_unknown_topic_is_not_found(serialize_type: int) -> None:
    async with (
        name_server() as server,
        Client(server.port, serialize_type=serialize_type) as client,
    ):
        reply = await client.call(105, topic="T")
        assert reply.code == 17
        assert reply.remark == "No topic route info in name server for the topic: T"
        assert reply.serialize_type == serialize_type
        assert (await client.call(105)).remark == "field topic is missing from request 105"


@in_loop
async def test_two_brokers_of_a_topic_are_both_in_its_route() -> None:
    async with name_server() as server, Client(server.port) as client:
        await client.register(name="b2", address="h2:1", cluster="D")
        await client.register(name="b1", address="h1:1")
        route = json.loads((await client.call(105, topic="T")).body)
        assert [data["brokerName"] for data in route["brokerDatas"]] == ["b1", "b2"]
        assert [data["brokerName"] for data in route["queueDatas"]] == ["b1", "b2"]
        info = json.loads((await client.call(106)).body.replace(b"{0:", b'{"0":'))
        assert info["clusterAddrTable"] == {"C": ["b1"], "D": ["b2"]}
        assert info["brokerAddrTable"]["b2"]["brokerAddrs"] == {"0": "h2:1"}


@in_loop
async def test_a_client_of_a_zone_sees_its_zone_and_groups_without_master() -> None:
    async with name_server() as server, Client(server.port) as client:
        await client.register(name="here", address="h1:1", __ZONE_NAME="Z1")
        await client.register(name="there", address="h2:1", __ZONE_NAME="Z2")
        await client.register(
            name="slave", address="h3:1", broker_id=1, __ZONE_NAME="Z2", enableActingMaster=True
        )
        reply = await client.call(105, topic="T", __ZONE_MODE=True, __ZONE_NAME="z1")
        route = json.loads(reply.body)
        assert [data["brokerName"] for data in route["brokerDatas"]] == ["here", "slave"]
        assert [data["brokerName"] for data in route["queueDatas"]] == ["here", "slave"]
        assert route["brokerDatas"][0]["zoneName"] == "Z1"
        everything = json.loads((await client.call(105, topic="T", __ZONE_NAME="z1")).body)
        assert len(everything["brokerDatas"]) == 3


@in_loop
async def test_a_slave_acts_as_master_when_told_to() -> None:
    async with name_server() as server, Client(server.port) as client:
        await client.register(broker_id=2, enableActingMaster=True)
        plain = json.loads((await client.call(105, topic="T")).body)
        assert plain["brokerDatas"][0]["brokerAddrs"] == {"2": "10.0.0.1:10911"}
        assert (await client.call(318, b"supportActingMaster=true")).code == 0
        acting = json.loads((await client.call(105, topic="T")).body)
        assert acting["brokerDatas"][0]["brokerAddrs"] == {"0": "10.0.0.1:10911"}
        assert acting["queueDatas"][0]["perm"] == 4
        group = await client.call(901, clusterName="C", brokerName="broker-a")
        assert b'"brokerAddrs":{2:"10.0.0.1:10911"}' in group.body


@in_loop
async def test_order_configuration_is_shown_when_enabled() -> None:
    async with name_server() as server, Client(server.port) as client:
        await client.register()
        order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "broker-a:4"}
        await client.call(100, **order)
        assert b"orderTopicConf" not in (await client.call(105, topic="T")).body
        await client.call(318, b"orderMessageEnable=true\n")
        route = json.loads((await client.call(105, topic="T")).body)
        assert route["orderTopicConf"] == "broker-a:4"
        reply = await client.register()
        assert reply.body == b'{"table":{"T":"broker-a:4"}}'
        await client.call(318, b"returnOrderTopicConfigToBroker=false\n")
        assert (await client.register()).body == b""


@in_loop
async def test_filter_servers_and_queue_maps_are_in_the_route() -> None:
    queue_map = {"bname": "broker-a", "currIdMap": {"0": 1}, "topic": "T", "totalQueues": 2}
    body = {
        "filterServerList": ["f:1"],
        "topicConfigSerializeWrapper": {
            "dataVersion": {"counter": 1},
            "topicConfigTable": {t: topic_config(t, 4) for t in ("T", "U")},
            "topicQueueMappingInfoMap": {"T": queue_map},
        },
    }
    async with name_server() as server, Client(server.port) as client:
        await client.register(body=json.dumps(body).encode())
        route = json.loads((await client.call(105, topic="T")).body)
        assert route["filterServerTable"] == {"10.0.0.1:10911": ["f:1"]}
        assert route["topicQueueMappingByBroker"] == {"broker-a": queue_map}
        assert "topicQueueMappingByBroker" not in json.loads(
            (await client.call(105, topic="U")).body
        )


@in_loop
async def test_lists_of_topics() -> None:
    flags = {f"T{flag}": {"topicSysFlag": flag} for flag in range(4)}
    async with name_server() as server, Client(server.port) as client:
        assert (await client.call(206)).body == b'{"topicList":[]}'
        assert (await client.call(304)).body == b'{"topicList":[]}'
        await client.register(flags)
        assert (await client.call(206)).body == b'{"topicList":["T0","T1","T2","T3"]}'
        assert (await client.call(224, cluster="C")).body == b'{"topicList":["T0","T1","T2","T3"]}'
        assert (await client.call(224, cluster="D")).body == b'{"topicList":[]}'
        assert (await client.call(311)).body == b'{"topicList":["T1","T3"]}'
        assert (await client.call(312)).body == b'{"topicList":["T2","T3"]}'
        assert (await client.call(313)).body == b'{"topicList":["T2"]}'
        assert (
            await client.call(304)
        ).body == b'{"brokerAddr":"10.0.0.1:10911","topicList":["C","broker-a"]}'
        await client.call(318, b"enableTopicList=false\nenableAllTopicList=false")
        for code in (206, 224, 311, 312, 313):
            reply = await client.call(code, cluster="C")
            assert (reply.code, reply.remark) == (1, "disable")


@in_loop
async def test_a_name_server_may_keep_clients_waiting_until_brokers_have_registered() -> None:
    async with (
        name_server(needWaitForService=True, waitSecondsForService=60) as server,
        Client(server.port) as client,
    ):
        await client.register()
        reply = await client.call(105, topic="T")
        assert (reply.code, reply.remark) == (1, "name server not ready")
        await client.call(318, b"waitSecondsForService=0")
        assert (await client.call(105, topic="T")).code == 0
