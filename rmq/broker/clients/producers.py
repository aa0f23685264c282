"""Producers: the connected ones: group -> connections, and client id -> connection.

A producer is listed from its first heartbeat (34) until it unregisters (35), its connection closes,
or it has been silent for channelExpiredTimeout (120 s). Replies of request-reply and transaction
checks find their producer by these tables. The reactor, which sends both, is told of every change
of a client id's connection, and gets some connections of each group.

Example: a Java producer "p" of client "10.0.0.9@123#456" gives the table {"p": {17: Client(..)}}.
"""

import logging
from collections.abc import Callable
from itertools import islice, repeat, zip_longest

from rmq.base.rate_limited_log import RateLimitedLog
from rmq.broker.clients.client import Client
from rmq.broker.clients.client_table import ClientTable
from rmq.broker.clients.connections import Connection

quiet = RateLimitedLog(logging.getLogger("rmq.broker.producers"))

IDS_MAX = 64  # client ids of one connection; RocketMQ has no such limit
GROUPS_MAX = 4096  # of one connection; RocketMQ has no such limit

CHECK_TARGETS_MAX = 64  # connections of a group that may be asked about its transactions

PutClient = Callable[[bytes, int], None]  # (client id, its connection or 0): ShardCore.put_client
# (group, connection -> its user): ShardCore.put_producers
PutProducers = Callable[[bytes, dict[int, bytes]], None]


class ProducerTable(ClientTable):
    """Owned by the control thread."""

    def __init__(self, put_client: PutClient, put_producers: PutProducers) -> None:
        super().__init__()
        self._put_client = put_client
        self._put_producers = put_producers
        # group -> the connections that the reactor has, each with its user
        self._published: dict[str, dict[int, str]] = {}
        self._groups: dict[str, dict[int, Client]] = {}
        # group -> user -> connections, in the order in which they came
        self._of_user: dict[str, dict[str, dict[int, None]]] = {}
        self._ids_of: dict[int, dict[str, None]] = {}  # connection -> client ids, oldest first
        self._by_id: dict[str, dict[int, Client]] = {}  # client id -> connection -> client

    def register(self, group: str, client: Client) -> bool:
        """Adds or refreshes; True when the client is new to the group."""
        number = client.connection.number
        groups = self._groups_of.get(number, ())
        if group not in groups and len(groups) >= GROUPS_MAX:
            quiet.warning(
                "groups",
                "heartbeat of %s: group %.200r is skipped: the connection is in %d",
                client.connection.address, group, GROUPS_MAX,
            )  # fmt: skip
            return False
        members = self._groups.setdefault(group, {})
        before = members.get(number)
        members[number] = client
        self._add_id(client)
        self._groups_of.setdefault(number, set()).add(group)
        if before is None or before.user != client.user:
            self._leave_user(group, before)
            self._of_user.setdefault(group, {}).setdefault(client.user, {})[number] = None
            self._publish_group(group)
        return before is None

    def _add_id(self, client: Client) -> None:
        """Lets the client's newest connection have the replies to its client id. A connection of
        another user than the present ones does not get them, because anybody may name any id."""
        number, client_id = client.connection.number, client.client_id
        known = self._by_id.setdefault(client_id, {})
        for each, other in known.items():
            if each != number and other.user != client.user:
                quiet.warning(
                    "client id",
                    "heartbeat of %s: client id %.200r is not this one's, but of %s at %s: replies "
                    "go on to that one",
                    client.connection.address, client_id, other.user or "nobody in particular",
                    other.connection.address,
                )  # fmt: skip
                if number in known:
                    self._forget_id(client_id, number)
                return
        newest = number not in known
        known[number] = client
        if newest:
            self._publish_client(client_id)
        ids = self._ids_of.setdefault(number, {})
        ids[client_id] = None
        if len(ids) > IDS_MAX:
            self._forget_id(next(iter(ids)), number)

    def unregister(self, group: str, connection: Connection) -> None:
        members = self._groups.get(group)
        if members is not None:
            self._leave_user(group, members.pop(connection.number, None))
            if not members:
                del self._groups[group]
            self._publish_group(group)
        groups = self._groups_of.get(connection.number, set())
        groups.discard(group)
        if not groups:
            self._groups_of.pop(connection.number, None)
            self._forget_ids(connection.number)

    def _all(self) -> list[tuple[str, Client]]:
        return [(group, each) for group, of in self._groups.items() for each in of.values()]

    def clients(self, group: str) -> list[Client]:
        return list(self._groups.get(group, {}).values())

    def groups(self) -> dict[str, list[Client]]:
        return {group: list(members.values()) for group, members in self._groups.items()}

    def find(self, client_id: str) -> Client | None:
        """The newest connection of the client with this id."""
        known = self._by_id.get(client_id)
        return known[next(reversed(known))] if known else None

    def _leave_user(self, group: str, client: Client | None) -> None:
        of_user = self._of_user.get(group)
        if client is None or of_user is None:
            return
        numbers = of_user.get(client.user, {})
        numbers.pop(client.connection.number, None)
        if not numbers:
            of_user.pop(client.user, None)
        if not of_user:
            del self._of_user[group]

    def _publish_client(self, client_id: str) -> None:
        found = self.find(client_id)
        number = found.connection.number if found is not None else 0
        self._put_client(client_id.encode("utf-8", "replace"), max(number, 0))

    def _publish_group(self, group: str) -> None:
        targets = self._targets(group)
        if targets != self._published.get(group, {}):
            self._published[group] = targets
            users = {number: user.encode() for number, user in targets.items()}
            self._put_producers(group.encode("utf-8", "replace"), users)
        if not targets:
            self._published.pop(group, None)

    def _targets(self, group: str) -> dict[int, str]:
        """The connections to ask: first one of each user, then a second of each, and so on. Anybody
        may claim to be of a group, and must not keep out its true members."""
        of_user = self._of_user.get(group, {})
        turns = zip_longest(*(zip(own, repeat(user)) for user, own in of_user.items()))
        found = (each for turn in turns for each in turn if each is not None and each[0] > 0)
        return dict(islice(found, CHECK_TARGETS_MAX))

    def _forget_ids(self, number: int) -> None:
        for client_id in list(self._ids_of.get(number, ())):
            self._forget_id(client_id, number)

    def _forget_id(self, client_id: str, number: int) -> None:
        known = self._by_id.get(client_id, {})
        known.pop(number, None)
        if not known:
            self._by_id.pop(client_id, None)
        self._publish_client(client_id)
        ids = self._ids_of.get(number, {})
        ids.pop(client_id, None)
        if not ids:
            self._ids_of.pop(number, None)
