"""Replica choice: at which broker of a name a range is read.

choice = ReplicaChoice(access, key, addresses)
choice.address()                     # where the plan found it, or by the name servers
choice.failed()                      # that one does not answer: another one for a while
choice.is_slave(address)             # may lack what its master has; is_known_slave: does not raise
choice.moves(address, suggested)     # the broker sends this reader elsewhere, and there is one
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
POLL_S = 5.0  # a suggestion that nobody can follow is looked into as often


class ReplicaChoice:
    """Of one range. `addresses` by broker name are those of all ranges of a task."""

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
        """The same; no, where no name server says what it is."""
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
