"""Controllers with accounts: a user that is no Super user learns nothing and changes nothing.

The requests are those of brokers and operators, over the controller's port. Brokers sign as
innerClientAuthenticationCredentials makes them sign.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.command_line import rmq
from support.controllers import NAME, Replica, controller, in_sync
from support.driven_clock import DrivenClock
from support.name_server import in_loop

from rmq.client.blocking.credentials import NAME as ACCESS
from rmq.client.blocking.credentials import SECRET
from rmq.codes import RequestCode, ResponseCode
from rmq.format.remoting import Command
from rmq.format.signature import Credentials

ADMIN, ALICE = Credentials("admin", "top secret"), Credentials("alice", "wonderland")
FORGED = Credentials("admin", "another")
ARMED = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": "admin", "password": "top secret"}),
}
ADDRESS = "127.0.0.1:10001"
FIELDS = {**NAME, "brokerId": 1, "brokerAddress": ADDRESS, "brokerAddr": ADDRESS,
          "appliedBrokerId": 1, "registerCheckCode": f"{ADDRESS};1700000000000",
          "designateElect": True, "masterBrokerId": 1, "masterEpoch": 1, "epoch": 1}  # fmt: skip


class Signing(Replica):
    """A replica that signs as somebody, or as nobody."""

    def __init__(self, port: int, broker_id: int, who: Credentials | None) -> None:
        super().__init__(port, broker_id)
        self.who = who

    async def send(self, request: Command) -> None:
        if self.who is not None:
            request = replace(request, fields=self.who.sign(request.fields, request.body))
        await super().send(request)


class Changed(Signing):
    """A replica whose requests are changed after they were signed."""

    async def send(self, request: Command) -> None:
        assert self.who is not None
        signed = self.who.sign(request.fields, request.body)
        await Replica.send(self, replace(request, fields={**signed, "brokerId": "2"}))


async def begin_with_alice(one: Signing, resource: str, action: str) -> None:
    """Gives alice this one permission, and makes replica 1 master."""
    user = json.dumps({"username": "alice", "password": "wonderland"})
    assert (await one.call(3001, user.encode(), username="alice")).code == 0
    entry = {"resource": resource, "actions": [action], "decision": "Allow"}
    acl = {"policies": [{"policyType": "Custom", "entries": [entry]}]}
    assert (await one.call(3006, json.dumps(acl).encode(), subject="User:alice")).code == 0
    await one.join()
    assert (await one.elect()).code == 0


@in_loop
async def test_brokers_that_sign_elect_and_all_others_are_refused(
    clock: DrivenClock, tmp_path: Path
) -> None:
    async with (
        controller(tmp_path, **ARMED) as server,
        Signing(server.port, 1, ADMIN) as one,
        Signing(server.port, 2, ADMIN) as two,
    ):
        clock.advance(5.3)
        user = json.dumps({"username": "alice", "password": "wonderland", "userType": "Normal"})
        assert (await one.call(3001, user.encode(), username="alice")).code == 0
        for each in (one, two):
            await each.join()
            await each.beat(heartbeatTimeoutMills=600_000)  # however long all the codes take
        assert (await one.elect()).code == 0
        assert (await one.alter([1, 2], 1, 1)).code == 0
        before = await one.look()
        for kind, who in ((Signing, None), (Signing, FORGED), (Signing, ALICE), (Changed, ADMIN)):
            async with kind(server.port, 2, who) as other:
                for code in RequestCode:
                    reply = await other.call(int(code), b"{}", **FIELDS)
                    refused = (ResponseCode.NO_PERMISSION, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
                    assert reply.code in refused, (who, code, reply.code, reply.remark)
                    assert reply.body == b"", (who, code)
        after = await one.look()
        assert in_sync(after) == in_sync(before) == ([1, 2], 2)
        assert after.fields == before.fields


@in_loop
async def test_the_cluster_that_is_named_has_to_be_the_brokers(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """A user who may change one cluster must not be able to name it together with another cluster's
    broker."""
    async with controller(tmp_path, **ARMED) as server, Signing(server.port, 1, ADMIN) as one:
        clock.advance(5.3)
        await begin_with_alice(one, "Cluster:d", "Update")
        before = await one.look()
        asked = {"brokerName": "broker-a", "brokerId": 1, "brokerAddress": "127.0.0.1:1",
                 "designateElect": True, "isCleanLivingBroker": True}  # fmt: skip
        wrong = {1002: ResponseCode.CONTROLLER_INVALID_REQUEST,
                 1011: ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA}  # fmt: skip
        async with Signing(server.port, 1, ALICE) as other:
            for code, refused in wrong.items():
                reply = await other.call(code, **asked, clusterName="d")
                assert (reply.code, "is of cluster c" in str(reply.remark)) == (refused, True)
                # Without a cluster's name, whichever one the broker belongs to.
                reply = await other.call(code, **asked)
                assert reply.code == ResponseCode.NO_PERMISSION
            registered = await other.call(1003, **asked, clusterName="d")  # only for servers
            assert registered.code == ResponseCode.NO_PERMISSION
        assert (await one.look()).fields == before.fields
        # A user who may change all clusters need not name one: mqadmin cleanBrokerMetadata -l does
        # not.
        assert (await one.call(1011, **asked)).code == 0


@in_loop
async def test_who_only_looks_neither_renews_a_lease_nor_ends_it(
    clock: DrivenClock, tmp_path: Path
) -> None:
    async with controller(tmp_path, **ARMED) as server, Signing(server.port, 1, ADMIN) as one:
        clock.advance(5.3)
        await begin_with_alice(one, "Cluster:*", "Get")
        async with Signing(server.port, 1, ALICE) as other:
            before = await other.call(1004, brokerName="broker-a")
            assert (before.code, before.fields["masterBrokerId"]) == (0, "1")
            for more in ({}, {"rmqResign": True}, {"rmqCovered": False}):
                of_master = {"rmqBrokerId": 1, "rmqMasterEpoch": before.fields["masterEpoch"]}
                reply = await other.call(1004, brokerName="broker-a", **of_master, **more)
                assert reply.code == ResponseCode.NO_PERMISSION
        after = await one.call(1004, brokerName="broker-a", **of_master)
        assert int(after.fields["rmqLeaseMillis"]) > 0, "it leads as before"
        assert after.fields["masterEpoch"] == before.fields["masterEpoch"]


@in_loop
async def test_who_is_deleted_is_refused_at_once(tmp_path: Path) -> None:
    async with controller(tmp_path, **ARMED) as server, Signing(server.port, 1, ADMIN) as admin:
        user = json.dumps({"username": "root", "password": "r", "userType": "Super"})
        assert (await admin.call(3001, user.encode(), username="root")).code == 0
        async with Signing(server.port, 2, Credentials("root", "r")) as root:
            assert (await root.call(1005)).code == 0
            assert (await admin.call(3003, username="root")).code == 0
            assert (await root.call(1005)).code == ResponseCode.NO_PERMISSION


async def command(*words: str, code: int = 0) -> str:
    """Runs the command, and returns what it prints."""
    done = await asyncio.to_thread(rmq, *words)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture
def as_admin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ACCESS, "admin")
    monkeypatch.setenv(SECRET, "top secret")
    monkeypatch.setenv("RMQ_NEW_PASSWORD", "wonderland")


@pytest.mark.usefixtures("as_admin")
@in_loop
async def test_commands_make_users_at_all_controllers_that_are_named(tmp_path: Path) -> None:
    """The user must be made at each of them, because each controller has its own accounts."""
    async with (
        controller(tmp_path / "1", **ARMED) as one,
        controller(tmp_path / "2", **ARMED) as two,
        Signing(one.port, 1, ADMIN) as broker,
    ):
        named = ("--controller", f"{one.address};{two.address}")
        said = await command("user", "create", "alice", *named)
        assert said == f"alice: created on {one.address}, {two.address}\n"
        entry = ("alice", "Cluster:*", "--actions", "Get")
        assert "alice may Get Cluster:*" in await command("acl", "allow", *entry, *named)
        for each in (one, two):
            alone = ("--controller", each.address, "--json")
            users = json.loads(await command("user", "list", *alone))
            assert [user["user"] for user in users] == ["admin", "alice"]
            (row,) = json.loads(await command("acl", "list", *alone))
            assert (row["resource"], row["actions"]) == ("Cluster:*", ["Get"])
        await broker.join()
        async with Signing(two.port, 1, ALICE) as alice:
            assert (await alice.call(1005)).code == 0
            await command("user", "update", "alice", "--disable", *named)
            assert (await alice.call(1005)).code == ResponseCode.NO_PERMISSION
        await command("user", "delete", "alice", "--yes", *named)
        assert "alice" not in await command("user", "list", "--controller", one.address)


@pytest.mark.usefixtures("as_admin")
@in_loop
async def test_lists_say_which_controllers_have_others(tmp_path: Path) -> None:
    async with (
        controller(tmp_path / "1", **ARMED) as one,
        controller(tmp_path / "2", **ARMED) as two,
        controller(tmp_path / "3", **ARMED) as three,
        controller(tmp_path / "open") as open_one,
    ):
        first, second, third, none = (each.address for each in (one, two, three, open_one))
        await command("user", "create", "alice", "--controller", f"{first};{second};{third}")
        named = ("--controller", f"{first};{second};{third};{none}")
        for what in ("user", "acl"):
            (line,) = (await listing(what, *named)).stderr.splitlines()
            assert line.startswith(f"{none}: ") and "accounts are not in use here" in line
        entry = ("acl", "allow", "alice", "Cluster:*", "--actions", "Get,Update")
        await command(*entry, "--controller", f"{first};{third}")
        await command("user", "create", "bob", "--super", "--controller", second)
        await command("user", "update", "alice", "--disable", "--controller", third)
        listed = await listing("user", *named)
        assert [row["user"] for row in json.loads(listed.stdout)] == ["admin", "alice"]
        assert listed.stderr.splitlines()[:-1] == [
            f"{second} differs from {first}: added bob",
            f"{third} differs from {first}: changed alice",
        ]
        listed = await listing("acl", *named)
        assert [row["user"] for row in json.loads(listed.stdout)] == ["alice"]
        assert listed.stderr.splitlines()[0] == f"{second} differs from {first}: missing alice"
        listed = await listing("user", "bob", "--controller", f"{second};{first};{third}")
        assert listed.stderr == f"{first}, {third} differ from {second}: missing bob\n"
    listed = await listing("user", *named, code=3)
    assert "Start one with `rmq controller`" in listed.stderr


async def listing(what: str, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = await asyncio.to_thread(rmq, what, "list", *words, "--json")
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.usefixtures("as_admin")
@in_loop
async def test_commands_say_where_the_accounts_of_a_controller_are(tmp_path: Path) -> None:
    async with controller(tmp_path / "1", **ARMED) as one, controller(tmp_path / "2") as open_one:
        for words in (("user", "list"), ("user", "create", "alice"), ("acl", "list")):
            text = await command(*words, "-n", one.address, code=1)
            assert f"accounts, use --controller {one.address}" in text
        text = await command("user", "create", "alice", "--controller", open_one.address, code=1)
        assert "accounts are not in use here; start with authenticationEnabled=true" in text
    text = await command("user", "list", "--controller", one.address, code=3)
    assert "Start one with `rmq controller`" in text
    text = await command("user", "list", "--controller", "nonsense", code=2)
    assert "nonsense" in text
