"""Accounts as users meet them: a broker and its name server that let in only known accounts.

Method: real processes, the Python client and the command line, and raw requests of every code.
Cannot show: other clients (tests/compat/test_accounts.py), a name server on another machine.
Several servers with the same accounts: test_shared_accounts.py.
"""

from __future__ import annotations

import json
import os
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from support.accounts import (
    ADMIN,
    ALICE,
    ARMED,
    NO_PERMISSION,
    account,
    asked,
    command,
    keys,
    make_alice,
)
from support.broker_process import BrokerProcess, broker_process
from support.command_line import rmq
from support.topics import until_routed
from support.visible_state import KEPT, visible_state, whole
from support.waiting import HANG_S, wait_until

from rmq import Message, Producer, PullConsumer
from rmq.base.clock import now_ms
from rmq.broker.tables.groups import GroupConfig
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RemoteError, RmqError
from rmq.format import fastjson
from rmq.format.frame_reader import FrameReader
from rmq.format.remoting import Command, encode, field_texts
from rmq.format.signature import Credentials
from rmq.observe.sample import decode
from rmq.operations import account_lists

SEND = {
    "a": "p", "c": "TBW102", "d": 8, "e": 0, "f": 0, "g": 1, "h": 0, "i": "", "j": 0,
    "k": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    path = tmp_path_factory.mktemp("accounts")
    options = (*ARMED, "--set", f"rmqAuditLog={path / 'audit.log'}")
    with broker_process(path, options) as broker, account(ADMIN):
        make_alice(broker)
        yield broker


def test_who_belongs_sends_and_consumes(broker: BrokerProcess) -> None:
    """A user with entries for a topic and a group can send messages and consume them."""
    given = {"namesrv_addr": broker.namesrv, **keys(ALICE)}
    with Producer("p", **given) as producer:
        producer.send(Message("orders", b"one"))
        producer.send_batch([Message("orders", b"two"), Message("orders", b"three")])
    found: list[bytes] = []
    with PullConsumer(
        "billing", consume_from_where="CONSUME_FROM_FIRST_OFFSET", **given
    ) as consumer:
        consumer.subscribe("orders")
        wait_until(lambda: len(found) + len(take(consumer, found)) >= 3)
    assert sorted(found) == [b"one", b"three", b"two"]


def take(consumer: PullConsumer, found: list[bytes]) -> list[bytes]:
    found += [bytes(message.body) for message in consumer.poll(500)]
    return []


@pytest.mark.parametrize(
    ("who", "topic", "text"),
    [
        (None, "orders", "username cannot be null."),
        (Credentials("bob", "x"), "orders", "User:bob is not found."),
        (Credentials("alice", "x"), "orders", "check signature failed."),
        (ALICE, "bills", "User:alice has no permission to access Topic:bills from 127.0.0.1"),
    ],
)
def test_who_does_not_is_told_why(
    broker: BrokerProcess, who: Credentials | None, topic: str, text: str
) -> None:
    """A send without an account, with a wrong one or without permission is refused; it says why."""
    given = keys(who) if who is not None else {}
    with (
        Producer("p", namesrv_addr=broker.namesrv, **given) as producer,
        pytest.raises(RmqError, match=text),
    ):
        producer.send(Message(topic, b"x"))
    with account(who), Connection(broker.address) as connection:
        reply = connection.ask(RequestCode.SEND_MESSAGE_V2, {"a": "p", "b": topic, "e": 0, "i": ""})
    assert (reply.code, (reply.remark or "").startswith(text)) == (NO_PERMISSION, True)


# Requests that need no permission as this test sends them: a heartbeat without consumers, lists
# without entries, and the check of a filter's syntax.
OPEN_TO_ALL_ACCOUNTS = {
    RequestCode.HEART_BEAT, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, RequestCode.BATCH_ACK_MESSAGE,
    RequestCode.CHECK_CLIENT_CONFIG,
}  # fmt: skip
NEMO = Credentials("nemo", "nothing to lose")  # an account without entries


def make_what_is_asked_for(broker: BrokerProcess) -> None:
    """Makes a group, an offset and a key-value pair that the requests would change if let in."""
    with Connection(broker.address) as connection:
        group = fastjson.dumps(GroupConfig("billing").members())
        connection.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, group)
        place = {"topic": "orders", "consumerGroup": "billing", "queueId": 0, "commitOffset": 0}
        connection.call(RequestCode.UPDATE_CONSUMER_OFFSET, place)
    with Connection(broker.namesrv) as connection:
        connection.call(RequestCode.PUT_KV_CONFIG, KEPT)


