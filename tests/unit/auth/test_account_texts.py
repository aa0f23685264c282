"""Accounts are read again only from the texts that have changed, and no text is taken for
another."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from rmq.auth.account_texts import AccountTexts, plain_or_any
from rmq.auth.accounts import Accounts
from rmq.errors import ProtocolError

ACL = [{
    "policyType": "Custom",
    "entries": [{"resource": "Topic:t", "actions": ["Pub"], "decision": "Allow"}],
}]  # fmt: skip


def content(**passwords: str) -> dict[str, Any]:
    users = {name: {"password": password} for name, password in passwords.items()}
    return {"users": users, "acls": dict.fromkeys(users, ACL)}


def split(given: Any, indent: int | None = None) -> Any:
    return plain_or_any(json.dumps(given, indent=indent).encode())


def test_what_has_the_text_that_it_had_is_the_object_of_before() -> None:
    texts = AccountTexts()
    before = texts.read(split(content(alice="a", bob="b")))
    for given in (
        split(content(alice="a", bob="other"), indent=3),
        content(alice="a", bob="another one"),  # in the layout in which another server sends them
    ):
        after = texts.read(given)
        assert after.user("alice") is before.user("alice")
        assert after.acl("bob") is before.acl("bob")
        assert after.user("bob") != before.user("bob")
    assert texts.read(split(content(alice="a"))).user("bob") is None
    again = texts.read(split(content(alice="a", bob="b")))
    assert again.tables() == before.tables()


def test_a_text_is_written_for_the_object_that_it_was_read_as_alone() -> None:
    texts = AccountTexts()
    accounts = texts.read(split(content(alice="a", bob="b")))
    accounts.update_user("alice", {"password": "changed"}, by_super=True)
    accounts.put_acl("User:bob", [{"entries": [{**ACL[0]["entries"][0], "decision": "Deny"}]}])
    accounts.create_user("carol", {"password": "c"}, by_super=True)
    for written in (texts.content(accounts), texts.content(accounts)):
        read = AccountTexts().read(json.loads(msgspec.json.encode(written)))
        assert read.tables() == accounts.tables()
    assert texts.content(Accounts()) == {"users": {}, "acls": {}}


@pytest.mark.parametrize(
    "text",
    ['{users:{alice:{password:"a"}}}', '{"users":{"alice":{"password":"a",}}}',
     '{"users":{"alice":{"password":"a"}},"acls":{}}',
     '{"users":{"bob":{"password":"\u00e9"},"alice":{"password":"a"}}}'],
)  # fmt: skip
def test_what_people_write_by_hand_is_read(text: str) -> None:
    """Accounts that people wrote by hand must be read even with bytes that are not Unicode, as
    fastjson reads them. Such a byte must not be written again."""
    texts = AccountTexts()
    accounts = texts.read(plain_or_any(text.encode("latin-1")))
    user = accounts.user("alice")
    assert user is not None and user.password == "a"
    json.loads(msgspec.json.encode(texts.content(accounts)))


@pytest.mark.parametrize(
    "data",
    [b'{"users":{"alice":{"password":"a"}',
     b'{"users":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"],
)  # fmt: skip
def test_what_is_damaged_is_no_file(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        plain_or_any(data)


@pytest.mark.parametrize(
    "wrong", [{"users": []}, {"acls": {"alice": 1 << 90}}, {"users": {"alice": [float("nan")]}}]
)
def test_what_is_no_account_changes_nothing(wrong: Any) -> None:
    texts = AccountTexts()
    before = texts.read(split(content(alice="a")))
    with pytest.raises(ProtocolError):
        texts.read(wrong)
    assert texts.read(split(content(alice="a"))).tables() == before.tables()
