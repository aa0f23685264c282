"""Step: one change of a plan, as it is shown and as it is done.

    Step("broker-b", "topic orders", None, "8 queues rw", PutTopic("10.0.0.2:10911", "orders", ..))

`action` None: nothing that can be done from here, but by whoever reads the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rmq.scaling.cluster_state import TopicSettings


@dataclass(frozen=True)
class PutGroup:
    """200: the group's members by RocketMQ's names; attributes are changes, "+key" and "-key"."""

    address: str
    members: Mapping[str, Any]


@dataclass(frozen=True)
class ForbidReading:
    """353: the group may not read the topic."""

    address: str
    group: str
    topic: str


@dataclass(frozen=True)
class PutTopic:
    """17: with changes of its attributes, "+key=value" and "-key"."""

    address: str
    topic: str
    settings: TopicSettings
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PutRequestMode:
    """401: how consumers that ask the broker take the topic."""

    address: str
    topic: str
    group: str
    mode: str
    pop_share_queue_num: int


@dataclass(frozen=True)
class PutOrder:
    """100 at every name server; empty: 102, there is none any more."""

    topic: str
    order_conf: str


@dataclass(frozen=True)
class SetPermission:
    """25 with brokerPermission."""

    address: str
    permission: int


@dataclass(frozen=True)
class AwaitConsumers:
    """Until nothing is unconsumed at the broker."""


@dataclass(frozen=True)
class Unregister:
    """104 at every name server."""

    name: str
    cluster: str
    broker_id: int
    address: str


Action = (
    PutGroup | ForbidReading | PutTopic | PutRequestMode | PutOrder | SetPermission
    | AwaitConsumers | Unregister
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    broker: str
    what: str
    before: str | None
    after: str | None
    action: Action | None = None

    def row(self) -> tuple[str | None, ...]:
        return self.broker, self.what, self.before, self.after


@dataclass(frozen=True)
class Plan:
    """Steps in the order in which they are done, and what one has to know."""

    verb: str
    brokers: tuple[str, ...]
    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def by_hand(self) -> list[Step]:
        return [each for each in self.steps if each.action is None]

    @property
    def doable(self) -> list[Step]:
        return [each for each in self.steps if each.action is not None]