@pytest.mark.parametrize("where", ["broker", "name server"])
def test_every_code_is_closed(broker: BrokerProcess, where: str) -> None:
    """No request code is open to strangers or to an account without entries. RocketMQ 5.5 lets such
    an account use every code that its table leaves out: it reads offsets, deletes files and changes
    the configuration."""
    address = broker.address if where == "broker" else broker.namesrv
    with patch.dict(os.environ, {"RMQ_NEW_PASSWORD": NEMO.secret_key}):
        command(broker, "user", "create", NEMO.access_key)
    make_what_is_asked_for(broker)
    strangers = (None, Credentials("admin", "wrong"), Credentials("nobody", ADMIN.secret_key))
    before = told_by(address, where)
    for who in (*strangers, NEMO):
        with account(who), Connection(address) as connection:
            for code in sorted({*map(int, RequestCode), 0, 9, 999, 32767}):
                about = {"topic": "orders", "consumerGroup": "billing", "a": "p", "b": "orders",
                         "group": "billing", "groupName": "billing"}  # fmt: skip
                reply = connection.ask(code, *whole(code, about))
                if who == NEMO and code in OPEN_TO_ALL_ACCOUNTS:
                    assert reply.code != NO_PERMISSION, code
                else:
                    assert (reply.code, reply.body) == (NO_PERMISSION, b""), code
    assert told_by(address, where) == before
    command(broker, "user", "delete", NEMO.access_key, "--yes")


def told_by(address: str, where: str) -> dict[str, object]:
    with account(ADMIN), Connection(address) as connection:
        return visible_state(connection.ask, where)


def test_who_did_what_is_in_the_audit_log(broker: BrokerProcess) -> None:
    """The audit log has what was refused or allowed by the reactor, by the control side and by the
    name server."""
    send = {"a": "p", "b": "bills", "e": 0, "i": ""}
    with account(ALICE), Connection(broker.address) as connection:
        for code, fields in ((310, send), (17, {"topic": "audited"})):
            assert connection.ask(code, fields).code == NO_PERMISSION
    mallory = Credentials("mallory", "let in")
    with patch.dict(os.environ, {"RMQ_NEW_PASSWORD": mallory.secret_key}):
        command(broker, "user", "create", "mallory")
    command(broker, "acl", "allow", "mallory", "Cluster:*", "-a", "Update")
    with account(mallory), Connection(broker.address) as connection:  # the gate lets this user in
        body = b'{"username":"admin","password":"mine"}'
        reply = connection.ask(RequestCode.AUTH_UPDATE_USER, {"username": "admin"}, body)
        assert reply.remark == "The super user can only be update by super user"
    command(broker, "topic", "create", "audited")
    with Connection(broker.namesrv) as connection:
        kept = {"namespace": "n", "key": "k", "value": "secret"}
        connection.call(RequestCode.PUT_KV_CONFIG, kept)

    def lines() -> list[tuple[str, ...]]:
        path = broker.store.parent / "audit.log"
        found = [json.loads(line) for line in path.read_text().splitlines()]
        assert all(line["peer"].startswith("127.0.0.1:") for line in found)
        keys = ("verdict", "user", "request")
        return [(*(line[key] for key in keys), line.get("resources", line.get("reason", "")))
                for line in found]  # fmt: skip

    text = "User:alice has no permission to access Topic:%s from 127.0.0.1, no matched policies."
    wanted = {
        ("refused", "alice", "SEND_MESSAGE_V2", text % "bills"),
        ("refused", "alice", "UPDATE_AND_CREATE_TOPIC", text % "audited"),
        ("allowed", "admin", "UPDATE_AND_CREATE_TOPIC", "Create Topic:audited"),
        ("allowed", "mallory", "AUTH_UPDATE_USER", "Update Cluster:DefaultCluster, admin"),
        ("refused", "mallory", "AUTH_UPDATE_USER", reply.remark),
        ("allowed", "admin", "PUT_KV_CONFIG", "Update Cluster:DefaultCluster"),
        ("allowed", "admin", "AUTH_CREATE_USER", "Update Cluster:DefaultCluster, alice"),
    }
    wait_until(lambda: wanted <= set(lines()))
    assert not [line for line in lines() if line[::2] == ("allowed", "REGISTER_BROKER")]


def test_a_changed_request_is_refused(broker: BrokerProcess) -> None:
    """A request that is signed for one topic or body is refused if it is sent with another."""
    fields = {"a": "p", "b": "orders", "c": "TBW102", "d": "8", "e": "0", "f": "0", "g": "1",
              "h": "0", "i": "", "j": "0", "k": "false"}  # fmt: skip
    signed = ALICE.sign(fields, b"body")
    with account(None), Connection(broker.address) as connection:
        assert connection.ask(310, signed, b"body").code == 0
        for changed, body in (
            ({"b": "orders2"}, b"body"), ({}, b"bodY"), ({"e": "1"}, b"body"),
            ({"m": "x"}, b"body"),
            ({}, b""),
        ):  # fmt: skip
            reply = connection.ask(310, {**signed, **changed}, body)
            assert (reply.code, reply.remark) == (NO_PERMISSION, "check signature failed.")


