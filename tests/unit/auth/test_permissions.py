"""Each request code wants what security of a shared broker asks for; none is forgotten."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rmq.auth.accounts import Accounts
from rmq.auth.gate import Gate
from rmq.auth.permissions import CLOSED, ROWS, wanted
from rmq.codes import RequestCode as Code
from rmq.errors import ProtocolError
from rmq.format.remoting import Command
from rmq.format.signature import Credentials

CLUSTER = "DefaultCluster"
CONSUMED = [("Topic:t", "Sub"), ("Group:g", "Sub")]
POPPED = CONSUMED[::-1]


def asked(code: int, body: Any = None, **fields: Any) -> list[tuple[str, str]]:
    command = Command(
        code=code,
        fields={name: str(value) for name, value in fields.items()},
        body=json.dumps(body).encode() if body is not None else b"",
    )
    return [
        (str(each.resource), "|".join(sorted(action.value for action in each.actions)))
        for each in wanted(command, CLUSTER)
    ]


def test_every_code_has_a_row_or_is_closed_on_purpose() -> None:
    assert set(ROWS).isdisjoint(CLOSED)
    assert set(ROWS) | CLOSED == set(Code)
    for code in (*CLOSED, 4711):
        with pytest.raises(ProtocolError, match="open to nobody"):
            wanted(Command(code=code), CLUSTER)


# By number, as clients send them: what RocketMQ 5.5.0's headers are annotated with, and where they
# are not (there any account may ask), what a shared broker has to ask for.
OF_TOPIC_AND_GROUP = {"topic": "t", "group": "g"}
REQUESTS = [
    (10, {"topic": "t", "producerGroup": "p"}, [("Topic:t", "Pub")]),
    (310, {"a": "p", "b": "t"}, [("Topic:t", "Pub")]),
    (320, {"a": "p", "b": "t"}, [("Topic:t", "Pub")]),
    (310, {"a": "CLIENT_INNER_PRODUCER", "b": "%RETRY%g"}, [("Group:g", "Sub")]),
    (310, {"a": "mine", "b": "%RETRY%others"}, [("Group:others", "Sub")]),
    (324, {"topic": "t"}, [("Topic:t", "Pub")]),
    (325, {"b": "t"}, [("Topic:t", "Pub")]),
    (370, {"topic": "t"}, [("Topic:t", "Pub")]),
    (36, {"group": "g"}, [("Group:g", "Sub")]),
    (36, {"group": "g", "originTopic": "t"}, [("Topic:t", "Sub"), ("Group:g", "Sub")]),
    (200051, {"consumerGroup": "g", "topic": "%RETRY%g_t"},
     [("Group:g", "Sub"), ("Topic:t", "Sub")]),
    (200053, {"consumerGroup": "g", "topic": "%RETRY%g+t"},
     [("Group:g", "Sub"), ("Topic:t", "Sub")]),
    (200051, {"consumerGroup": "g", "topic": "%RETRY%other_t"},
     [("Group:g", "Sub"), ("Group:other_t", "Sub")]),
    (37, {"producerGroup": "p"}, []),
    (37, {"producerGroup": "p", "topic": "t"}, [("Topic:t", "Pub")]),
    (11, {"topic": "t", "consumerGroup": "g"}, CONSUMED),
    (361, {"topic": "t", "consumerGroup": "g"}, CONSUMED),
    (11, {"topic": "%RETRY%g", "consumerGroup": "g"}, [("Group:g", "Sub")] * 2),
    (11, {"topic": "%RETRY%h", "consumerGroup": "g"}, [("Group:h", "Sub"), ("Group:g", "Sub")]),
    *((code, {"topic": "t", "consumerGroup": "g"}, POPPED)
      for code in (200050, 200051, 200052, 200053, 200054)),
    (12, {"topic": "t"}, [("Topic:t", "Get|Sub")]),
    (33, {"offset": 5}, [(f"Cluster:{CLUSTER}", "Get")]),
    (33, {"offset": 5, "topic": "t"}, [("Topic:t", "Get")]),
    (14, {"topic": "t", "consumerGroup": "g"},
     [("Topic:t", "Get|Sub"), ("Group:g", "Get|Sub")]),
    (15, {"topic": "t", "consumerGroup": "g"},
     [("Topic:t", "Sub|Update"), ("Group:g", "Sub|Update")]),
    (35, {"clientID": "c"}, []),
    (35, {"clientID": "c", "consumerGroup": "g"}, [("Group:g", "Sub")]),
    (17, {"topic": "t"}, [("Topic:t", "Create")]),
    (215, {"topic": "t"}, [("Topic:t", "Delete")]),
    (207, {"groupName": "g"}, [("Group:g", "Delete")]),
    (222, {"group": "g", "topic": "t"}, [("Group:g", "Update"), ("Topic:t", "Update")]),
    (314, {"srcGroup": "s", "destGroup": "d", "topic": "t"},
     [("Group:s", "Get"), ("Group:d", "Update"), ("Topic:t", "Update")]),
    (308, {"filterGroups": "f, h", "compareGroup": "c", "topic": "t"},
     [("Group:f", "Get"), ("Group:h", "Get"), ("Group:c", "Get"), ("Topic:t", "Get")]),
    (208, {"consumerGroup": "g", "topicList": "a;b;"},
     [("Group:g", "Get"), ("Topic:a", "Get"), ("Topic:b", "Get")]),
    (105, {"topic": "t"}, [("Topic:t", "Get|Pub|Sub")]),
    (105, {"topic": "%RETRY%g"}, [("Group:g", "Get|Pub|Sub")]),
    (105, {"topic": "TBW102"}, []),
    *((code, {"topic": "t"}, [("Topic:t", "Get|Sub")]) for code in (29, 30, 31, 32)),
    *((code, {"topic": "t"}, [("Topic:t", "Get")]) for code in (202, 300, 351, 354)),
    (323, {"topic": "t"}, [("Topic:t", "Update")]),
    (38, {"consumerGroup": "g"}, [("Group:g", "Get|Sub")]),
    (46, {}, []),
    *((code, {"consumerGroup": "g"}, [("Group:g", "Get")]) for code in (203, 307)),
    *((code, {"group": "g"}, [("Group:g", "Get")]) for code in (343, 352)),
    *((code, OF_TOPIC_AND_GROUP, [("Group:g", "Get"), ("Topic:t", "Get")])
      for code in (223, 303, 345)),
    (321, {"topic": "t", "consumerGroup": "g"}, [("Group:g", "Get"), ("Topic:t", "Get")]),
    (321, {"topic": "t"}, [("Topic:t", "Get")]),
    (353, OF_TOPIC_AND_GROUP, [("Group:g", "Update"), ("Topic:t", "Update")]),
    (309, {"consumerGroup": "g", "topic": "t"}, POPPED),
    (309, {"consumerGroup": "g"}, [("Group:g", "Sub")]),
    (200055, {"consumerGroup": "g", "topic": "t"}, [("Group:g", "Get"), ("Topic:t", "Get")]),
    *((code, {"clusterName": "Other"}, [("Cluster:Other", "Update")])
      for code in (104, 216, 322, 1002, 1011)),
    *((code, {"clusterName": "Other"}, [("Cluster:Other", "Get")]) for code in (901, 1012)),
    *((code, {}, [(f"Cluster:{CLUSTER}", "Update")]) for code in (
        25, 27, 100, 102, 104, 205, 213, 216, 217, 301, 302, 306, 316, 318, 322,
        327, 329, 401, 513, 902, 903, 905, 906, 908, 1001, 1002, 1008, 1009, 1011,
        2001, 2002, 2004, 3001, 3002, 3003, 3006, 3007, 3008, 5001, 200056,
    )),
    *((code, {}, [(f"Cluster:{CLUSTER}", "Get")]) for code in (
        13, 21, 22, 23, 26, 28, 43, 45, 47, 60, 61, 101, 106, 201, 204, 206, 214, 219, 224, 304,
        305, 311, 312, 313, 315, 317, 319, 328, 355, 402, 901, 907, 1005, 1006, 1007,
        1010, 1012, 2003, 3004, 3005, 3009, 3010,
    )),
]  # fmt: skip
OF_SERVERS = {103, 904, 1003, 1013}  # test_where_servers_are_is_said_by_servers_alone
OF_SUPER_USERS = {30001}  # test_everybodys_doings_are_told_to_super_users_alone
BY_FIELDS = {1004}  # test_who_asks_for_a_lease_is_a_server
BY_BODY = {18, 34, 41, 42, 200, 225, 400, 200151}  # test_what_the_body_of_a_request_wants


@pytest.mark.parametrize("code", [50, 51, 52, 53, 54])
def test_accounts_of_acl_1_are_changed_by_no_request(code: int) -> None:
    """RocketMQ 5.5 serves none of these; by 4.9 any account read secrets (CVE-2024-23321), or named
    white addresses (53). Whoever may do everything with a cluster is no Super user yet."""
    accounts = Accounts()
    accounts.create_user("root", {"password": "top", "userType": "Super"}, by_super=True)
    accounts.create_user("alice", {"password": "secret"}, by_super=True)
    everything = {"resource": "*", "actions": ["All"], "decision": "Allow"}
    accounts.put_acl("User:alice", [{"policyType": "Custom", "entries": [everything]}])
    gate = Gate(accounts, CLUSTER, authenticates=True, authorizes=True)
    for fields in ({}, {"accessKey": "eve", "secretKey": "x", "globalWhiteAddrs": "*"}):
        by_alice = Credentials("alice", "secret").sign(fields, b"")
        refusal = gate.verdict(Command(code=code, fields=by_alice), "10.0.0.9:1").refusal
        assert refusal == f"request type {code} is open to nobody"


def test_no_row_is_without_an_expectation() -> None:
    by_others = BY_BODY | BY_FIELDS | OF_SERVERS | OF_SUPER_USERS
    assert {code for code, _, _ in REQUESTS} | by_others == set(ROWS)


@pytest.mark.parametrize(("code", "fields", "expected"), REQUESTS)
def test_what_a_request_wants(code: int, fields: dict[str, Any], expected: Any) -> None:
    assert asked(code, **fields) == expected


@pytest.mark.parametrize("code", sorted(OF_SERVERS))
def test_where_servers_are_is_said_by_servers_alone(code: int) -> None:
    """Whoever is no Super user is refused, whatever he may do: the gate asks for no resource."""
    with pytest.raises(ProtocolError, match="for servers, which sign as a Super user"):
        asked(code, clusterName=CLUSTER)


def test_everybodys_doings_are_told_to_super_users_alone() -> None:
    """No entry is enough, also not one of everything."""
    with pytest.raises(ProtocolError, match="30001 is open to Super users alone"):
        asked(30001)


def test_who_asks_for_a_lease_is_a_server() -> None:
    """1004 tells who is master; with a broker's id it renews that one's lease, or ends it."""
    assert asked(1004) == [(f"Cluster:{CLUSTER}", "Get")]
    for more in ({}, {"rmqResign": "true"}):
        with pytest.raises(ProtocolError, match="for servers"):
            asked(1004, rmqBrokerId="1", **more)


def test_what_the_body_of_a_request_wants() -> None:
    assignment = {"consumerGroup": "g", "topic": "t"}
    assert asked(400, assignment, consumerGroup="of-mine") == [
        ("Group:g", "Sub"), ("Topic:t", "Sub"),
    ]  # fmt: skip
    consumer = {"groupName": "g", "subscriptionDataSet": [{"topic": "t"}, {"topic": "%RETRY%g"}]}
    beat = {"consumerDataSet": [consumer], "producerDataSet": [{"groupName": "p"}]}
    assert asked(34, beat) == [("Group:g", "Sub"), ("Topic:t", "Sub"), ("Group:g", "Sub")]
    assert asked(34, {"producerDataSet": [{"groupName": "p"}]}) == []
    locks = {"consumerGroup": "g", "mqSet": [{"topic": "t"}, {"topic": "u"}]}
    for code in (41, 42):
        assert asked(code, locks) == [("Group:g", "Sub"), ("Topic:t", "Sub"), ("Topic:u", "Sub")]
    acks = {"acks": [{"c": "g", "t": "t"}, {"c": "h", "t": "u"}]}
    assert asked(200151, acks) == [
        ("Group:g", "Sub"), ("Topic:t", "Sub"), ("Group:h", "Sub"), ("Topic:u", "Sub"),
    ]  # fmt: skip
    topics = {"topicConfigList": [{"topicName": "t"}, {"topicName": "u"}]}
    assert asked(18, topics) == [("Topic:t", "Create"), ("Topic:u", "Create")]
    assert asked(200, {"groupName": "g"}) == [("Group:g", "Create")]
    assert asked(225, {"groupConfigList": [{"groupName": "g"}]}) == [("Group:g", "Create")]


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (10, None), (310, None), (11, None), (200050, None), (17, None), (36, None), (34, None),
        (34, []), (34, {"consumerDataSet": 3}), (34, {"consumerDataSet": [3]}),
        (34, {"consumerDataSet": [{}]}),
        (34, {"consumerDataSet": [{"groupName": "g", "subscriptionDataSet": [{}]}]}),
        (41, {"mqSet": []}), (41, {"consumerGroup": 5}), (200151, {"acks": [{"c": "g"}]}),
        (18, {"topicConfigList": [{}]}), (200, {}), (400, {"consumerGroup": "g"}),
    ],
)  # fmt: skip
def test_who_does_not_say_what_it_wants_is_refused(code: int, body: Any) -> None:
    with pytest.raises(ProtocolError):
        asked(code, body)
