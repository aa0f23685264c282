"""Visible state: what a Super user sees of all that requests could change at a broker or name
server, and requests that would change it.

    ask = lambda code, fields: connection.call(code, fields)
    before = visible_state(ask, "broker")
    ..                                      # a user without rights asks for changes
    assert visible_state(ask, "broker") == before

It consists of users and their entries, topics, groups, offsets, settings and the ends of queues;
key-value configuration and routes. System topics are left out, since a broker writes them at any
time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from rmq.codes import RequestCode
from rmq.format.remoting import Command
from rmq.names import ORDER_TOPIC_NAMESPACE, is_system

Ask = Callable[[int, dict[str, str]], Command | None]

KEPT = {"namespace": "n", "key": "k", "value": "kept"}  # an entry of a name server
# 105 and 30 are sent for each topic, 219 for each namespace.
SHOWN_BY = {
    "broker": (21, 26, 43, 45, 201, 402, 3005, 3010),
    "name server": (106, 206, 319, 3005, 3010),
}
# Fields that make any request complete, whatever its code is. None of them names the topic, group
# or cluster of the request.
FIELDS = {
    "queueId": "0", "commitOffset": "7", "queueOffset": "0", "offset": "0", "timestamp": "0",
    "perm": "4", "readQueueNums": "3", "writeQueueNums": "3", "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0", "order": "true", "attributes": "", "isForce": "true", "force": "true",
    "isOffline": "false", "removeOffset": "true", "cleanOffset": "true", "readable": "false",
    "namespace": "n", "key": "k", "value": "v", "brokerName": "broker-a", "username": "alice",
    "subject": "User:alice", "policyType": "Custom", "mode": "1", "brokerId": "0",
    "brokerAddr": "127.0.0.1:1", "haServerAddr": "127.0.0.1:2", "masterAddress": "127.0.0.1:1",
    "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "sysFlag": "0", "bornTimestamp": "1",
    "flag": "0", "properties": "", "reconsumeTimes": "0", "unitMode": "false", "c": "TBW102",
    "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": "", "j": "0", "k": "false",
    "maxMsgNums": "1", "invisibleTime": "60000", "pollTime": "0", "bornTime": "1", "initMode": "0",
    "subscription": "*", "expressionType": "TAG", "subVersion": "0", "suspendTimeoutMillis": "0",
}  # fmt: skip
USER = b'{"username":"mallory","password":"x","userType":"Super","userStatus":"disable"}'
ACL = (
    b'{"subject":"User:alice","policies":[{"policyType":"Custom","entries":[{"resource":"*",'
    b'"actions":["All"],"decision":"Allow"}]}]}'
)
SETTINGS = b"fileReservedTime=9\nserverWorkerThreads=3\n"
BODIES = {
    25: SETTINGS, 318: SETTINGS, 1009: SETTINGS, 3001: USER, 3002: USER, 3006: ACL, 3007: ACL,
    3008: ACL, 10: b"x", 310: b"x", 320: b"x", 324: b"x", 325: b"x",
    401: b'{"topic":"t","consumerGroup":"g","mode":"POP","popShareQueueNum":1}',
}  # fmt: skip


def whole(code: int, fields: dict[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
    """Completes a request of this code with everything that it may need; returns fields and
    body."""
    return {**FIELDS, **fields}, body or BODIES.get(code, b"{}")


def visible_state(ask: Ask, where: str) -> dict[str, object]:
    """ask: sends a request of a Super user. where: "broker" or "name server"."""

    def answer(code: int, fields: dict[str, str] | None = None) -> Command:
        reply = ask(code, fields or {})
        assert reply is not None and reply.code == 0, (code, fields, reply)
        return reply

    found: dict[str, object] = {str(code): answer(code).body for code in SHOWN_BY[where]}
    if where == "broker":
        topics = json.loads(answer(RequestCode.GET_ALL_TOPIC_CONFIG).body)["topicConfigTable"]
        for name, topic in topics.items():
            for queue in range(0 if is_system(name) else topic["writeQueueNums"]):
                place = {"topic": name, "queueId": str(queue)}
                found[f"{name} {queue}"] = answer(RequestCode.GET_MAX_OFFSET, place).fields
        return found
    for namespace in ("n", ORDER_TOPIC_NAMESPACE):
        kept = ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": namespace})
        assert kept is not None
        found[f"kept {namespace}"] = kept.code, kept.body
    for name in json.loads(answer(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).body)[
        "topicList"
    ]:
        route = ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": name})
        assert route is not None
        found[f"route {name}"] = route.code, route.body
    return found