def test_secrets_are_shown_to_nobody(broker: BrokerProcess) -> None:
    shown = {}
    for address, code in ((broker.address, 26), (broker.namesrv, 319)):
        with Connection(address) as connection:
            shown[code] = connection.call(code).body.decode()
    assert "initAuthenticationUser=******" in shown[26]
    told = broker.log() + broker.ready_line + "".join(shown.values())
    assert "top secret" not in told
    assert ALICE.secret_key not in told
    path = broker.store / "config" / "rmqAccounts.json"
    assert path.stat().st_mode & 0o777 == 0o600
    listed = command(broker, "user", "list", "--json").stdout
    assert {each["user"] for each in json.loads(listed)} >= {"admin", "alice"}
    assert ALICE.secret_key not in listed


def test_who_is_disabled_or_deleted_is_out_while_connected(broker: BrokerProcess) -> None:
    with patch.dict(os.environ, {"RMQ_NEW_PASSWORD": "x"}):
        command(broker, "user", "create", "carol")
    command(broker, "acl", "allow", "carol", "Topic:orders", "--actions", "pub")
    carol = Credentials("carol", "x")
    with account(carol):
        connection = Connection(broker.address)
    fields = {**SEND, "b": "orders"}

    def send() -> str:
        reply = connection.ask(310, fields, b"x")
        return "" if reply.code == 0 else reply.remark or ""

    assert send() == ""
    command(broker, "user", "update", "carol", "--disable")
    assert send() == "User:carol is disabled."
    command(broker, "user", "update", "carol", "--enable")
    assert send() == ""
    command(broker, "acl", "deny", "carol", "Topic:orders", "--actions", "all")
    assert send().endswith("the decision is deny.")
    said = command(broker, "acl", "delete", "carol", "--default", code=2).stderr
    assert "--default needs a RESOURCE, whose entry is deleted" in said
    assert send().endswith("the decision is deny.")
    command(broker, "acl", "delete", "carol", "Topic:orders")
    assert send().endswith("no matched policies.")
    command(broker, "user", "delete", "carol", "--yes")
    assert send() == "User:carol is not found."
    connection.close()


HELD_PULL = {
    "consumerGroup": "held", "queueId": 0, "queueOffset": 0, "maxMsgNums": 32,
    "sysFlag": 2 | 4, "commitOffset": 0, "subVersion": 0, "suspendTimeoutMillis": 3_600_000,
    "subscription": "*", "expressionType": "TAG",
}  # fmt: skip
HELD_POP = {
    "consumerGroup": "held", "queueId": -1, "maxMsgNums": 32,
    "invisibleTime": 60_000, "pollTime": 3_600_000, "bornTime": 0, "initMode": 1,
}  # fmt: skip


def held_by(broker: BrokerProcess) -> float:
    with account(ADMIN), Connection(broker.address) as admin:
        body = admin.call(RequestCode.GET_BROKER_RUNTIME_INFO, {"rmqDetail": "true"}).body
    return decode(json.loads(body)["table"]["rmqSample"]).counters["pulls_waiting"]


@pytest.mark.parametrize(
    ("code", "fields", "nothing"), [(11, HELD_PULL, 19), (200050, HELD_POP, 210)]
)
def test_what_is_held_brings_nothing_to_who_is_out(
    broker: BrokerProcess, code: int, fields: dict[str, object], nothing: int
) -> None:
    """A held pull or pop brings no message if its user was deleted before the message came."""
    with patch.dict(os.environ, {"RMQ_NEW_PASSWORD": "x"}):
        command(broker, "user", "create", "dora")
    topic = f"quiet{code}"
    command(broker, "acl", "allow", "dora", f"Topic:{topic}", "Group:held", "--actions", "sub")
    command(broker, "topic", "create", topic)
    at_end = {"topic": topic, "queueId": "0"}
    with Connection(broker.address) as admin:
        fields = {
            **fields,
            "topic": topic,
            "queueOffset": admin.call(30, at_end).int_field("offset", 0),
        }
    with account(Credentials("dora", "x")), Connection(broker.address) as connection:
        wait_until(lambda: asked(broker.address, 30, at_end)[0] == 0)
        opaque = connection.submit(code, fields)
        wait_until(lambda: held_by(broker) > 0)
        with account(ADMIN), Connection(broker.address) as admin:
            command(broker, "user", "delete", "dora", "--yes")
            admin.call(310, {**SEND, "b": topic}, b"not for her")
        reply = connection.receive(HANG_S)
        assert reply is not None
        assert (reply.opaque, reply.code, reply.body) == (opaque, nothing, b"")
        refused = connection.ask(code, fields)
        assert (refused.code, refused.remark) == (NO_PERMISSION, "User:dora is not found.")


