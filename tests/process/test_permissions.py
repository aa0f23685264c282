"""Each request code is sent to a broker and its name server by a user who has exactly the right to
it, by users who lack a part of that right, and changed on the way.

Method: for each row of a separate list (support/rights.py) there are users with these entries, who
are in the file of accounts before the broker starts. If a request is let in, its handler may still
refuse it for another reason; the reasons are told apart by their texts. Cannot show: that the list
is right; that it is complete is shown by tests/unit/auth/test_permissions.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest
from support.accounts import account
from support.broker_process import BrokerProcess, broker_process
from support.rights import REQUESTS, WITH_BODY, Rights
from support.topics import make_topic
from support.visible_state import KEPT, visible_state, whole

from rmq.auth.account_file import NAME, AccountFile
from rmq.auth.accounts import Accounts
from rmq.auth.permissions import CLOSED
from rmq.auth.policy import Action
from rmq.broker.tables.groups import GroupConfig
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RmqError
from rmq.format import fastjson
from rmq.format.remoting import Command, field_texts
from rmq.format.signature import Credentials
from rmq.names import pop_retry_topics

ADMIN = Credentials("admin", "top secret")
MIGHTY = Credentials("mighty", "of mighty")  # an entry for everything, and no Super user
ARMED = (
    "--set", "authenticationEnabled=true", "--set", "authorizationEnabled=true",
    "--set", 'initAuthenticationUser={"username":"admin","password":"top secret"}',
    "--set", "mappedFileSizeCommitLog=4194304", "--set", "maxMessageSize=1048576",
)  # fmt: skip
OF_SUPER_USERS = (103, 904, 1003, 1013, 30001)


class Case(NamedTuple):
    code: int
    fields: dict[str, Any]
    body: bytes
    rights: Rights

    @property
    def ways(self) -> list[Rights]:
        """All sets of rights that are enough. Of "Get|Sub" either action is enough."""
        choices = (actions.split("|") for _, actions in self.rights)
        return [
            [(resource, action) for (resource, _), action in zip(self.rights, way, strict=True)]
            for way in product(*choices)
        ]

    @property
    def resources(self) -> list[str]:
        return list(dict.fromkeys(resource for resource, _ in self.rights))


CASES = [
    *(Case(code, fields, b"", rights) for code, fields, rights in REQUESTS),
    *(Case(code, fields, json.dumps(body).encode(), rights)
      for code, fields, body, rights in WITH_BODY),
]  # fmt: skip


def entry(resource: str, *actions: str) -> dict[str, Any]:
    return {"resource": resource, "actions": list(actions), "decision": "Allow"}


def put(accounts: Accounts, name: str, entries: list[dict[str, Any]]) -> None:
    accounts.create_user(name, {"password": f"of {name}"}, by_super=True)
    by_resource: dict[str, dict[str, Any]] = {}
    for each in entries:
        kept = by_resource.setdefault(each["resource"], each)
        kept["actions"] = sorted({*kept["actions"], *each["actions"]})
    if by_resource:
        accounts.put_acl(f"User:{name}", [{"entries": list(by_resource.values())}])


def others_than(actions: str) -> list[str]:
    unwanted = {Action.ALL.value, *actions.split("|")}
    return [each.value for each in Action if each.value not in unwanted]


def users() -> Accounts:
    """User with-7-0 has all that case 7 needs, in its first way. without-7-1 has no entry for the
    second resource of that case. other-7-1 has an entry for it, but only for other actions."""
    accounts = Accounts()
    put(accounts, MIGHTY.access_key, [entry("*", "All")])
    groups = [entry("Group:cloned-from", "Get"), entry("Group:cloned-to", "Update")]
    put(accounts, "of-groups", groups)
    put(accounts, "of-topics-too", [*groups, entry("Topic:*", "Update")])
    for number, case in enumerate(CASES):
        for way, rights in enumerate(case.ways):
            put(accounts, f"with-{number}-{way}", [entry(*right) for right in rights])
        for at, left_out in enumerate(case.resources):
            kept = [right for right in case.ways[0] if right[0] != left_out]
            wanted = "|".join(actions for name, actions in case.rights if name == left_out)
            others = entry(left_out, *others_than(wanted))
            put(accounts, f"without-{number}-{at}", [entry(*right) for right in kept])
            put(accounts, f"other-{number}-{at}", [*(entry(*right) for right in kept), others])
    return accounts


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("permissions")
    AccountFile(folder / "store" / "config" / NAME).save(users())
    with broker_process(folder, ARMED) as broker, account(None):
        make_what_is_asked_for(broker)
        yield broker


def make_what_is_asked_for(broker: BrokerProcess) -> None:
    """Makes topics, groups, an offset and a key-value pair that the requests would change."""
    with Cluster(broker.namesrv, account=ADMIN) as cluster:
        for topic in ("t", "u", "orders"):
            make_topic(cluster, topic, 8)
    with Asking(broker.address) as server:
        for group in ("g", "h", "billing"):
            body = fastjson.dumps(GroupConfig(group).members())
            assert is_done(server.by_admin(200, {}, body))
        stored = {"topic": "t", "consumerGroup": "g", "queueId": 0, "commitOffset": 0}
        assert is_done(server.by_admin(15, stored))
    with Asking(broker.namesrv) as server:
        assert is_done(server.by_admin(RequestCode.PUT_KV_CONFIG, KEPT))


def is_done(reply: Command | None) -> bool:
    return reply is not None and reply.code == 0


class Asking:
    """Connections to one server, for one user after the other."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._connection = Connection(address)

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(
        self, who: Credentials | None, code: int, fields: dict[str, Any], body: bytes
    ) -> Command | None:
        """None: the request was let in, and is so wrong that the server closed the connection."""
        self._connection.credentials = who
        try:
            return self._connection.ask(code, fields, body)
        except RmqError:
            self._connection.close()
            self._connection = Connection(self._address)
            return None

    def by_admin(self, code: int, fields: dict[str, Any], body: bytes = b"") -> Command | None:
        return self.ask(ADMIN, code, fields, body)


