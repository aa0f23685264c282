"""Goal: each request code does what brokers and mqadmin expect, and says what is wrong.

Method: a name server and a client on loopback; files in the test's directory. Not shown here: what
mqadmin prints; the compat tests run it.
"""

import json
import os
from pathlib import Path

import pytest
from support.name_server import (
    DATA_VERSION,
    Client,
    compressed_body,
    in_loop,
    name_server,
    registration_body,
)

from rmq.base import atomic_file
from rmq.codes import RequestCode
from rmq.errors import ConfigError
from rmq.format.audit_log import decode_tail
from rmq.format.remoting import field_texts
from rmq.format.signature import Credentials
from rmq.namesrv import kv_config

BROKER = {
    "clusterName": "C",
    "brokerName": "broker-a",
    "brokerAddr": "10.0.0.1:10911",
    "brokerId": 0,
}
CODES = [
    100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319,
    322, 327, 901, 904,
]  # fmt: skip


@in_loop
async def test_a_broker_registers_is_asked_for_its_version_and_leaves() -> None:
    known = json.dumps(DATA_VERSION).encode()
    async with name_server() as server, Client(server.port) as client:
        asked = await client.call(322, known, **BROKER)
        assert (asked.code, asked.fields, asked.body) == (0, {"changed": "true"}, b"")
        assert (await client.register()).code == 0
        asked = await client.call(322, known, **BROKER)
        assert asked.fields == {"changed": "false"}
        assert json.loads(asked.body) == DATA_VERSION
        asked = await client.call(
            322, json.dumps({**DATA_VERSION, "counter": 2}).encode(), **BROKER
        )
        assert asked.fields == {"changed": "true"}
        assert (await client.call(904, **BROKER)).code == 0
        assert (await client.call(104, **BROKER)).code == 0
        assert (await client.call(105, topic="T")).code == 17


@in_loop
async def test_who_may_only_look_keeps_no_broker_alive(tmp_path: Path) -> None:
    """A user who may only look must not be able to keep a broker alive: the request with a broker's
    version (322) counts as its sign of life."""
    admin, alice = Credentials("admin", "top secret"), Credentials("alice", "wonderland")
    accounts = {
        "authenticationEnabled": True, "authorizationEnabled": True,
        "rmqAccountsPath": tmp_path / "accounts.json",
        "initAuthenticationUser": '{"username":"admin","password":"top secret"}',
    }  # fmt: skip
    async with name_server(**accounts) as server, Client(server.port) as client:

        async def code(who: Credentials, number: int, body: bytes = b"", **fields: object) -> int:
            return (await client.call(number, body, **who.sign(field_texts(fields), body))).code

        async def allow(action: str) -> None:
            entry = {"resource": "Cluster:C", "actions": [action], "decision": "Allow"}
            policies = {"policies": [{"policyType": "Custom", "entries": [entry]}]}
            acl = json.dumps(policies).encode()
            assert await code(admin, 3006, acl, subject="User:alice") == 0

        user = b'{"username":"alice","password":"wonderland"}'
        assert await code(admin, 3001, user, username="alice") == 0
        version = json.dumps(DATA_VERSION).encode()
        await allow("Get")
        assert await code(alice, 322, version, **BROKER) == 16
        assert await code(alice, 901, **BROKER) == 0
        await allow("Update")
        assert await code(alice, 322, version, **BROKER) == 0


