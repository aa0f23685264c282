"""Which producers are connected: group -> connections, and client id -> connection.

A producer is here from its first heartbeat (34) until it unregisters (35), its connection closes,
or it has been silent for channelExpiredTimeout (120 s). Replies of request-reply and transaction
checks find their producer here.

Example: a Java producer "p" of client "10.0.0.9@123#456" gives table {"p": {17: Client(..)}}.
"""

from dataclasses import dataclass

from rmq.broker.connections import Connection
from rmq.broker.data_version import now_ms


@dataclass(slots=True)
class Client:
    """A producer or consumer on one connection, as of its last heartbeat."""

    connection: Connection
    client_id: str
    language: str
    version: int
    seen_ms: int

    def members(self) -> dict[str, object]:
        """A Connection object of codes 203 and 204."""
        return {
            "clientAddr": self.connection.address,
            "clientId": self.client_id,
            "language": self.language,
            "version": self.version,
        }


class ProducerTable:
    """Owned by the control thread."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[int, Client]] = {}
        self._groups_of: dict[int, set[str]] = {}  # connection -> groups it is in

    def register(self, group: str, client: Client) -> bool:
        """Adds or refreshes; True when the client is new to the group."""
        members = self._groups.setdefault(group, {})
        number = client.connection.number
        new = number not in members
        members[number] = client
        self._groups_of.setdefault(number, set()).add(group)
        return new

    def unregister(self, group: str, connection: Connection) -> None:
        members = self._groups.get(group)
        if members is not None:
            members.pop(connection.number, None)
            if not members:
                del self._groups[group]
        groups = self._groups_of.get(connection.number, set())
        groups.discard(group)
        if not groups:
            self._groups_of.pop(connection.number, None)

    def connection_closed(self, connection: Connection) -> None:
        for group in tuple(self._groups_of.get(connection.number, ())):
            self.unregister(group, connection)

    def expire(self, silent_ms: int) -> list[Client]:
        """Takes off who was silent for longer; returns them."""
        limit = now_ms() - silent_ms
        gone = []
        for group, members in list(self._groups.items()):
            for client in [c for c in members.values() if c.seen_ms < limit]:
                self.unregister(group, client.connection)
                gone.append(client)
        return gone

    def clients(self, group: str) -> list[Client]:
        return list(self._groups.get(group, {}).values())

    def groups(self) -> dict[str, list[Client]]:
        return {group: list(members.values()) for group, members in self._groups.items()}

    def find(self, client_id: str) -> Client | None:
        """Any connection of the client with this id."""
        for members in self._groups.values():
            for client in members.values():
                if client.client_id == client_id:
                    return client
        return None
