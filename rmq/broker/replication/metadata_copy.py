"""Metadata copy: as slave, copies topics, groups, offsets, modes and pop orders from the master.

None of these tables is in the log. A master of rmq answers when something has changed
(exchange.py); RocketMQ's masters are asked for everything each syncControllerMetadataPeriod.

    topics 21   groups 201   request modes 402   consumer offsets 43   delay offsets 45
    batches popped in order: from a master of rmq, by 906
    how far timed messages are delivered: in the answer to 906; from RocketMQ's masters by 60
    accounts: from a master of rmq, by a further 906; not in plain text to another machine

A table is taken as a whole: items that the master lacks are removed here. Each name and number is
checked as in a request. An item that this slave cannot read stays here as it is, because the master
has not deleted it. If it is a topic that this slave never could read, its queues stay, and the
topic is made for them when this slave leads. Offsets are taken even if they are lower than here,
because the master may have reset them. What operators have changed of them is saved before it
counts as copied: it was answered, and the brokers of a set may all be killed before the next write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from rmq.auth.authorization import address
from rmq.auth.guard import Guard
from rmq.base import clock
from rmq.broker.core_seam import DelayCalls, LogCalls, StatCalls
from rmq.broker.replication.account_requests import new_account_request
from rmq.broker.replication.exchange import LATER
from rmq.broker.replication.master_search import ANSWER_S, INFO_S, SOON_S, MasterSearch
from rmq.broker.tables.delay_levels import DelayLevels
from rmq.broker.tables.deleted_topics import read_marks
from rmq.broker.tables.groups import GroupConfig, GroupTable
from rmq.broker.tables.offsets import OffsetTable
from rmq.broker.tables.pop_orders import PopOrders
from rmq.broker.tables.queue_mappings import QueueMappings, read_table
from rmq.broker.tables.request_modes import RequestModes
from rmq.broker.tables.topic_config import TopicConfig
from rmq.broker.tables.topics import TopicTable
from rmq.codes import RequestCode, ResponseCode
from rmq.config import Settings
from rmq.errors import ProtocolError, RmqError
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.format.timer_position import NUMBER_DIGITS_MAX, read_timer_check, read_timers
from rmq.refusal import Refusal
from rmq.serving import identity
from rmq.serving.remoting_client import CallError, RemotingClient

log = logging.getLogger("rmq.broker.metadata_copy")

WAIT_MS = 10_000
RETRY_S = 1.0
TABLE_S = 30.0
REACH_S = 5.0
REFUSED_S = 10.0  # after which a master that gave no accounts is asked again
BEHIND_LOG = ("offsets", "orders", "delays")
# Tables of a master whose log cannot be written: they may speak of messages that are in no log.
AHEAD_OF_LOG = ("topics", "delays")
TABLE_BYTES_MAX = 1 << 30  # a million topics take some 200 MB
REACH_LOOK_S = 0.02


class CoreCalls(LogCalls, DelayCalls, StatCalls, Protocol):
    """What is used here of the core."""


class CopyContext(Protocol):
    """What is used here of the broker."""

    delays: DelayLevels
    guard: Guard
    groups: GroupTable
    offsets: OffsetTable
    pop_orders: PopOrders
    queue_mappings: QueueMappings
    request_modes: RequestModes
    settings: Settings
    topics: TopicTable


class Table(NamedTuple):
    """How a table is asked for, and the function that takes the answer."""

    code: int
    take: Callable[[dict[Any, Any], str], Awaitable[None]]
    fields: Mapping[str, str] = {}

    @property
    def is_ours(self) -> bool:
        """Whether only masters of rmq give this table."""
        return self.code == RequestCode.EXCHANGE_BROKER_HA_INFO


class Unreached(CallError):
    """The log here does not reach as far as a table does."""


class Unknown(CallError):
    """The master does not know the request for a table."""


class MetadataCopy:
    """Owned by the control thread."""

    def __init__(self, context: CopyContext, core: CoreCalls, search: MasterSearch) -> None:
        self._context = context
        self._core = core
        self._search = search
        self.tries_soon = 0  # how often it is tried again after a short pause
        self._known: dict[str, str] = {}
        self._kept: dict[str, str] = {}  # versions of tables that it may not have
        self._said = ""
        self._kept_back = ""  # why accounts are not copied
        self._kept_back_at = 0.0
        self._saved_changes: int | None = None  # operators' changes of offsets on the disk here
        self._asked_at = 0  # where the log here ended when the last table was asked for
        code = RequestCode
        self._tables = {
            "topics": Table(code.GET_ALL_TOPIC_CONFIG, self._topics, {"rmqDeleted": "true"}),
            "groups": Table(code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, self._groups),
            "modes": Table(code.GET_ALL_MESSAGE_REQUEST_MODE, self._modes),
            "offsets": Table(code.GET_ALL_CONSUMER_OFFSET, self._offsets),
            # After the offsets, because a batch begins where its group's offset was at that time.
            "orders": Table(code.EXCHANGE_BROKER_HA_INFO, self._orders, {"rmqOrders": "true"}),
            "delays": Table(code.GET_ALL_DELAY_OFFSET, self._delays),
        }

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            link, retry_s = None, RETRY_S
            try:
                master = await self._search.find()
                link = RemotingClient(master.address, answer_bytes_max=TABLE_BYTES_MAX)
                self._known.clear()
                self._kept.clear()
                self._saved_changes = None  # another master counts by itself
                while True:
                    await self._round(link, master.is_rmq)
            except (RmqError, OSError) as error:
                if self.tries_soon > 0:  # the master gets ready, and nothing is wrong yet
                    self.tries_soon -= 1
                    retry_s = SOON_S
                else:
                    self._say(logging.WARNING, str(error))
            except Exception as error:  # after any error a slave must try again
                self._say(logging.ERROR, repr(error))
            finally:
                if link is not None:
                    link.close()
            await asyncio.sleep(retry_s)

    @property
    def problem(self) -> str:
        """Why the tables are not copied; empty while they are."""
        return self._said

    def _say(self, level: int, text: str) -> None:
        """Logs a text, but not the same one twice in a row."""
        if text != self._said:
            self._said = text
            log.log(level, "the master's tables cannot be copied: %s", text)

    async def _round(self, link: RemotingClient, is_rmq: bool) -> None:
        """Waits for a change at the master and copies what has changed. CallError: a broker of rmq
        is no master any more, or does not say which versions it has."""
        fields = {
            "rmqSlave": str(self._context.settings.brokerId),
            "rmqKnown": msgspec.json.encode(dict.fromkeys(LATER, "") | self._known).decode(),
            "rmqWaitMillis": str(WAIT_MS),
        }
        if self._kept:
            fields["rmqKept"] = msgspec.json.encode(self._kept).decode()
        lacks: list[str] = []
        own_end = copied = self._core.log_range()[1]
        command = Command(code=RequestCode.EXCHANGE_BROKER_HA_INFO, fields=fields)
        reply = await link.call(command, WAIT_MS / 1000 + ANSWER_S)
        versions = read_versions(reply.text_field("rmqVersions"))
        if is_rmq and versions is None:
            said = reply.remark or "it is no master"
            raise CallError(f"{link.address} does not say what it has: code {reply.code}: {said}")
        if versions is not None and reply.int_field("rmqLogEnd", 0, 0) < own_end:
            raise CallError(
                f"{link.address}: its log ends below {own_end}, where this slave's does: it has "
                "lost what is here, and its tables with it"
            )
        await self._reach(told_written(reply))
        for name, table in self._tables.items():
            if versions is None:
                if table.is_ours:
                    continue
            elif versions.get(name, "") == self._known.get(name, ""):
                continue
            self._asked_at = self._core.log_range()[1]
            try:
                content = await self._ask(link, table)
            except CallError as error:
                if versions is not None:
                    raise
                if not (name == "modes" and isinstance(error, Unknown)):  # RocketMQ 4 has none
                    lacks.append(str(error))
                continue
            try:
                if versions is not None and name in BEHIND_LOG:
                    # Offsets speak of the log up to now, so this log must have come that far.
                    told = await self._told(link)
                    await self._reach(told_end(told) if name == "delays" else told_written(told))
                await table.take(content, link.address)
            except Unreached as error:
                if name not in AHEAD_OF_LOG:
                    raise
                lacks.append(str(error))
                continue
            if versions is not None:
                self._known[name] = versions.get(name, "")
            if name == "groups":
                copied = self._asked_at
        if not lacks:
            self._context.offsets.copied = copied
        if versions is None:
            await self._fired(link)
        else:
            lacks += await self._others(link, versions)
        if self._kept_back:
            lacks.append(self._kept_back)
        if lacks:
            self._say(logging.WARNING, "; ".join(lacks))
        else:
            self._said = ""
        if versions is None:
            await asyncio.sleep(self._context.settings.syncControllerMetadataPeriod / 1000)

    async def _others(self, link: RemotingClient, versions: Mapping[str, str]) -> list[str]:
        """Copies the tables for which RocketMQ has no request; returns why some were not copied."""
        lacks = []
        version = versions.get("timers", "")
        if version != self._known.get("timers", ""):
            try:
                await self._timers(link, version)
            except Unreached as error:  # if the master cannot write its log, it never reaches here
                lacks.append(str(error))
        version = versions.get("accounts", "")
        heard = self._known | self._kept
        if version != heard.get("accounts", "") or self._is_due():
            await self._accounts(link, version)
        return lacks

    def _is_due(self) -> bool:
        """Whether accounts were kept back a while ago and must be asked for again: the reason, for
        example clocks that differ, may be over."""
        return bool(self._kept_back) and clock.monotonic() >= self._kept_back_at + REFUSED_S

    async def _accounts(self, link: RemotingClient, version: str) -> None:
        """Copies accounts. When they are kept back, their version still counts as heard of, else
        the master's next answer would come at once; but not as known, else the master would count
        them as copied."""
        self._kept_back = await self._copy_accounts(link)
        self._kept_back_at = clock.monotonic()
        heard, other = self._known, self._kept
        if self._kept_back:
            heard, other = other, heard
        heard["accounts"] = version
        other.pop("accounts", None)

    async def _copy_accounts(self, link: RemotingClient) -> str:
        """Returns why accounts were not copied; empty: they were, or none are in use."""
        guard = self._context.guard
        if not guard.is_on:
            return ""
        master = address(link.address)
        if identity.tls() is None and (master is None or not master.is_loopback):
            return (
                "accounts: passwords do not go to another machine in plain text; set "
                "tls.enable=true here, or make users at each replica"
            )
        reply = await link.call(
            Command(
                code=RequestCode.EXCHANGE_BROKER_HA_INFO,
                fields={"rmqAccounts": new_account_request()},
            ),
            TABLE_S,
        )
        if reply.code != ResponseCode.SUCCESS:
            return f"accounts: {link.address}: {reply.remark}"
        await guard.copy(reply.body)
        return ""

    async def _timers(self, link: RemotingClient, version: str) -> None:
        """Copies how far timed messages are delivered; this slave goes on from there when it is
        promoted."""
        told = await self._told(link)
        await self._reach(told_end(told))
        text = told.text_field("rmqTimers")
        if text:
            self._core.set_timers_delivered(read_timers(text))
        self._known["timers"] = version

    async def _fired(self, link: RemotingClient) -> None:
        """The same from RocketMQ's master, whose wheel says up to when it has fired. This waits
        until the log here has what the wheel had put into the master's log by then, else the next
        master would leave that out."""
        check = await link.call(Command(code=RequestCode.GET_TIMER_CHECK_POINT), ANSWER_S)
        if check.code != ResponseCode.SUCCESS or not check.body:
            return  # RocketMQ 4, or a broker without a wheel
        fired_ms, taken = read_timer_check(check.body, clock.wall())
        if fired_ms == 0:
            return
        told = await link.call(Command(code=RequestCode.GET_BROKER_RUNTIME_INFO), INFO_S)
        end = log_end(told)
        await self._reach(end)
        self._core.set_timers_delivered((fired_ms + 1, 0, fired_ms + 1, 0, taken, end))

    async def _told(self, link: RemotingClient) -> Command:
        """What a master of rmq says of its log now. CallError: it is no master any more, and its
        earlier answers may speak of messages that are in no log."""
        now = Command(code=RequestCode.EXCHANGE_BROKER_HA_INFO)
        told = await link.call(now, ANSWER_S)
        if told.text_field("rmqLogEnd") is None:
            raise CallError(
                f"{link.address} does not say where its log ends: code {told.code}: {told.remark}"
            )
        return told

    async def _reach(self, end: int) -> None:
        """Waits until this log has reached `end`, where the master's log was. Tables must not be
        ahead of the log: a deleted topic may have messages on their way here, and an offset says
        that everything below it was delivered. Unreached: the log does not come that far, and
        nothing is copied."""
        if await _up_to(lambda: self._core.log_range()[1], end) < end:
            raise Unreached(f"the log here does not come up to {end}, the master's end")

    def _dispatched(self) -> int:
        return self._core.stats()["log_dispatched"]

    async def _ask(self, link: RemotingClient, table: Table) -> dict[Any, Any]:
        reply = await link.call(Command(code=table.code, fields=dict(table.fields)), TABLE_S)
        if reply.code != ResponseCode.SUCCESS:
            kind = CallError
            if reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                kind = Unknown
            raise kind(f"{link.address}: request {table.code}: code {reply.code}: {reply.remark}")
        return await asyncio.to_thread(fastjson.loads_object, reply.body) if reply.body else {}

    # ---- tables

    async def _topics(self, content: dict[Any, Any], origin: str) -> None:
        here = self._context.topics.all()
        table = checked(content, "topicConfigTable", TopicConfig.of, origin, here)
        details = content.get("topicQueueMappingDetailMap")  # missing in RocketMQ 4
        if isinstance(details, Mapping):
            name = self._context.settings.brokerName
            mappings = readable(read_table(details, name, origin), details,
                                self._context.queue_mappings.all())  # fmt: skip
            await self._context.queue_mappings.copy(
                {topic: mapping for topic, mapping in mappings.items() if topic in table}
            )
        unseen = self._context.topics.unseen(read_marks(content))  # RocketMQ sends no marks
        end = max((end for end, _ in unseen.values()), default=0)
        in_queues = await _up_to(self._dispatched, end)
        seen = {topic: mark for topic, mark in unseen.items() if mark[0] <= in_queues}
        unread = {str(name) for name in content["topicConfigTable"]} - table.keys()
        await self._context.topics.copy(table, self._asked_at, seen, unread)
        if len(seen) < len(unseen):
            raise Unreached(
                f"a topic was deleted when the master's log ended at {end}, which the queues here "
                "have not come to: its older messages, if it was made anew, stay until then"
            )

    async def _groups(self, content: dict[Any, Any], origin: str) -> None:
        here = self._context.groups.all()
        table = checked(content, "subscriptionGroupTable", GroupConfig.of, origin, here)
        forbidden = {
            str(group): {str(topic): bits for topic, bits in row.items() if isinstance(bits, int)}
            for group, row in (content.get("forbiddenTable") or {}).items()
            if isinstance(row, Mapping)
        }
        if await self._context.groups.copy(table, forbidden):
            await self._context.offsets.save(behind_max=1)  # as when a group is deleted

    async def _modes(self, content: dict[Any, Any], origin: str) -> None:
        table = mapping(content, "messageRequestModeMap", origin)
        await self._context.request_modes.copy(table, origin)

    async def _offsets(self, content: dict[Any, Any], origin: str) -> None:
        mapping(content, "offsetTable", origin)
        if self._context.offsets.take(content, origin):
            self._known.pop("orders", None)  # copied anew: the master may hold batches ended here
        changes = content.get("rmqOperatorChanges")
        if changes != self._saved_changes:
            await self._context.offsets.save()
            self._saved_changes = changes

    async def _orders(self, content: dict[Any, Any], origin: str) -> None:
        await self._context.pop_orders.copy(mapping(content, "table", origin), origin)

    async def _delays(self, content: dict[Any, Any], origin: str) -> None:
        self._context.delays.copy(mapping(content, "offsetTable", origin))


async def _up_to(position: Callable[[], int], end: int) -> int:
    """Waits up to REACH_S for the position to reach `end`; returns the position."""
    until = clock.monotonic() + REACH_S
    while (now := position()) < end and clock.monotonic() <= until:
        await asyncio.sleep(REACH_LOOK_S)
    return now


def told_end(told: Command) -> int:
    """Where the master's log ended when it answered 906; 0: it does not say."""
    end: int = told.int_field("rmqLogEnd", 0, 0)
    return end


