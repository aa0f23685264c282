"""Namespaces: `namespace%name` on the wire, `name` for the user.

    wrap("ns", "orders") == "ns%orders"        wrap("ns", "%RETRY%g") == "%RETRY%ns%g"
    unwrap("ns", "ns%orders") == "orders"

System topics are in no namespace.
"""

from __future__ import annotations

from rmq.errors import MessageError

PREFIXES = ("%RETRY%", "%DLQ%")
SYSTEM = ("rmq_sys_", "RMQ_SYS_", "SCHEDULE_TOPIC_XXXX", "TBW102", "SELF_TEST_TOPIC",
          "CLIENT_INNER_PRODUCER", "TOOLS_CONSUMER", "CID_RMQ_SYS_")  # fmt: skip
GROUP_NAME_MAX = 120  # characters


def wrap(namespace: str | None, name: str) -> str:
    """The name brokers know."""
    if not namespace or name.startswith(SYSTEM):
        return name
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return prefix + wrap(namespace, name[len(prefix) :])
    return name if name.startswith(f"{namespace}%") else f"{namespace}%{name}"


def wrap_group(namespace: str | None, group: str) -> str:
    """The group's name brokers know; MessageError when they would not take it."""
    name = wrap(namespace, group)
    if not 0 < len(name) <= GROUP_NAME_MAX:
        raise MessageError(f"a group name of {len(name)} characters: 1 to {GROUP_NAME_MAX}")
    return name


def unwrap(namespace: str | None, name: str) -> str:
    """The name the user knows."""
    if not namespace:
        return name
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return prefix + unwrap(namespace, name[len(prefix) :])
    return name.removeprefix(f"{namespace}%")
