"""Replicas: which broker of a name is asked, for which purpose. State only; no I/O.

    replicas = Replicas()
    replicas.choose(entry.addresses, Purpose.READ, queue)   # Replica(1, "10.0.0.8:10911"), or None
    replicas.suggest(queue, 1)            # an answer to a pull suggests where to read this queue
    replicas.gone(address)                # it does not answer: another is chosen, if there is one
    replicas.back(address)                # it answers again

    WRITE    the master only
    STATE    the master, else the others by id
    READ     the suggested one, else the next id if that is a slave's, else as STATE

RocketMQ's clients choose in the same order, but by the route alone. Here a broker that is known not
to answer comes last, without waiting until the name server notices.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from rmq.base import clock
from rmq.client.connection.routes import MASTER
from rmq.format.fastjson import MessageQueue

GONE_S = 30.0  # after which a broker is tried again, even if nothing says that it is back


class Purpose(enum.Enum):
    WRITE = "write"  # sends, locks, acks, ends of transactions
    STATE = "state"  # offsets, members of groups, where queues begin and end
    READ = "read"  # pulls


class Replica(NamedTuple):
    """One of the brokers of a broker name."""

    broker_id: int
    address: str

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER


class Replicas:
    """The replicas of all broker names of one client; any thread may use it."""

    def __init__(self, gone_s: float = GONE_S) -> None:
        self._gone_s = gone_s
        self._gone: dict[str, float] = {}  # address -> when it is tried again
        self._suggested: dict[MessageQueue, int] = {}  # queue -> broker id, only of slaves

    def choose(
        self, addresses: Mapping[int, str], purpose: Purpose, queue: MessageQueue | None = None
    ) -> Replica | None:
        """The broker to ask; None: no broker of this name can serve the purpose."""
        order = [MASTER]
        if purpose is Purpose.READ and queue in self._suggested:
            suggested = self._suggested[queue]
            order = [suggested, suggested + 1, MASTER]
        if purpose is not Purpose.WRITE:
            order += sorted(addresses)
        there = [Replica(each, addresses[each]) for each in order if each in addresses]
        return next((each for each in there if not self.is_gone(each.address)),
                    there[0] if there else None)  # fmt: skip

    def suggest(self, queue: MessageQueue, broker_id: int) -> None:
        if broker_id > MASTER:
            self._suggested[queue] = broker_id
        else:
            self._suggested.pop(queue, None)

    def gone(self, address: str) -> None:
        self._gone[address] = clock.monotonic() + self._gone_s

    def back(self, address: str) -> None:
        self._gone.pop(address, None)

    def is_gone(self, address: str) -> bool:
        until = self._gone.get(address)
        return until is not None and clock.monotonic() < until
