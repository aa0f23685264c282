"""Accounts in step with their file, which several servers may share.

Method: stores on one file stand for the processes; each reads and writes as its process would.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from support.waiting import HANG_S

from rmq.auth import account_store
from rmq.auth.account_file import NAME, AccountFile
from rmq.auth.account_store import AccountStore
from rmq.auth.accounts import Accounts
from rmq.auth.fixed_accounts import FixedAccounts
from rmq.auth.plain_acl import PlainAclFiles
from rmq.auth.policy import Acl
from rmq.errors import ConfigError, ProtocolError, StoreError
from rmq.format.signature import Credentials
from rmq.refusal import Refusal

FIRST = (("initAuthenticationUser", Credentials("admin", "top")),)


def opened(folder: Path, on_change: Callable[[], None] = lambda: None) -> AccountStore:
    store = AccountStore(folder / NAME, on_change)
    store.open(FIRST)
    return store


def user(name: str, password: str = "secret") -> Callable[[Accounts], None]:
    return lambda accounts: accounts.create_user(name, {"password": password}, by_super=True)


def names(store: AccountStore) -> list[str]:
    return [user.name for user in store.accounts.users()]


def test_a_change_is_on_the_disk_when_it_is_answered(tmp_path: Path) -> None:
    heard: list[int] = []
    store = opened(tmp_path, lambda: heard.append(1))
    kept = store.accounts
    asyncio.run(store.change(b"alice", user("alice")))
    assert kept is store.accounts
    assert len(heard) == 2
    assert names(store) == names(opened(tmp_path)) == ["admin", "alice"]


def test_what_is_refused_changes_nothing(tmp_path: Path) -> None:
    store = opened(tmp_path)
    stamp = (tmp_path / NAME).stat().st_mtime_ns

    def half(accounts: Accounts) -> None:
        accounts.create_user("bob", {"password": "x"}, by_super=True)
        accounts.create_user("admin", {"password": "x"}, by_super=True)

    with pytest.raises(Refusal, match="existed"):
        asyncio.run(store.change(b"x", half))
    assert names(store) == ["admin"]
    assert (tmp_path / NAME).stat().st_mtime_ns == stamp


def test_what_cannot_be_written_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rmq.base.json_file.write_synced", full)
    with pytest.raises(OSError, match="No space"):
        asyncio.run(store.change(b"x", user("alice")))
    monkeypatch.undo()
    assert names(store) == names(opened(tmp_path)) == ["admin"]


def test_servers_of_one_file_see_each_others_changes(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)

    async def run() -> None:
        await one.change(b"alice", user("alice"))
        assert names(other) == ["admin"]
        await other.look()
        assert names(other) == ["admin", "alice"]
        await one.change(b"bob", user("bob"))
        await other.change(b"carol", user("carol"))  # the change is made to what the file has now
        assert names(other) == ["admin", "alice", "bob", "carol"]
        await one.look()
        assert names(one) == names(other)

    asyncio.run(run())


def test_a_change_of_one_costs_what_one_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of one user must cost the work for one user: where it is made, at the other servers
    of the file, and at a slave. With ten thousand users the work for all took seconds, and a
    deleted user was let in that long."""
    table = {
        name: [{"policyType": "Custom", "entries": [
            {"resource": f"Topic:of-{name}*", "actions": ["Pub"], "decision": "Allow"}]}]
        for name in (f"user{number}" for number in range(200))
    }  # fmt: skip
    users = {name: {"password": "x"} for name in table}
    path = tmp_path / NAME
    path.write_text(json.dumps({"users": users, "acls": table}, indent=4))
    path.chmod(0o600)
    one, other, slave = opened(tmp_path), opened(tmp_path), opened(tmp_path / "slave")
    asyncio.run(slave.copy(msgspec.json.encode(one.content()), ()))
    asyncio.run(one.change(b"first", user("carol")))  # this also writes the file in rmq's layout
    asyncio.run(other.look())
    read, written = list[str](), list[str]()
    of, members = Acl.of, Acl.members
    monkeypatch.setattr(Acl, "of", lambda given: read.append(str(given)) or of(given))
    monkeypatch.setattr(Acl, "members", lambda acl: written.append(str(acl)) or members(acl))

    def deny(accounts: Accounts) -> None:
        accounts.delete_user("user7", by_super=True)
        accounts.put_acl("User:user8", [{**table["user8"][0], "policyType": "Default"}])

    asyncio.run(one.change(b"deny", deny))
    assert (len(read), len(written)) == (1, 1), "the request's, and that of user8"
    asyncio.run(other.look())
    asyncio.run(slave.copy(msgspec.json.encode(one.content()), ()))
    assert (len(read), len(written)) == (3, 1)
    monkeypatch.undo()
    for each in (one, other, slave, opened(tmp_path), opened(tmp_path / "slave")):
        assert each.accounts.user("user7") is None and each.accounts.acl("user7") == Acl()
        kinds = [policy["policyType"] for policy in each.accounts.acl("user8").members()]
        assert kinds == ["Custom", "Default"]
        assert each.accounts.acl("user9").members() == of(table["user9"]).members()