def test_the_command_line_says_who_asks_and_what_to_do(broker: BrokerProcess) -> None:
    """A refused command names the option or the command that would help."""
    with account(None):
        text = command(broker, "topic", "list", code=1).stderr
        assert "username cannot be null." in text
        assert "--user NAME" in text
    with account(ALICE):
        text = command(broker, "acl", "list", code=1).stderr
        assert "rmq acl allow" in text
    text = command(broker, "user", "delete", "alic", "--yes", code=1).stderr
    assert "there is no user alic;" in text
    rows = json.loads(command(broker, "acl", "list", "alice", "--json").stdout)
    assert [(row["user"], row["resource"], row["actions"], row["decision"]) for row in rows] == [
        ("alice", "Topic:orders*", ["Pub", "Sub"], "Allow"),
        ("alice", "Group:billing*", ["Pub", "Sub"], "Allow"),
    ]


@pytest.fixture(scope="module")
def foreign(broker: BrokerProcess) -> dict[str, int]:
    """Log offsets of messages of a topic that is not alice's: one to be read, one half message."""
    command(broker, "topic", "create", "bills")
    found = {}
    with Connection(broker.address) as connection:
        for name, text, flag in (("plain", "", 0), ("half", HALF, 4)):
            reply = connection.call(310, {**SEND, "b": "bills", "i": text, "f": flag}, b"secret")
            found[name] = int(reply.fields["msgId"][-16:], 16)
            found[f"{name} queue offset"] = int(reply.fields["queueOffset"])
    return found


HALF = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01U\x02"
SEND = {"a": "P", "b": "orders", "c": "TBW102", "d": 8, "e": 0, "f": 0, "g": 1, "h": 0, "i": "",
        "j": 0, "k": False}  # fmt: skip


def test_the_place_of_a_message_opens_it_to_nobody(
    broker: BrokerProcess, foreign: dict[str, int]
) -> None:
    """A user who knows a message's log offset can still not read it, send it back or end its
    transaction without permission for its topic, even if the request names another or none."""
    command(broker, "acl", "allow", "alice", "Topic:orders*", "-a", "Pub,Sub,Get")
    with account(ALICE), Connection(broker.address) as connection:
        own = int(connection.call(310, SEND, b"mine").fields["msgId"][-16:], 16)
        assert connection.ask(33, {"offset": own, "topic": "orders"}).code == 0
        refused = connection.ask(33, {"offset": foreign["plain"], "topic": "orders"})
        assert (refused.code, refused.body) == (NO_PERMISSION, b"")
        assert "Topic:bills" in (refused.remark or "")
        back = {"group": "billing", "delayLevel": 0, "originMsgId": "U", "unitMode": False}
        for given in ({"originTopic": "orders"}, {}):
            assert connection.ask(36, {**back, **given, "offset": own}).code == 0
            refused = connection.ask(36, {**back, **given, "offset": foreign["plain"]})
            assert refused.code == NO_PERMISSION, given
        end = {"producerGroup": "P", "tranStateTableOffset": foreign["half queue offset"],
               "commitLogOffset": foreign["half"], "commitOrRollback": 8,
               "fromTransactionCheck": False, "msgId": "U"}  # fmt: skip
        for given in ({"topic": "orders"}, {}):
            assert connection.ask(37, {**end, **given}).code != 0, given
        assert connection.ask(323, {"topic": "orders", "msgId": "U"}).code != 0
    with Connection(broker.address) as connection:
        assert connection.ask(37, end).code == 0, "it was still open"


