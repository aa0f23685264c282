"""Routes: which queues a topic has, and where their brokers are. Values only; no I/O.

route = parse_route("orders", reply.body)
route.writable(), route.readable()        # [MessageQueue(topic, broker_name, queue_id), ...]
route.brokers["broker-a"].addresses       # {0: "10.0.0.7:10911", 1: ...}

The queues of a static topic are its logical ones. Each has the name of the broker that leads it
now, and a number that is its own among all brokers: MessageQueue("t", "broker-b", 3) if broker-b
leads logical queue 3.
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
NO_NAME_SERVER = "a broker or a controller, and no name server?"  # it does not know the request
QUEUES_MAX = 1 << 20


@dataclass(frozen=True)
class BrokerEntry:
    """One broker name: its cluster, and an address for each broker id (0 is the master)."""

    name: str
    cluster: str
    addresses: dict[int, str]

    @property
    def master(self) -> str | None:
        return self.addresses.get(MASTER)

    @property
    def any_address(self) -> str | None:
        """The master's address, else that of the replica with the smallest id."""
        return self.addresses[min(self.addresses)] if self.addresses else None


@dataclass(frozen=True)
class QueueData:
    """The queues of one topic at one broker."""

    broker_name: str
    read_queues: int
    write_queues: int
    perm: int


@dataclass(frozen=True)
class Route:
    """The brokers and queues of a topic. Routes with equal values compare equal."""

    topic: str
    brokers: dict[str, BrokerEntry]
    entries: list[QueueData] = field(default_factory=list)
    order_conf: str = ""  # "broker-a:4;broker-b:4" for topics of a fixed order
    leaders: dict[int, str] = field(default_factory=dict)  # of a static topic's logical queues

    def readable(self) -> list[MessageQueue]:
        """All queues that can be read, by broker and queue id; of a static topic by queue id."""
        if self.leaders:
            return self._led({each.broker_name for each in self.entries if each.perm & PERM_READ})
        return [
            MessageQueue(self.topic, entry.broker_name, queue_id)
            for entry in self.entries
            if entry.perm & PERM_READ and self.brokers.get(entry.broker_name)
            for queue_id in range(entry.read_queues)
        ]

    def in_order(self) -> list[MessageQueue]:
        """readable() in the order that all members of a group use, in any language, because they
        share out the queues by their places in this list. (RocketMQ's clients give all logical
        queues the same broker name, so those are in order of queue id.)"""
        return self.readable() if self.leaders else sorted(self.readable())

    def _led(self, names: set[str]) -> list[MessageQueue]:
        """The logical queues led by these brokers."""
        return [
            MessageQueue(self.topic, name, queue_id)
            for queue_id, name in sorted(self.leaders.items())
            if name in names and name in self.brokers
        ]

    def writable(self) -> list[MessageQueue]:
        """All queues that can be written, by broker and queue id: those whose master is alive."""
        if self.leaders:
            alive = {name for name, each in self.brokers.items() if each.master is not None}
            return self._led(alive & {each.broker_name for each in self.entries
                                      if each.perm & PERM_WRITE})  # fmt: skip
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
    """The route in a name server's answer. ProtocolError: the answer makes no sense."""
    data = fastjson.loads_object(body)
    brokers = {entry.name: entry for entry in map(broker_entry, _rows(data, "brokerDatas"))}
    entries = [
        QueueData(
            str(row.get("brokerName")),
            _count(row, "readQueueNums"),
            _count(row, "writeQueueNums"),
            _count(row, "perm"),
        )
        for row in _rows(data, "queueDatas")
    ]
    entries.sort(key=lambda entry: entry.broker_name)
    leaders = _leaders(data.get("topicQueueMappingByBroker"))
    return Route(topic, brokers, entries, str(data.get("orderTopicConf") or ""), leaders)


def _leaders(table: Any) -> dict[int, str]:
    """Logical queue -> broker name. If two brokers both say that they lead a queue, the one with
    the newer mapping is right: the other does not know yet that the queue was moved."""
    if not table:
        return {}
    found: dict[int, tuple[int, str]] = {}
    try:
        for info in table.values():
            epoch, name = int(info["epoch"]), str(info["bname"])
            for queue_id in map(int, info.get("currIdMap") or {}):
                if 0 <= queue_id < QUEUES_MAX:
                    found[queue_id] = max(found.get(queue_id, (epoch, name)), (epoch, name))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ProtocolError("the name server's answer holds a broken queue mapping") from None
    return {queue_id: name for queue_id, (_, name) in found.items()}


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
