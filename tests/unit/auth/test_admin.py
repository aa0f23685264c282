"""The requests that make and show accounts: RocketMQ's answers, and what only Super users may
do."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from rmq.auth.admin import HANDLERS, Asker
from rmq.auth.guard import Guard
from rmq.auth.user import User
from rmq.config import load_properties
from rmq.errors import ConfigError, ProtocolError
from rmq.format.remoting import Command
from rmq.format.signature import Credentials
from rmq.refusal import Refusal

ADMIN = '{"username":"admin","password":"top"}'
HERE, THERE = "127.0.0.1:4711", "10.0.0.9:4711"
CREATE, UPDATE, DELETE, GET, LIST = range(3001, 3006)
CREATE_ACL, UPDATE_ACL, DELETE_ACL, GET_ACL, LIST_ACL = range(3006, 3011)
MAY_PUB = {"policies": [{"policyType": "Custom", "entries": [
    {"resource": "Topic:t", "actions": ["Pub"], "decision": "Allow"}]}]}  # fmt: skip


def guard_of(folder: Path, **settings: str) -> Guard:
    given = {"authenticationEnabled": "true", "initAuthenticationUser": ADMIN, **settings}
    return Guard(load_properties(None, given), folder, "DefaultCluster")


@pytest.fixture
def guard(tmp_path: Path) -> Guard:
    guard = guard_of(tmp_path, authorizationEnabled="true")
    guard.open()
    return guard


class Admin:
    """A client that sends requests to the guard."""

    def __init__(self, guard: Guard, name: str | None = "admin", peer: str = HERE) -> None:
        self._guard, self._name, self._peer = guard, name, peer

    def ask(self, code: int, members: Any = None, **fields: str) -> Command:
        user: User | None = self._guard.store.accounts.user(self._name) if self._name else None
        body = json.dumps(members).encode() if members is not None else b""
        command = Command(code=code, fields=fields, body=body)
        return asyncio.run(self._guard.answer(command, Asker(user, self._peer)))

    def refused(self, code: int, members: Any = None, **fields: str) -> tuple[int, str]:
        with pytest.raises(Refusal) as caught:
            self.ask(code, members, **fields)
        return caught.value.code, caught.value.remark


def test_a_user_from_its_making_to_its_end(guard: Guard) -> None:
    admin = Admin(guard)
    assert (
        admin.ask(CREATE, {"username": "alice", "password": "secret"}, username="alice").code == 0
    )
    found = json.loads(admin.ask(GET, username="alice").body)
    assert found == {"username": "alice", "password": "secret", "userType": "Normal",
                     "userStatus": "enable"}  # fmt: skip
    admin.ask(UPDATE, {"userStatus": "disable"}, username="alice")
    assert json.loads(admin.ask(GET, username="alice").body)["userStatus"] == "disable"
    assert [each["username"] for each in json.loads(admin.ask(LIST).body)] == ["admin", "alice"]
    assert [each["username"] for each in json.loads(admin.ask(LIST, filter="lic").body)] == [
        "alice"
    ]
    admin.ask(CREATE_ACL, MAY_PUB, subject="User:alice")
    assert admin.ask(DELETE, username="alice").code == 0
    for code, fields in ((GET, {"username": "alice"}), (GET_ACL, {"subject": "User:alice"}),
                         (LIST, {"filter": "alice"}), (LIST_ACL, {})):  # fmt: skip
        reply = admin.ask(code, **fields)
        assert (reply.code, reply.body) == (0, b""), code


def test_acls_are_made_shown_and_deleted(guard: Guard) -> None:
    admin = Admin(guard)
    admin.ask(CREATE, {"password": "secret"}, username="alice")
    admin.ask(CREATE_ACL, MAY_PUB, subject="User:alice")
    entry = {"resource": "Group:g", "actions": ["Sub"], "sourceIps": ["10.0.0.0/8"],
             "decision": "Deny"}  # fmt: skip
    admin.ask(UPDATE_ACL, {"policies": [{"entries": [entry]}]}, subject="User:alice")
    found = json.loads(admin.ask(GET_ACL, subject="User:alice").body)
    assert found["subject"] == "User:alice"
    assert [each["resource"] for each in found["policies"][0]["entries"]] == ["Topic:t", "Group:g"]
    assert found["policies"][0]["entries"][1] == entry
    assert json.loads(admin.ask(LIST_ACL, resourceFilter="Group").body) == [found]
    assert admin.ask(LIST_ACL, subjectFilter="bob").body == b""
    admin.ask(DELETE_ACL, subject="User:alice", policyType="Custom", resource="Topic:t")
    admin.ask(DELETE_ACL, subject="User:alice")
    assert admin.refused(DELETE_ACL, subject="User:alice") == (16, "The acl is not exist.")


def test_refusals_are_rocketmqs(guard: Guard) -> None:
    admin = Admin(guard)
    assert admin.refused(CREATE, {"password": "x"}) == (29, "The username is blank")
    assert admin.refused(CREATE, {}, username="bob") == (16, "password can not be blank")
    assert admin.refused(CREATE, {"password": "x"}, username="admin") == (16, "The user is existed")
    assert admin.refused(UPDATE, {}, username="bob") == (16, "The user is not exist")
    assert admin.refused(CREATE_ACL, MAY_PUB, subject="User:bob") == (
        16, "The subject of User:bob is not exist.",
    )  # fmt: skip
    for code in (DELETE, GET, CREATE_ACL, DELETE_ACL, GET_ACL):
        with pytest.raises(ProtocolError, match="is missing"):
            admin.ask(code)


def test_only_super_users_touch_super_users_and_see_passwords(guard: Guard) -> None:
    admin = Admin(guard)
    admin.ask(CREATE, {"password": "secret"}, username="alice")
    king = {"password": "x", "userType": "Super"}
    for asker in (Admin(guard, "alice"), Admin(guard, None)):
        assert asker.refused(CREATE, king, username="king")[0] == 1
        assert asker.refused(UPDATE, {"userType": "Super"}, username="alice")[0] == 1
        assert asker.refused(DELETE, username="admin")[0] == 1
        assert "password" not in json.loads(asker.ask(GET, username="alice").body)
        assert all("password" not in each for each in json.loads(asker.ask(LIST).body))
    far = Admin(guard, "admin", THERE)
    assert "password" not in json.loads(far.ask(GET, username="alice").body)
    assert json.loads(admin.ask(GET, username="alice").body)["password"] == "secret"


def test_where_nobody_is_asked_there_are_no_accounts(tmp_path: Path) -> None:
    guard = Guard(load_properties(None, {}), tmp_path, "DefaultCluster")
    guard.open()
    for code in HANDLERS:
        status, text = Admin(guard, None).refused(code)
        assert status == 1
        assert "authenticationEnabled=true" in text
    assert list(tmp_path.iterdir()) == []
    assert guard.credentials() is None


def test_what_a_server_signs_with(tmp_path: Path) -> None:
    guard = guard_of(tmp_path)
    guard.open()
    assert guard.credentials() == Credentials("admin", "top")
    admin = Admin(guard)
    admin.ask(UPDATE, {"password": "new"}, username="admin")
    assert guard.credentials() == Credentials("admin", "new")
    admin.ask(CREATE, {"password": "b", "userType": "Super"}, username="boss")
    admin.ask(UPDATE, {"userStatus": "disable"}, username="admin")
    assert guard.credentials() == Credentials("boss", "b")
    inner = '{"accessKey":"inner","secretKey":"i"}'
    other = guard_of(tmp_path, innerClientAuthenticationCredentials=inner)
    other.open()
    assert other.credentials() == Credentials("inner", "i")
    wrong = '{"accessKey":"boss","secretKey":"i"}'
    with pytest.raises(ConfigError, match="another password") as caught:
        guard_of(tmp_path, innerClientAuthenticationCredentials=wrong).open()
    assert '"i"' not in str(caught.value)
