"""Client: a producer or consumer on one connection, as of its last heartbeat.

Example: for a Java client 10.0.0.9@123#456 language is JAVA, and seen_ms is the time of its last
heartbeat.
"""

import msgspec

from rmq.broker.clients.connections import Connection


class Client(msgspec.Struct):
    """A producer or consumer on one connection, as of its last heartbeat."""

    connection: Connection
    client_id: str
    language: str
    version: int
    seen_ms: int
    user: str = ""  # who signed the heartbeat; empty: no signature was required

    def members(self) -> dict[str, object]:
        """A Connection object of codes 203 and 204."""
        return {
            "clientAddr": self.connection.address,
            "clientId": self.client_id,
            "language": self.language,
            "version": self.version,
        }