def test_who_follows_takes_a_change_by_itself(tmp_path: Path) -> None:
    one = opened(tmp_path)

    async def run() -> None:
        seen = asyncio.Event()
        other = AccountStore(tmp_path / NAME)
        other.open(FIRST)
        other.on_change = seen.set
        following = asyncio.create_task(other.follow())
        await one.change(b"alice", user("alice"))
        await asyncio.wait_for(seen.wait(), HANG_S)
        assert names(other) == ["admin", "alice"]
        following.cancel()

    asyncio.run(run())


def test_a_change_that_is_sent_to_each_server_of_a_file_is_made_once(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)

    async def run() -> None:
        await one.change(b"alice", user("alice"))
        await other.change(b"alice", user("alice"))
        with pytest.raises(Refusal, match="existed"):
            await one.change(b"alice", user("alice"))
        with pytest.raises(Refusal, match="existed"):
            await other.change(b"alice, by another password", user("alice", "other"))
        # The same change after another one is a new change.
        await one.change(b"no alice", lambda accounts: accounts.delete_user("alice", True))
        await other.change(b"alice", user("alice"))
        assert names(other) == ["admin", "alice"]

    asyncio.run(run())


def test_long_after_it_is_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = opened(tmp_path), opened(tmp_path)
    asyncio.run(one.change(b"alice", user("alice")))
    now_ms = account_store.clock.now_ms() + 31_000
    monkeypatch.setattr(account_store.clock, "now_ms", lambda: now_ms)
    with pytest.raises(Refusal, match="existed"):
        asyncio.run(other.change(b"alice", user("alice")))


def test_the_first_user_is_made_once_and_never_changed(tmp_path: Path) -> None:
    store = opened(tmp_path)
    change = {"password": "mine"}

    async def run() -> None:
        await store.change(
            b"x", lambda accounts: accounts.update_user("admin", change, by_super=True)
        )
        king = {"password": "k", "userType": "Super"}
        await store.change(b"y", lambda accounts: accounts.create_user("king", king, True))

    asyncio.run(run())
    found = opened(tmp_path).accounts.user("admin")
    assert found is not None
    assert found.password == "mine"
    asyncio.run(store.change(b"z", lambda accounts: accounts.delete_user("admin", True)))
    assert names(opened(tmp_path)) == ["king"], "who was deleted stays away"


def test_without_a_super_user_nobody_could_make_others(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="initAuthenticationUser="):
        AccountStore(tmp_path / NAME).open(())
    assert not (tmp_path / NAME).exists()


def test_who_is_cancelled_while_it_changes_does_not_undo_it(tmp_path: Path) -> None:
    """A cancelled change must not be undone: it is on the disk, and the next change must not write
    the state before it."""
    store = opened(tmp_path)

    async def run() -> None:
        await store.change(b"alice", user("alice"))
        changing = asyncio.create_task(
            store.change(b"no alice", lambda accounts: accounts.delete_user("alice", True))
        )
        await asyncio.sleep(0)
        changing.cancel()
        await store.change(b"bob", user("bob"))

    asyncio.run(run())
    assert names(store) == names(opened(tmp_path)) == ["admin", "bob"]


def test_one_who_cannot_take_a_change_is_told_again(tmp_path: Path) -> None:
    told: list[bool] = []

    def take() -> None:
        told.append(len(told) > 1)
        if not told[-1]:
            raise StoreError("not now")

    store = opened(tmp_path, take)

    async def run() -> None:
        await store.change(b"alice", user("alice"))
        for _ in range(3):
            await store.look()

    asyncio.run(run())
    assert names(store) == ["admin", "alice"]
    assert told == [False, False, True], "and not any more then"


def test_a_lock_that_is_held_for_too_long_ends_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path)
    monkeypatch.setattr("rmq.auth.account_file.LOCK_S", 0.05)
    with (
        AccountFile(tmp_path / NAME).locked(),
        pytest.raises(ConfigError, match="held by another process"),
    ):
        opened(tmp_path)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be used"):
        opened(tmp_path / "file")


def test_the_copy_knows_of_no_user_who_is_gone(tmp_path: Path) -> None:
    store = opened(tmp_path)
    asyncio.run(store.change(b"alice", user("alice")))
    asyncio.run(store.change(b"x", lambda accounts: accounts.delete_user("alice", True)))
    (tmp_path / NAME).write_text("{")
    assert names(opened(tmp_path)) == ["admin"]


