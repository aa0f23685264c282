"""Accounts: users and what they may do, if brokers ask for accounts."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from rmq.client.blocking.accounts import ACTIONS, Accounts, entry
from rmq.client.blocking.cluster import Cluster
from rmq.console.change import Change, Plan
from rmq.console.console import console_of
from rmq.console.forms import Field, chosen, flag, text
from rmq.console.page import page
from rmq.console.section import section
from rmq.errors import UnreachableError
from rmq.operations import account_lists

KEEP = "keep"  # the choice to leave something as it is
PASSWORD_MAX = 1024
RESOURCE_KINDS = ("Topic:", "Group:", "Cluster:")


async def account_page(request: Request) -> Response:
    console = console_of(request)
    users = await section(console.ask(request, account_lists.users))
    acls = await section(console.ask(request, account_lists.acl_entries))
    for each in (users, acls):
        if each.is_lost:  # there is nothing else on the page
            raise UnreachableError(each.problem or "")
    return page(request, "accounts.html", users=users, acls=acls)


# ---- users


def user_name(value: str) -> str:
    if not value.isprintable() or " " in value or len(value) > 128:
        raise ValueError("a name of at most 128 characters, without blanks")
    return value


def password(value: str) -> str:
    if not 1 <= len(value) <= PASSWORD_MAX or not value.isprintable():
        raise ValueError(f"at most {PASSWORD_MAX} characters that can be printed")
    return value


def _plan_create(_: Cluster, values: Mapping[str, Any]) -> Plan:
    may = "may do everything, also make users" if values["is_super"] else "may do nothing yet"
    return Plan([f"User {values['user']} is made on every server. It {may}."])


def _create(cluster: Cluster, values: Mapping[str, Any]) -> str:
    done = Accounts(cluster).create_user(
        values["user"], values["password"], is_super=values["is_super"]
    )
    return f"User {values['user']} was made on {', '.join(done)}."


def _plan_update(_: Cluster, values: Mapping[str, Any]) -> Plan:
    lines = []
    if values["password"] is not None:
        lines.append(f"User {values['user']} gets another password.")
    if values["type"] != KEEP:
        lines.append(f"User {values['user']} is a {values['type']} user.")
    if values["status"] != KEEP:
        lines.append(f"User {values['user']} is {values['status']}d.")
    return Plan([*lines, "It counts for connected clients, too."])


def _check_update(values: Mapping[str, Any]) -> dict[str, str]:
    is_same = values["password"] is None and values["type"] == values["status"] == KEEP
    return {"password": "nothing would change"} if is_same else {}


def _update(cluster: Cluster, values: Mapping[str, Any]) -> str:
    done = Accounts(cluster).update_user(values["user"], password=values["password"],
        is_super=None if values["type"] == KEEP else values["type"] == "Super",
        is_enabled=None if values["status"] == KEEP else values["status"] == "enable",
    )  # fmt: skip
    return f"User {values['user']} was changed on {', '.join(done)}."


def _plan_delete(_: Cluster, values: Mapping[str, Any]) -> Plan:
    return Plan([f"User {values['user']} is deleted on every server, with what it may do."])


def _delete(cluster: Cluster, values: Mapping[str, Any]) -> str:
    done = Accounts(cluster).delete_user(values["user"])
    return f"User {values['user']} was deleted on {', '.join(done)}."


# ---- what they may do


def resource(value: str) -> str:
    if value != "*" and not value.startswith(RESOURCE_KINDS):
        raise ValueError("Topic:name, Group:name, Cluster:name, with * at the end, or * alone")
    return text(value)


def sources(value: str) -> list[str]:
    found = value.split()
    for each in found:
        ipaddress.ip_network(each, strict=False)  # its ValueError says what is wrong
    return found


def _plan_allow(_: Cluster, values: Mapping[str, Any]) -> Plan:
    may = "may not" if values["decision"] == "Deny" else "may"
    where = f" from {', '.join(values['sources'])}" if values["sources"] else ""
    return Plan([
        f"User {values['user']} {may} {', '.join(values['actions'])} {values['resource']}{where}.",
        "An entry of the same resource is replaced.",
    ])  # fmt: skip


def _allow(cluster: Cluster, values: Mapping[str, Any]) -> str:
    made = entry(
        values["resource"], values["actions"], source_ips=values["sources"] or (),
        denies=values["decision"] == "Deny",
    )  # fmt: skip
    done = Accounts(cluster).put_acl(values["user"], [made], is_default=values["is_default"])
    return f"The entry of {values['user']} is on {', '.join(done)}."


def _plan_forget(_: Cluster, values: Mapping[str, Any]) -> Plan:
    kind = values["kind"]
    return Plan([f"The {kind} entry {values['resource']} of user {values['user']} is taken back."])


def _forget(cluster: Cluster, values: Mapping[str, Any]) -> str:
    is_default = values["kind"] == "Default"
    done = Accounts(cluster).delete_acl(values["user"], values["resource"], is_default=is_default
    )  # fmt: skip
    return f"The entry of {values['user']} was taken back on {', '.join(done)}."


def _to_accounts(_: Mapping[str, Any]) -> str:
    return "/accounts"


USER = Field("user", "User", user_name, "hidden")
CREATE = Change(
    "/account/create", "Make a user", "Make it",
    (
        Field("user", "Name", user_name, help="Clients give it as accessKey."),
        Field("password", "Password", password, "password", help="Clients give it as secretKey."),
        Field("is_super", "It may do everything", flag, "checkbox", is_required=False),
    ),
    plan=_plan_create, carry_out=_create, back=_to_accounts,
)  # fmt: skip
UPDATE = Change(
    "/account/update", "Change a user", "Change it",
    (
        USER,
        Field("password", "New password", password, "password", is_required=False,
              help="Nothing: it stays."),
        Field("type", "Type", chosen(KEEP, "Normal", "Super"), "select", default=KEEP,
              choices=((KEEP, "as it is"), ("Normal", "Normal"), ("Super", "Super"))),
        Field("status", "Status", chosen(KEEP, "enable", "disable"), "select", default=KEEP,
              choices=((KEEP, "as it is"), ("enable", "enabled"), ("disable", "disabled"))),
    ),
    plan=_plan_update, carry_out=_update, back=_to_accounts, check=_check_update,
)  # fmt: skip
DELETE = Change(
    "/account/delete", "Delete a user", "Delete it", (USER,),
    plan=_plan_delete, carry_out=_delete, back=_to_accounts, is_grave=True,
)  # fmt: skip
ALLOW = Change(
    "/acl/put", "Say what a user may do", "Say it",
    (
        Field("user", "User", user_name),
        Field("resource", "Resource", resource, help="Topic:orders*, Group:billing, Cluster:c, *"),
        Field("actions", "Actions", chosen(*ACTIONS), "choices",
              choices=tuple((each, each) for each in ACTIONS), is_list=True),
        Field("sources", "Only from", sources, is_required=False,
              help="Addresses or networks, separated by blanks: 10.0.0.0/8"),
        Field("decision", "Decision", chosen("Allow", "Deny"), "select", default="Allow",
              choices=(("Allow", "Allow"), ("Deny", "Deny"))),
        Field("is_default", "It counts where no other entry of the user fits", flag, "checkbox",
              is_required=False),
    ),
    plan=_plan_allow, carry_out=_allow, back=_to_accounts,
)  # fmt: skip
FORGET = Change(
    "/acl/delete", "Take an entry back", "Take it back",
    (
        USER,
        Field("resource", "Resource", text, "hidden"),
        Field("kind", "Kind", chosen("Custom", "Default"), "hidden"),
    ),
    plan=_plan_forget, carry_out=_forget, back=_to_accounts, is_grave=True,
)  # fmt: skip

ROUTES = {"/accounts": account_page}
CHANGES = (CREATE, UPDATE, DELETE, ALLOW, FORGET)