def test_what_needs_no_entry_needs_a_user(tmp_path: Path) -> None:
    """A user needs no entry for the codes in authorizationWhitelist, but a stranger is refused. The
    codes are of the reactor, of the control side (also those whose topic it must look up), and of
    the name server."""
    free = ("--set", "authorizationWhitelist=310,33,36,37,17,105")
    with broker_process(tmp_path, (*ARMED, *free)) as broker, account(ADMIN):
        for name in ("bills", "orders"):
            command(broker, "topic", "create", name)
        with patch.dict(os.environ, {"RMQ_NEW_PASSWORD": NEMO.secret_key}):
            command(broker, "user", "create", NEMO.access_key)
        with account(NEMO), Connection(broker.address) as connection:
            sent = connection.call(310, {**SEND, "b": "bills"}, b"of all")
            place = int(sent.fields["msgId"][-16:], 16)
            for given in ({}, {"topic": "bills"}, {"topic": "orders"}):
                assert connection.ask(33, {**given, "offset": place}).code == 0, given
            back = {"group": "g", "delayLevel": 0, "originMsgId": "U", "unitMode": False}
            made = connection.ask(36, {**back, "offset": place})
            assert made.code != NO_PERMISSION, made.remark
            half = connection.call(310, {**SEND, "b": "bills", "i": HALF, "f": 4}, b"half")
            end = {"producerGroup": "P", "tranStateTableOffset": half.fields["queueOffset"],
                   "commitLogOffset": int(half.fields["msgId"][-16:], 16), "commitOrRollback": 8,
                   "fromTransactionCheck": False, "msgId": "U"}  # fmt: skip
            assert connection.ask(37, end).code == 0
            for code, fields in ((10, {"topic": "bills"}), (29, {"topic": "bills"}), (26, {})):
                assert connection.ask(code, fields).code == NO_PERMISSION, code
            assert connection.ask(17, {"topic": "x/y"}).code == 29, "it is let in, and no name"
        asks = {broker.address: (310, {**SEND, "b": "bills"}),
                broker.namesrv: (105, {"topic": "bills"})}  # fmt: skip
        for address, (code, fields) in asks.items():
            for who, is_let_in in ((NEMO, True), (Credentials("nemo", "x"), False), (None, False)):
                with account(who):
                    assert (asked(address, code, fields)[0] == NO_PERMISSION) is not is_let_in
        with account(NEMO):
            assert asked(broker.namesrv, 106, {})[0] == NO_PERMISSION


def test_what_a_request_is_about_needs_no_entry_where_that_is_looked_up(tmp_path: Path) -> None:
    """With 314 and 323 in authorizationWhitelist, a user without entries can clone offsets of a
    group and have a half message checked again, although the broker looks up which topics these
    requests are about. A stranger can do neither."""
    free = ("--set", "authorizationWhitelist=314,323")
    with broker_process(tmp_path, (*ARMED, *free)) as broker, account(ADMIN):
        command(broker, "topic", "create", "orders")
        make_what_is_asked_for(broker)
        with patch.dict(os.environ, {"RMQ_NEW_PASSWORD": NEMO.secret_key}):
            command(broker, "user", "create", NEMO.access_key)
        with Connection(broker.address) as admin:
            halves = [admin.call(310, {**SEND, "i": HALF, "f": 4}, b"half").fields["msgId"]
                      for _ in range(2)]  # fmt: skip
            clone = {"srcGroup": "billing", "offline": True}
            asks = [
                (314, {**clone, "destGroup": "copy0"}),
                (314, {**clone, "destGroup": "copy1", "topic": "orders"}),
                (323, {"msgId": halves[0]}),
                (323, {"msgId": halves[1], "topic": "bills"}),
            ]

            def cloned() -> list[int]:
                place = {"topic": "orders", "queueId": 0, "setZeroIfNotFound": "false"}
                return [
                    admin.ask(14, {**place, "consumerGroup": f"copy{number}"}).code
                    for number in range(2)
                ]

            for who in (None, Credentials(NEMO.access_key, "wrong")):
                with account(who):
                    for ask in asks:
                        assert asked(broker.address, *ask)[0] == NO_PERMISSION, ask
            assert cloned() == [ResponseCode.QUERY_NOT_FOUND] * 2
            with account(NEMO):
                for ask in asks:
                    assert asked(broker.address, *ask)[0] == 0, ask
                other = (353, {"group": "billing", "topic": "orders", "readable": "false"})
                assert asked(broker.address, *other)[0] == NO_PERMISSION
            assert cloned() == [0, 0]


class Member:
    """A member of a producer group that records the requests which the broker sends to it."""

    def __init__(self, broker: BrokerProcess, who: Credentials, group: str) -> None:
        host, _, port = broker.address.rpartition(":")
        self.who = who
        self.heard: list[int] = []  # codes of requests
        self.is_closed = False
        self._socket = socket.create_connection((host, int(port)), 60)
        self._frames = FrameReader()
        body = {"clientID": f"{who.access_key}@1", "producerDataSet": [{"groupName": group}]}
        assert self.ask(34, {}, json.dumps(body).encode()) == 0

    def ask(self, code: int, fields: dict[str, object], body: bytes = b"") -> int:
        """Returns the answer's code. Requests from the broker that come before it are recorded."""
        texts = self.who.sign(field_texts(fields), body)
        self._socket.sendall(encode(Command(code=code, opaque=1, fields=texts, body=body)))
        while True:
            command = self._frames.next()
            if command is None:
                self._frames.feed(self._socket.recv(65536))
            elif command.is_response:
                return command.code
            else:
                self.heard.append(command.code)

    def hears(self) -> list[int]:
        """Returns the codes of all requests that have come so far."""
        while not self.is_closed and select.select([self._socket], [], [], 0)[0]:
            try:
                piece = self._socket.recv(65536)
            except ConnectionResetError:
                piece = b""
            self.is_closed = not piece
            self._frames.feed(piece)
        while (command := self._frames.next()) is not None:
            self.heard.append(command.code)
        return self.heard

    def close(self) -> None:
        self._socket.close()


