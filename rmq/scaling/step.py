"""Step: one change of a plan, as it is shown and as it is done.

    Step("broker-b", "topic orders", None, "8 queues rw", PutTopic("10.0.0.2:10911", "orders", ..))

`action` None: nothing here can do the step; the operator who reads the plan must.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rmq.scaling.cluster_state import TopicSettings


class PutGroup(msgspec.Struct, frozen=True):
    """200: the group's members by RocketMQ's names; its attributes as changes, "+key" and
    "-key"."""

    address: str
    members: Mapping[str, Any]


class ForbidReading(msgspec.Struct, frozen=True):
    """353: the group may not read the topic."""

    address: str
    group: str
    topic: str


class PutTopic(msgspec.Struct, frozen=True):
    """17: a topic's settings; its attributes as changes, "+key=value" and "-key"."""

    address: str
    topic: str
    settings: TopicSettings
    changes: tuple[str, ...] = ()


class PutRequestMode(msgspec.Struct, frozen=True):
    """401: how consumers that ask the broker take the topic."""

    address: str
    topic: str
    group: str
    mode: str
    pop_share_queue_num: int


class PutOrder(msgspec.Struct, frozen=True):
    """100 at every name server; with an empty order_conf 102, which deletes the row."""

    topic: str
    order_conf: str


class SetPermission(msgspec.Struct, frozen=True):
    """25 with brokerPermission."""

    address: str
    permission: int


class AwaitConsumers(msgspec.Struct, frozen=True):
    """Waits until nothing is unconsumed at the broker."""


class Unregister(msgspec.Struct, frozen=True):
    """104 at every name server."""

    name: str
    cluster: str
    broker_id: int
    address: str


Action = (
    PutGroup | ForbidReading | PutTopic | PutRequestMode | PutOrder | SetPermission
    | AwaitConsumers | Unregister
)  # fmt: skip


class Step(msgspec.Struct, frozen=True):
    broker: str
    what: str
    before: str | None
    after: str | None
    action: Action | None = None

    def row(self) -> tuple[str | None, ...]:
        return self.broker, self.what, self.before, self.after


class Plan(msgspec.Struct, frozen=True):
    """Steps in the order in which they are done, and notes for the operator."""

    verb: str
    brokers: tuple[str, ...]
    steps: list[Step] = []
    notes: list[str] = []

    @property
    def by_hand(self) -> list[Step]:
        return [each for each in self.steps if each.action is None]

    @property
    def doable(self) -> list[Step]:
        return [each for each in self.steps if each.action is not None]
