"""Namespaces: `namespace%name` on the wire, `name` for the user.

    wrap("ns", "orders") == "ns%orders"        wrap("ns", "%RETRY%g") == "%RETRY%ns%g"
    unwrap("ns", "ns%orders") == "orders"

System topics are in no namespace.
"""

from __future__ import annotations

import re

from rmq.errors import ConfigError

PREFIXES = ("%RETRY%", "%DLQ%")
SYSTEM = ("rmq_sys_", "RMQ_SYS_", "SCHEDULE_TOPIC_XXXX", "TBW102", "SELF_TEST_TOPIC",
          "CLIENT_INNER_PRODUCER", "TOOLS_CONSUMER", "CID_RMQ_SYS_")  # fmt: skip
GROUP_NAME_MAX = 120  # characters
GROUP_NAME = re.compile(r"[%|a-zA-Z0-9_-]+", re.ASCII)


def wrap(namespace: str | None, name: str) -> str:
    """The name brokers know."""
    if not namespace or name.startswith(SYSTEM):
        return name
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return prefix + wrap(namespace, name[len(prefix) :])
    return name if name.startswith(f"{namespace}%") else f"{namespace}%{name}"


def wrap_group(namespace: str | None, group: str) -> str:
    """The group's name brokers know; ConfigError when they would not take it."""
    name = wrap(namespace, group)
    if not 0 < len(name) <= GROUP_NAME_MAX:
        raise ConfigError(f"a group name of {len(name)} characters: 1 to {GROUP_NAME_MAX}")
    if GROUP_NAME.fullmatch(name) is None:
        raise ConfigError(f"group {name!r}: only letters, digits, %, |, - and _ are allowed")
    return name


def unwrap(namespace: str | None, name: str) -> str:
    """The name the user knows."""
    if not namespace:
        return name
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return prefix + unwrap(namespace, name[len(prefix) :])
    return name.removeprefix(f"{namespace}%")
