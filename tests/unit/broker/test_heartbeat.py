"""Membership: heartbeats, leaving, expiry, and what members, the reactor and tools see of it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from support.fake_core import FakeClient, control
from support.name_server import in_loop

from rmq.broker.clients import producers
from rmq.filters.sql92 import compile_expression
from rmq.format import fastjson
from rmq.format.message import java_hash


def beat(client_id: str, **groups: Any) -> bytes:
    """A heartbeat: group=[(topic, expression, version), ..]; `producers`, `model`, `extra`."""
    producers, extra = groups.pop("producers", ()), groups.pop("extra", {})
    model = groups.pop("model", "CLUSTERING")
    consumers = [
        {
            "groupName": name,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": model,
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "subscriptionDataSet": [
                {"topic": t, "subString": e, "subVersion": v, "tagsSet": [], "codeSet": [999]}
                for t, e, v in subscriptions
            ],
        }
        for name, subscriptions in groups.items()
    ]
    members = {
        "clientID": client_id,
        "consumerDataSet": consumers,
        "producerDataSet": [{"groupName": name} for name in producers],
        **extra,
    }
    return fastjson.dumps(members)


async def ids(client: FakeClient, group: str) -> list[str]:
    reply = await client.call(38, consumerGroup=group)
    return sorted(json.loads(reply.body)["consumerIdList"]) if reply.code == 0 else []


@in_loop
async def test_a_heartbeat_makes_group_retry_topic_and_subscription(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        reply = await client.call(34, beat("c1", g=[("t", "a || b", 5), ("u", "*", 5)]))
        assert reply.code == 0
        assert reply.fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
        assert broker.core.groups[b"g"] == (1, 1)
        assert broker.core.topics[b"%RETRY%g"] == (1, 1, 6, 0)
        codes = sorted((java_hash("a"), java_hash("b")))
        assert broker.core.subscriptions[b"g", b"t"] == (5, codes, 0)
        assert broker.core.subscriptions[b"g", b"u"] == (5, None, 0)
        assert await ids(client, "g") == ["c1"]


@in_loop
async def test_no_heartbeat_is_answered_before_the_retry_topic_is_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat is answered only when all shards have the retry topic, because members look for
    its route then. This must hold for a second member as well as for the one whose heartbeat had
    the topic made."""
    is_shared = asyncio.Event()
    async with control(tmp_path) as broker:
        monkeypatch.setattr(broker.topics.siblings, "shared", is_shared.wait)
        first, second = broker.core.client(), broker.core.client()
        beats = [asyncio.ensure_future(first.call(34, beat("c1", g=[("t", "*", 1)])))]
        await broker.core.until(lambda: "%RETRY%g" in broker.topics)
        beats.append(asyncio.ensure_future(second.call(34, beat("c2", g=[("t", "*", 1)]))))
        await broker.core.until(lambda: (group := broker.consumers.get("g")) is not None
                                and len(group.clients) == 2)  # fmt: skip
        await second.call(999)  # is answered after the heartbeat was looked at
        assert not broker.topics.is_made("%RETRY%g")
        assert not any(each.done() for each in beats)
        is_shared.set()
        assert [(await each).code for each in beats] == [0, 0]
        assert broker.topics.is_made("%RETRY%g")