@in_loop
async def test_the_audit_log_is_told_to_super_users(tmp_path: Path) -> None:
    """The audit log must be given to Super users alone, as a broker gives its own. A name server
    that runs by itself has a file of its own."""
    admin, alice = Credentials("admin", "top secret"), Credentials("alice", "wonderland")
    line = '{"time":"2026-11-27T03:20:00.123Z","verdict":"refused","user":"eve","code":25}'
    (tmp_path / "audit.log").write_text(f"{line}\n")
    settings = {
        "authenticationEnabled": True, "rmqAccountsPath": tmp_path / "accounts.json",
        "rmqAuditLog": tmp_path / "audit.log",
        "initAuthenticationUser": '{"username":"admin","password":"top secret"}',
    }  # fmt: skip
    user = b'{"username":"alice","password":"wonderland"}'
    async with name_server(**settings) as server, Client(server.port) as client:
        made = admin.sign({"username": "alice"}, user)
        assert (await client.call(3001, user, **made)).code == 0
        told = await client.call(30001, **admin.sign({"maxNum": "1"}, b""))
        assert [(each.user, each.code) for each in decode_tail(told.body).lines] == [("eve", 25)]
        for who in (alice, Credentials("admin", "wrong")):
            refused = await client.call(30001, **who.sign({}, b""))
            assert (refused.code, refused.body) == (16, b"")


@in_loop
async def test_a_slave_is_told_its_master() -> None:
    async with name_server() as server, Client(server.port) as client:
        master = await client.register()
        assert master.fields == {}
        slave = await client.register(address="h2:1", broker_id=1)
        assert slave.fields == {"haServerAddr": "10.0.0.1:10912", "masterAddr": "10.0.0.1:10911"}


@in_loop
async def test_a_first_registration_with_one_topic_is_refused() -> None:
    async with name_server() as server, Client(server.port) as client:
        reply = await client.register({"T": 4})
        assert (reply.code, reply.remark) == (1, "register broker failed")
        assert (await client.register()).code == 0
        newer = {**DATA_VERSION, "counter": 2}
        reply = await client.register(body=registration_body({"U": 2}, newer))
        assert reply.code == 0
        assert (await client.call(206)).body == b'{"topicList":["T","TBW102","U"]}'


@in_loop
async def test_a_compressed_registration_over_a_binary_header_is_taken() -> None:
    body = compressed_body(["T 4 4 6 SINGLE_TAG {}", "U 1 1 6 SINGLE_TAG {}"], queue_maps=[])
    async with name_server() as server, Client(server.port, serialize_type=1) as client:
        assert (await client.register(body=body, compressed=True)).code == 0
        assert (await client.call(206)).body == b'{"topicList":["T","U"]}'


@in_loop
async def test_a_registration_that_makes_no_sense_names_the_reason() -> None:
    async with name_server() as server, Client(server.port) as client:
        reply = await client.register(bodyCrc32=5)
        assert reply.code == 1
        assert "crc32 not match" in str(reply.remark)
        reply = await client.register(broker_id=-1)
        assert "brokerId" in str(reply.remark)
        assert (await client.register(body=b"{")).code == 1
        assert (await client.register(body=b"x", compressed=True)).code == 1
        assert (await client.call(206)).body == b'{"topicList":[]}'


@in_loop
async def test_permissions_and_topics_are_changed_by_hand() -> None:
    async with name_server() as server, Client(server.port) as client:
        await client.register({"T": 4, "U": 4})
        assert (await client.call(205, brokerName="broker-a")).fields == {"wipeTopicCount": "2"}
        assert b'"perm":4' in (await client.call(105, topic="T")).body
        assert (await client.call(327, brokerName="broker-a")).fields == {"addTopicCount": "2"}
        assert b'"perm":6' in (await client.call(105, topic="T")).body
        await client.call(216, topic="T", clusterName="D")
        assert (await client.call(105, topic="T")).code == 0
        await client.call(216, topic="T", clusterName="C")
        assert (await client.call(105, topic="T")).code == 17
        await client.call(216, topic="U")
        assert (await client.call(105, topic="U")).code == 17
        route = {"queueDatas": [{"brokerName": "broker-a", "perm": 6, "readQueueNums": 1,
                                 "writeQueueNums": 1, "topicSysFlag": 0}]}  # fmt: skip
        assert (await client.call(217, json.dumps(route).encode(), topic="X")).code == 0
        assert (await client.call(105, topic="X")).code == 0
        assert (await client.call(217, b'{"queueDatas":[{}]}', topic="X")).code == 1
        assert (await client.call(217, topic="Y")).code == 0


