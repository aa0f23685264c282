"""Whether a request is let through: each step of the checks, in RocketMQ's order and with its
texts."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from rmq.auth.accounts import Accounts
from rmq.auth.fixed_accounts import FixedAccounts
from rmq.auth.gate import Gate
from rmq.auth.user import User
from rmq.auth.white_list import WhiteList
from rmq.format.remoting import Command
from rmq.format.signature import Credentials

PEER = "10.0.0.1:4711"
MAY_PUB = [{
    "policyType": "Custom",
    "entries": [{"resource": "Topic:t", "actions": ["Pub"], "decision": "Allow"}],
}]  # fmt: skip


@pytest.fixture
def accounts() -> Accounts:
    accounts = Accounts()
    accounts.create_user("alice", {"password": "secret"}, by_super=True)
    accounts.create_user("root", {"password": "top", "userType": "Super"}, by_super=True)
    accounts.put_acl("User:alice", MAY_PUB)
    return accounts


@pytest.fixture
def gate(accounts: Accounts) -> Gate:
    return Gate(accounts, "DefaultCluster", authenticates=True, authorizes=True)


def request(code: int, name: str, password: str, body: bytes = b"", **fields: str) -> Command:
    return Command(code=code, fields=Credentials(name, password).sign(fields, body), body=body)


def test_a_user_may_do_what_its_policies_allow(gate: Gate) -> None:
    verdict = gate.verdict(request(310, "alice", "secret", b"x", a="p", b="t"), PEER)
    assert verdict.refusal == ""
    assert verdict.user is not None
    assert verdict.user.name == "alice"
    text = gate.verdict(request(310, "alice", "secret", b"x", a="p", b="u"), PEER).refusal
    assert text == (
        "User:alice has no permission to access Topic:u from 10.0.0.1, no matched policies."
    )
    text = gate.verdict(request(310, "alice", "secret", a="p"), PEER).refusal
    assert text == "parse authorization context error: b is missing"


def test_who_is_not_known_is_refused_before_anything_else(gate: Gate, accounts: Accounts) -> None:
    def text(command: Command) -> str:
        verdict = gate.verdict(command, PEER)
        assert verdict.user is None
        return verdict.refusal

    good = request(310, "alice", "secret", b"x", a="p", b="t")
    assert text(Command(code=310, fields={"b": "t"})) == "username cannot be null."
    assert text(Command(code=310, fields={"AccessKey": " "})) == "username cannot be null."
    assert text(request(310, "bob", "secret")) == "User:bob is not found."
    assert text(request(310, "alice", "Secret")) == "check signature failed."
    good.body = b"y"
    assert text(good) == "check signature failed."
    good.body, good.fields["b"] = b"x", "u"
    assert text(good) == "check signature failed."
    accounts.update_user("alice", {"userStatus": "disable"}, by_super=True)
    assert text(request(310, "alice", "secret", b="t")) == "User:alice is disabled."
    accounts.delete_user("alice", by_super=True)
    assert text(request(310, "alice", "secret", b="t")) == "User:alice is not found."


@pytest.mark.parametrize("code", [25, 4711, 39, 200070])
def test_a_super_user_may_do_everything(gate: Gate, code: int) -> None:
    assert gate.verdict(request(code, "root", "top"), PEER).refusal == ""
    assert gate.verdict(request(code, "alice", "secret"), PEER).refusal != ""


def test_whom_a_certificate_names_need_not_sign(gate: Gate, accounts: Accounts) -> None:
    unsigned = Command(code=310, fields={"b": "t"})
    verdict = gate.verdict(unsigned, PEER, "alice")
    assert verdict.refusal == "" and verdict.user == accounts.user("alice")
    assert gate.verdict(Command(code=310, fields={"b": "t", "AccessKey": " "}), PEER, "alice") == (
        verdict
    )
    told = gate.verdict(Command(code=310, fields={"b": "u"}), PEER, "alice").refusal
    assert told.startswith("User:alice has no permission to access Topic:u")
    assert gate.verdict(unsigned, PEER, "bob").refusal == "User:bob is not found."
    assert gate.verdict(unsigned, PEER, "  ").refusal == "username cannot be null."
    signed = request(310, "alice", "Secret", b"x", b="t")
    assert gate.verdict(signed, PEER, "root").refusal == "check signature failed."
    accounts.update_user("alice", {"userStatus": "disable"}, by_super=True)
    assert gate.verdict(unsigned, PEER, "alice").refusal == "User:alice is disabled."


def test_settings_let_more_in(accounts: Accounts) -> None:
    nobody = Command(code=310, fields={"b": "t"})
    stranger = request(25, "alice", "secret")

    def let_in(**given: Any) -> tuple[bool, bool]:
        gate = Gate(accounts, "DefaultCluster", **given)
        return not gate.verdict(nobody, PEER).refusal, not gate.verdict(stranger, PEER).refusal

    assert let_in(authenticates=False, authorizes=False) == (True, True)
    assert let_in(authenticates=True, authorizes=False) == (False, True)
    assert let_in(authenticates=True, authorizes=True) == (False, False)
    assert let_in(
        authenticates=True, authorizes=True, unauthenticated=frozenset((310,)),
        unauthorized=frozenset((25,)),
    ) == (True, True)  # fmt: skip


def test_refusals_are_in_the_audit_log_and_secrets_are_not(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    peer = "10.7.7.7:4711"  # a log line a second for each address
    with caplog.at_level(logging.DEBUG, "rmq.audit"):
        gate.verdict(request(310, "alice", "secret", a="p", b="t"), peer)
        gate.verdict(request(310, "alice", "secret", a="p", b="u"), peer)
        gate.verdict(request(310, "m" * 5000, "secret"), peer)
    texts = [record.getMessage() for record in caplog.records]
    what = f"request 310 (SEND_MESSAGE_V2) of 'alice' from {peer}"
    assert texts[0] == f"allowed: {what}: Pub Topic:t"
    assert texts[1].startswith(f"refused: {what}: User:alice has no")
    assert len(texts[2]) < 400
    assert "secret" not in "".join(texts)


def test_what_changes_something_is_in_the_audit_log(
    gate: Gate, accounts: Accounts, caplog: pytest.LogCaptureFixture
) -> None:
    groups = b'{"groupConfigList":[%s]}' % b",".join(b'{"groupName":"g%d"}' % i for i in range(5))
    accounts.fixed = FixedAccounts(white=[WhiteList.of("10.1.0.*")])
    with caplog.at_level(logging.INFO, "rmq.audit"):
        gate.verdict(request(310, "alice", "secret", a="p", b="t"), PEER)
        gate.verdict(request(17, "root", "top", topic="orders"), PEER)
        gate.verdict(request(225, "root", "top", body=groups), PEER)
        claimed = {"username": "eve", "AccessKey": "root"}  # claims that nobody has checked
        gate.verdict(Command(code=3001, fields=claimed, body=b"{}"), "10.1.0.9:1")
        # As a broker sends it each 30 s.
        gate.verdict(request(103, "root", "top", clusterName="c"), PEER)
        gate.verdict(request(4711, "root", "top"), PEER)
    assert [record.getMessage() for record in caplog.records] == [
        f"allowed: request 17 (UPDATE_AND_CREATE_TOPIC) of 'root' from {PEER}: Create Topic:orders",
        f"allowed: request 225 (UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST) of 'root' from {PEER}: "
        "Create Group:g0, Create Group:g1, Create Group:g2 and 2 more",
        "allowed: request 3001 (AUTH_CREATE_USER) of '' from 10.1.0.9:1: "
        "Update Cluster:DefaultCluster, eve",
    ]
    assert [vars(record)["by"] for record in caplog.records] == ["signature"] * 2 + ["address"]
    made = vars(caplog.records[0])
    assert {key: made[key] for key in ("verdict", "user", "peer", "code", "resources")} == {
        "verdict": "allowed", "user": "root", "peer": PEER, "code": 17,
        "resources": "Create Topic:orders",
    }  # fmt: skip


def test_changed_settings_are_in_the_audit_log_by_their_names(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    body = b"# said by root\nfileReservedTime=48\ntlsKeyPassword = wonder\\\n  land\n"
    with caplog.at_level(logging.INFO, "rmq.audit"):
        for code in (25, 318, 1009):
            gate.verdict(request(code, "root", "top", body), PEER)
        gate.verdict(request(25, "root", "top", b"a=\\u12"), PEER)
        gate.verdict(request(25, "root", "top", b"\xff=1"), PEER)
    told = [str(vars(record)["resources"]) for record in caplog.records]
    assert [each.endswith(", fileReservedTime, tlsKeyPassword") for each in told] == (
        [True] * 3 + [False] * 2
    )
    lines = "".join(record.getMessage() for record in caplog.records)
    assert "wonder" not in lines and "48" not in lines


def test_nobody_writes_lines_of_the_audit_log(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    forged = "x\n2026-01-01 INFO rmq.audit: allowed: \x1b[2J\u2028"
    with caplog.at_level(logging.INFO, "rmq.audit"):
        gate.verdict(request(310, forged, "secret"), "10.8.0.1:1")
        gate.verdict(request(310, "alice", "secret", b=forged * 1000), "10.8.0.2:1")
        gate.verdict(request(17, "root", "top", topic=forged * 1000), "10.8.0.3:1")
    assert len(caplog.records) == 3
    for made in caplog.records:
        told = made.getMessage()
        assert told.isprintable() and len(told) < 800
        fields = (vars(made).get(name, "") for name in ("user", "reason", "resources"))
        assert all(str(text).isprintable() for text in fields)


def test_white_addresses_of_files_need_no_account(gate: Gate, accounts: Accounts) -> None:
    accounts.fixed = FixedAccounts(
        users={"carol12": User.of("carol12", {"password": "12345678"})},
        white=[WhiteList.of("10.1.0.*")],
        unsigned={"carol12": WhiteList.of("10.2.0.1"), "alice": WhiteList.of("*")},
    )
    unsigned = Command(code=310, fields={"b": "t"})
    assert gate.verdict(unsigned, "10.1.0.9:1").refusal == ""
    assert gate.verdict(Command(code=25), "[::ffff:10.1.0.9]:1").refusal == ""
    assert gate.verdict(unsigned, PEER).refusal == "username cannot be null."
    named = Command(code=310, fields={"b": "t", "AccessKey": "carol12"})
    assert gate.verdict(named, "10.2.0.1:1").refusal == ""
    assert gate.verdict(named, "10.2.0.2:1").refusal == "check signature failed."
    named.fields["AccessKey"] = "alice"  # not an account of the file
    assert gate.verdict(named, "10.2.0.1:1").refusal == "check signature failed."
