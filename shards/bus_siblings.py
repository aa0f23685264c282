"""Bus siblings: joins one shard's tables to the bus, over which shards share items.

There are four kinds of items (messages.py): topics and groups that shards make by themselves,
run-time settings, and which consumers are connected to which shard.

    a topic is made here              table: new stamp, file, registered -> Change to the others
    anything else changes here        at the end of the loop's turn one Change with all that changed
                                      -> shared() waits for Changed
    News from another shard           a topic or group: made here too, unless it is here already or
                                      was deleted here later; the rest: the larger stamp wins

What a request makes, changes or deletes concerns only the shard that the request is sent to, as
with brokers of RocketMQ, and is not shared (stamps.py): mqadmin -c and clients send such a request
to every broker of the cluster. A deletion is told to the supervisor alone, so that a shard that
starts later does not get the item from the supervisor.

The other shards hear of a topic only when the name servers know that this shard has it (a slow name
server is waited for during ROUTE_WAIT_S). The others register the topic too, and a route that named
only them would send consumers past the message for which the topic was made.

System topics are not shared: each shard makes its own. Nor are settings of a single shard
(PER_SHARD): draining one shard must not drain all. Topics of a store from before it had several
shards carry no stamp; they count as made before any other, and shard 0's before the others'.

The list of a group's consumers is sent when a consumer comes or goes, not with each heartbeat:
RocketMQ's clients are connected to every shard anyway, so a shard needs the others' lists only
while a client is connected to some shards and not yet to the others.

No change waits here for longer than SHARE_WAIT_S, and none for a single shard: it is answered even
when the supervisor is dead or stopped, and reaches the others when a supervisor is back (Sync). A
client's question that is put to the other shards as well, ask(), waits for them for ASK_MS. A reply
that another shard must push to its client waits for that push, as it would for a push of this
shard, but not for shards that hang.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from rmq.base import clock
from rmq.base.deadline import within
from rmq.broker import siblings as seam
from rmq.broker.certificates import Certificates
from rmq.broker.clients.connections import Connections
from rmq.broker.clients.consumers import ConsumerTable
from rmq.broker.clients.producers import ProducerTable
from rmq.broker.core_seam import ConnectionCalls, StatCalls
from rmq.broker.dispatch.dispatcher import Dispatcher
from rmq.broker.registration.registration import Registration
from rmq.broker.requests.replies import PUSH_TIMEOUT_S
from rmq.broker.tables.groups import GroupConfig, GroupTable
from rmq.broker.tables.topic_config import TopicConfig
from rmq.broker.tables.topics import TopicTable
from rmq.broker.tasks.write_stops import WriteStops
from rmq.codes import RequestCode as Code
from rmq.config import format_value
from rmq.errors import ConfigError, ProtocolError, RmqError
from rmq.format.remoting import Command, decode, encode
from rmq.names import PRESET_GROUPS
from rmq.refusal import Refusal
from shards.bus_client import BusClient
from shards.bus_files import BusDirectory
from shards.group_members import GroupMembers
from shards.messages import (
    GROUP,
    MEMBERS,
    SETTING,
    TOPIC,
    Answer,
    Answers,
    Ask,
    BusError,
    Done,
    Hello,
    Item,
    Known,
    Message,
    Permission,
    Ready,
    Stamp,
    Stats,
    StatsReply,
    TicketSecret,
    Unconsumed,
    UnconsumedReply,
    expect,
)
from shards.unconsumed_messages import UnconsumedContext, unconsumed

log = logging.getLogger("rmq.siblings")

JOIN_WAIT_S = 1.0
SHARE_WAIT_S = 0.25
ROUTE_WAIT_S = 0.08  # for name servers after another shard's change; that shard waits for us
ASK_MS = 1000
SHRINK = "shrink"  # the reason for stopping sends while it is checked whether this shard may go
PER_SHARD = frozenset({"brokerPermission"})
# Replies: the shard to which the producer is connected pushes them.
PUSHES = frozenset({Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2})
# Requests that another shard may pass on for its client: only reads, and calls to clients.
ASKABLE = PUSHES | frozenset(
    {
        Code.GET_CONSUMER_CONNECTION_LIST,
        Code.GET_PRODUCER_CONNECTION_LIST,
        Code.GET_CONSUMER_RUNNING_INFO,
        Code.CONSUME_MESSAGE_DIRECTLY,
        Code.GET_BROKER_RUNTIME_INFO,
        Code.GET_TOPIC_STATS_INFO,
        Code.GET_CONSUME_STATS,
        Code.GET_BROKER_CONSUME_STATS,
        Code.QUERY_CONSUME_TIME_SPAN,
        Code.QUERY_MESSAGE,
        Code.VIEW_MESSAGE_BY_ID,
        Code.GET_ALL_PRODUCER_INFO,
        Code.QUERY_TOPIC_CONSUME_BY_WHO,
        Code.VIEW_BROKER_STATS_DATA,
    }
)
Key = tuple[str, str]  # kind, name


class CoreCalls(ConnectionCalls, StatCalls, Protocol):
    """What is used here of the core."""


class SiblingsContext(UnconsumedContext, Protocol):
    """What is used here of the broker."""

    certificates: Certificates
    connections: Connections
    consumers: ConsumerTable
    dispatcher: Dispatcher[Any]
    groups: GroupTable
    producers: ProducerTable
    registration: Registration
    started_at: float
    write_stops: WriteStops

    @property
    def core(self) -> CoreCalls: ...

    @property
    def address(self) -> str: ...

    def settings_changed(self, changes: Iterable[str]) -> None: ...


class BusSiblings(seam.Siblings):
    """Owned by the control thread. It is also the Owner of the bus client (bus_client.py)."""

    def __init__(
        self,
        broker: SiblingsContext,
        directory: BusDirectory,
        index: int,
        token: str,
        digest: str,
    ) -> None:
        super().__init__(broker.registration)
        self._broker = broker
        self._index = self.index = index
        self._token = token
        self._digest = digest  # of the settings this shard was started with
        self._link = BusClient(directory, self, index)
        self._clock = 0
        self._settings: dict[str, Item] = {}
        self._members = GroupMembers(index)  # of all shards
        self._outbox: dict[Key, None] = {}
        self._sending: asyncio.Task[None] | None = None
        self._unregistered: dict[str, None] = {}  # topics that name servers do not know yet
        self._registering: asyncio.Task[None] | None = None
        self._supervisor_late = False
        self._serving = False

    # ---- what the broker calls

    async def start(self) -> None:
        stamped = [self._stamp_of(key) for key in self._keys()]
        self._clock = max((stamp.counter for stamp in stamped), default=0)
        self._link.start()
        if await self._link.wait_joined(JOIN_WAIT_S):
            return
        if self._link.refusal:  # else messages it took could be out of reach after the next start
            await self._link.stop()
            raise RmqError(f"the supervisor does not let this shard serve: {self._link.refusal}")
        log.warning("no supervisor answers: this shard starts alone and joins when one does")

    def serving(self) -> None:
        """The broker has started: clients can find it."""
        self._serving = True
        self._link.notice(Ready(self._index))

    async def reopening(self) -> None:
        """Tells the supervisor not to wait for beats while the log is opened anew."""
        if self._serving and self._link.joined:
            with contextlib.suppress(BusError):
                await self._link.request(Ready(self._index, serving=False), SHARE_WAIT_S)
        self._serving = False  # so that a new supervisor does not wait for beats either

    async def stop(self) -> None:
        tasks = [task for task in (self._registering, self._sending) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._link.stop()

    def stamp(self) -> seam.Stamp:
        self._clock = max(clock.now_ms(), self._clock + 1)
        return (self._clock, self._index)

    def changed(self, kind: str, name: str) -> None:
        if kind == TOPIC:
            self._unregistered[name] = None
            if self._registering is None or self._registering.done():
                self._registering = asyncio.get_running_loop().create_task(self._register())
        else:
            self._put_out((kind, name))

    async def shared(self) -> None:
        await super().shared()
        if self._registering is not None:
            await asyncio.wait({self._registering}, timeout=seam.ROUTE_WAIT_S)
        if self._link.joined and not self._supervisor_late and self._sending is not None:
            await self._sent()

    def settings_changed(self, changes: dict[str, str]) -> None:
        for key, text in changes.items():
            if key not in PER_SHARD:
                value = msgspec.json.encode(text)
                self._settings[key] = Item(SETTING, key, Stamp(*self.stamp()), value)
                self.changed(SETTING, key)

    def members_changed(self, group: str) -> None:
        """The list is made when it is sent: many changes of one turn are one message."""
        self.changed(MEMBERS, f"{group}@{self._index}")

    def client_ids(self, group: str) -> list[str]:
        return self._members.elsewhere(group)

    def role_changed(self) -> None:
        """Syncs: as a slave it ignored its siblings' topics and groups, as a master it has them."""
        self._link.catch_up()

    async def ask(self, command: Command, client: str = "") -> list[Command]:
        if not self._link.joined or command.code not in ASKABLE:
            return []
        is_push = command.code in PUSHES  # only one shard has the producer
        limit_ms = ASK_MS + (int(PUSH_TIMEOUT_S * 1000) if is_push else 0)
        question = Ask([], encode(command)[4:], limit_ms, first=is_push, client=client)
        try:
            reply = expect(await self._link.request(question, (limit_ms + ASK_MS) / 1000), Answers)
        except BusError as error:
            log.warning("the other shards cannot be asked: %s", error)
            return []
        return [decode(answer.frame) for answer in reply.answers]

    # ---- sending changes

    async def _register(self) -> None:
        """Sends topics to the others when the name servers have them."""
        while self._unregistered:
            topics, self._unregistered = self._unregistered, {}
            await super().shared()
            self._put_out(*((TOPIC, name) for name in topics))

    def _put_out(self, *keys: Key) -> None:
        self._outbox.update(dict.fromkeys(keys))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _sent(self) -> None:
        sending = self._sending
        if sending is None:
            return
        done, _ = await asyncio.wait({sending}, timeout=SHARE_WAIT_S)
        if not done:
            self._supervisor_late = True  # no change waits for the supervisor until it answers

    async def _send(self) -> None:
        """Sends one Change after the other until nothing is left; a Sync repairs a failed one."""
        await asyncio.sleep(0)  # the changes of this turn of the loop go together
        while self._outbox:
            keys, self._outbox = list(self._outbox), {}
            for kind, name in keys:
                if kind == MEMBERS:
                    self._list_members(name)
            if not self._link.joined:
                continue
            items = self._items(keys)
            try:
                await self._link.change(items)
                self._supervisor_late = False
            except BusError as error:
                log.warning("%d changes have not reached the others yet: %s", len(items), error)

    def _list_members(self, name: str) -> None:
        found = self._broker.consumers.get(name.rpartition("@")[0])
        ids = [client.client_id for client in found.clients.values()] if found is not None else []
        value = msgspec.json.encode(ids) if ids else None
        self._members.put(Item(MEMBERS, name, Stamp(*self.stamp()), value))

    # ---- what the link calls

    def hello(self) -> Hello:
        return Hello(
            self._index, self._token, os.getpid(), self._broker.settings.brokerName,
            self._broker.core.port, int(self._broker.started_at * 1000), self._digest,
            self._serving,
        )  # fmt: skip

    def welcome(self, counter: int) -> None:
        self._clock = max(self._clock, counter)

    def known(self) -> list[Known]:
        return [Known(kind, name, self._stamp_of((kind, name))) for kind, name in self._keys()]

    def items(self, wanted: list[Known]) -> list[Item]:
        return self._items((known.kind, known.name) for known in wanted)

    def take(self, items: list[Item]) -> None:
        topics: dict[str, tuple[TopicConfig, seam.Stamp]] = {}
        groups: dict[str, tuple[GroupConfig, seam.Stamp]] = {}
        for item in items:
            self._clock = max(self._clock, item.stamp.counter)
            stamp = (item.stamp.counter, item.stamp.origin)
            try:
                members = None if item.value is None else msgspec.json.decode(item.value)
                if item.kind in (SETTING, MEMBERS):
                    self._take_other(item, members)
                elif members is None:
                    continue  # deleted at that shard; this shard keeps it
                elif item.kind == TOPIC:
                    topics[item.name] = (TopicConfig.of(members), stamp)
                elif item.kind == GROUP:
                    groups[item.name] = (GroupConfig.of(members), stamp)
            except (ProtocolError, Refusal, ConfigError, msgspec.DecodeError,
                    UnicodeDecodeError) as error:  # fmt: skip
                log.error("%s %.200r of shard %d is left out: %s", item.kind, item.name,
                          item.stamp.origin, error)  # fmt: skip
        self._broker.topics.take(topics)
        self._broker.groups.take(groups)

    def _take_other(self, item: Item, value: Any) -> None:
        broker = self._broker
        if item.stamp <= self._stamp_of((item.kind, item.name)):
            return
        if item.kind == MEMBERS:
            group, _, index = item.name.rpartition("@")
            if index == str(self._index) and broker.consumers.get(group) is not None:
                self.changed(MEMBERS, item.name)  # others took this shard for gone: send it anew
            self._members.put(item)
        elif item.name in broker.settings and item.name not in PER_SHARD:
            self._settings[item.name] = item
            present = format_value(getattr(broker.settings, item.name))
            if isinstance(value, str) and present != value:
                broker.settings.change({item.name: value})
                broker.settings_changed([item.name])

    async def registered(self) -> None:
        await self._broker.registration.settled(ROUTE_WAIT_S)

    async def answer(self, message: Message) -> Message:
        if isinstance(message, Ask):
            if decode(message.frame).code not in ASKABLE:
                raise BusError("a shard answers no such request for another one")
            limit = max(0.001, message.timeout_ms / 1000)
            answering = self._broker.dispatcher.for_sibling(message.frame, message.client)
            reply = await within(answering, limit)
            return Answer(self._index, encode(reply)[4:], reply.code)
        if isinstance(message, Stats):
            return self._stats()
        if isinstance(message, Permission):
            if self._broker.settings.brokerPermission != message.value:  # a drain asks every second
                # Not a client's change, so configBlackList does not apply.
                self._broker.settings.set("brokerPermission", str(message.value))
                self._broker.settings_changed(["brokerPermission"])
            if message.refuse:
                self._broker.write_stops.stop(SHRINK, b"this shard is being taken off")
            else:
                self._broker.write_stops.resume(SHRINK)
            await self._broker.registration.settled(1.0)
            return Done()
        if isinstance(message, TicketSecret):
            self._broker.certificates.share_tickets(message.secret)
            return Done()
        if isinstance(message, Unconsumed):
            return UnconsumedReply(self._index, unconsumed(self._broker))
        raise BusError(f"a shard answers no {type(message).__name__}")

    def _stats(self) -> StatsReply:
        broker = self._broker
        gauges = {
            "topics": len(broker.topics),
            "groups": len(broker.groups.all()),
            "consumer_groups": len(broker.consumers),
            "producer_groups": len(broker.producers.groups()),
            "connections": len(broker.connections),
            "bus_syncs": self._link.syncs,
            **self._link.traffic,
            "cpu_s": time.process_time(),
        }
        return StatsReply(
            self._index, broker.settings.brokerName, broker.address, os.getpid(),
            int(broker.started_at * 1000), broker.core.stats(),
            {name: float(value) for name, value in gauges.items()},
        )  # fmt: skip

    # ---- items of all kinds

    def _keys(self) -> Iterable[Key]:
        """Keys of all shared items, and of those deleted here. A slave shares no topics or groups:
        it gets these tables from its master alone."""
        topics, groups = self._broker.topics, self._broker.groups
        for name in dict.fromkeys([*topics.all(), *topics.stamps] if not topics.is_copy else ()):
            if not topics.is_system(name) and not topics.stamps.is_own(name):
                yield TOPIC, name
        for name in dict.fromkeys([*groups.all(), *groups.stamps] if not groups.is_copy else ()):
            preset = name in PRESET_GROUPS and groups.stamps.get(name) is None
            if not preset and not groups.stamps.is_own(name):
                yield GROUP, name
        yield from ((SETTING, name) for name in self._settings)
        yield from ((MEMBERS, name) for name in self._members)

    def _stamp_of(self, key: Key) -> Stamp:
        """The stamp of the item at this shard. An item without a stamp gets one that is smaller
        than any real one; an item that is not here, one that is smaller still."""
        kind, name = key
        if kind in (SETTING, MEMBERS):
            item = self._item(kind, name)
            return item.stamp if item is not None else Stamp(-1)
        table = self._table(kind)
        stamp = table.stamps.get(name)
        if stamp is not None:
            return Stamp(*stamp)
        return Stamp(0, -1 - self._index) if name in table else Stamp(-1)

    def _items(self, keys: Iterable[Key]) -> list[Item]:
        """Items that are still shared: a topic may have become this shard's own meanwhile."""
        return [
            Item(kind, name, self._stamp_of((kind, name)), self._value_of(kind, name))
            for kind, name in keys
            if kind in (SETTING, MEMBERS) or not self._table(kind).stamps.is_own(name)
        ]

    def _value_of(self, kind: str, name: str) -> bytes | None:
        if kind in (SETTING, MEMBERS):
            item = self._item(kind, name)
            return item.value if item is not None else None
        config = self._table(kind).get(name)
        return msgspec.json.encode(config.members()) if config is not None else None

    def _item(self, kind: str, name: str) -> Item | None:
        return (self._settings if kind == SETTING else self._members).get(name)

    def _table(self, kind: str) -> TopicTable | GroupTable:
        return self._broker.topics if kind == TOPIC else self._broker.groups