def by(name: str) -> Credentials:
    return Credentials(name, f"of {name}")


def is_refused(reply: Command | None) -> bool:
    """Whether the user lacks a right, and the request was not refused for anything else."""
    return (
        reply is not None
        and reply.code == ResponseCode.NO_PERMISSION
        and "has no permission to access" in (reply.remark or "")
    )


def ask_without(server: Asking, number: int, case: Case) -> int:
    """Sends the request, complete as its handler needs it, for each user who lacks a part of the
    right. Returns how many were refused."""
    refused = 0
    fields, body = whole(case.code, case.fields, case.body)
    for at, resource in enumerate(case.resources):
        for kind in ("without", "other"):
            name = f"{kind}-{number}-{at}"
            reply = server.ask(by(name), case.code, fields, body)
            assert is_refused(reply) and reply is not None, (case, name, reply)
            assert f"access {resource} from 127.0.0.1" in (reply.remark or ""), reply
            assert reply.body == b""
            refused += 1
    return refused


@pytest.mark.parametrize("where", ["broker", "name server"])
def test_who_has_the_right_is_let_in_and_who_lacks_a_part_of_it_is_not(
    broker: BrokerProcess, where: str
) -> None:
    address = broker.address if where == "broker" else broker.namesrv
    let_in = refused = 0
    with Asking(address) as server:
        # Users who lack a right come first: for the others the handlers may do what they ask.
        before = visible_state(server.by_admin, where)
        for number, case in enumerate(CASES):
            refused += ask_without(server, number, case)
        assert visible_state(server.by_admin, where) == before
        for number, (code, fields, body, _) in enumerate(CASES):
            for way, rights in enumerate(CASES[number].ways):
                reply = server.ask(by(f"with-{number}-{way}"), code, fields, body)
                assert not is_refused(reply), (CASES[number], rights, reply)
                let_in += 1
        # Once more, now that the things exist which the handlers have made.
        before = visible_state(server.by_admin, where)
        for number, case in enumerate(CASES):
            refused += ask_without(server, number, case)
        assert visible_state(server.by_admin, where) == before
    assert let_in > len(CASES)
    assert refused > 4 * (len(CASES) - 8)  # few cases need no right