@pytest.mark.parametrize("content", [None, "", "{", '{"users":{"alice":3}}'])
def test_a_file_that_is_damaged_later_leaves_the_accounts_as_they_were(
    tmp_path: Path, content: str | None
) -> None:
    store = opened(tmp_path)
    path = tmp_path / NAME
    if content is None:
        path.unlink()
        (tmp_path / f"{NAME}.bak").unlink()
    else:
        path.write_text(content)
    with pytest.raises((StoreError, ConfigError, OSError)):
        asyncio.run(store.look())
    assert names(store) == ["admin"]
    assert path.exists() == (content is not None), "it stays where its owner has it"


PLAIN = "accounts: [{accessKey: carol12, secretKey: 12345678, admin: %s}]"


def test_accounts_of_files_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(PLAIN % "true")
    heard: list[int] = []
    store = AccountStore(tmp_path / NAME, lambda: heard.append(1), PlainAclFiles(path))
    store.open(())
    assert names(store) == ["carol12"], "the Super user that there has to be"
    asyncio.run(store.change(b"alice", user("alice")))
    assert names(store) == ["alice", "carol12"]
    assert "carol12" not in (tmp_path / NAME).read_text()
    told = len(heard)
    path.write_text(PLAIN % "true" + "\nglobalWhiteRemoteAddresses: [10.0.0.*]")
    look_twice(store)
    assert len(heard) == told + 1
    assert len(store.accounts.fixed.white) == 1
    path.write_text("accounts: [")
    with pytest.raises(ConfigError, match=r"plain_acl\.yml"):
        look_twice(store)
    path.write_text(PLAIN % "false")
    with pytest.raises(ConfigError, match="no account with admin: true, and no other is Super"):
        look_twice(store)
    asyncio.run(store.look())
    assert names(store) == ["alice", "carol12"], "as they were"
    assert len(store.accounts.fixed.white) == 1


def look_twice(store: AccountStore) -> None:
    for _ in range(2):
        asyncio.run(store.look())


class Unreadable:
    """The account files of a disk that fails."""

    def read(self) -> FixedAccounts:
        return FixedAccounts()

    def changed(self) -> FixedAccounts | None:
        raise PermissionError(13, "Permission denied")


def test_files_that_cannot_be_looked_at_hide_no_change_of_the_others(tmp_path: Path) -> None:
    store = AccountStore(tmp_path / NAME, fixed=Unreadable())
    store.open(FIRST)
    asyncio.run(opened(tmp_path).change(b"alice", user("alice")))
    with pytest.raises(PermissionError):
        asyncio.run(store.look())
    assert names(store) == ["admin", "alice"]


def test_without_any_super_user_there_is_no_start(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(PLAIN % "false")
    with pytest.raises(ConfigError, match="an account with admin: true"):
        AccountStore(tmp_path / NAME, fixed=PlainAclFiles(path)).open(())


def test_a_slave_becomes_what_its_master_is(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "master"), opened(tmp_path / "slave")
    own = (Credentials("inner", "side"),)
    asyncio.run(slave.change(b"old", user("old")))
    asyncio.run(master.change(b"alice", user("alice")))
    asyncio.run(slave.copy(msgspec.json.encode(master.content()), own))
    assert names(slave) == ["admin", "alice", "inner"]
    found = slave.accounts.user("inner")
    assert found is not None and found.is_super
    # A tool makes the same change at each of them.
    asyncio.run(slave.change(b"alice", user("alice")))
    stamp = (tmp_path / "slave" / NAME).stat()
    asyncio.run(slave.copy(msgspec.json.encode(master.content()), own))
    assert (tmp_path / "slave" / NAME).stat() == stamp, "nothing is written for nothing"
    asyncio.run(master.change(b"gone", lambda it: it.delete_user("alice", True)))
    asyncio.run(slave.copy(msgspec.json.encode(master.content()), own))
    assert names(slave) == names(opened(tmp_path / "slave")) == ["admin", "inner"]


def test_what_is_no_accounts_leaves_a_slave_as_it_was(tmp_path: Path) -> None:
    slave = opened(tmp_path)
    for wrong in (
        b'{"users":[]}', b'{"users":{"x":1}}', b'{"users":{},"lastChange":{"at_ms":"x"}}', b"[]",
        b"3", b'{"users":{"x":', b"",
    ):  # fmt: skip
        with pytest.raises(ProtocolError):
            asyncio.run(slave.copy(wrong, ()))
    assert names(slave) == names(opened(tmp_path)) == ["admin"]
