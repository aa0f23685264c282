"""Cluster state: what the brokers of a cluster have, at one moment. Plain values; no I/O.

    state.brokers["broker-a"].topics["orders"].write_queues
    state.brokers["broker-a"].permission           6; None: its master does not answer
    state.brokers["broker-a"].takes_sends

Topics are as the broker keeps them, not as routes show them: a route's permission is the topic's
masked with the broker's (brokerPermission).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rmq.codes import PERM_READ, PERM_WRITE

READ_WRITE = PERM_READ | PERM_WRITE
MASTER = 0

Pair = tuple[str, str]


class TopicSettings(msgspec.Struct, frozen=True):
    """The settings of one topic at one broker; hashable, so that equal ones can be counted."""

    read_queues: int
    write_queues: int
    perm: int = READ_WRITE
    order: bool = False
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    attributes: tuple[Pair, ...] = ()  # sorted

    @property
    def is_ordered(self) -> bool:
        return self.order or ("message.type", "FIFO") in self.attributes

    def text(self) -> str:
        """ "8 queues rw, message.type=FIFO"; of queues "8/4" when not all are written to."""
        queues = str(self.read_queues)
        if self.write_queues != self.read_queues:
            queues += f"/{self.write_queues}"
        noun = "queue" if queues == "1" else "queues"
        parts = [f"{queues} {noun} {perm_text(self.perm)}"]
        if self.order:
            parts.append("order")
        if self.filter_type != "SINGLE_TAG":
            parts.append(self.filter_type)
        if self.sys_flag:
            parts.append(f"topicSysFlag={self.sys_flag}")
        return ", ".join([*parts, *(f"{key}={text}" for key, text in self.attributes)])


class BrokerState(msgspec.Struct, frozen=True):
    """The brokers of one broker name. What the master does not say is empty."""

    name: str
    cluster: str
    addresses: Mapping[int, str]  # id -> address; 0 is the master
    permissions: Mapping[str, int] = {}  # of the addresses that answer
    topics: Mapping[str, TopicSettings] = {}
    static_topics: frozenset[str] = frozenset()  # their queues are mapped, not counted
    groups: Mapping[str, Mapping[str, Any]] = {}  # RocketMQ's members
    forbidden: frozenset[Pair] = frozenset()  # (group, topic): the group may not read the topic
    modes: Mapping[Pair, tuple[str, int]] = {}  # (topic, group) -> (mode,
    # popShareQueueNum), for consumers that ask the broker how they consume
    controllers: tuple[str, ...] = ()  # addresses of its controllers, if it has any
    pops_in_rocksdb: bool = False  # RocketMQ's popConsumerKVServiceEnable: no request shows them

    @property
    def master(self) -> str | None:
        return self.addresses.get(MASTER)

    @property
    def permission(self) -> int | None:
        """brokerPermission of the master."""
        return self.permissions.get(self.master) if self.master is not None else None

    @property
    def answers(self) -> bool:
        return self.permission is not None

    @property
    def takes_sends(self) -> bool:
        return bool((self.permission or 0) & PERM_WRITE)


class ClusterState(msgspec.Struct, frozen=True):
    """All brokers that the name servers know, by name."""

    brokers: Mapping[str, BrokerState]
    # Topics of a fixed order: "broker-a:4;broker-b:4". Producers go by it, whatever perm says.
    orders: Mapping[str, str] = {}
    system: frozenset[str] = frozenset()  # topics that brokers keep for themselves


def perm_text(perm: int) -> str:
    """ "rw", "r", "w"; "none" when neither is allowed."""
    return ("r" if perm & PERM_READ else "") + ("w" if perm & PERM_WRITE else "") or "none"
