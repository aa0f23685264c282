"""Routes: which queues a topic has, and where their brokers are. Values only; no I/O.

route = parse_route("orders", reply.body)
route.writable(), route.readable()        # [MessageQueue(topic, broker_name, queue_id), ...]
route.brokers["broker-a"].addresses       # {0: "10.0.0.7:10911", 1: ...}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rmq.codes import PERM_READ, PERM_WRITE
from rmq.errors import ProtocolError
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue

MASTER = 0
QUEUES_MAX = 1 << 20


@dataclass(frozen=True)
class BrokerEntry:
    """One broker name: its cluster and the address per broker id (0 is the master)."""

    name: str
    cluster: str
    addresses: dict[int, str]

    @property
    def master(self) -> str | None:
        return self.addresses.get(MASTER)

    @property
    def any_address(self) -> str | None:
        """The master's, else that of the replica with the smallest id."""
        return self.addresses[min(self.addresses)] if self.addresses else None


@dataclass(frozen=True)
class QueueEntry:
    """What one broker says of one topic."""

    broker_name: str
    read_queues: int
    write_queues: int
    perm: int


@dataclass(frozen=True)
class Route:
    """Where a topic lives. Equal routes compare equal."""

    topic: str
    brokers: dict[str, BrokerEntry]
    entries: list[QueueEntry] = field(default_factory=list)
    order_conf: str = ""  # "broker-a:4;broker-b:4" for topics of a fixed order

    def readable(self) -> list[MessageQueue]:
        """All queues one may pull from, by broker and number."""
        return [
            MessageQueue(self.topic, entry.broker_name, queue_id)
            for entry in self.entries
            if entry.perm & PERM_READ and self.brokers.get(entry.broker_name)
            for queue_id in range(entry.read_queues)
        ]

    def writable(self) -> list[MessageQueue]:
        """All queues one may send to, by broker and number: those whose master is alive."""
        counts = {entry.broker_name: entry.write_queues for entry in self.entries
                  if entry.perm & PERM_WRITE}  # fmt: skip
        if self.order_conf:
            counts = _order_counts(self.order_conf)
        return [
            MessageQueue(self.topic, name, queue_id)
            for name, count in counts.items()
            if (broker := self.brokers.get(name)) is not None and broker.master is not None
            for queue_id in range(count)
        ]


def _order_counts(text: str) -> dict[str, int]:
    pairs = (part.rpartition(":") for part in text.split(";") if part)
    return {name: min(int(count), QUEUES_MAX) for name, _, count in pairs if count.isdigit()}


def parse_route(topic: str, body: bytes) -> Route:
    """The name server's answer; ProtocolError when it makes no sense."""
    data = fastjson.loads_object(body)
    brokers = {entry.name: entry for entry in map(broker_entry, _rows(data, "brokerDatas"))}
    entries = [
        QueueEntry(
            str(row.get("brokerName")),
            _count(row, "readQueueNums"),
            _count(row, "writeQueueNums"),
            _count(row, "perm"),
        )
        for row in _rows(data, "queueDatas")
    ]
    entries.sort(key=lambda entry: entry.broker_name)
    return Route(topic, brokers, entries, str(data.get("orderTopicConf") or ""))


def broker_entry(row: Mapping[str, Any]) -> BrokerEntry:
    addresses = row.get("brokerAddrs") or {}
    try:
        by_id = {int(key): str(address) for key, address in addresses.items()}
    except (ValueError, AttributeError):
        raise ProtocolError("the name server's answer holds a broken broker entry") from None
    return BrokerEntry(str(row.get("brokerName")), str(row.get("cluster")), by_id)


def _rows(data: Mapping[Any, Any], name: str) -> list[dict[str, Any]]:
    rows = data.get(name) or []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ProtocolError(f"{name} in the name server's answer is not a list of objects")
    return rows


def _count(row: Mapping[str, Any], name: str) -> int:
    value = row.get(name, 0)
    if not isinstance(value, int) or not 0 <= value <= QUEUES_MAX:
        raise ProtocolError(f"{name} in the name server's answer is {value!r}")
    return value