QUICK_CHECKS = ("--set", "transactionTimeOut=1000", "--set", "transactionCheckInterval=1000",
                "--set", "transactionCheckMax=1000")  # fmt: skip


def test_half_messages_are_shown_to_nobody_who_may_not_end_them(tmp_path: Path) -> None:
    """A user without entries joins the producer group by a heartbeat. The broker must not check
    back with this member, because a check back carries the half message."""
    with broker_process(tmp_path, (*ARMED, *QUICK_CHECKS)) as broker, account(ADMIN):
        make_alice(broker)
        with patch.dict(os.environ, {"RMQ_NEW_PASSWORD": "x"}):
            command(broker, "user", "create", "mallory")
        mallory = Member(broker, Credentials("mallory", "x"), "P")
        alice = Member(broker, ALICE, "P")
        half = {**SEND, "i": HALF, "f": 4, "g": now_ms()}
        assert alice.ask(310, half, b"for no other") == 0
        wait_until(lambda: len(alice.hears()) >= 3)
        assert set(alice.hears()) == {39}
        assert mallory.ask(310, SEND) == NO_PERMISSION
        assert mallory.heard == []
        mallory.close()
        alice.close()


@pytest.mark.parametrize("way", [("delete", "alice", "--yes"), ("update", "alice", "--disable")])
def test_who_is_out_is_told_nothing_more(tmp_path: Path, way: tuple[str, ...]) -> None:
    """A user who was deleted or disabled while connected gets no more check backs and notices. The
    other members of the group are told that it has changed."""
    with broker_process(tmp_path, (*ARMED, *QUICK_CHECKS)) as broker, account(ADMIN):
        make_alice(broker)
        consumer = {"clientID": "1", "consumerDataSet": [{"groupName": "billing"}]}
        beat = json.dumps(consumer).encode()
        alice, admin = Member(broker, ALICE, "P"), Member(broker, ADMIN, "P")
        for member in (alice, admin):
            assert member.ask(34, {}, beat) == 0
        half = {**SEND, "i": HALF, "f": 4, "g": now_ms()}
        assert alice.ask(310, half, b"still open") == 0
        wait_until(lambda: {39, 40} <= set(alice.hears()) and {39, 40} <= set(admin.hears()))
        noticed = admin.heard.count(40)
        command(broker, "user", *way)
        wait_until(lambda: admin.hears().count(40) > noticed)
        alice.ask(34, {}, beat)
        before = len(alice.heard)
        asked_before = admin.hears().count(39)
        wait_until(lambda: admin.hears().count(39) >= asked_before + 2)
        assert alice.ask(34, {}, beat) == NO_PERMISSION
        assert len(alice.heard) == before
        alice.close()
        admin.close()


def test_what_comes_again_is_acknowledged(broker: BrokerProcess) -> None:
    """A consumer can acknowledge a popped message that has come again: its topic is then a retry
    topic of the group."""
    with account(ALICE), Connection(broker.address) as connection:
        for topic in ("%RETRY%billing_orders", "%RETRY%billing+orders"):
            for code in (200051, 200053):
                reply = connection.ask(code, {"consumerGroup": "billing", "topic": topic})
                assert reply.code != NO_PERMISSION, reply.remark
            reply = connection.ask(200051, {"consumerGroup": "others", "topic": topic})
            assert reply.code == NO_PERMISSION


def test_only_super_users_say_whom_the_broker_signs_for(broker: BrokerProcess) -> None:
    """Only Super users can change namesrvAddr: the broker signs its requests to that address."""
    command(broker, "acl", "allow", "alice", "Cluster:*", "-a", "Update")
    with account(ALICE), Connection(broker.address) as connection:
        reply = connection.ask(25, {}, b"namesrvAddr=127.0.0.1:1")
        assert (reply.code, "only Super users" in (reply.remark or "")) == (NO_PERMISSION, True)
        assert connection.ask(25, {}, b"fileReservedTime=70").code == 0
    command(broker, "acl", "delete", "alice", "Cluster:*")


def test_a_super_user_may_change_his_own_password(broker: BrokerProcess) -> None:
    for old, new in ((ADMIN.secret_key, "other"), ("other", ADMIN.secret_key)):
        keys = {"RMQ_SECRET_KEY": old, "RMQ_NEW_PASSWORD": new}
        with patch.dict(os.environ, keys):
            command(broker, "user", "update", "admin", "--password")


