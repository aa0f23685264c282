"""Resource: what a policy entry allows or denies, and what a request touches.

    *               everything
    Topic:*         every topic
    Topic:orders*   topics whose names begin with orders
    Topic:orders    one topic

A topic that a broker writes for itself, where messages of all topics wait, is covered only by its
whole name: a user who may read Topic:* can read what is sent to him, not what is on its way to
others.

A request touches resources by their names; only policies have patterns, and rmq/auth/policy.py
finds those that cover a name. For a retry topic the resource is its group, not the topic: %RETRY%g
is Group:g.

Example: Resource.of("Topic:orders*") covers topic("orders-eu").
"""

from __future__ import annotations

from enum import Enum, IntEnum

import msgspec

from rmq import names


class ResourceType(Enum):
    """RocketMQ's types; no request touches a Namespace."""

    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Pattern(IntEnum):
    """How an entry names its resource, the most exact first."""

    LITERAL = 0
    PREFIXED = 1
    ANY = 2


_TYPES = {each.value.lower(): each for each in ResourceType}


class Resource(msgspec.Struct, frozen=True):
    type: ResourceType
    name: str = ""  # empty with Pattern.ANY
    pattern: Pattern = Pattern.LITERAL

    @classmethod
    def of(cls, text: str) -> Resource | None:
        """Reads a resource; None: it is none. Any:orders means everything, as in RocketMQ, and is
        written as a star."""
        if text == "*":
            return cls(ResourceType.ANY, "", Pattern.ANY)
        kind, colon, name = text.partition(":")
        found = _TYPES.get(kind.lower())
        if found is None or not colon or not name.strip():
            return None
        if name == "*" or found is ResourceType.ANY:
            return cls(found, "", Pattern.ANY)
        if name.endswith("*"):
            return cls(found, name[:-1], Pattern.PREFIXED)
        return cls(found, name)

    def __str__(self) -> str:
        if self.type is ResourceType.ANY:
            return "*"
        star = "" if self.pattern is Pattern.LITERAL else "*"
        return f"{self.type.value}:{self.name}{star}"

    @property
    def is_as_written(self) -> bool:
        """Whether reading its text gives the same resource: a whole name that ends with a star
        would be read as a pattern."""
        return self.pattern is not Pattern.LITERAL or not self.name.endswith("*")


def topic(name: str) -> Resource:
    """The resource of a topic; for a retry topic that of its group."""
    if names.is_retry(name):
        return group(name)
    return Resource(ResourceType.TOPIC, name)


def group(name: str) -> Resource:
    return Resource(ResourceType.GROUP, name.removeprefix(names.RETRY_PREFIX))


def cluster(name: str) -> Resource:
    return Resource(ResourceType.CLUSTER, name)