@in_loop
async def test_values_are_put_read_listed_deleted_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kv.json"
    async with name_server(kvConfigPath=path) as server, Client(server.port) as client:
        absent = await client.call(101, namespace="N", key="k")
        assert (absent.code, absent.remark) == (22, "No config item, Namespace: N Key: k")
        assert (await client.call(219, namespace="N")).code == 22
        assert (await client.call(102, namespace="N", key="k")).code == 0
        await client.call(100, namespace="N", key="k", value="v 1")
        await client.call(100, namespace="N", key="中", value="w")
        assert (await client.call(101, namespace="N", key="k")).fields == {"value": "v 1"}
        assert (await client.call(102, namespace="N", key="k")).code == 0
        assert (await client.call(219, namespace="N")).body == '{"table":{"中":"w"}}'.encode()
    assert path.read_bytes() == '{"configTable":{"N":{"中":"w"}}}'.encode()
    async with name_server(kvConfigPath=path) as server, Client(server.port) as client:
        assert (await client.call(101, namespace="N", key="中")).fields == {"value": "w"}


@in_loop
async def test_a_value_that_cannot_be_kept_is_refused_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    async with (
        name_server(kvConfigPath=tmp_path / "kv.json") as server,
        Client(server.port) as client,
    ):
        await client.call(100, namespace="N", key="k", value="old")
        monkeypatch.setattr(atomic_file, "replace", full)
        reply = await client.call(100, namespace="N", key="k", value="new")
        assert reply.code == 1
        assert "No space left" in str(reply.remark)
        assert (await client.call(101, namespace="N", key="k")).fields == {"value": "old"}
        monkeypatch.setattr(kv_config, "BYTES_MAX", 1000)
        reply = await client.call(100, namespace="N", key="k", value="x" * 1001)
        assert (reply.code, "is full: 1000 bytes" in str(reply.remark)) == (1, True)