@pytest.mark.parametrize(
    "text",
    ['{"accessKey":"admin","secretKey":"top secret"}',
     "accessKey: admin\nsecretKey: 'top secret'\n",
     "secretKey: top secret\naccessKey: admin"],
)  # fmt: skip
def test_credentials_may_be_in_a_file(broker: BrokerProcess, tmp_path: Path, text: str) -> None:
    path = tmp_path / "tools.yml"
    path.write_text(text)
    with account(None):
        assert "admin" in command(broker, "user", "list", "--credentials", str(path)).stdout
        command(broker, "send", "orders", "hello", "--credentials", str(path))
        assert command(broker, "send", "orders", "hello", code=1).stderr


@pytest.mark.parametrize("headers", [[], ["--binary"]])
def test_the_load_generator_signs(broker: BrokerProcess, headers: list[str]) -> None:
    command(broker, "topic", "create", "orders-load", "--if-not-exists")
    # Each run ends after so many messages. On a busy machine none may come within a short time.
    where = ["-t", "orders-load", "-d", "60", "--count", "64", "--warmup", "0", "--json"]
    kinds = [["producer", *headers], ["batch", *headers], ["latency", *headers],
             ["consumer", "-g", "billing-load", *headers]]  # fmt: skip
    if not headers:
        kinds.append(["pop", "-g", "billing-load"])
    with account(ALICE):
        for kind in kinds:
            found = json.loads(command(broker, "bench", *kind, *where).stdout)
            assert found["failures"] == {}, kind
            assert found["messages"] > 0, kind
    with account(Credentials("alice", "wrong")):
        refused = command(broker, "bench", "producer", "--broker", broker.address, *where)
    assert list(json.loads(refused.stdout)["failures"]) == [str(NO_PERMISSION)]


def test_accounts_outlive_the_broker(tmp_path: Path) -> None:
    with broker_process(tmp_path, ARMED) as broker, account(ADMIN):
        make_alice(broker)
        broker.process.kill()
        broker.process.wait()
    with broker_process(tmp_path, ARMED) as broker:
        with Producer("p", namesrv_addr=broker.namesrv, **keys(ALICE)) as producer:
            producer.send(Message("orders", b"x"))
        with account(ADMIN), Cluster(broker.namesrv) as cluster:
            cluster.brokers()
            assert [each.name for each in account_lists.users(cluster).rows] == ["admin", "alice"]


def test_a_restored_store_has_its_accounts(tmp_path: Path) -> None:
    """A restored store has its accounts, and nobody but the owner of the files can read them, in
    the store and in the backup."""
    backup, new = tmp_path / "backup", tmp_path / "new" / "store"
    with broker_process(tmp_path / "old", ARMED) as broker, account(ADMIN):
        make_alice(broker)
        done = rmq("store", "backup", "--store", str(broker.store), "--to", str(backup))
        assert done.returncode == 0, done.stderr
    done = rmq("store", "restore", "--from", str(backup), "--store", str(new))
    assert done.returncode == 0, done.stderr
    for folder in (backup, new):
        found = list(folder.rglob("*rmqAccounts.json*"))
        assert found
        assert all(path.stat().st_mode & 0o077 == 0 for path in found)
    with (
        broker_process(tmp_path / "new", ARMED) as broker,
        Producer("p", namesrv_addr=broker.namesrv, **keys(ALICE)) as producer,
    ):
        producer.send(Message("orders", b"x"))


def test_files_of_acl_1_are_imported(broker: BrokerProcess, tmp_path: Path) -> None:
    """`rmq acl import` makes users from a file of ACL 1.0, and says what it leaves out."""
    path = tmp_path / "plain_acl.yml"
    path.write_text(
        "globalWhiteRemoteAddresses: [10.10.103.*]\n"
        "accounts:\n"
        "  - accessKey: rocketmq\n"
        "    secretKey: '12345678'\n"
        "    whiteRemoteAddress: 10.0.0.*\n"
        "    topicPerms: [orders=PUB|SUB, bills=DENY, 'letters*=PUB', '*=PUB']\n"
        "    groupPerms: [billing=SUB]\n"
    )
    text = command(broker, "acl", "import", str(path)).stdout
    assert "rocketmq: created" in text
    assert "white addresses are left out" in text
    for name in ("Topic:letters*", "Topic:*"):  # whole names in the file, and no patterns
        assert f"rocketmq: {name} is left out: it would match all names that begin so" in text
    assert "rocketmq: exists already" in command(broker, "acl", "import", str(path)).stdout
    given = {"namesrv_addr": broker.namesrv, **keys(Credentials("rocketmq", "12345678"))}
    with Producer("p", **given) as producer:
        producer.send(Message("orders", b"x"))
        with pytest.raises(RemoteError, match="Topic:bills"):
            producer.send(Message("bills", b"x"))
        for topic in ("letters-of-others", "others"):
            with pytest.raises(RemoteError, match=f"Topic:{topic}"):
                producer.send(Message(topic, b"x"))


