"""Resource: what a policy entry allows or denies, and what a request touches.

    *               everything
    Topic:*         every topic
    Topic:orders*   topics whose names begin so
    Topic:orders    one

A topic that a broker writes for itself, where messages of all topics wait, is covered by its whole
name alone: who may read Topic:* reads what is sent to him, not what is on its way to others.

A request touches resources with names of their own; patterns are in policies only, and
rmq/auth/policy.py finds those that cover a name. The group of a retry topic is the resource, not
the topic: %RETRY%g is Group:g.

Example: Resource.of("Topic:orders*") covers topic("orders-eu").
"""

from __future__ import annotations

from enum import Enum, IntEnum

import msgspec

from rmq import names


class ResourceType(Enum):
    """RocketMQ's; Namespace is in no request."""

    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Pattern(IntEnum):
    """The nearer to the name, the earlier."""

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
        """None: it is no resource. Any:orders is for everything, as RocketMQ has it: the same as
        a star, as which it is written."""
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
        """Whether its text stands for it: a whole name that ends with a star is written like a
        pattern."""
        return self.pattern is not Pattern.LITERAL or not self.name.endswith("*")


def topic(name: str) -> Resource:
    """A retry topic is its group's."""
    if names.is_retry(name):
        return group(name)
    return Resource(ResourceType.TOPIC, name)


def group(name: str) -> Resource:
    return Resource(ResourceType.GROUP, name.removeprefix(names.RETRY_PREFIX))


def cluster(name: str) -> Resource:
    return Resource(ResourceType.CLUSTER, name)