@pytest.mark.parametrize("where", ["broker", "name server"])
def test_what_is_closed_is_closed_to_who_may_do_everything(
    broker: BrokerProcess, where: str
) -> None:
    """A user with an entry for everything is no Super user: the codes that are closed or for Super
    users only are refused, and so are unknown codes."""
    with Asking(broker.address if where == "broker" else broker.namesrv) as server:
        for code in (*sorted(map(int, CLOSED)), *OF_SUPER_USERS, 0, 9, 999, 32767):
            reply = server.ask(MIGHTY, code, {"topic": "t", "clusterName": "c"}, b"{}")
            assert reply is not None
            assert (reply.code, reply.body) == (ResponseCode.NO_PERMISSION, b""), code


def test_offsets_of_all_topics_are_cloned_by_who_may_change_each(broker: BrokerProcess) -> None:
    """314 without a topic clones the offsets of all topics of the group, so the user needs the
    right to each. The retry topics of the group's pops are its own and need no further right."""
    clone = {"srcGroup": "cloned-from", "destGroup": "cloned-to"}
    place = {"topic": "cloned", "queueId": 0}
    asked = {**place, "consumerGroup": "cloned-to", "setZeroIfNotFound": "false"}
    with Cluster(broker.namesrv, account=ADMIN) as cluster:
        for name in ("cloned", *pop_retry_topics("cloned-from", "cloned")):
            make_topic(cluster, name, 1)
    with Asking(broker.address) as server:

        def answer(who: Credentials, code: int, fields: dict[str, Any], body: bytes = b"") -> int:
            reply = server.ask(who, code, fields, body)
            assert reply is not None
            return reply.code

        group = fastjson.dumps(GroupConfig("cloned-from").members())
        assert answer(ADMIN, 200, {}, group) == 0
        stored = {**place, "consumerGroup": "cloned-from", "commitOffset": 0}
        assert answer(ADMIN, 15, stored) == 0
        for popped in pop_retry_topics("cloned-from", "cloned"):
            assert answer(ADMIN, 15, {**stored, "topic": popped}) == 0
        assert is_refused(server.ask(by("of-groups"), 314, clone, b""))
        assert answer(ADMIN, 14, asked) == ResponseCode.QUERY_NOT_FOUND
        assert answer(by("of-topics-too"), 314, clone) == 0
        assert answer(ADMIN, 14, asked) == 0


ABOUT = {"topic": "orders", "consumerGroup": "billing", "a": "p", "b": "orders", "group": "billing",
         "username": "mighty", "subject": "User:mighty", "clusterName": "DefaultCluster",
         "groupName": "billing"}  # fmt: skip
BODY = b'{"password":"x","groupName":"billing","fileReservedTime":"9"}'


@pytest.mark.parametrize("where", ["broker", "name server"])
def test_no_code_takes_what_was_changed_on_the_way(broker: BrokerProcess, where: str) -> None:
    """A request that a Super user has signed is refused if a field or its body is changed."""
    address = broker.address if where == "broker" else broker.namesrv
    with Asking(address) as server:
        before = visible_state(server.by_admin, where)
        for code in sorted({*map(int, RequestCode), 0, 9, 999, 32767}):
            signed = ADMIN.sign(field_texts(whole(code, ABOUT)[0]), BODY)
            flipped = bytes([BODY[0], BODY[1] ^ 1]) + BODY[2:]
            for fields, body in (
                ({**signed, "topic": "bills"}, BODY),
                ({**signed, "more": "x"}, BODY),
                ({name: text for name, text in signed.items() if name != "b"}, BODY),
                (signed, flipped),
                (signed, b""),
            ):
                reply = server.ask(None, code, fields, body)
                assert reply is not None, code
                assert (reply.code, reply.body) == (ResponseCode.NO_PERMISSION, b""), code
                assert reply.remark == "check signature failed.", (code, reply.remark)
        assert visible_state(server.by_admin, where) == before
