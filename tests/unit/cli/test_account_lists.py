"""What servers answer when they are asked for users and entries, and how these answers differ. With
real servers: tests/unit/controller/test_accounts.py, tests/process/test_accounts.py."""

from __future__ import annotations

import pytest

from rmq.errors import ProtocolError
from rmq.operations.account_lists import (
    NAMES_MAX,
    AclEntry,
    User,
    acl_rows,
    differences,
    user_rows,
)


def entry(name: str, resource: str = "*", *actions: str) -> AclEntry:
    return AclEntry(name, "Custom", resource, actions, (), "Allow")


def test_who_has_the_same_in_another_order_does_not_differ() -> None:
    one = [entry("a", "*", "Pub", "Sub"), entry("b"), entry("a", "Topic:t")]
    other = [entry("a", "Topic:t"), entry("a", "*", "Sub", "Pub"), entry("b")]
    assert differences({"x:1": one, "x:2": other}) == []
    assert differences({"x:1": one}) == differences({}) == []


def test_servers_that_differ_alike_have_one_line() -> None:
    first = [entry("a", "*", "Pub"), entry("b"), entry("c")]
    found = {"x:1": first, "x:2": first[:2], "x:3": [entry("a"), entry("d"), *first[1:]],
             "x:4": [*first[1::-1]], "x:5": list[AclEntry]()}  # fmt: skip
    assert differences(found) == [
        "x:2, x:4 differ from x:1: missing c",
        "x:3 differs from x:1: added d; changed a",
        "x:5 differs from x:1: missing a, b, c",
    ]


def test_a_line_names_a_few() -> None:
    many = [User(f"u{number}") for number in range(NAMES_MAX + 3)]
    (line,) = differences({"x:1": [], "x:2": many})
    assert line.endswith("added u0, u1, u2, u3, u4 and 3 more")


def test_what_rocketmqs_servers_leave_out_is_none() -> None:
    assert user_rows(b"") == acl_rows(b"") == []
    body = (b'[{"password":"secret","userStatus":"enable","userType":"Super","username":"a"},'
            b'{username:"b",userType:null}]')  # fmt: skip
    assert user_rows(body) == [User("a", "Super", "enable"), User("b")]
    assert "secret" not in str(user_rows(body))
    body = (b'[{"subject":"User:a","policies":[{"policyType":"Default","entries":[{"resource":"*",'
            b'"actions":["Pub"],"decision":"Deny"}]},{"policyType":"Custom","entries":null}]},'
            b'{"subject":"User:b"}]')  # fmt: skip
    assert acl_rows(body) == [AclEntry("a", "Default", "*", ("Pub",), (), "Deny")]


@pytest.mark.parametrize("body", [b"{}", b'[{"username":1}]', b"[1]", b"nonsense"])
def test_what_is_no_list_of_users_is_a_protocol_error(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        user_rows(body)