def told_written(told: Command) -> int:
    """Up to where the master's log was written when it answered 906; slaves cannot have more."""
    end: int = told.int_field("rmqLogWritten", told_end(told), 0)
    return end


def log_end(told: Command) -> int:
    """Where the log ended, from the runtime info (28) of RocketMQ's brokers."""
    table = fastjson.loads_object(told.body).get("table") if told.body else None
    text = str(table.get("commitLogMaxOffset", "")) if isinstance(table, dict) else ""
    if not text.isdecimal() or len(text) > NUMBER_DIGITS_MAX:
        raise ProtocolError(f"commitLogMaxOffset: {text[:30]!r}")
    return int(text)


def read_versions(text: str | None) -> dict[str, str] | None:
    """The versions in rmqVersions; None: the master does not give any."""
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError as error:
        raise ProtocolError(f"rmqVersions: {error}") from None


def mapping(content: Mapping[Any, Any], name: str, origin: str) -> Mapping[Any, Any]:
    """The table of this name; ProtocolError if it is missing, so that nothing is deleted because of
    a wrong answer."""
    table = content.get(name)
    if not isinstance(table, Mapping):
        raise ProtocolError(f"{origin}: an answer without {name}")
    return table


def checked(
    content: Mapping[Any, Any],
    table: str,
    read: Callable[[Any], Any],
    origin: str,
    here: Mapping[str, Any],
) -> dict[str, Any]:
    """The items of the table by name. An item that cannot be read is logged, and stays as it is
    here."""
    found = {}
    rows = mapping(content, table, origin)
    for name, members in rows.items():
        try:
            item = read(members)
        except (ProtocolError, Refusal, AttributeError) as error:
            log.error("%s: %.300r is skipped: %s", origin, name, error)
            continue
        found[item.name] = item
    return readable(found, rows, here)


def readable(
    found: dict[str, Any], rows: Mapping[Any, Any], here: Mapping[str, Any]
) -> dict[str, Any]:
    """The items found, and those that are here and could not be read: the master has not deleted
    these."""
    unread = {str(name) for name in rows} - found.keys()
    return found | {name: here[name] for name in unread & here.keys()}
