"""Namespaces: the names `namespace%name` on the wire, and `name` for the user.

    wrap("ns", "orders") == "ns%orders"        wrap("ns", "%RETRY%g") == "%RETRY%ns%g"
    unwrap("ns", "ns%orders") == "orders"

System topics are in no namespace.
"""

from __future__ import annotations

import re

from rmq import names
from rmq.errors import ConfigError
from rmq.limits import GROUP_CHARACTERS_MAX

PREFIXES = (names.RETRY_PREFIX, names.DLQ_PREFIX)
SYSTEM = (names.SYSTEM_TOPIC_PREFIX, names.OLD_SYSTEM_TOPIC_PREFIX, names.SCHEDULE_TOPIC,
          names.AUTO_CREATE_TOPIC, names.SELF_TEST_TOPIC, names.CLIENT_PRODUCER_GROUP,
          names.TOOLS_CONSUMER_GROUP, names.SYSTEM_GROUP_PREFIX)  # fmt: skip
GROUP_NAME = re.compile(r"[%|a-zA-Z0-9_-]+", re.ASCII)


def wrap(namespace: str | None, name: str) -> str:
    """The name that brokers know."""
    if not namespace or name.startswith(SYSTEM):
        return name
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return prefix + wrap(namespace, name[len(prefix) :])
    return name if name.startswith(f"{namespace}%") else f"{namespace}%{name}"


def wrap_group(namespace: str | None, group: str) -> str:
    """The name of the group that brokers know. ConfigError: they would not take it."""
    name = wrap(namespace, group)
    if not 0 < len(name) <= GROUP_CHARACTERS_MAX:
        raise ConfigError(f"a group name of {len(name)} characters: 1 to {GROUP_CHARACTERS_MAX}")
    if GROUP_NAME.fullmatch(name) is None:
        raise ConfigError(f"group {name!r}: only letters, digits, %, |, - and _ are allowed")
    return name


def unwrap(namespace: str | None, name: str) -> str:
    """The name that the user knows."""
    if not namespace:
        return name
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return prefix + unwrap(namespace, name[len(prefix) :])
    return name.removeprefix(f"{namespace}%")
