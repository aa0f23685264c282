"""Consumers: the connected ones: group -> connections, subscriptions and how the group consumes.

    heartbeat   -> register(): membership, subscriptions (also given to the reactor)
    unregister, connection closed, 120 s of silence -> the member is removed
    every change of members or topics -> code 40 to all members, one round per group and loop turn

A topic that is missing in the newest full set of subscriptions is dropped; a subscription is
replaced by one with a greater version. The last heartbeat decides type, model and where to start.
When the last member goes, the group is forgotten (its offsets stay).

The reactor gets the subscriptions that it may serve by itself: those by tags or SQL92 that the
group may read. Wrong and forbidden subscriptions are kept here only, so pulls for them come to
control and are answered with the reason.

Example: two heartbeats of "g" from connections 1 and 2 give clients("g") two entries and send
NOTIFY_CONSUMER_IDS_CHANGED to both.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

import msgspec

from rmq.base.rate_limited_log import RateLimitedLog
from rmq.broker.clients.client import Client
from rmq.broker.clients.client_table import ClientTable
from rmq.broker.clients.connections import Connection
from rmq.broker.clients.subscription import Subscription
from rmq.broker.core_seam import GroupCalls

log = logging.getLogger("rmq.broker.consumers")
quiet = RateLimitedLog(log)

# In the order of RocketMQ's enums: some clients send the position instead of the name.
CONSUME_TYPES = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
START_POINTS = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)
BROADCASTING, CLUSTERING = "BROADCASTING", "CLUSTERING"
MESSAGE_MODELS = (BROADCASTING, CLUSTERING)


class ConsumerGroup(msgspec.Struct):
    """A group with at least one connected consumer."""

    name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = CLUSTERING
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscriptions: dict[str, Subscription] = {}
    clients: dict[int, Client] = {}  # by connection number
    fingerprint: int = 0  # of the last full heartbeat V2

    @property
    def broadcasting(self) -> bool:
        return self.message_model == BROADCASTING

    def find(self, client_id: str) -> Client | None:
        for client in self.clients.values():
            if client.client_id == client_id:
                return client
        return None


class ConsumerTable(ClientTable):
    """Owned by the control thread."""

    def __init__(
        self,
        core: GroupCalls,
        notify: Callable[[Connection, str], None],
        may_read: Callable[[str, str], bool],
        wants_notice: Callable[[str], bool],
        compiled: Callable[[str, str], tuple[bytes, int]],
    ) -> None:
        super().__init__()
        self._core = core
        self._notify = notify  # sends code 40
        self._may_read = may_read
        self._wants_notice = wants_notice
        self._compiled = compiled  # (type, expression) -> program and function, or ValueError
        self._groups: dict[str, ConsumerGroup] = {}
        self._to_notify: set[str] = set()
        self.on_members: Callable[[str], None] = lambda group: None

    # ---- reading

    def get(self, group: str) -> ConsumerGroup | None:
        return self._groups.get(group)

    def subscription(self, group: str, topic: str) -> Subscription | None:
        found = self._groups.get(group)
        return found.subscriptions.get(topic) if found is not None else None

    def groups_subscribing(self, topic: str) -> list[str]:
        return [name for name, group in self._groups.items() if topic in group.subscriptions]

    def groups(self) -> list[ConsumerGroup]:
        return list(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    # ---- changing

    def register(
        self,
        name: str,
        client: Client,
        how: tuple[str, str, str],
        subscriptions: Iterable[Subscription] | None,
    ) -> None:
        """Takes a consumer's heartbeat. `how`: consume type, message model, where to start.
        subscriptions None: those of the last full heartbeat stay."""
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = ConsumerGroup(name)
        model_before = group.message_model
        group.consume_type, group.message_model, group.consume_from_where = how
        changed = self._add_client(group, client)
        if subscriptions is not None:
            replaced, topics_changed = self._replace(group, list(subscriptions))
            changed |= topics_changed
            if replaced or group.message_model != model_before:
                self._push(group, anew=replaced)
        elif group.message_model != model_before:
            self._push(group)
        if changed:
            self._notify_soon(group)

    def unregister(self, name: str, connection: Connection) -> None:
        group = self._groups.get(name)
        if group is not None and group.clients.pop(connection.number, None) is not None:
            groups = self._groups_of.get(connection.number, set())
            groups.discard(name)
            if not groups:
                self._groups_of.pop(connection.number, None)
            self._member_gone(group)

    def _all(self) -> list[tuple[str, Client]]:
        return [(name, each) for name, of in self._groups.items() for each in of.clients.values()]

    def push_again(self, name: str, anew: bool = False) -> None:
        """Gives the reactor the group's subscriptions again; anew: and removes all others."""
        group = self._groups.get(name)
        if group is not None:
            self._push(group, anew)

    def _add_client(self, group: ConsumerGroup, client: Client) -> bool:
        number = client.connection.number
        before = group.clients.get(number)
        if before is not None and before.client_id != client.client_id:
            quiet.warning(
                f"client id {number}",
                "group %s: connection %s changes its client id from %.200r to %.200r",
                group.name, client.connection.address, before.client_id, client.client_id,
            )  # fmt: skip
        group.clients[number] = client
        self._groups_of.setdefault(number, set()).add(group.name)
        if before is None:
            log.info(
                "consumer joins: group %s, %s, %s, %s",
                group.name, client.client_id, client.connection.address, group.message_model,
            )  # fmt: skip
        changed = before is None or before.client_id != client.client_id
        if changed:
            self.on_members(group.name)
        return changed

    def _replace(self, group: ConsumerGroup, new: list[Subscription]) -> tuple[bool, bool]:
        """(something changed, the set of topics changed)."""
        topics = {subscription.topic for subscription in new}
        dropped = [topic for topic in group.subscriptions if topic not in topics]
        for topic in dropped:
            del group.subscriptions[topic]
        changed = added = False
        for subscription in new:
            before = group.subscriptions.get(subscription.topic)
            if before is None or subscription.version > before.version:
                group.subscriptions[subscription.topic] = subscription
                changed = True
                added |= before is None
        if dropped or added:
            log.info(
                "group %s now subscribes %s", group.name, ", ".join(sorted(topics))[:500] or "none"
            )
        return changed or bool(dropped), added or bool(dropped)

    def _push(self, group: ConsumerGroup, anew: bool = False) -> None:
        """Gives the reactor the group's whole set; anew: and removes all others of the group."""
        name = group.name.encode()
        if anew:
            self._core.remove_subscriptions(name)
        for subscription in group.subscriptions.values():
            if subscription.class_filter or not self._may_read(group.name, subscription.topic):
                continue
            codes, program, function = None, b"", 0
            try:
                if subscription.is_tag:
                    codes = subscription.codes()
                else:
                    program, function = self._compiled(subscription.kind, subscription.expression)
            except ValueError:
                continue
            self._core.put_subscription(
                name,
                subscription.topic.encode(),
                subscription.version,
                codes,
                int(group.broadcasting),
                program,
                function,
            )

    def _member_gone(self, group: ConsumerGroup) -> None:
        self.on_members(group.name)
        if group.clients:
            self._notify_soon(group)
            return
        del self._groups[group.name]
        self._core.remove_subscriptions(group.name.encode())
        log.info("group %s has no consumer left", group.name)

    def _notify_soon(self, group: ConsumerGroup) -> None:
        """Sends code 40 to all members at the end of this loop turn: one round for many changes."""
        if group.broadcasting or not self._wants_notice(group.name):
            return
        if not self._to_notify:
            asyncio.get_running_loop().call_soon(self._notify_all)
        self._to_notify.add(group.name)

    def _notify_all(self) -> None:
        names, self._to_notify = self._to_notify, set()
        for name in names:
            group = self._groups.get(name)
            for client in list(group.clients.values()) if group is not None else ():
                self._notify(client.connection, name)
