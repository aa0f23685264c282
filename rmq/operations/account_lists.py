"""Account lists: users and what they may do, as servers have them, and in what servers differ.

    found = users(cluster)                      or users(cluster, controllers, "ali")
    found.rows                                  the users of the first server that answers
    found.problems                              which servers have other users, or do not answer

Each server keeps accounts of its own, and commands change those of all servers. A server that was
away, or was changed by hand, differs. Passwords are not compared, as servers show them to few.

Example: bob was made at 10.0.0.1:10911 alone. problems: ["10.0.0.2:10911 differs from
10.0.0.1:10911: missing bob"].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from rmq.client.blocking.cluster import ClusterView
from rmq.codes import RequestCode
from rmq.format import fastjson
from rmq.operations.account_answers import AccountAnswers, account_answers

NAMES_MAX = 5  # names of each kind in a line


class User(msgspec.Struct, frozen=True):
    name: str
    kind: str | None = None
    status: str | None = None


class AclEntry(msgspec.Struct, frozen=True):
    """One entry of a user's policies; `name` is the user's."""

    name: str
    policy: str | None
    resource: str | None
    actions: tuple[str, ...]
    sources: tuple[str, ...]
    decision: str | None


Row = TypeVar("Row", User, AclEntry)


class AccountList(msgspec.Struct, Generic[Row]):
    rows: list[Row]
    problems: list[str]


def users(
    cluster: ClusterView, controllers: Sequence[str] = (), part: str = ""
) -> AccountList[User]:
    """Users whose names contain `part`. Raises the errors of account_answers()."""
    return _list(cluster, controllers, RequestCode.AUTH_LIST_USER, {"filter": part}, user_rows)


def acl_entries(
    cluster: ClusterView, controllers: Sequence[str] = (), part: str = "", resource_part: str = ""
) -> AccountList[AclEntry]:
    """Entries whose user's name contains `part` and whose resource contains `resource_part`."""
    fields = {"subjectFilter": part, "resourceFilter": resource_part}
    return _list(cluster, controllers, RequestCode.AUTH_LIST_ACL, fields, acl_rows)


def _list(
    cluster: ClusterView, controllers: Sequence[str], code: RequestCode,
    fields: Mapping[str, str], decode: Callable[[bytes], list[Row]],
) -> AccountList[Row]:  # fmt: skip
    found: AccountAnswers[list[Row]] = account_answers(cluster, controllers, code, fields, decode)
    rows = next(iter(found.by_address.values()), [])
    return AccountList(rows, [*differences(found.by_address), *found.problems])


def differences(by_address: Mapping[str, Sequence[Row]]) -> list[str]:
    """A line for each way in which servers differ from the first one, with their addresses."""
    by_text: dict[str, list[str]] = {}
    known = {address: _by_name(rows) for address, rows in by_address.items()}
    first = next(iter(known), "")
    for address, names in known.items():
        if names != known[first]:
            by_text.setdefault(_difference(known[first], names), []).append(address)
    return [f"{', '.join(addresses)} {'differs' if len(addresses) == 1 else 'differ'} from "
            f"{first}: {text}" for text, addresses in by_text.items()]  # fmt: skip


def _difference(first: Mapping[str, frozenset[Any]], other: Mapping[str, frozenset[Any]]) -> str:
    otherwise = [name for name in first if other.get(name, first[name]) != first[name]]
    kinds = (
        ("missing", [name for name in first if name not in other]),
        ("added", [name for name in other if name not in first]),
        ("changed", otherwise),
    )
    return "; ".join(f"{kind} {_some(sorted(names))}" for kind, names in kinds if names)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more


def _by_name(rows: Sequence[Row]) -> dict[str, frozenset[Any]]:
    """name -> rows, for a comparison that does not depend on a server's order."""
    found: dict[str, set[Any]] = {}
    for row in rows:
        key = row if isinstance(row, User) else msgspec.structs.replace(
            row, actions=tuple(sorted(row.actions)), sources=tuple(sorted(row.sources))
        )  # fmt: skip
        found.setdefault(row.name, set()).add(key)
    return {name: frozenset(keys) for name, keys in found.items()}


# ---- JSON of RocketMQ's servers


class _Wire(msgspec.Struct, rename="camel"):
    """A member that is missing or null is None."""


class _WireUser(_Wire):
    username: str | None = None
    user_type: str | None = None
    user_status: str | None = None


class _WireEntry(_Wire):
    resource: str | None = None
    actions: list[str] | None = None
    source_ips: list[str] | None = None
    decision: str | None = None


class _WirePolicy(_Wire):
    policy_type: str | None = None
    entries: list[_WireEntry] | None = None


class _WireAcl(_Wire):
    subject: str | None = None
    policies: list[_WirePolicy] | None = None


def user_rows(body: bytes) -> list[User]:
    found = fastjson.loads_as(body or b"[]", list[_WireUser], "users")
    return [User(each.username or "", each.user_type, each.user_status) for each in found]


def acl_rows(body: bytes) -> list[AclEntry]:
    found = fastjson.loads_as(body or b"[]", list[_WireAcl], "entries")
    return [
        AclEntry(
            (acl.subject or "").removeprefix("User:"), policy.policy_type, each.resource,
            tuple(each.actions or ()), tuple(each.source_ips or ()), each.decision,
        )
        for acl in found
        for policy in acl.policies or ()
        for each in policy.entries or ()
    ]  # fmt: skip
