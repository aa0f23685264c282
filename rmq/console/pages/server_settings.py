"""Server settings: those of brokers and name servers, compared with defaults and with each other.

    /config                     settings that are not defaults, or differ among servers
    /config?show=all&part=flush all settings whose names contain this
    /config?servers=names       those of the name servers

Defaults are RocketMQ's, from rmq/config_table.py. For a key that RocketMQ knows and rmq does not,
the default is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.partial import Missing
from rmq.config import format_value
from rmq.config_table import MASK, table_of
from rmq.console.change import Change, Plan
from rmq.console.console import console_of
from rmq.console.forms import Field, chosen, text
from rmq.console.page import page, url
from rmq.errors import RmqError
from rmq.operations.server_settings import OWN, change, settings_of

SERVERS = {"brokers": "broker", "names": "namesrv"}
SHOWS = ("changed", "differing", "all")


class SettingRow(msgspec.Struct):
    key: str
    default: str | None  # None: not known
    values: list[str | None]  # one for each server
    is_changed: bool
    is_differing: bool


def shown_settings(
    cluster: Cluster, servers: str, missing: Missing | None = None
) -> dict[str, Mapping[str, str]]:
    return dict(settings_of(cluster, name_servers=servers == "names", missing=missing))


@cache
def _defaults(server: str) -> dict[str, str]:
    return {key: format_value(row.default) for key, row in table_of(server).items()}


@cache
def _secrets(server: str) -> frozenset[str]:
    return frozenset(key for key, row in table_of(server).items() if row.secret)


def _shown(server: str, key: str, value: str | None) -> str | None:
    """The value; of a secret only that it is set, even if a server tells more."""
    return MASK if value and key in _secrets(server) else value


def rows_of(found: Mapping[str, Mapping[str, str]], server: str) -> list[SettingRow]:
    """The rows by name."""
    rows = []
    for key in sorted({key for settings in found.values() for key in settings}):
        values = [settings.get(key) for settings in found.values()]
        values = [_shown(server, key, value) for value in values]
        default = _defaults(server).get(key)
        is_changed = default is not None and any(
            value is not None and value != default for value in values
        )
        rows.append(SettingRow(key, default, values, is_changed, len(set(values)) > 1))
    return rows


async def config(request: Request) -> Response:
    console, asked = console_of(request), request.query_params
    servers = asked.get("servers", "brokers")
    show, part = asked.get("show", SHOWS[0]), asked.get("part", "").strip()
    servers = servers if servers in SERVERS else "brokers"
    missing: Missing = {}
    found = await console.ask_some(request, missing, shown_settings, servers)
    rows = [
        each
        for each in rows_of(found, SERVERS[servers])
        if part.lower() in each.key.lower() and _is_shown(each, show)
    ]
    return page(
        request, "config.html", rows=rows, names=list(found), servers=servers, show=show, part=part,
        missing=missing,
    )  # fmt: skip


def _is_shown(row: SettingRow, show: str) -> bool:
    if show == "differing":
        return row.is_differing and not OWN.fullmatch(row.key)
    return show == "all" or row.is_changed


# ---- changed


def key_name(value: str) -> str:
    if not re.fullmatch(r"[\w.]+", value, re.ASCII):
        raise ValueError("the name of a setting: letters, digits and points")
    return value


def _wanted(cluster: Cluster, values: Mapping[str, Any]) -> dict[str, str | None]:
    """Server -> its value of the setting, for the servers where it will be changed."""
    found = shown_settings(cluster, values["servers"])
    server = values["server"]
    if server is not None and server not in found:
        raise RmqError(f"There is no server {server}; there is {', '.join(found)}.")
    named = {name: each for name, each in found.items() if server in (None, name)}
    if not any(values["key"] in each for each in named.values()):
        raise RmqError(f"No setting is called {values['key']}.")
    return {name: each.get(values["key"]) for name, each in named.items()}


def _plan(cluster: Cluster, values: Mapping[str, Any]) -> Plan:
    value, key, server = values["value"] or "", values["key"], SERVERS[values["servers"]]
    rows = [
        (name, key, _shown(server, key, before), _shown(server, key, value))
        for name, before in _wanted(cluster, values).items()
        if before != value
    ]
    if not rows:
        raise RmqError("It is so already: nothing would change.")
    kept = (
        "Name servers keep the change."
        if values["servers"] == "names"
        else "The change holds until the process ends: the property file is yours."
    )
    lines = ["What may not be changed while a server runs is refused by it.", kept]
    return Plan(lines, [], ("Server", "Setting", "Is", "To be"), rows)


def _set(cluster: Cluster, values: Mapping[str, Any]) -> str:
    key, value, done = values["key"], values["value"] or "", []
    for server, before in _wanted(cluster, values).items():
        if before != value:
            is_names = values["servers"] == "names"
            remark = change(cluster, server, {key: value}, name_servers=is_names)
            done.append(f"{server} ({remark})" if remark else server)
    shown = _shown(SERVERS[values["servers"]], key, value)
    return f"{key}={shown} holds on {', '.join(done)}."


SET = Change(
    "/config/set", "Change a setting", "Change it",
    (
        Field("servers", "Of", chosen(*SERVERS), "hidden"),
        Field("key", "Setting", key_name),
        Field("value", "Value", text, is_required=False),
        Field("server", "Server", text, is_required=False, help="Nothing: all of them."),
    ),
    plan=_plan, carry_out=_set,
    back=lambda values: url("/config", servers=values["servers"], part=values["key"], show="all"),
)  # fmt: skip

ROUTES = {"/config": config}
CHANGES = (SET,)
