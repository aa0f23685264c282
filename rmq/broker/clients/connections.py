"""Connections: those of clients, as the reactor reports them: number -> address and what is known.

The reactor opens and closes connections; this is only the list. A connection number is never used
twice. Example: (OPENED, 17, "10.0.0.9:50312") adds 17; each request sets its language and version;
(CLOSED, 17, b"") removes it, and producers, consumers and waiting calls forget it too.
"""

import msgspec


class Connection(msgspec.Struct, eq=False):
    """One client connection."""

    number: int
    address: str  # "ip:port" of the peer
    proved: str = ""  # the name in the client's certificate
    language: str = "OTHER"  # of the last request
    version: int = 0  # of the last request; position in RocketMQ's list of versions
    closed: bool = False


class Connections:
    """Owned by the control thread."""

    def __init__(self) -> None:
        self._by_number: dict[int, Connection] = {}

    def __len__(self) -> int:
        return len(self._by_number)

    def opened(self, number: int, said: str) -> Connection:
        """Adds a connection. said: its address and, after a line end, the name in the client's
        certificate."""
        address, _, proved = said.partition("\n")
        connection = Connection(number, address, proved)
        self._by_number[number] = connection
        return connection

    def get(self, number: int) -> Connection:
        """The connection; one that was never announced gets an entry of its own."""
        found = self._by_number.get(number)
        return found if found is not None else self.opened(number, "unknown:0")

    def find(self, number: int) -> Connection | None:
        return self._by_number.get(number)

    def closed(self, number: int) -> Connection | None:
        connection = self._by_number.pop(number, None)
        if connection is not None:
            connection.closed = True
        return connection
