"""Each request code needs the permission that a shared broker's security demands; no code is
forgotten."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.case import case
from support.rights import CLUSTER, REQUESTS, WITH_BODY

from rmq.auth.accounts import Accounts
from rmq.auth.gate import Gate
from rmq.auth.permissions import CLOSED, ROWS, wanted
from rmq.codes import RequestCode as Code
from rmq.errors import ProtocolError
from rmq.format.remoting import Command
from rmq.format.signature import Credentials


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


OF_SERVERS = {103, 904, 1003, 1013}  # test_where_servers_are_is_said_by_servers_alone
OF_SUPER_USERS = {30001}  # test_everybodys_doings_are_told_to_super_users_alone
BY_FIELDS = {1004}  # test_who_asks_for_a_lease_is_a_server
BY_BODY = {code for code, _, _, _ in WITH_BODY}


@pytest.mark.parametrize("code", [50, 51, 52, 53, 54])
def test_accounts_of_acl_1_are_changed_by_no_request(code: int) -> None:
    """These requests change or show the accounts of ACL 1.0, and must be open to nobody, not even
    to a user who may do everything with the cluster. RocketMQ 5.5 serves none of them. In 4.9 any
    account could read secrets (CVE-2024-23321), or name white addresses (53)."""
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


def test_what_a_request_wants() -> None:
    for code, fields, expected in REQUESTS:
        with case((code, fields)):
            assert asked(code, **fields) == expected


@pytest.mark.parametrize("code", sorted(OF_SERVERS))
def test_where_servers_are_is_said_by_servers_alone(code: int) -> None:
    """A user who is no Super user must be refused whatever its entries allow, because the gate asks
    for no resource."""
    with pytest.raises(ProtocolError, match="for servers, which sign as a Super user"):
        asked(code, clusterName=CLUSTER)


def test_everybodys_doings_are_told_to_super_users_alone() -> None:
    """No entry may be enough, not even one for everything."""
    with pytest.raises(ProtocolError, match="30001 is open to Super users alone"):
        asked(30001)


def test_who_asks_for_a_lease_is_a_server() -> None:
    """1004 tells which broker is master. With a broker's id it renews that broker's lease, or ends
    it, so it must then be signed as a server signs."""
    assert asked(1004) == [(f"Cluster:{CLUSTER}", "Get")]
    for more in ({}, {"rmqResign": "true"}):
        with pytest.raises(ProtocolError, match="for servers"):
            asked(1004, rmqBrokerId="1", **more)


@pytest.mark.parametrize(("code", "fields", "body", "expected"), WITH_BODY)
def test_what_the_body_of_a_request_wants(
    code: int, fields: dict[str, Any], body: Any, expected: Any
) -> None:
    assert asked(code, body, **fields) == expected


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (10, None), (310, None), (11, None), (200050, None), (17, None), (36, None), (34, None),
        (34, []), (34, {"consumerDataSet": 3}), (34, {"consumerDataSet": [3]}),
        (34, {"consumerDataSet": [{}]}),
        (34, {"consumerDataSet": [{"groupName": "g", "subscriptionDataSet": [{}]}]}),
        (41, {"mqSet": []}), (41, {"consumerGroup": 5}), (200151, {"acks": [{"c": "g"}]}),
        (18, {"topicConfigList": [{}]}), (200, {}), (400, {"consumerGroup": "g"}),
        (34, {"consumerDataSet": [
            {"groupName": "g", "subscriptionDataSet": [{"topic": "t"}] * 4097}] * 2}),
        (34, {"consumerDataSet": [{"groupName": "g"}] * 4097}),
        (41, {"consumerGroup": "g", "mqSet": [{"topic": "t"}] * 100_001}),
        (18, {"topicConfigList": [{"topicName": "t"}] * 20_001}),
        (225, {"groupConfigList": [{"groupName": "g"}] * 20_001}),
    ],
)  # fmt: skip
def test_who_does_not_say_what_it_wants_is_refused(code: int, body: Any) -> None:
    with pytest.raises(ProtocolError):
        asked(code, body)


def test_the_largest_requests_that_are_served_are_judged() -> None:
    """The largest requests that are served must be checked whole. Locks are checked by their
    topics: a group has many queues of few topics."""
    assert len(asked(34, {"consumerDataSet": [{"groupName": "g"}] * 4096})) == 4096
    assert len(asked(18, {"topicConfigList": [{"topicName": "t"}] * 10_000})) == 10_000
    queues = [{"topic": f"t{number % 2}"} for number in range(100_000)]
    expected = [("Group:g", "Sub"), ("Topic:t0", "Sub"), ("Topic:t1", "Sub")]
    assert asked(41, {"consumerGroup": "g", "mqSet": queues}) == expected


def test_a_header_full_of_names_is_refused() -> None:
    with pytest.raises(ProtocolError, match="more than 20000 topics and groups"):
        asked(208, consumerGroup="g", topicList="t;" * 20_001)