@in_loop
async def test_all_members_are_told_of_a_new_one_once(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        first, second, third = (broker.core.client() for _ in range(3))
        await first.call(34, beat("c1", g=[("t", "*", 1)]))
        await broker.core.until(lambda: first.requests(40))
        before = len(first.requests(40))
        await second.call(34, beat("c2", g=[("t", "*", 1)]))
        await broker.core.until(lambda: second.requests(40))
        assert len(first.requests(40)) == before + 1
        notice = first.requests(40)[-1]
        assert notice.is_oneway
        assert notice.fields == {"consumerGroup": "g"}
        await second.call(34, beat("c2", g=[("t", "*", 1)]))  # the same subscription as before
        await third.call(34, beat("c3", g=[("t", "*", 1)]))
        await broker.core.until(lambda: third.requests(40))
        assert len(first.requests(40)) == before + 2
        assert await ids(first, "g") == ["c1", "c2", "c3"]


@in_loop
async def test_leaving_by_request_and_by_closing_is_noticed(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        clients = [broker.core.client() for _ in range(3)]
        for n, client in enumerate(clients):
            await client.call(34, beat(f"c{n}", g=[("t", "*", 1)]))
        await broker.core.until(lambda: clients[2].requests(40))
        before = len(clients[0].requests(40))
        reply = await clients[1].call(35, clientID="c1", consumerGroup="g")
        assert reply.code == 0
        await broker.core.until(lambda: len(clients[0].requests(40)) == before + 1)
        clients[2].close()
        await broker.core.until(lambda: len(clients[0].requests(40)) == before + 2)
        assert await ids(clients[0], "g") == ["c0"]
        clients[0].close()
        await broker.core.until(lambda: broker.consumers.get("g") is None)
        assert broker.core.subscriptions == {}
        assert (await clients[1].call(38, consumerGroup="g")).code == 1


@in_loop
async def test_broadcasting_members_are_not_told(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        await client.call(34, beat("c1", g=[("t", "*", 1)], model="BROADCASTING"))
        later = broker.core.client()
        await later.call(34, beat("c2", h=[("t", "*", 1)]))
        await broker.core.until(lambda: later.requests(40))
        assert client.requests(40) == []
        assert broker.core.subscriptions[b"g", b"t"] == (1, None, 1)


@in_loop
async def test_subscriptions_are_replaced_by_newer_ones_only(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        await client.call(34, beat("c1", g=[("t", "a", 5), ("u", "*", 5)]))
        await client.call(34, beat("c1", g=[("t", "b", 4)]))
        assert broker.core.subscriptions == {(b"g", b"t"): (5, [java_hash("a")], 0)}
        await client.call(34, beat("c1", g=[("t", "b", 6)]))
        assert broker.core.subscriptions == {(b"g", b"t"): (6, [java_hash("b")], 0)}


@in_loop
async def test_sql_subscriptions_reach_the_reactor_as_programs_and_wrong_ones_do_not(
    tmp_path: Path,
) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        data = json.loads(beat("c1", g=[("t", "a > 1", 5), ("u", "a LIKE 'x'", 5)]))
        for subscription in data["consumerDataSet"][0]["subscriptionDataSet"]:
            subscription["expressionType"] = "SQL92"
        assert (await client.call(34, fastjson.dumps(data))).code == 0
        assert broker.core.subscriptions == {(b"g", b"t"): (5, None, 0)}
        program = compile_expression("a > 1").program
        assert broker.core.programs == {(b"g", b"t"): (program, 0)}
        reply = await client.call(345, group="g", topic="t")
        assert json.loads(reply.body)["subscriptionData"]["expressionType"] == "SQL92"


@in_loop
async def test_heartbeats_v2_without_subscriptions_keep_them(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        first, second = broker.core.client(), broker.core.client()
        full = {"heartbeatFingerprint": 7, "withoutSub": False}
        light = {"heartbeatFingerprint": 7, "withoutSub": True}
        reply = await first.call(34, beat("c1", g=[("t", "*", 5)], extra=full))
        assert reply.fields["IS_SUB_CHANGE"] == "false"
        reply = await first.call(34, beat("c1", g=[], extra=light))
        assert reply.fields["IS_SUB_CHANGE"] == "false"
        assert (b"g", b"t") in broker.core.subscriptions
        other = {"heartbeatFingerprint": 8, "withoutSub": False}
        reply = await second.call(34, beat("c2", g=[("t", "*", 5)], extra=other))
        assert reply.fields["IS_SUB_CHANGE"] == "true"
        reply = await first.call(34, beat("c1", h=[], extra=light))
        assert reply.fields["IS_SUB_CHANGE"] == "true"  # group h never came with its subscriptions


@in_loop
async def test_one_without_subscriptions_asks_for_them_until_they_come(tmp_path: Path) -> None:
    """A broker must ask for subscriptions until they come: when it was started again, a heartbeat
    without them makes the group, which has no subscriptions then."""
    async with control(tmp_path) as broker:
        client = broker.core.client()
        light = {"heartbeatFingerprint": 7, "withoutSub": True}
        for _ in range(2):
            reply = await client.call(34, beat("c1", g=[], extra=light))
            assert reply.fields["IS_SUB_CHANGE"] == "true"
        full = {"heartbeatFingerprint": 7, "withoutSub": False}
        await client.call(34, beat("c1", g=[("t", "*", 5)], extra=full))
        reply = await client.call(34, beat("c1", g=[], extra=light))
        assert reply.fields["IS_SUB_CHANGE"] == "false"
        assert set(broker.core.subscriptions) == {(b"g", b"t")}


@in_loop
async def test_a_heartbeat_brings_a_bounded_number_of_subscriptions(tmp_path: Path) -> None:
    """The number and size of subscriptions in a heartbeat must be limited: they are read by the
    thread that serves everybody's heartbeats."""
    async with control(tmp_path) as broker:
        client = broker.core.client()
        for count in (20_000, 2 * 4096 + 1):
            reply = await client.call(34, beat("c1", g=[("t", "*", 1)] * count))
            assert (reply.code, reply.remark) == (1, "a heartbeat of more than 8192 subscriptions")
        halves = {"g": [("t", "*", 1)] * 4096, "h": [("t", "*", 1)] * 4097}
        assert (await client.call(34, beat("c1", **halves))).code == 1
        reply = await client.call(34, beat("c1", g=[("t", "a" * (1 << 17), 1)] * 3))
        assert (reply.code, "393216 characters" in (reply.remark or "")) == (1, True)
        assert broker.consumers.get("g") is None  # nothing of the refused heartbeats was taken
        assert (await client.call(34, beat("c1", g=[("t", "*", 1)] * 8192))).code == 0
        assert set(broker.core.subscriptions) == {(b"g", b"t")}


@in_loop
async def test_illegal_parts_of_a_heartbeat_are_skipped(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        groups = {"a/b": [("t", "*", 1)], "g": [("../t", "*", 1), ("u", "||", 1), ("t", "*", 1)]}
        assert (await client.call(34, beat("c1", producers=["p/q", "p"], **groups))).code == 0
        assert set(broker.core.subscriptions) == {(b"g", b"t")}
        assert set(broker.producers.groups()) == {"p"}


@in_loop
async def test_an_unreadable_heartbeat_names_what_is_wrong(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        for body in (b"", b"{", b"[]", b"{}", b'{"clientID":7}', b'{"clientID":""}',
                     b'{"clientID":"c","consumerDataSet":[3]}',
                     b'{"clientID":"c","consumerDataSet":{}}',
                     b'{"clientID":"c","consumerDataSet":[{"groupName":"g",'
                     b'"subscriptionDataSet":[1]}]}'):  # fmt: skip
            reply = await client.call(34, body)
            assert reply.code == 1
            assert reply.remark


@in_loop
async def test_groups_are_not_made_when_that_is_switched_off(tmp_path: Path) -> None:
    async with control(tmp_path, autoCreateSubscriptionGroup=False) as broker:
        client = broker.core.client()
        assert (await client.call(34, beat("c1", g=[("t", "*", 1)]))).code == 0
        assert b"g" not in broker.core.groups
        assert broker.consumers.get("g") is None


@in_loop
async def test_silent_clients_are_taken_off(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        await client.call(34, beat("c1", producers=["p"], g=[("t", "*", 1)]))
        assert broker.consumers.expire(60_000) == []
        for members in (broker.consumers.get("g").clients,):  # type: ignore[union-attr]
            for member in members.values():
                member.seen_ms -= 120_000
        for member in broker.producers.clients("p"):
            member.seen_ms -= 120_000
        assert [c.client_id for c in broker.consumers.expire(60_000)] == ["c1"]
        assert [c.client_id for c in broker.producers.expire(60_000)] == ["c1"]
        assert broker.consumers.get("g") is None
        assert broker.producers.find("c1") is None


@in_loop
async def test_members_are_shown_to_tools(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client(language="GO", version=317)
        await client.call(34, beat("c1", producers=["p"], g=[("t", "a", 5)]))
        seen = json.loads((await client.call(203, consumerGroup="g")).body)
        assert seen["connectionSet"] == [
            {"clientAddr": "10.0.0.9:50001", "clientId": "c1", "language": "GO", "version": 317}
        ]
        assert seen["messageModel"] == "CLUSTERING"
        assert seen["consumeFromWhere"] == "CONSUME_FROM_FIRST_OFFSET"
        assert seen["subscriptionTable"]["t"]["tagsSet"] == ["a"]
        assert seen["subscriptionTable"]["t"]["codeSet"] == [97]
        assert (await client.call(203, consumerGroup="none")).code == 206
        producers = json.loads((await client.call(204, producerGroup="p")).body)
        assert producers["connectionSet"][0]["clientId"] == "c1"
        assert (await client.call(204, producerGroup="none")).code == 1
        everyone = json.loads((await client.call(328)).body)["data"]
        assert everyone["p"][0]["remoteIP"] == "10.0.0.9:50001"
        broker.offsets.commit("old", "t", 0, 1)
        who = json.loads((await client.call(300, topic="t")).body)["groupList"]
        assert sorted(who) == ["g", "old"]
        topics = json.loads((await client.call(343, group="old")).body)
        assert topics["topicList"] == ["t"]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((0, 0, 4), ("CONSUME_ACTIVELY", "BROADCASTING", "CONSUME_FROM_FIRST_OFFSET")),
        ((1, 1, 5), ("CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_TIMESTAMP")),
        ((-1, 7, 2**70), ("CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET")),
    ],
)
@in_loop
async def test_how_a_member_reads_may_be_numbers_of_the_enums(
    tmp_path: Path, numbers: tuple[int, ...], expected: tuple[str, ...]
) -> None:
    """The C++ client sends these members of a heartbeat as numbers."""
    members = ("consumeType", "messageModel", "consumeFromWhere")
    body = json.loads(beat("c1", g=[("t", "*", 1)]))
    body["consumerDataSet"][0] |= dict(zip(members, numbers, strict=True))
    async with control(tmp_path) as broker:
        client = broker.core.client()
        assert (await client.call(34, fastjson.dumps(body))).code == 0
        assert await ids(client, "g") == ["c1"]
        seen = json.loads((await client.call(203, consumerGroup="g")).body)
        assert tuple(seen[name] for name in members) == expected


@in_loop
async def test_client_configs_are_checked(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        for kind, text, code in (
            ("TAG", "x", 0), ("SQL92", "x", 0), ("SQL92", "x LIKE 'y'", 23), ("LUA", "x", 23),
            ("SQL92", "x > \ud800", 23),
        ):  # fmt: skip
            data = {"subscriptionData": {"topic": "t", "subString": text, "expressionType": kind}}
            assert (await client.call(46, json.dumps(data).encode())).code == code
        data["subscriptionData"] |= {"subString": "x", "classFilterMode": True}
        reply = await client.call(46, fastjson.dumps(data))
        assert (reply.code, "SQL92" in (reply.remark or "")) == (23, True)


@in_loop
async def test_a_connection_is_in_a_bounded_number_of_producer_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "GROUPS_MAX", 3)
    async with control(tmp_path) as broker:
        client, other = broker.core.client(), broker.core.client()
        for names in (["a", "b"], ["c", "d"], ["a", "e"]):
            assert (await client.call(34, beat("c1", producers=names))).code == 0
        assert set(broker.producers.groups()) == {"a", "b", "c"}
        assert (await client.call(35, clientID="c1", producerGroup="a")).code == 0
        assert (await client.call(34, beat("c1", producers=["e"]))).code == 0
        assert (await other.call(34, beat("c2", producers=["f"]))).code == 0
        assert set(broker.producers.groups()) == {"b", "c", "e", "f"}
