"""For the codes that it serves, the reactor lets in whom control's gate lets in (rmq/auth).

Method: random requests of every such code, from users with random policies, are judged both by a
core and by the gate. If they are refused, the client reads the same text from both.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.shard import REQUEST, TIMEOUT_S, Client, Shard
from support.source_tree import ROOT
from support.volume import seeds, volume

from rmq.auth.accounts import ENTRIES_MAX, Accounts
from rmq.auth.fixed_accounts import FixedAccounts
from rmq.auth.gate import Gate
from rmq.auth.packed_policies import packed, packed_addresses
from rmq.auth.plain_acl import read
from rmq.auth.user import User
from rmq.auth.white_list import WhiteList
from rmq.codes import FLAG_ONE_WAY, RequestCode, ResponseCode
from rmq.errors import ProtocolError
from rmq.format.remoting import JSON, ROCKETMQ, Command, decode, encode
from rmq.format.signature import Credentials

NO_PERMISSION = 16
ACKS_MAX = 8192  # acks in a batch that are looked at, as in cext/flow/auth/admission.pyx
PROBE = 987_654_321  # the opaque of the request that follows a damaged one
REVIVE_LOG = "rmq_sys_REVIVE_LOG_DefaultCluster"
LETTERS = (310, 320, 325)
PLAIN = (10, 11, 361, 200050, 200051, 37, 15, 36, 200053, 200052, 200054, 200055, 324, 370)
BATCH_ACK = 200151
INNER = ["rmq_sys_wheel_timer", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC",
         "RMQ_SYS_TRANS_OP_HALF_TOPIC", REVIVE_LOG]  # fmt: skip
NAMES = ["t", "orders", "orders-eu", "orders-us", "bills", "%RETRY%g", "%RETRY%orders", "%DLQ%g",
         "%RETRY%g_orders", "%RETRY%g+bills", "%RETRY%orders_t", *INNER]  # fmt: skip
GROUPS = ["g", "orders", "bills", "%RETRY%g"]
RESOURCES = ["*", "Topic:*", "Group:*", "Topic:orders", "Topic:orders*", "Topic:o*", "Topic:bills",
             "Group:g", "Group:o*", "Cluster:*", "Namespace:n", "Topic:%DLQ%*",
             "Topic:rmq_sys_wheel_timer", "Topic:rmq_sys_*",
             "Topic:RMQ_SYS_TRANS_HALF_TOPIC"]  # fmt: skip
ACTIONS = ["All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List"]
SOURCES = [[], [], [], ["127.0.0.1"], ["127.0.0.0/8"], ["10.0.0.0/8"], ["::1"], ["0.0.0.0/0"],
           ["10.0.0.0/8", "127.0.0.1/31"], ["127.0.0.8/29"], ["::/0"], ["::ffff:0:0/96"],
           ["::ffff:127.0.0.0/104"]]  # fmt: skip
USERS = 12
MANY = 200  # entries of every third user, for names that begin alike


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Shard(tmp_path) as shard:
        shard.core.set_delay_levels([1000], [0])
        shard.topic(REVIVE_LOG)
        shard.topic("t")
        yield shard


def test_each_code_that_the_reactor_serves_has_a_row() -> None:
    served = (ROOT / "cext/flow/request_router.pyx").read_text()
    judged = (ROOT / "cext/flow/auth/admission.pyx").read_text()
    codes = set(re.findall(r"RequestHandler\((\w+),", served))
    assert codes == set(re.findall(r"^    Row\((\w+),", judged, re.MULTILINE))
    assert {int(RequestCode[name]) for name in codes} == {*LETTERS, *PLAIN, BATCH_ACK}


def short_name(source: random.Random) -> str:
    return "".join(source.choices("ab", k=source.randint(1, 6)))


def name_of(source: random.Random, names: list[str]) -> str:
    return source.choice(names) if source.random() < 0.6 else short_name(source)


def short_resource(source: random.Random) -> str:
    return f"{source.choice(('Topic', 'Group'))}:{short_name(source)}{source.choice(('', '*'))}"


def entry(source: random.Random, many: bool = False) -> dict[str, Any]:
    by_list = source.random() < (0.1 if many else 0.7)
    return {
        "resource": source.choice(RESOURCES) if by_list else short_resource(source),
        "actions": source.sample(ACTIONS, source.choice((1, 1, 2, 3))),
        "sourceIps": source.choice(SOURCES),
        "decision": source.choice(("Allow", "Allow", "Deny")),
    }


def random_accounts(source: random.Random) -> Accounts:
    accounts = Accounts()
    for number in range(USERS):
        members = {"password": f"secret{number}", "userType": "Super" if number == 0 else "Normal",
                   "userStatus": "disable" if number == 1 else "enable"}  # fmt: skip
        accounts.create_user(f"user{number}", members, by_super=True)
        many = number % 3 == 0
        policies = [
            {"policyType": kind, "entries": [
                entry(source, many) for _ in range(MANY if many else source.randint(1, 5))
            ]}
            for kind in ("Custom", "Default")
            if source.random() < 0.7
        ]  # fmt: skip
        if policies:
            accounts.put_acl(f"User:user{number}", policies)
    return accounts


def put(shard: Shard, accounts: Accounts) -> Gate:
    """Gives the same accounts to the core and to the gate; every request needs an account."""
    for user in accounts.users():
        shard.core.put_user(
            user.name.encode(), user.password.encode(), user.is_super, user.is_enabled,
            packed(accounts.acl(user.name)),
            packed_addresses([accounts.fixed.unsigned[user.name]])
            if accounts.is_fixed(user.name) and user.name in accounts.fixed.unsigned
            else b"",
        )  # fmt: skip
    shard.core.set_white_list(packed_addresses(accounts.fixed.white))
    shard.core.set_auth(True, True, [], [])
    return Gate(accounts, "DefaultCluster", authenticates=True, authorizes=True)


def random_request(source: random.Random) -> Command:
    code = source.choice((*LETTERS, *PLAIN, BATCH_ACK))
    topic, group = name_of(source, NAMES), name_of(source, GROUPS)
    fields = {"b": topic, "a": group} if code in LETTERS else {
        "topic": topic, "consumerGroup": group, "group": group, "originTopic": topic,
    }  # fmt: skip
    if source.random() < 0.1:
        fields.pop(source.choice(sorted(fields)))
    body = source.randbytes(source.randrange(40))
    if code == BATCH_ACK:
        acks = [{"c": source.choice(GROUPS), "t": source.choice(NAMES), "r": "0", "so": 0, "q": 0}
                for _ in range(source.randrange(3))]  # fmt: skip
        body = json.dumps({"consumerGroup": group, "acks": acks}).encode()
    number = source.randrange(USERS + 1)
    password = f"secret{number}" if source.random() < 0.9 else "wrong"
    signed = Credentials(f"user{number}", password).sign(fields, body)
    if source.random() < 0.05:
        signed.pop(source.choice(("AccessKey", "Signature")))
    return Command(
        code=code, fields=signed, body=body, flag=FLAG_ONE_WAY,
        serialize_type=ROCKETMQ if code < 200_000 and source.random() < 0.5 else JSON,
    )  # fmt: skip


def verdict(shard: Shard, client: Client, command: Command) -> bool | None:
    """Whether the core lets a one-way request in; None: it leaves the request to control. One-way,
    so that no handler's answer comes in between. An unsigned request is sent after it: when that
    one is answered the first is done, because the reactor takes a client's requests in order."""
    before = judged(shard)
    client.put(encode(command), encode(Command(code=310, fields={"b": "t"}, opaque=7)))
    own = client.reply().code != NO_PERMISSION
    allowed, refused = (now - then for now, then in zip(judged(shard), before, strict=True))
    allowed, refused = allowed - own, refused - (not own)
    assert allowed + refused <= 1, command
    return None if allowed + refused == 0 else bool(allowed)


