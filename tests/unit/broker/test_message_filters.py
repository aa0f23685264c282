"""SQL92 filters, class filters and functions on the control side: what is accepted and told to the
reactor, and the codes and texts with which the rest is refused."""

from pathlib import Path

import pytest
from support.fake_core import FakeClient, control
from support.name_server import in_loop

from rmq.broker.broker import Broker
from rmq.broker.tables.topic_config import TopicConfig
from rmq.codes import RequestCode
from rmq.errors import ConfigError
from rmq.filters.sql92 import compile_expression
from rmq.format import fastjson
from rmq.format.remoting import Command

PULL = {
    "consumerGroup": "g", "topic": "t", "queueId": 0, "queueOffset": 0, "maxMsgNums": 32,
    "sysFlag": 2, "commitOffset": 0, "suspendTimeoutMillis": 15000, "subVersion": 5,
}  # fmt: skip
BROUGHT = {**PULL, "sysFlag": 4, "expressionType": "SQL92"}


async def subscribed(broker: Broker, expression: str, **change: object) -> FakeClient:
    """Makes topic t, and a member of group g that subscribes to it with this SQL92 expression."""
    await broker.topics.create(TopicConfig("t", 2, 2))
    client: FakeClient = broker.core.client()
    subscription = {
        "topic": "t", "subString": expression, "subVersion": 5, "expressionType": "SQL92", **change,
    }  # fmt: skip
    data = {"groupName": "g", "subscriptionDataSet": [subscription]}
    reply = await client.call(34, fastjson.dumps({"clientID": "c", "consumerDataSet": [data]}))
    assert reply.code == 0
    return client


def expect(reply: Command, code: int, *words: str) -> None:
    assert reply.code == code, reply.remark
    for word in words:
        assert word in (reply.remark or "")


@in_loop
async def test_the_reactor_is_told_the_program_of_a_registered_expression(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = await subscribed(broker, "a > 5")
        broker.core.subscriptions.clear()
        broker.core.programs.clear()
        client.put(11, **PULL)
        await broker.core.until(client.given_back)
        program = compile_expression("a > 5").program
        assert broker.core.programs[b"g", b"t"] == (program, 0)


@in_loop
async def test_the_reactor_is_told_the_program_of_an_expression_a_pull_brings(
    tmp_path: Path,
) -> None:
    async with control(tmp_path, rmqMessageFilters="x=a:b;vip=c:d") as broker:
        await broker.topics.create(TopicConfig("t", 2, 2))
        client = broker.core.client()
        client.put(11, **BROUGHT, subscription="a = 'é'")
        client.put(361, **BROUGHT, subscription="$filter = 'vip'")
        await broker.core.until(lambda: len(client.given_back()) == 2)
        assert broker.core.expressions == {
            "a = 'é'".encode(): (compile_expression("a = 'é'").program, 0),
            b"$filter = 'vip'": (compile_expression("TRUE").program, 2),
        }


@in_loop
async def test_wrong_expressions_are_refused_with_place_and_reason(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = await subscribed(broker, "a LIKE 'x'")
        expect(await client.call(11, **PULL), 27, "a LIKE 'x'", "character 3", "CONTAINS")
        expect(await client.call(11, **BROUGHT, subscription="a >"), 23, "character 4", "the end")
        expect(await client.call(11, **BROUGHT, subscription=""), 23, "character 1")
        expect(
            await client.call(11, **BROUGHT, subscription="a = '" + "x" * 10_000 + "'"), 23, "10000"
        )
        other = {**BROUGHT, "expressionType": "LUA", "subscription": "a"}
        expect(await client.call(11, **other), 23, "'LUA'", "TAG and SQL92")
        assert client.given_back() == []


@in_loop
async def test_when_property_filters_are_off_the_setting_is_named(tmp_path: Path) -> None:
    async with control(tmp_path, enablePropertyFilter=False) as broker:
        client = await subscribed(broker, "a > 5")
        words = ("does not support consumer to filter message by SQL92", "enablePropertyFilter")
        expect(await client.call(11, **PULL), 1, *words)
        expect(await client.call(11, **BROUGHT, subscription="a > 5"), 1, *words)
        body = fastjson.dumps({"subscriptionData": {
            "topic": "t", "subString": "a > 5", "expressionType": "SQL92"}})  # fmt: skip
        expect(await client.call(46, body), 1, *words)
        assert (await client.call(25, b"enablePropertyFilter=true")).code == 0
        assert broker.core.options["property_filter"] == 1
        expect(await client.call(46, body), 0)


@in_loop
async def test_class_filters_are_refused_with_what_to_use_instead(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = await subscribed(broker, "org.example.Filter", expressionType=None,
                                  classFilterMode=True)  # fmt: skip
        words = ("no code that comes from clients", "SQL92", "rmqMessageFilters")
        expect(await client.call(11, **PULL), 23, *words)
        expect(await client.call(11, **{**BROUGHT, "sysFlag": 12}, subscription="*"), 23, *words)
        for code in (RequestCode.REGISTER_FILTER_SERVER, RequestCode.REGISTER_MESSAGE_FILTER_CLASS):
            expect(await client.call(code, filterServerAddr="1.2.3.4:5"), 23, *words)
        assert broker.core.subscriptions == {}


@in_loop
async def test_functions_are_told_by_number_and_unknown_ones_refused(tmp_path: Path) -> None:
    async with control(tmp_path, rmqMessageFilters="x=a:b;vip=c:d") as broker:
        client = await subscribed(broker, "$filter = 'vip' AND a > 5")
        program = compile_expression("a > 5").program
        assert broker.core.programs[b"g", b"t"] == (program, 2)
        reply = await client.call(11, **BROUGHT, subscription="$filter = 'none'")
        expect(reply, 23, "no message filter 'none', but: x, vip")


def test_a_malformed_list_of_functions_stops_the_start(tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with control(tmp_path, rmqMessageFilters="vip=/etc/x.py"):
            raise AssertionError

    with pytest.raises(ConfigError, match="rmqMessageFilters"):
        run()
