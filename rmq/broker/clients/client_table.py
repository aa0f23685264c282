"""Client table: what the tables of producers and consumers have in common: groups of clients.
Clients join by heartbeats, and leave when they are silent, their connection closes, or their user
is deleted or disabled.

Example: expire(120_000) removes the clients without a heartbeat for two minutes, and returns them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

from rmq.base.clock import now_ms
from rmq.broker.clients.client import Client
from rmq.broker.clients.connections import Connection


class ClientTable(ABC):
    """Owned by the control thread."""

    def __init__(self) -> None:
        self._groups_of: dict[int, set[str]] = {}  # connection -> groups it is in

    @abstractmethod
    def unregister(self, group: str, connection: Connection) -> None: ...

    @abstractmethod
    def _all(self) -> list[tuple[str, Client]]:
        """All clients, each with the name of its group."""

    def connection_closed(self, connection: Connection) -> None:
        for group in tuple(self._groups_of.get(connection.number, ())):
            self.unregister(group, connection)

    def expire(self, silent_ms: int) -> list[Client]:
        """Removes the clients that were silent for longer; returns them."""
        limit = now_ms() - silent_ms
        return self._take_off(lambda client: client.seen_ms < limit)

    def users_gone(self, users: set[str]) -> list[Client]:
        """Removes the clients whose heartbeats these users signed; returns them."""
        return self._take_off(lambda client: client.user in users)

    def _take_off(self, is_meant: Callable[[Client], bool]) -> list[Client]:
        gone = [(group, client) for group, client in self._all() if is_meant(client)]
        for group, client in gone:
            self.unregister(group, client.connection)
        return [client for _, client in gone]