def judged(shard: Shard) -> tuple[int, int]:
    stats = shard.core.stats()
    return stats["auth_allowed"], stats["auth_refused"]


def names_no_topic(command: Command) -> bool:
    """Whether the request names a message by its place only: such requests are looked at by
    control."""
    name = {36: "originTopic", 37: "topic"}.get(command.code)
    return name is not None and name not in command.fields


@pytest.mark.parametrize("seed", range(3))
def test_both_sides_judge_alike(shard: Shard, seed: int) -> None:
    source = random.Random(seed)
    accounts = random_accounts(source)
    gate, client = put(shard, accounts), shard.connect()
    found = {True: 0, False: 0}
    for _ in range(2000):
        command = random_request(source)
        expected = gate.verdict(command, client.address).refusal
        allowed = verdict(shard, client, command)
        if allowed is None:
            assert names_no_topic(command)
            continue
        assert not (allowed and names_no_topic(command)) or "user0" in str(command.fields)
        assert allowed == (expected == ""), f"{command}: {expected or 'allowed'}"
        found[allowed] += 1
    assert min(found.values()) > 150


@pytest.mark.parametrize("seed", range(3))
def test_both_sides_judge_alike_where_codes_need_no_entry(shard: Shard, seed: int) -> None:
    """With authorizationWhitelist a listed code still needs a signature, and other codes an
    entry."""
    source = random.Random(seed)
    accounts = random_accounts(source)
    put(shard, accounts)
    client = shard.connect()
    codes = (*LETTERS, *PLAIN, BATCH_ACK)
    found = {True: 0, False: 0}
    for _ in range(10):
        free = frozenset(source.sample(codes, source.choice((1, 4, len(codes) - 1))))
        gate = Gate(
            accounts, "DefaultCluster", authenticates=True, authorizes=True, unauthorized=free
        )
        # Codes 25 and 105 are served by control.
        shard.core.set_auth(True, True, [], sorted({*free, 25, 105}))
        for _ in range(150):
            command = random_request(source)
            expected = gate.verdict(command, client.address).refusal
            allowed = verdict(shard, client, command)
            if allowed is None:
                assert names_no_topic(command) and command.code not in free
                continue
            assert allowed == (expected == ""), f"{command}: {expected or 'allowed'}, of {free}"
            if command.code in free:
                found[allowed] += 1
    assert min(found.values()) > 50