PLAIN_ACL = """
globalWhiteRemoteAddresses: %s
accounts:
  - {accessKey: RocketMQ, secretKey: 12345678, admin: true}
  - accessKey: alice12
    secretKey: wonderland
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms: [%s]
"""


def test_the_files_of_acl_1_are_followed(tmp_path: Path) -> None:
    """With aclEnable=true the accounts are those of ACL 1.0's file, also after it has changed."""
    path = tmp_path / "conf" / "plain_acl.yml"
    path.parent.mkdir()
    path.write_text(PLAIN_ACL % ("[]", "orders=PUB|SUB"))
    options = ("--set", "aclEnable=true", "--set", f"rmqPlainAclPath={path}", "--shards", "2")
    alice = Credentials("alice12", "wonderland")
    with (
        broker_process(tmp_path, options) as broker,
        account(Credentials("RocketMQ", "12345678")),
    ):
        for name in ("orders", "bills"):
            command(broker, "topic", "create", name)
            until_routed(broker.namesrv, name, {"broker-a": 8, "broker-a-1": 8})

        def refusal(who: Credentials | None, topic: str) -> str:
            try:
                send_to_all(broker, who, topic)
            except RmqError as error:
                return str(error)
            return ""

        assert refusal(alice, "orders") == ""
        assert "Topic:bills from 127.0.0.1, the decision is deny" in refusal(alice, "bills")
        assert "username cannot be null" in refusal(None, "orders")
        done = command(broker, "user", "update", "alice12", "--disable", code=1)
        assert "alice12 is an account of plain_acl.yml" in done.stdout + done.stderr
        assert "alice12" in command(broker, "user", "list").stdout
        path.write_text(PLAIN_ACL % ("[]", "bills=PUB"))
        wait_until(lambda: refusal(alice, "bills") == "")
        wait_until(lambda: refusal(alice, "orders") != "")
        path.write_text(PLAIN_ACL % ("[127.0.0.*]", ""))
        wait_until(lambda: refusal(None, "orders") == "")


def send_to_all(broker: BrokerProcess, who: Credentials | None, topic: str) -> None:
    """Sends to all shards, because each of them follows the files itself."""
    with Producer("p", namesrv_addr=broker.namesrv, **(keys(who) if who else {})) as producer:
        for queue in producer.queues(topic):
            producer.send(Message(topic, b"x"), queue=queue)


BY_BALANCER = b"PROXY TCP4 192.0.2.7 127.0.0.1 40000 10911\r\n"


def ask_by_balancer(address: str, said: bytes, request: Command, source: str = "127.0.0.9") -> int:
    """Asks through a balancer's connection. Returns the answer's code, or -1 if it was closed."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 60, source_address=(source, 0)) as connected:
        connected.sendall(said + encode(request))
        frames = FrameReader()
        while (reply := frames.next()) is None:
            try:
                piece = connected.recv(65536)
            except ConnectionResetError:
                piece = b""
            if not piece:
                return -1
            frames.feed(piece)
        return reply.code


def test_by_a_balancer_a_user_is_where_he_is(tmp_path: Path) -> None:
    """An entry's address is compared with the one that the balancer names, not with its own."""
    options = (*ARMED, "--set", "rmqProxyProtocolFrom=127.0.0.9")
    with broker_process(tmp_path, options) as broker, account(ADMIN):
        with patch.dict(os.environ, {"RMQ_NEW_PASSWORD": ALICE.secret_key}):
            command(broker, "user", "create", "alice")
        command(broker, "topic", "create", "orders")
        command(broker, "acl", "allow", "alice", "Topic:orders", "-a", "Pub,Sub",
                "--from", "192.0.2.0/24")  # fmt: skip
        send = {"a": "p", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1",
                "h": "0", "i": ""}  # fmt: skip
        route = Command(code=105, opaque=1, fields=ALICE.sign({"topic": "orders"}))
        for address, request in (
            (broker.address, Command(code=310, opaque=1, fields=ALICE.sign(send, b"x"), body=b"x")),
            (broker.namesrv, route),
        ):
            assert ask_by_balancer(address, BY_BALANCER, request) == 0
            assert ask_by_balancer(address, b"", request) == -1, "it does not say who comes by it"
            assert ask_by_balancer(address, b"PROXY UNKNOWN\r\n", request) == NO_PERMISSION
            assert ask_by_balancer(address, BY_BALANCER, request, source="127.0.0.8") == -1
            assert ask_by_balancer(address, BY_BALANCER[:-1] + b"!", request) == -1
