"""Users on their way to the reactor: if one user cannot be put there, the changes of the other
users count all the same, and that user is no longer let in.

Method: a real core that has no memory for one user at one moment.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from support.shard import Shard

from rmq.auth.accounts import Accounts
from rmq.auth.guard import Guard
from rmq.broker.access import Access
from rmq.config import load_properties
from rmq.format.remoting import Command, encode
from rmq.format.signature import Credentials

ARMED = {
    "authenticationEnabled": "true", "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"admin","password":"top"}',
}  # fmt: skip


class ShortOfMemory:
    """The core, but without memory for the user `refuses`, or for lists of white addresses."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self.refuses = b""
        self.refuses_lists = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def put_user(self, name: bytes, *given: Any) -> None:
        if name == self.refuses:
            raise MemoryError("no memory for accounts")
        self._core.put_user(name, *given)

    def set_white_list(self, packed: bytes) -> None:
        if packed and self.refuses_lists:
            raise MemoryError("no memory for addresses")
        self._core.set_white_list(packed)


def test_a_user_that_cannot_be_brought_is_out_and_all_others_are_as_they_should_be(
    tmp_path: Path,
) -> None:
    guard = Guard(load_properties(None, ARMED), tmp_path, "DefaultCluster")
    guard.open()
    with Shard(tmp_path) as shard:
        core = ShortOfMemory(shard.core)
        gone: set[str] = set()
        access = Access(guard, core)
        access.on_gone = gone.update
        names = ("anna", "bob", "carol")

        def make(accounts: Accounts) -> None:
            for name in names:
                accounts.create_user(name, {"password": "x", "userType": "Super"}, by_super=True)

        def disable(accounts: Accounts) -> None:
            for name in names:
                accounts.update_user(name, {"userStatus": "disable"}, by_super=True)

        def said() -> list[str]:
            client = shard.connect()
            asked = [Credentials(name, "x").sign({"a": "p", "b": "t"}) for name in names]
            found = [client.ask(encode(Command(code=310, fields=each))).remark for each in asked]
            return [text or "" for text in found]

        asyncio.run(guard.store.change(b"make", make))
        access.open()
        assert [text for text in said() if text.startswith("User:")] == []
        core.refuses = b"bob"
        asyncio.run(guard.store.change(b"disable", disable))
        disabled = [f"User:{name} is disabled." for name in names]
        assert said() == [disabled[0], "User:bob is not found.", disabled[2]]
        assert gone == set(names)
        core.refuses = b""
        asyncio.run(guard.store.look())
        assert said() == disabled


def test_who_is_gone_is_told_until_it_is_heard_also_where_he_never_was(tmp_path: Path) -> None:
    guard = Guard(load_properties(None, ARMED), tmp_path, "DefaultCluster")
    guard.open()
    with Shard(tmp_path) as shard:
        core = ShortOfMemory(shard.core)
        heard: list[set[str]] = []
        deaf = True

        def told(names: set[str]) -> None:
            if deaf:
                raise RuntimeError("nobody hears")
            heard.append(set(names))

        access = Access(guard, core)
        access.on_gone = told
        names = ("anna", "bob")

        def make(accounts: Accounts) -> None:
            for name in names:
                accounts.create_user(name, {"password": "x", "userType": "Super"}, by_super=True)

        def delete(accounts: Accounts) -> None:
            for name in names:
                accounts.delete_user(name, by_super=True)

        access.open()
        core.refuses = b"bob"
        core.refuses_lists = True
        asyncio.run(guard.store.change(b"make", make))
        asyncio.run(guard.store.change(b"delete", delete))
        assert heard == []
        deaf = False
        asyncio.run(guard.store.look())
        assert heard == [set(names)]
        asyncio.run(guard.store.look())
        assert heard == [set(names)]