@in_loop
async def test_a_deletion_is_written_when_nobody_knows_what_the_file_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it is unknown what the file holds, a deletion must be written. A new value was once
    renamed into place, but refused because the directory could not be synced; then the deletion of
    the key, which memory did not have, was confirmed without a write."""
    path = tmp_path / "kv.json"

    def not_synced(_: Path) -> None:
        raise OSError(5, "Input/output error")

    async with name_server(kvConfigPath=path) as server, Client(server.port) as client:
        await client.call(100, namespace="N", key="other", value="v")
        monkeypatch.setattr(atomic_file, "sync_directory", not_synced)
        assert (await client.call(100, namespace="N", key="k", value="v")).code == 1
        assert b'"k"' in path.read_bytes()
        assert (await client.call(102, namespace="N", key="k")).code == 1
        monkeypatch.undo()
        assert (await client.call(102, namespace="N", key="k")).code == 0
    assert path.read_bytes() == b'{"configTable":{"N":{"other":"v"}}}'


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"configTable":{"N":[]}}', b"{}"])
@in_loop
async def test_a_file_of_values_that_is_damaged_stops_the_start(
    content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "kv.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"kv\.json"):
        async with name_server(kvConfigPath=path):
            pass


def test_a_file_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    order = []
    real_fsync, real_replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("fsync"), real_fsync(fd))[1])
    monkeypatch.setattr(
        Path, "replace", lambda self, to: (order.append("rename"), real_replace(self, to))[1]
    )
    atomic_file.replace(path, b"one")
    assert order == ["fsync", "rename", "fsync"]
    (tmp_path / "f.new").write_bytes(b"left over from a crash, and longer")
    atomic_file.replace(path, b"two")
    assert path.read_bytes() == b"two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]


@in_loop
async def test_settings_are_listed_changed_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "namesrv.properties"
    settings = {"configStorePath": path, "configBlackList": "enableTopicList;x"}
    async with name_server(**settings) as server, Client(server.port) as client:
        listed = (await client.call(319)).body.decode().splitlines()
        assert "orderMessageEnable=false" in listed
        assert (await client.call(318, b"orderMessageEnable=true\n")).code == 0
        assert b"orderMessageEnable=true\n" in (await client.call(319)).body
        for key in ("kvConfigPath", "configStorePath", "configBlackList", "rocketmqHome",
                    "enableTopicList"):  # fmt: skip
            assert (await client.call(318, f"{key}=x".encode())).code == 16
        for change in (b"listenPort=1", b"nosuch=1", b"needWaitForService=maybe", b"a=\\uZZZZ"):
            reply = await client.call(318, b"orderMessageEnable=false\n" + change)
            assert reply.code == 1
            assert change.split(b"=")[0].decode() in str(reply.remark) or change[:1] == b"a"
        assert b"orderMessageEnable=true\n" in (await client.call(319)).body
        assert (await client.call(318)).code == 0
    assert path.read_text() == "orderMessageEnable=true\n"
    async with name_server(**settings) as server, Client(server.port) as client:
        assert b"orderMessageEnable=true\n" in (await client.call(319)).body


@in_loop
async def test_a_setting_without_effect_is_kept_and_named(tmp_path: Path) -> None:
    settings = {"configStorePath": tmp_path / "namesrv.properties"}
    async with name_server(**settings) as server, Client(server.port) as client:
        reply = await client.call(318, b"productEnvName=test\norderMessageEnable=true\n")
        assert (reply.code, reply.remark) == (0, "without effect in rmq: productEnvName")
    async with name_server(**settings) as server, Client(server.port) as client:
        shown = (await client.call(319)).body.decode().splitlines()
        assert {"productEnvName=test", "orderMessageEnable=true"} <= set(shown)


@pytest.mark.parametrize("value", ["true\\nkvConfigPath=/x", "true\\\nkvConfigPath=/x"])
@in_loop
async def test_a_value_of_several_lines_writes_no_file(tmp_path: Path, value: str) -> None:
    """A value of several lines must not be written into a file. In CVE-2023-37582 it became any
    file, by a path that the sender chose."""
    path = tmp_path / "namesrv.properties"
    async with name_server(configStorePath=path) as server, Client(server.port) as client:
        reply = await client.call(318, f"orderMessageEnable={value}".encode())
        assert reply.code == 1 and "orderMessageEnable" in (reply.remark or "")
        reply = await client.call(318, f"productEnvName={value}\nconfigStorePath=x".encode())
        assert reply.code == 16
        assert b"orderMessageEnable=false\n" in (await client.call(319)).body
    assert not path.exists() and [*tmp_path.iterdir()] == []


@in_loop
async def test_unknown_codes_are_refused_by_number() -> None:
    async with name_server() as server, Client(server.port) as client:
        for code in (10, 998, 200050, -1):
            reply = await client.call(code)
            assert (reply.code, reply.remark) == (3, f" request type {code} not supported")


@pytest.mark.parametrize("code", CODES)
@in_loop
async def test_no_code_fails_on_empty_or_odd_requests(code: int) -> None:
    odd = {
        "topic": "",
        "brokerId": "1",
        "namespace": "\x00",
        "key": "k",
        "value": "",
        "cluster": "\n",
    }
    fields = {**BROKER, "haServerAddr": "", "brokerName": "%", **odd}
    async with name_server() as server, Client(server.port) as client:
        for body in (b"", b"{}", b"[]", b"\xff\xfe", b"\\u", b"{" * 2000):
            for reply in (await client.call(code, body), await client.call(code, body, **fields)):
                assert reply.code in (0, 1, 16, 17, 22)
                assert "internal error" not in str(reply.remark)
    assert RequestCode(code)
