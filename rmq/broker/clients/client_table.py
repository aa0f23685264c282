"""Client table: what the tables of producers and consumers have in common: groups of clients, which
come by heartbeats and go by silence, with their connection, or with their user.

Example: expire(120_000) takes off who has not beaten for two minutes, and says who that was.
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
        """Each client of each group, beside the group's name."""

    def connection_closed(self, connection: Connection) -> None:
        for group in tuple(self._groups_of.get(connection.number, ())):
            self.unregister(group, connection)

    def expire(self, silent_ms: int) -> list[Client]:
        """Takes off the clients that were silent for longer; returns them."""
        limit = now_ms() - silent_ms
        return self._take_off(lambda client: client.seen_ms < limit)

    def users_gone(self, users: set[str]) -> list[Client]:
        """Takes off the clients whose heartbeats were theirs; returns them."""
        return self._take_off(lambda client: client.user in users)

    def _take_off(self, is_meant: Callable[[Client], bool]) -> list[Client]:
        gone = [(group, client) for group, client in self._all() if is_meant(client)]
        for group, client in gone:
            self.unregister(group, client.connection)
        return [client for _, client in gone]