def test_a_code_that_needs_no_entry_needs_a_user(shard: Shard) -> None:
    accounts = Accounts()
    accounts.create_user("alice", {"password": "secret"}, by_super=True)
    accounts.create_user("bob", {"password": "secret", "userStatus": "disable"}, by_super=True)
    put(shard, accounts)
    shard.core.set_auth(True, True, [], [310])
    client = shard.connect()

    def said(name: str, password: str, code: int = 310) -> str:
        fields = {"a": "p", "b": "t", "topic": "t"}
        signed = Credentials(name, password).sign(fields) if name else fields
        return client.ask(encode(Command(code=code, fields=signed, opaque=3))).remark or ""

    assert "is missing" in said("alice", "secret"), "it is let in, and is no whole send"
    assert said("alice", "secret", 10).endswith("no matched policies.")
    assert said("alice", "other") == "check signature failed."
    assert said("bob", "secret") == "User:bob is disabled."
    assert said("carol", "secret") == "User:carol is not found."
    assert said("", "") == "username cannot be null."
    shard.core.set_auth(True, True, [], [])
    assert said("alice", "secret").endswith("no matched policies.")


@pytest.mark.parametrize("seed", seeds(volume(2, 10)))
def test_both_sides_judge_alike_of_as_many_entries_as_a_user_may_have(
    shard: Shard, seed: int
) -> None:
    """The user has the most entries allowed: many names begin alike, and 200 are prefixes of each
    other."""
    source = random.Random(seed)
    names = ["".join(source.choices("abc", k=source.randint(3, 12))) for _ in range(8000)]
    names += [f"long{'x' * (number % 200)}{source.choice('yz')}" for number in range(800)]
    names += ["d" * length for length in range(1, 200)]
    resources = [f"Topic:{name}{source.choice(('', '*'))}" for name in names]
    resources += [f"Topic:{'d' * length}*" for length in range(1, 200)] + ["Topic:*", "*"]
    resources = source.sample(list(dict.fromkeys(resources)), ENTRIES_MAX // 2)
    accounts = Accounts()
    accounts.create_user("alice", {"password": "secret"}, by_super=True)
    accounts.put_acl("User:alice", [
        {"policyType": kind, "entries": [
            {"resource": each, "actions": [source.choice(("All", "Pub", "Pub", "Sub"))],
             "sourceIps": source.choice(SOURCES), "decision": source.choice(("Allow", "Deny"))}
            for each in resources
        ]}
        for kind in ("Custom", "Default")
    ])  # fmt: skip
    gate, client = put(shard, accounts), shard.connect()
    found = {True: 0, False: 0}
    for _ in range(400):
        name = source.choice(names)[:200] + source.choice(("", "", "a", "x"))
        fields = Credentials("alice", "secret").sign({"b": name, "a": "p"})
        command = Command(code=310, fields=fields, flag=FLAG_ONE_WAY)
        allowed = gate.verdict(command, client.address).refusal == ""
        assert verdict(shard, client, command) is allowed, name
        found[allowed] += 1
    assert min(found.values()) > 80


def test_an_entry_may_have_a_thousand_places(shard: Shard) -> None:
    """Ranges of IPv4 and IPv6 in no order, some inside others, are judged alike by both."""
    source = random.Random(7)
    places = [f"{source.choice((10, 127))}.{n % 256}.{n // 256}.0/{source.randint(20, 32)}"
              for n in range(990)] + ["::/0", "fd00::/8", "10.0.0.0/9"]  # fmt: skip
    fields = Credentials("alice", "secret").sign({"b": "t", "a": "p"})
    command = Command(code=310, fields=fields, flag=FLAG_ONE_WAY)
    for more, allowed in (([], False), (["127.0.0.1"], True), (["::ffff:127.0.0.0/126"], True)):
        accounts = Accounts()
        accounts.create_user("alice", {"password": "secret"}, by_super=True)
        given = source.sample([*places, *more], len(places) + len(more))
        given = [each for each in given if allowed or not each.startswith("127.0.0.")]
        accounts.put_acl("User:alice", [{"entries": [
            {"resource": "*", "actions": ["All"], "decision": "Allow", "sourceIps": given},
        ]}])  # fmt: skip
        gate, client = put(shard, accounts), shard.connect()
        assert (gate.verdict(command, client.address).refusal == "") is allowed
        assert verdict(shard, client, command) is allowed


def damaged(source: random.Random, frame: bytes) -> bytes:
    """A copy of the frame with some bits flipped behind its length."""
    changed = bytearray(frame)
    for _ in range(source.choice((1, 1, 2, 8))):
        changed[source.randrange(4, len(frame))] ^= 1 << source.randrange(8)
    return bytes(changed)


def as_read(frame: bytes) -> Command:
    """The request as the reactor reads it: it does not look at escapes in text that nobody copies,
    such as the language (cext/wire/header.pyx). An escape in a signed value would have changed that
    value."""
    try:
        return decode(frame[4:])
    except ProtocolError:
        end = 8 + int.from_bytes(frame[5:8], "big")
        no_escape = rb'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})'
        return decode(frame[4:8] + re.sub(no_escape, b"?", frame[8:end]) + frame[end:])


def let_in(shard: Shard, frame: bytes) -> int:
    """How many requests the core lets in of a frame that may make it close the connection. An
    unsigned request follows the frame, to know when the frame is done."""
    before = judged(shard)[0]
    with (
        contextlib.closing(shard.connect()) as client,
        contextlib.suppress(ConnectionError, EOFError, ProtocolError),
    ):
        client.put(frame, encode(Command(code=310, fields={"b": "t"}, opaque=PROBE)))
        while client.reply().opaque != PROBE:
            pass
    return judged(shard)[0] - before


@pytest.mark.parametrize("seed", seeds(volume(2, 4)))
def test_what_is_damaged_on_the_way_is_let_in_where_it_is_still_signed(
    shard: Shard, seed: int
) -> None:
    """A signature covers the values of fields and the body: if other bits are damaged, it still
    fits."""
    source = random.Random(seed)
    accounts = random_accounts(source)
    gate = put(shard, accounts)
    counts = {0: 0, 1: 0}
    frames = volume(600, 5000)
    while sum(counts.values()) < frames:
        command = random_request(source)
        if gate.verdict(command, "127.0.0.1:1").refusal:
            continue
        frame = damaged(source, encode(command))
        found = let_in(shard, frame)
        counts[found] += 1
        if found:
            received = as_read(frame)
            assert gate.verdict(received, "127.0.0.1:1").refusal == "", received
    assert counts[0] > frames // 2
    assert counts[1] > frames // 60


def refused(client: Client, command: Command) -> str:
    reply = client.ask(encode(command))
    assert reply.code == NO_PERMISSION
    return reply.remark or ""


def test_who_is_refused_reads_why(shard: Shard) -> None:
    accounts = Accounts()
    accounts.create_user("alice", {"password": "secret"}, by_super=True)
    accounts.put_acl("User:alice", [{"policyType": "Custom", "entries": [
        {"resource": "Topic:t", "actions": ["Pub"], "decision": "Allow"},
        {"resource": "Topic:no", "actions": ["All"], "decision": "Deny"},
    ]}])  # fmt: skip
    gate, client = put(shard, accounts), shard.connect()

    def asked(code: int, name: str = "alice", password: str = "secret", **fields: str) -> Command:
        signed = Credentials(name, password).sign(fields)
        return Command(code=code, fields=signed, opaque=7)

    for command in (
        asked(310, a="p", b="no"), asked(310, a="p", b="u"), asked(310, a="p"),
        asked(310, a="p", b="%RETRY%g"), asked(310, "bob", a="p", b="t"),
        asked(310, password="Secret", a="p", b="t"), Command(code=310, fields={"b": "t"}),
        asked(11, topic="u", consumerGroup="g"), asked(36, group="g", originTopic="t"),
        asked(36, group="g", originTopic="u"), asked(200051, topic="%RETRY%g_t", consumerGroup="g"),
        asked(15, topic="t", consumerGroup="g"),
    ):  # fmt: skip
        expected = gate.verdict(command, client.address).refusal
        assert expected
        assert refused(client, command) == expected


def one_user(name: str, *entries: tuple[str, str]) -> Accounts:
    """Accounts with one user, who has one permission on each resource."""
    accounts = Accounts()
    accounts.create_user(name, {"password": "secret"}, by_super=True)
    accounts.put_acl(f"User:{name}", [{"policyType": "Custom", "entries": [
        {"resource": resource, "actions": [action], "decision": "Allow"}
        for resource, action in entries
    ]}])  # fmt: skip
    return accounts


@pytest.mark.parametrize("topic", INNER)
@pytest.mark.parametrize("everything", ["*", "Topic:*", "Topic:r*"])
def test_topics_that_the_broker_writes_for_itself_are_allowed_by_name_alone(
    shard: Shard, topic: str, everything: str
) -> None:
    """These topics hold messages of all topics, so `*` must not open them."""
    pull = {"topic": topic, "consumerGroup": "g"}
    group = ("Group:g", "Sub")
    for entries, expected in (
        ([(everything, "All"), group], False),
        ([(everything, "All"), group, (f"Topic:{topic}", "Sub")], True),
    ):
        gate, client = put(shard, one_user("alice", *entries)), shard.connect()
        fields = Credentials("alice", "secret").sign(pull)
        command = Command(code=11, fields=fields, flag=FLAG_ONE_WAY)
        assert (gate.verdict(command, client.address).refusal == "") == expected
        assert verdict(shard, client, command) == expected


def acks_of(*groups: str) -> bytes:
    return json.dumps({"acks": [{"c": group, "t": "t"} for group in groups]}).encode()


TOO_LARGE = bytes(5 << 20)
WRONG = [
    (310, {"a": "p", "b": "t"}, TOO_LARGE),
    (320, {"a": "p", "b": "t"}, TOO_LARGE),
    (310, {"a": "p", "b": "t"}, b""),
    (320, {"a": "p", "b": "t"}, b"no batch"),
    (310, {"a": "p", "b": "t", "e": "77"}, b"x"),
    (310, {"a": "p", "b": "t", "i": "P" * 32_768}, b"x"),
    (310, {"a": "p", "b": "absent"}, b"x"),
    (310, {"a": "p", "b": "no name!"}, b"x"),
    (310, {"a": "p", "b": "t" * 300}, b"x"),
    (11, {"topic": "t", "consumerGroup": "g", "queueId": "77"}, b""),
    (200051, {"topic": "t", "consumerGroup": "g", "extraInfo": "nonsense"}, b""),
    (200151, {}, acks_of(*["g"] * 5000)),
    (200151, {}, b'{"acks":[{"c":"g","t":"t","b":"*"}]}'),
    (370, {"topic": "t", "recallHandle": "nonsense"}, b""),
    (36, {"group": "g", "originTopic": "t", "offset": "-1"}, b""),
    (15, {"topic": "t", "consumerGroup": "g", "queueId": "77", "commitOffset": "-1"}, b""),
]  # fmt: skip


@pytest.mark.parametrize(("code", "fields", "body"), WRONG)
def test_who_may_not_learns_nothing_else(
    shard: Shard, code: int, fields: dict[str, str], body: bytes
) -> None:
    """Whatever else is wrong with a request, the account is checked first: a client without the
    right is not told what is too large or does not exist."""
    for resource, may in (("Topic:other", False), ("*", True)):
        put(shard, one_user("alice", (resource, "All")))
        signed = Credentials("alice", "secret").sign(fields, body)
        command = Command(code=code, fields=signed, body=body, flag=FLAG_ONE_WAY)
        assert verdict(shard, shard.connect(), command) is may


@pytest.mark.parametrize(
    ("many", "code"), [(ACKS_MAX - 1, NO_PERMISSION), (ACKS_MAX, ResponseCode.SYSTEM_ERROR)]
)
def test_a_batch_of_acks_is_looked_at_as_far_as_one_may_go(
    shard: Shard, many: int, code: int
) -> None:
    """With more acks than this the batch is too large, and is refused for that reason."""
    put(shard, one_user("alice", ("Topic:t", "Sub"), ("Group:g", "Sub")))
    body = acks_of(*["g"] * many, "of-others")
    signed = Credentials("alice", "secret").sign({}, body)
    reply = shard.connect().ask(encode(Command(code=BATCH_ACK, fields=signed, body=body)))
    assert reply.code == code, reply.remark


ACKS = (
    b'{"acks":[{"c":"%s","t":"t","q":0,"rq":0,"so":0,"b":"AQ==","pt":1,"it":1,"r":"0"}],"acks":[]}'
)
HEADER = b'{"code":%d,"extFields":{%s"AccessKey":%s,"Signature":"x"},"flag":2,"opaque":1}'


@pytest.mark.parametrize(
    ("code", "fields", "name", "body", "expected"),
    [
        (310, b'"b":"t",', b'"alice"', b"", True),
        (310, b'"b":"u",', b'"alice"', b"", False),
        (310, b'"b":007,', b'"alice"', b"", False),  # control reads another number
        (310, b'"b":"t",', b'"bob"', b"", False),
        (310, b'"b":"t",', b'"7"', b"", True),
        (200151, b"", b'"alice"', ACKS % b"g", True),
        (200151, b"", b'"alice"', ACKS % b"of-others", False),  # control reads the last acks
        (37, b'"topic":"u",', b'"alice"', b"", False),
        (37, b"", b'"alice"', b"", True),  # control has looked at the message
    ],
)
def test_what_control_gives_back_is_judged_as_it_is_served(
    shard: Shard, code: int, fields: bytes, name: bytes, body: bytes, expected: bool
) -> None:
    """The core judges the request anew, but not its signature: control may have changed what it
    covers."""
    accounts = one_user("alice", ("Topic:t", "All"), ("Group:g", "Sub"), ("Topic:7", "Pub"))
    accounts.create_user("7", {"password": "secret"}, by_super=True)
    accounts.put_acl("User:7", [{"policyType": "Custom", "entries": [
        {"resource": "Topic:t", "actions": ["All"], "decision": "Allow"}]}])  # fmt: skip
    put(shard, accounts)
    client = shard.connect()
    # A code of control's, which tells control the connection's number.
    client.put(encode(Command(code=35, opaque=2)))
    ((number, _),) = shard.reports(REQUEST)
    before = judged(shard)
    header = HEADER % (code, fields, name)
    shard.core.resubmit(number, len(header).to_bytes(4, "big") + header + body)
    shard.until(lambda stats: (stats["auth_allowed"], stats["auth_refused"]) != before)
    allowed, refused = (now - then for now, then in zip(judged(shard), before, strict=True))
    assert (allowed, refused) == (expected, not expected)


def test_names_of_strangers_look_like_nothing_else(shard: Shard) -> None:
    put(shard, Accounts())
    client = shard.connect()
    for name, shown in (('x","code":0,"y":"', "x?,?code?:0,?y?:?"), ("a\nb\x00c\u00e4", "a?b?c??"),
                        ("x" * 900, "x" * 64)):  # fmt: skip
        fields = Credentials(name, "secret").sign({"a": "p", "b": "t"})
        command = Command(code=310, fields=fields, opaque=7)
        assert refused(client, command) == f"User:{shown} is not found."


def test_a_change_counts_from_the_next_request_on(shard: Shard) -> None:
    accounts = Accounts()
    accounts.create_user("alice", {"password": "secret", "userType": "Super"}, by_super=True)
    put(shard, accounts)
    client = shard.connect()
    fields = Credentials("alice", "secret").sign({"a": "p", "b": "t", "e": "0"})
    command = Command(code=310, fields=fields, flag=FLAG_ONE_WAY)
    assert verdict(shard, client, command)
    shard.core.put_user(b"alice", b"secret", False, True, b"", b"")
    assert not verdict(shard, client, command)
    shard.core.put_user(b"alice", b"other", True, True, b"", b"")
    assert not verdict(shard, client, command)
    shard.core.put_user(b"alice", b"secret", True, False, b"", b"")
    assert not verdict(shard, client, command)
    shard.core.put_user(b"alice", b"secret", True, True, b"", b"")
    assert verdict(shard, client, command)
    shard.core.remove_user(b"alice")
    assert not verdict(shard, client, command)
    before = judged(shard)
    for settings in ((True, True, [310], []), (False, False, [], [])):
        shard.core.set_auth(*settings)
        reply = client.ask(encode(Command(code=310, fields={"a": "p", "b": "t"}, opaque=3)))
        assert "is missing" in (reply.remark or ""), "it is let in, and is no whole send"
    assert judged(shard) == before


def packed_entry(
    policy: int = 0, type_: int = 2, pattern: int = 0, denies: int = 0, name: bytes = b"",
    places: bytes = b"",
) -> bytes:  # fmt: skip
    head = struct.pack(">BBBBHHH", policy, type_, pattern, denies, 1, len(places) // 17, len(name))
    return head + name + places


HERE = bytes((104,)) + bytes(10) + b"\xff\xff" + bytes((127, 0, 0, 0))
THERE = bytes((8,)) + b"\xfd" + bytes(15)


@pytest.mark.parametrize("wrong", [
    b"x", b"\x02" + bytes(9), bytes(6) + b"\0\1" + b"\0\0", bytes(8) + b"\xff\xff",
    packed_entry(name=b"b") + packed_entry(name=b"a"),
    packed_entry(name=b"ab") + packed_entry(name=b"a"),
    packed_entry(name=b"a") + packed_entry(name=b"a", pattern=1),
    packed_entry(name=b"a", denies=1) + packed_entry(name=b"a"),
    packed_entry(type_=3, name=b"a") + packed_entry(type_=2, name=b"b"),
    packed_entry(policy=1, name=b"a") + packed_entry(policy=0, name=b"b"),
    packed_entry(type_=0, pattern=0, name=b"a"), packed_entry(pattern=2, name=b"a"),
    packed_entry(name=b"a", places=THERE + HERE), packed_entry(name=b"a", places=HERE + HERE),
])  # fmt: skip
def test_policies_that_are_packed_wrongly_change_nothing(shard: Shard, wrong: bytes) -> None:
    shard.core.put_user(b"alice", b"secret", True, True, b"", b"")
    with pytest.raises(Exception, match="alice"):
        shard.core.put_user(b"alice", b"other", False, True, wrong, b"")
    shard.core.set_auth(True, True, [], [])
    fields = Credentials("alice", "secret").sign({"a": "p", "b": "t"})
    assert verdict(shard, shard.connect(), Command(code=310, fields=fields, flag=FLAG_ONE_WAY))


def test_names_with_backslashes_are_judged_by_control(shard: Shard) -> None:
    put(shard, random_accounts(random.Random(1)))
    client = shard.connect()
    header = b'{"code":310,"extFields":{"\\u0062":"t","AccessKey":"user0","Signature":"%s"}}'
    proof = Credentials("user0", "secret0").sign({"b": "t"})["Signature"].encode()
    frame = header % proof
    size = len(frame).to_bytes(3, "big")
    client.put((len(frame) + 4).to_bytes(4, "big") + b"\0" + size + frame)
    shard.until(lambda stats: stats["control_requests"] == 1)


WHITE = ["", "127.0.0.1", "127.0.0.*", "127.*", "127.1-3.{0,5}.2", "10.0.0.1,127.0.2.2", "::1", "*",
         "fd00:1:*", "127.0.*.{1,2}", "{126,127}.3-9.*.*"]  # fmt: skip


class From(Client):
    """A client that connects from another loopback address."""

    def __init__(self, port: int, address: str) -> None:
        super().__init__(port)
        self.close()
        self.socket = socket.create_connection(
            ("127.0.0.1", port), TIMEOUT_S, source_address=(address, 0)
        )
        self._stream = self.socket.makefile("rb")


@pytest.mark.parametrize("seed", range(2))
def test_white_addresses_are_the_same_on_both_sides(shard: Shard, seed: int) -> None:
    source = random.Random(seed)
    found = {True: 0, False: 0}
    for _ in range(60):
        accounts = Accounts()
        accounts.fixed = FixedAccounts(
            users={"carol12": User.of("carol12", {"password": "12345678"})},
            white=[WhiteList.of(each) for each in source.sample(WHITE[:-5], source.randrange(3))],
            unsigned={"carol12": WhiteList.of(source.choice(WHITE))},
        )
        gate = put(shard, accounts)
        address = f"127.{source.randrange(4)}.{source.choice((0, 2, 5))}.{source.randrange(1, 4)}"
        client = From(shard.core.port, address)
        for fields in ({"b": "t"}, {"b": "t", "AccessKey": "carol12"},
                       {"b": "t", "AccessKey": "alice"}):  # fmt: skip
            command = Command(code=310, fields=dict(fields), flag=FLAG_ONE_WAY)
            expected = gate.verdict(command, client.address).refusal == ""
            assert verdict(shard, client, command) == expected, f"{accounts.fixed} {address}"
            found[expected] += 1
        client.close()
    assert min(found.values()) > 30


@pytest.mark.parametrize(
    ("code", "topic", "group", "expected"),
    [
        (310, "salaries", "", True),
        (310, "bills", "", False),
        (11, "salaries", "g", False),
        (11, "bills", "g", True),
        (11, "bills", "payroll", False),
    ],
)
def test_a_default_of_acl_1_opens_nothing_that_is_listed(
    shard: Shard, tmp_path: Path, code: int, topic: str, group: str, expected: bool
) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(
        "accounts:\n"
        "- {accessKey: carol12, secretKey: abcdefgh, defaultTopicPerm: SUB, defaultGroupPerm: SUB, "
        "topicPerms: [salaries=PUB], groupPerms: [payroll=PUB]}\n"
    )
    accounts = Accounts()
    accounts.fixed = read([path])
    gate, client = put(shard, accounts), shard.connect()
    fields = {"b": topic} if code in LETTERS else {"topic": topic, "consumerGroup": group}
    signed = Credentials("carol12", "abcdefgh").sign(fields)
    command = Command(code=code, fields=signed, flag=FLAG_ONE_WAY)
    assert (gate.verdict(command, client.address).refusal == "") == expected
    assert verdict(shard, client, command) == expected


def test_a_white_list_that_is_none_changes_nothing(shard: Shard) -> None:
    put(shard, Accounts())
    shard.core.set_white_list(b"\0")
    client = shard.connect()
    command = Command(code=310, fields={"b": "t"}, flag=FLAG_ONE_WAY)
    whole = packed_addresses([WhiteList.of("10.0.0.1-5")])
    for wrong in (whole[:-1], whole + b"\4", b"\5", b"\4\xff\xff", whole[:2], b"\0\4"):
        with pytest.raises(ProtocolError, match="addresses that are let in"):
            shard.core.set_white_list(wrong)
        assert verdict(shard, client, command), "as before: everybody"
    shard.core.set_white_list(whole)
    assert not verdict(shard, client, command)
    shard.core.set_white_list(b"")
    assert not verdict(shard, client, command)
