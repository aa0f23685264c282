"""Accounts: an operator's changes of users, and of what they may do. Which there are is listed by
rmq/operations/account_lists.py.

    accounts = Accounts(cluster)
    accounts.create_user("alice", "secret")                 on every server that asks for accounts
    accounts.put_acl("alice", [entry("Topic:orders*", ["Pub"])])
    Accounts(cluster, ["10.0.0.1:9878"])                    of controllers instead of all these

Changes go to every broker of the cluster, also to slaves, as RocketMQ's tools send them, and to the
name servers. Each server keeps accounts of its own; servers of one machine may share them. A name
server that does not ask for accounts is left out; so is a broker, unless all of them are.
Controllers keep accounts of their own, each for itself, and belong to no cluster. They get changes
only if they are named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rmq.client.blocking.cluster import ClusterView
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RemoteError, UnreachableError

# The actions that an entry allows or denies; All stands for all of them.
ACTIONS = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List", "All")
IS_THERE = "The user is existed"
IS_ABSENT = ("The user is not exist", "The acl is not exist.")


def entry(
    resource: str, actions: Sequence[str], *, source_ips: Sequence[str] = (), denies: bool = False
) -> dict[str, Any]:
    """A policy entry in RocketMQ's form. `resource`: Topic:orders*, Group:g, Cluster:c or *."""
    return {
        "resource": resource,
        "actions": list(actions),
        "sourceIps": list(source_ips),
        "decision": "Deny" if denies else "Allow",
    }


class Accounts:
    """The accounts of a cluster's brokers and name servers; if controllers are given, of these
    alone. Methods return the addresses of the servers that have made the change."""

    def __init__(self, cluster: ClusterView, controllers: Sequence[str] = ()) -> None:
        self._cluster = cluster
        self._controllers = list(controllers)

    def create_user(self, name: str, password: str, *, is_super: bool = False) -> list[str]:
        """Creates a user. RemoteError with IS_THERE: all servers had it before."""
        members = {"username": name, "password": password, "userType": _type(is_super)}
        return self._change(RequestCode.AUTH_CREATE_USER, {"username": name}, members)

    def update_user(
        self,
        name: str,
        *,
        password: str | None = None,
        is_super: bool | None = None,
        is_enabled: bool | None = None,
    ) -> list[str]:
        """Changes a user; values that are None stay as they are."""
        members = {"username": name}
        if password is not None:
            members["password"] = password
        if is_super is not None:
            members["userType"] = _type(is_super)
        if is_enabled is not None:
            members["userStatus"] = "enable" if is_enabled else "disable"
        return self._change(RequestCode.AUTH_UPDATE_USER, {"username": name}, members)

    def delete_user(self, name: str) -> list[str]:
        """Deletes a user with its entries."""
        return self._change(RequestCode.AUTH_DELETE_USER, {"username": name})

    def put_acl(
        self,
        name: str,
        entries: Sequence[Mapping[str, Any]],
        *,
        is_default: bool = False,
    ) -> list[str]:
        """Adds entries; they replace those of the same resources. is_default: they count if no
        other entry of the user fits."""
        kind = "Default" if is_default else "Custom"
        members = {
            "subject": f"User:{name}",
            "policies": [{"policyType": kind, "entries": list(entries)}],
        }
        fields = {"subject": f"User:{name}"}
        return self._change(RequestCode.AUTH_CREATE_ACL, fields, members)

    def delete_acl(
        self, name: str, resource: str | None = None, *, is_default: bool = False
    ) -> list[str]:
        """Deletes the entries of a resource; without a resource all entries of the user, whatever
        is_default says."""
        fields = {"subject": f"User:{name}"}
        if resource is not None:
            fields |= {"resource": resource, "policyType": "Default" if is_default else "Custom"}
        return self._change(RequestCode.AUTH_DELETE_ACL, fields)

    # ---- sending changes to all servers

    def _change(
        self,
        code: RequestCode,
        fields: Mapping[str, str],
        members: Mapping[str, Any] | None = None,
    ) -> list[str]:
        """Sends a change to every server, and returns the addresses of those that have made it. If
        none has, the first refusal is raised. If one has, servers that already have (or lack) the
        account count as done, and any other refusal is raised. A server that cannot be reached does
        not keep the others from the change; afterwards an UnreachableError says which servers have
        made it and which have not."""
        body = msgspec.json.encode(members) if members is not None else b""
        done: list[str] = []
        missed: list[str] = []
        refused: list[tuple[str, RemoteError]] = []
        for address in account_servers(self._cluster, self._controllers):
            try:
                reply = self._cluster.ask(address, code, fields, body)
            except UnreachableError as error:
                missed.append(str(error))
                continue
            if reply.code == ResponseCode.SUCCESS:
                done.append(address)
            else:
                text = f"{address}: {reply.remark or 'no reason'}"
                refused.append((address, RemoteError(reply.code, text)))
        changes_own = bool(done) and _is_asker(self._cluster, fields)
        others = [
            each for _, each in refused
            if not _is_harmless(each) and not (changes_own and _is_about_asker(each))
        ]  # fmt: skip
        if others and done:
            text = f"{others[0].remark} (done on {', '.join(done)})"
            raise RemoteError(others[0].code, text)
        if missed:
            text = f"done on {', '.join(done)}" if done else "done nowhere"
            raise UnreachableError(f"{text}; not on, and to be repeated there: {'; '.join(missed)}")
        for each in others or ([] if done else [each for _, each in refused]):
            raise each
        if code == RequestCode.AUTH_CREATE_USER:
            for address, each in refused:
                if each.remark.endswith(IS_THERE):  # perhaps with another password
                    self._cluster.call(address, RequestCode.AUTH_UPDATE_USER, fields, body)
        return done


def account_servers(cluster: ClusterView, controllers: Sequence[str] = ()) -> list[str]:
    """The addresses of all brokers and name servers of a cluster, or of these controllers alone."""
    if controllers:
        return list(controllers)
    found = [address for each in cluster.brokers() for address in each.addresses.values()]
    return list(dict.fromkeys([*found, *cluster.name_servers]))


def is_without_accounts(error: RemoteError) -> bool:
    """Whether the server keeps no accounts: it is not one of rmq, or does not ask for accounts."""
    return (
        error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        or "accounts are not in use here" in error.remark
    )


def _type(is_super: bool) -> str:
    return "Super" if is_super else "Normal"


def _is_asker(cluster: ClusterView, fields: Mapping[str, str]) -> bool:
    """Whether the account that asks for the change is the one that is changed."""
    asker = cluster.asker
    return asker is not None and fields.get("username") == asker.access_key


def _is_about_asker(error: RemoteError) -> bool:
    """Whether the refusal is about the account that asks. If a server shares accounts with one that
    has made the change, the change may already have made that account invalid."""
    ends = ("check signature failed.", "is not found.", "is disabled.")
    return error.remark.endswith(ends)


def _is_harmless(error: RemoteError) -> bool:
    """Whether the server keeps no accounts, or is already as the change would make it."""
    return is_without_accounts(error) or error.remark.endswith((IS_THERE, *IS_ABSENT))
