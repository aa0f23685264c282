"""Replica choice: from which replica of a broker a range is read.

choice = ReplicaChoice(access, key, addresses)
choice.address()                     # the one that the plan found, or that name servers know
choice.failed()                      # it does not answer: for a while another one is chosen
choice.is_slave(address)             # it may lack messages; is_known_slave does not raise
choice.moves(address, suggested)     # the broker suggests another replica, and that one exists
"""

from __future__ import annotations

import time
from contextlib import suppress

from rmq.arrow.access import Access
from rmq.arrow.offsets import QueueKey
from rmq.client.connection.replicas import Purpose, Replicas
from rmq.client.connection.routes import MASTER, BrokerEntry
from rmq.errors import RemoteError, UnreachableError
from rmq.format.fastjson import MessageQueue

GONE_S = 2.0
POLL_S = 5.0  # between two looks at the name servers because of a suggestion


class ReplicaChoice:
    """The choice for one range. `addresses`, by broker name, are shared by all ranges of a task."""

    def __init__(self, access: Access, key: QueueKey, addresses: dict[str, str]) -> None:
        self._access = access
        self._name = key.broker
        self._queue = MessageQueue(key.topic, key.broker, key.queue_id)
        self._addresses = addresses
        self._replicas = Replicas(GONE_S)
        self._entry: BrokerEntry | None = None
        self._looked_at = 0.0

    def address(self) -> str:
        return self._addresses.get(self._name) or self._look()

    def failed(self) -> None:
        address = self._addresses.pop(self._name, None)
        if address is not None:
            self._replicas.gone(address)

    def is_slave(self, address: str) -> bool:
        if self._entry is None:
            self._look()
        return self._id_of(address) != MASTER

    def is_known_slave(self, address: str) -> bool:
        """The same; False when no name server answers."""
        if self._entry is None:
            with suppress(UnreachableError):
                self._look()
        return self._id_of(address) != MASTER

    def moves(self, address: str, suggested: int) -> bool:
        if suggested == self._id_of(address) or time.monotonic() - self._looked_at < POLL_S:
            return False
        self._replicas.suggest(self._queue, suggested)
        try:
            return self._look() != address
        except UnreachableError:
            return False

    def _id_of(self, address: str) -> int:
        addresses = self._entry.addresses if self._entry is not None else {}
        return next((each for each, at in addresses.items() if at == address), MASTER)

    def _look(self) -> str:
        self._looked_at = time.monotonic()
        with self._access.cluster(self._replicas) as cluster:
            entries = {entry.name: entry for entry in cluster.brokers()}
            self._entry = entries.get(self._name)
            try:
                found = cluster.replica_of(self._name, Purpose.READ, self._queue).address
            except RemoteError as error:
                raise UnreachableError(error.remark) from None
        self._addresses[self._name] = found
        return found
