"""Users and ACLs: how they change, with RocketMQ's codes and texts, and the file that holds
them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rmq.auth.account_file import NAME, AccountFile
from rmq.auth.accounts import ENTRIES_MAX, Accounts
from rmq.auth.fixed_accounts import FixedAccounts
from rmq.auth.policy import Acl
from rmq.auth.user import User, UserStatus, UserType
from rmq.errors import ConfigError, StoreCorruptError
from rmq.refusal import Refusal

SECRET = {"password": "secret"}
SUPER = {"password": "secret", "userType": "Super"}
ILLEGAL, FAILED, REFUSED = 29, 1, 16


def policies(resource: str = "Topic:t", kind: str = "Custom", decision: str = "Allow") -> Any:
    members = {"resource": resource, "actions": ["Pub"], "decision": decision}
    return [{"policyType": kind, "entries": [members]}]


@pytest.fixture
def accounts() -> Accounts:
    accounts = Accounts()
    accounts.create_user("alice", SECRET, by_super=False)
    return accounts


def refused(code: int, text: str, call: Any, *given: Any) -> None:
    with pytest.raises(Refusal) as caught:
        call(*given)
    assert (caught.value.code, caught.value.remark) == (code, text)


def test_users_are_made_changed_and_deleted(accounts: Accounts) -> None:
    user = accounts.user("alice")
    assert user is not None
    assert (user.password, user.type, user.status) == (
        "secret", UserType.NORMAL, UserStatus.ENABLE,
    )  # fmt: skip
    refused(REFUSED, "The user is existed", accounts.create_user, "alice", SECRET, True)
    accounts.update_user("alice", {"userStatus": "disable"}, by_super=False)
    user = accounts.user("alice")
    assert user is not None
    assert (user.password, user.is_enabled) == ("secret", False)
    assert "secret" not in repr(user)
    accounts.put_acl("User:alice", policies())
    accounts.delete_user("alice", by_super=False)
    assert accounts.user("alice") is None
    assert accounts.acl("alice") == Acl(), "a new user of the name does not begin with it"
    version = accounts.version
    accounts.delete_user("alice", by_super=False)
    assert accounts.version == version


def test_what_is_no_user(accounts: Accounts) -> None:
    refused(ILLEGAL, "The username is blank", accounts.create_user, " ", SECRET, True)
    refused(REFUSED, "password can not be blank", accounts.create_user, "bob", {}, True)
    refused(REFUSED, "The user is not exist", accounts.update_user, "bob", SECRET, True)
    long = "x" * 999
    for wrong in ({"userType": "King"}, {"userStatus": 3}, {"password": 3}, {"password": long}):
        with pytest.raises(Refusal):
            accounts.update_user("alice", wrong, by_super=True)
    for name in ("b" * 300, "bob\n"):
        with pytest.raises(Refusal):
            accounts.create_user(name, SECRET, by_super=True)


def test_only_a_super_user_touches_super_users(accounts: Accounts) -> None:
    text = "The super user can only be create by super user"
    refused(FAILED, text, accounts.create_user, "root", SUPER, False)
    accounts.create_user("root", SUPER, by_super=True)
    text = "The super user can only be update by super user"
    refused(FAILED, text, accounts.update_user, "alice", {"userType": "Super"}, False)
    refused(FAILED, text, accounts.update_user, "root", {"password": "mine"}, False)
    refused(
        FAILED, "The super user can only be delete by super user", accounts.delete_user, "root",
        False,
    )  # fmt: skip
    accounts.create_user("king", SUPER, by_super=True)
    accounts.update_user("root", {"userType": "Normal"}, by_super=True)
    accounts.delete_user("root", by_super=False)


def test_one_super_user_that_is_enabled_is_left(accounts: Accounts) -> None:
    accounts.create_user("root", SUPER, by_super=True)
    text = "root is the last Super user that is enabled"
    refused(REFUSED, text, accounts.delete_user, "root", True)
    for change in ({"userType": "Normal"}, {"userStatus": "disable"}):
        refused(REFUSED, text, accounts.update_user, "root", change, True)
    accounts.update_user("root", {"password": "new"}, by_super=True)
    accounts.create_user("king", SUPER, by_super=True)
    accounts.delete_user("root", by_super=True)


def test_nobody_gives_himself_rights(accounts: Accounts) -> None:
    alice = accounts.user("alice")
    assert alice is not None
    with pytest.raises(Refusal, match="ask a Super user"):
        accounts.put_acl("User:alice", policies(), alice)
    accounts.create_user("bob", SECRET, by_super=False)
    accounts.put_acl("User:bob", policies(), alice)
    accounts.delete_acl("User:bob", None, None, alice)


def test_users_and_acls_are_listed_by_parts_of_their_names(accounts: Accounts) -> None:
    accounts.create_user("malice", SECRET, by_super=False)
    accounts.create_user("bob", SECRET, by_super=False)
    assert [user.name for user in accounts.users()] == ["alice", "bob", "malice"]
    assert [user.name for user in accounts.users("lice")] == ["alice", "malice"]
    accounts.put_acl("User:alice", policies("Topic:orders"))
    accounts.put_acl("User:bob", policies("Topic:bills"))
    assert [subject for subject, _ in accounts.acls()] == ["User:alice", "User:bob"]
    assert [subject for subject, _ in accounts.acls("ali")] == ["User:alice"]
    assert [subject for subject, _ in accounts.acls("", "bill")] == ["User:bob"]


def test_entries_take_the_place_of_those_of_their_resource(accounts: Accounts) -> None:
    accounts.put_acl("User:alice", policies("Topic:a"))
    accounts.put_acl("User:alice", policies("Topic:b"))
    accounts.put_acl("User:alice", policies("Topic:a", decision="Deny"))
    accounts.put_acl("User:alice", policies("Topic:a", kind="Default"))
    assert [
        (each["policyType"], [(e["resource"], e["decision"]) for e in each["entries"]])
        for each in accounts.acl("alice").members()
    ] == [
        ("Custom", [("Topic:a", "Deny"), ("Topic:b", "Allow")]),
        ("Default", [("Topic:a", "Allow")]),
    ]
    accounts.delete_acl("User:alice", None, "Topic:a")
    accounts.delete_acl("User:alice", "Custom", "Topic:b")
    assert [each["policyType"] for each in accounts.acl("alice").members()] == ["Default"]
    accounts.delete_acl("User:alice", "Default", "Topic:a")
    refused(REFUSED, "The acl is not exist.", accounts.delete_acl, "User:alice", None, None)


def test_more_entries_than_a_user_may_have_are_not_even_read(accounts: Accounts) -> None:
    text = f"User:alice would have more than {ENTRIES_MAX} policy entries"
    unread = [{"entries": ["no entry"] * (ENTRIES_MAX // 2)}] * 2
    refused(REFUSED, "The resource is null.", accounts.put_acl, "User:alice", unread)
    refused(REFUSED, text, accounts.put_acl, "User:alice", [*unread, {"entries": ["no entry"]}])
    accounts.put_acl("User:alice", policies())
    entry = policies()[0]["entries"][0]
    others = [{**entry, "resource": f"Topic:t{number}"} for number in range(ENTRIES_MAX)]
    refused(REFUSED, text, accounts.put_acl, "User:alice", [{"entries": others}])
    accounts.put_acl("User:alice", [{"entries": others[1:]}])


def test_what_is_no_acl(accounts: Accounts) -> None:
    put = accounts.put_acl
    refused(REFUSED, "The subject of User:bob is not exist.", put, "User:bob", policies())
    refused(ILLEGAL, "The subject is blank", put, "alice", policies())
    refused(REFUSED, "The policies is empty.", put, "User:alice", [])
    refused(REFUSED, "The resource is null.", put, "User:alice", policies("t"))
    assert accounts.acls() == []


def test_the_file_has_all_of_it_and_is_its_owners(tmp_path: Path, accounts: Accounts) -> None:
    accounts.create_user("root", SUPER, by_super=True)
    accounts.put_acl("User:alice", policies())
    file = AccountFile(tmp_path / NAME)
    for _ in range(2):
        file.save(accounts)
    names = ["rmqAccounts.json", "rmqAccounts.json.bak"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert all((tmp_path / name).stat().st_mode & 0o777 == 0o600 for name in names)
    again = AccountFile(tmp_path / NAME).load()
    assert again.tables() == accounts.tables()
    assert again.users() == accounts.users()


def test_a_file_that_others_may_read_is_not_believed(tmp_path: Path, accounts: Accounts) -> None:
    AccountFile(tmp_path / NAME).save(accounts)
    (tmp_path / "rmqAccounts.json").chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        AccountFile(tmp_path / NAME).load()


@pytest.mark.parametrize(
    "content",
    [
        {"users": {"alice": {"password": ""}}},
        {"users": {"": {"password": "x"}}},
        {"users": {"alice": 3}},
        {"acls": {"alice": [{"entries": []}]}},
    ],
)
def test_a_file_that_holds_no_accounts_ends_the_start(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "rmqAccounts.json"
    path.write_text(json.dumps(content))
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=r"rmqAccounts\.json"):
        AccountFile(tmp_path / NAME).load()
    path.write_text('{"users": {')
    with pytest.raises(StoreCorruptError):
        AccountFile(tmp_path / NAME).load()


def fixed(*names: str) -> FixedAccounts:
    return FixedAccounts(users={name: User.of(name, SUPER) for name in names})


def test_what_files_give_no_request_changes(accounts: Accounts) -> None:
    accounts.fixed = fixed("carol")
    assert [user.name for user in accounts.users()] == ["alice", "carol"]
    text = "carol is an account of plain_acl.yml: change it in that file"
    for call, given in (
        (accounts.update_user, ("carol", SECRET, True)),
        (accounts.delete_user, ("carol", True)),
        (accounts.put_acl, ("User:carol", policies())),
        (accounts.delete_acl, ("User:carol", None, None)),
    ):
        refused(REFUSED, text, call, *given)
    refused(REFUSED, "The user is existed", accounts.create_user, "carol", SECRET, True)
    copy = accounts.copy()
    assert copy.user("carol") == accounts.user("carol")
    assert copy.tables()[0].keys() == {"alice"}, "what is saved"
    version = accounts.version
    accounts.fixed = FixedAccounts()
    assert accounts.version > version
    assert accounts.user("carol") is None


def test_of_two_accounts_of_a_name_the_file_gives_way(accounts: Accounts) -> None:
    accounts.put_acl("User:alice", policies())
    accounts.fixed = FixedAccounts(
        users={"alice": User.of("alice", SUPER)}, acls={"alice": Acl.of(policies("Topic:u"))}
    )
    alice = accounts.user("alice")
    assert alice is not None
    assert not alice.is_super
    assert accounts.acl("alice") == Acl.of(policies())
    assert accounts.acls() == [("User:alice", Acl.of(policies()))]
    assert accounts.some_super() is None
    accounts.delete_user("alice", by_super=True)
    assert accounts.acl("alice") == Acl.of(policies("Topic:u"))


def test_a_super_user_of_a_file_is_one_that_is_left(accounts: Accounts) -> None:
    accounts.create_user("root", SUPER, by_super=True)
    refused(REFUSED, "root is the last Super user that is enabled", accounts.delete_user,
            "root", True)  # fmt: skip
    accounts.fixed = fixed("carol")
    accounts.delete_user("root", by_super=True)
    assert accounts.some_super() == accounts.user("carol")
    accounts.ensure_super("carol", "other")
    assert accounts.tables()[0].keys() == {"alice"}
