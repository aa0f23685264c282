"""Transaction checks: asks producers about open transactions, and finally gives these up.

The reactor handles half messages, their ends and the questions to producers
(cext/flow/transaction/transaction_end.pxd, check_backs.pxd). This module decides when and by what
rules it asks, and handles half messages that are given up. Every transactionCheckInterval (30 s)
the reactor looks at the half messages that are still open and older than transactionTimeOut (6 s),
or than their own CHECK_IMMUNITY_TIME_IN_SECONDS:

    checked fewer than transactionCheckMax (15) times
        stored anew at the end of the half queue with TRANSACTION_CHECK_TIMES + 1, and the old one
        is ended; 39 CHECK_TRANSACTION_STATE goes to a connected producer of its group, which
        answers by 37. An end that was on its way meanwhile counts for the new one
    more often, or older than fileReservedTime
        stored in TRANS_CHECK_MAX_TIME_TOPIC, and ended. A commit that comes later still counts, and
        323 RESUME_CHECK_HALF_MESSAGE lets it be checked again: either stores the half message anew.
        The prepared offset of the message in that topic says where the half message was

Progress is kept as Apache keeps it: offsets of the group CID_RMQ_SYS_TRANS in the half queue (all
half messages below it are ended) and in the op queue (all op messages below it are about such half
messages). At the start the op messages from that offset on tell again which half messages are
ended.

Example: half 17 is 10 s old and open: it is stored anew as 90 with TRANSACTION_CHECK_TIMES=1, an
op message "17," is written, and the producer is asked about 90.
"""

import asyncio
import logging
from typing import Protocol

from rmq import names
from rmq.base.clock import now_ms
from rmq.broker.core_seam import LogCalls, OffsetCalls, OptionCalls, TransactionCalls
from rmq.broker.store.queue_reader import Entry, QueueReader
from rmq.broker.tables.delay_levels import HOST_FLAGS
from rmq.broker.tables.topic_config import TopicConfig
from rmq.broker.tables.topics import TopicTable
from rmq.config import Settings
from rmq.errors import ProtocolError, StoreError
from rmq.format.message import (
    StoredMessage,
    decode_message,
    encode_host,
    encode_properties,
)

log = logging.getLogger("rmq.broker.transaction_checks")

GROUP = names.TRANSACTION_GROUP
HALVES_AT_ONCE = 512
OPS_AT_ONCE = 1000
SET_ASIDE_MAX = 65_536  # given up transactions that a late commit still finds; oldest go first
PASS_S = 60.0  # the longest pass over the open half messages
PATIENCE_S = 0.5  # with producers that do not read their check backs, and with a full log
PAUSE_S = 0.002  # before the next call to the reactor
# Why a pass stopped, by the numbers of cext/flow/transaction/check_backs.pxd.
NOT_STOPPED, PRODUCERS_FULL, LOG_FULL, RECORDS_ON_DISK = range(4)
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
OFFSET_DIGITS_MAX = 19
ASIDE_LOADED_MAX = 4096  # messages of TRANS_CHECK_MAX_TIME_TOPIC that are read at the start


class CoreCalls(TransactionCalls, LogCalls, OffsetCalls, OptionCalls, Protocol):
    """What is used here of the core."""


class ChecksContext(Protocol):
    """What is used here of the broker."""

    queues: QueueReader
    settings: Settings
    topics: TopicTable

    @property
    def core(self) -> CoreCalls: ...


class Transactions:
    """Owned by the control thread."""

    def __init__(self, context: ChecksContext) -> None:
        self._context = context
        self._op_offset = 0  # op messages below it are only about half messages known as ended
        self._aside: dict[str, None] = {}  # unique keys of given up transactions, oldest first
        self._aside_end = 0  # offset in TRANS_CHECK_MAX_TIME_TOPIC below which all is known

    # ---- start

    def load(self) -> None:
        """Tells the reactor which half messages are ended; from then on it takes new ones.
        StoreError: the disk cannot give the queue of op messages."""
        core, queues = self._context.core, self._context.queues
        minimum, maximum = queues.range(names.HALF_TOPIC, 0)
        first = self._offset(names.HALF_TOPIC, minimum, maximum)
        self._op_offset = self._offset(names.OP_HALF_TOPIC, *queues.range(names.OP_HALF_TOPIC, 0))
        core.start_transactions(first, 0)
        at = self._op_offset
        while ops := self._ops_at_start(at):
            core.end_halves([half for halves in ops for half in halves if half >= first], 0)
            at += len(ops)
        self._try_load_aside()
        core.start_transactions(0, 1)
        if first < maximum:
            first, _, halves = core.open_halves(0, HALVES_AT_ONCE)
            log.info("transactions open at the start: %d%s, from offset %d", len(halves),
                     " or more" if len(halves) == HALVES_AT_ONCE else "", first)  # fmt: skip

    def _ops_at_start(self, offset: int) -> list[list[int]]:
        try:
            return self._ops(offset, at_start=True)
        except StoreError as error:
            raise StoreError(
                f"op messages of transactions from {offset} on: {error}; without them what is "
                "ended would be open, and could be committed once more"
            ) from None

    def _try_load_aside(self) -> None:
        try:
            self._load_aside()
        except StoreError as error:
            log.warning(
                "not all transactions that were set aside are known yet: %s; until they are, a "
                "commit of what is ended may be refused", error,
            )  # fmt: skip

    def _load_aside(self) -> None:
        """Remembers the newest messages of TRANS_CHECK_MAX_TIME_TOPIC that are not known here,
        because they are from before the start or from another master. As a result, a transaction
        that was committed late may be committed once more. StoreError: the disk cannot give one of
        them now; the next call goes on with it."""
        queues = self._context.queues
        view = queues.view(names.TRANS_CHECK_MAX_TIME_TOPIC, 0)
        if view is None:
            return
        first = max(view.min_offset, view.max_offset - ASIDE_LOADED_MAX)
        self._aside_end = max(first, self._aside_end)
        while self._aside_end < view.max_offset:
            entries = queues.entries(view, self._aside_end, ASIDE_LOADED_MAX, or_fail=True)
            for entry in entries:
                self._remember_aside(self._key_aside(entry))
                self._aside_end += 1
            self._aside_end += not entries  # its entry is lost

    def _key_aside(self, entry: Entry) -> str | None:
        record = self._context.core.read_record(entry.physical_offset, 1)
        try:
            return decode_message(record)[0].properties.get("UNIQ_KEY") if record else None
        except ProtocolError:
            return None

    def _remember_aside(self, key: str | None) -> None:
        if not key:
            return
        self._aside[key] = None
        if len(self._aside) > SET_ASIDE_MAX:
            del self._aside[next(iter(self._aside))]
        self._context.core.set_option("transactions_set_aside", len(self._aside))

    def revive(self, message: StoredMessage) -> tuple[int, int] | None:
        """Stores a given up half message anew and returns its new place; None if the message was
        not given up. StoreError: the log takes nothing now, or the disk cannot tell what was given
        up; the caller may ask again, as the message is still set aside."""
        key = message.properties.get("UNIQ_KEY", "")
        if key not in self._aside:
            self._load_aside()
        if key not in self._aside:
            return None
        place = self._store_anew(message, message.properties)
        self._forget_aside(key)  # not earlier: after a failure the next try must find it
        return place

    def check_again(self, message: StoredMessage) -> None:
        """Request 323: opens the half message again, as if it had never been asked about. If it is
        still open, it goes on at the new place. StoreError: the log takes nothing now, or the disk
        cannot tell where the message was; it is still set aside then."""
        self._store_anew(message, {**message.properties, CHECK_TIMES: "0"})
        self._forget_aside(message.properties.get("UNIQ_KEY", ""))

    def _store_anew(self, message: StoredMessage, properties: dict[str, str]) -> tuple[int, int]:
        """Stores the half message anew and returns its place; ends that name an older place will
        find it there."""
        old = self._last_half(message)
        at, offset = self._store(names.HALF_TOPIC, message, properties)
        if old is not None:
            self._context.core.move_half(old.queue_offset, old.physical_offset, offset, at)
        return at, offset

    def _last_half(self, message: StoredMessage) -> StoredMessage | None:
        """The half message itself, also for a message that was set aside. None: the log does not
        have it any more, or an earlier version of rmq set it aside; the reactor treats its places
        as doubtful, like all places from before the start.
        """
        if message.topic == names.HALF_TOPIC:
            return message
        record = self._context.core.read_record(message.prepared_offset, 1)
        try:
            half = decode_message(record)[0] if record else None
        except ProtocolError:
            return None
        if half is None or half.topic != names.HALF_TOPIC:
            return None
        is_same = half.properties.get("UNIQ_KEY") == message.properties.get("UNIQ_KEY")
        return half if is_same else None

    def _forget_aside(self, key: str) -> None:
        self._aside.pop(key, None)
        self._context.core.set_option("transactions_set_aside", len(self._aside))

    def _offset(self, topic: str, minimum: int, maximum: int) -> int:
        offset = self._context.core.query_offset(GROUP.encode(), topic.encode(), 0)
        return max(minimum, min(offset, maximum))

    def _ops(self, offset: int, *, at_start: bool = False) -> list[list[int]]:
        """The next op messages: for each the offsets of half messages that it ends. StoreError: the
        disk cannot give them now. At the start a single one that cannot be read is skipped, because
        a broker that does not start would be worse than a message that comes twice."""
        view = self._context.queues.view(names.OP_HALF_TOPIC, 0)
        if view is None:
            return []
        return [
            self._halves_of(entry, at_start)
            for entry in self._context.queues.entries(view, offset, OPS_AT_ONCE, or_fail=True)
        ]

    def _halves_of(self, entry: Entry, at_start: bool) -> list[int]:
        try:
            record = self._context.core.read_record(entry.physical_offset, 1)
        except StoreError as error:
            if not at_start:
                raise
            log.error(
                "op message at %d: %s; producers are asked again about what it ends, and a commit "
                "may store its message twice", entry.physical_offset, error,
            )  # fmt: skip
            return []
        if record is None:
            return []
        try:
            texts = decode_message(record)[0].body.decode().split(",")
        except (ProtocolError, UnicodeDecodeError):
            return []
        return [int(t) for t in texts if t.isdecimal() and len(t) < OFFSET_DIGITS_MAX]

    # ---- at intervals

    async def check(self) -> None:
        """Looks at every open half message, the oldest first."""
        self._try_load_aside()  # for what a slave's master sets aside, and after a failed read
        settings, loop = self._context.settings, asyncio.get_running_loop()
        began_ms, end = now_ms(), loop.time() + PASS_S
        at, asked, unasked, leave_full = 0, 0, 0, False
        moved = loop.time()  # time of the last progress
        maximum = self._context.queues.range(names.HALF_TOPIC, 0)[1]
        while at < maximum and loop.time() < end:
            rules = (began_ms, settings.transactionTimeOut, settings.transactionCheckMax,
                     settings.fileReservedTime * 3_600_000, leave_full)  # fmt: skip
            before = at
            at, done, lonely, check_stop, left = self._context.core.check_halves(at, maximum, rules)
            asked, unasked = asked + done, unasked + lonely
            for offset in left:
                await self._give_up(offset)
                await asyncio.sleep(0)
            if at != before or check_stop in (NOT_STOPPED, RECORDS_ON_DISK):
                moved = loop.time()
            elif check_stop == LOG_FULL and loop.time() - moved > PATIENCE_S:
                break
            elif loop.time() - moved > PATIENCE_S:
                leave_full = True
            await asyncio.sleep(PAUSE_S if check_stop else 0)
        await self._save_progress()
        if asked:
            log.info("transactions stored anew and asked about: %d", asked)
        if unasked:
            log.warning("transactions stored anew that no producer could be asked about: %d",
                        unasked)  # fmt: skip

    async def _save_progress(self) -> None:
        core = self._context.core
        first = core.open_halves(0, 1)[0]
        try:
            await self._pass_ops(first)
        except StoreError as error:  # a start must read these op messages, so do not move on
            log.warning("op messages of transactions are not passed yet: %s", error)
        for topic, offset in ((names.HALF_TOPIC, first), (names.OP_HALF_TOPIC, self._op_offset)):
            if core.query_offset(GROUP.encode(), topic.encode(), 0) != offset:
                core.commit_offset(GROUP.encode(), topic.encode(), 0, offset)

    async def _pass_ops(self, first: int) -> None:
        """Moves over op messages that are only about half messages below `first`."""
        while ops := self._ops(self._op_offset):
            done = 0
            while done < len(ops) and all(half < first for half in ops[done]):
                done += 1
            self._op_offset += done
            if done < len(ops):
                break
            await asyncio.sleep(0)

    async def _give_up(self, offset: int) -> None:
        """Gives up a half message that was asked about too often, or is too old or damaged."""
        try:
            message = self._half(offset)
        except StoreError as error:
            log.error("half message %d is not given up yet: %s", offset, error)
            return  # it is still open: the next round comes to it again
        if message is None:
            self._context.core.end_halves([offset], 1)
        else:
            await self._set_aside(offset, message)

    def _half(self, offset: int) -> StoredMessage | None:
        """The half message, or None when it is damaged or gone. StoreError: the disk cannot give it
        now."""
        queues = self._context.queues
        view = queues.view(names.HALF_TOPIC, 0)
        entry = queues.entry(view, offset, or_fail=True) if view is not None else None
        core = self._context.core
        record = core.read_record(entry.physical_offset, 1) if entry is not None else None
        if record is None:
            log.error("half message %d cannot be read and is given up", offset)
            return None
        try:
            return decode_message(record)[0]
        except ProtocolError as error:
            log.error("half message %d is given up: %s", offset, error)
            return None

    def _store(
        self,
        topic: str,
        message: StoredMessage,
        properties: dict[str, str],
        prepared_offset: int = 0,
    ) -> tuple[int, int]:
        return self._context.core.append(
            topic.encode(),
            0,
            message.body,
            encode_properties(properties),
            message.flag,
            message.sys_flag & ~HOST_FLAGS,
            message.born_timestamp_ms,
            encode_host(message.born_host),
            message.reconsume_times,
            prepared_offset,
        )

    async def _set_aside(self, offset: int, message: StoredMessage) -> None:
        topic = TopicConfig(names.TRANS_CHECK_MAX_TIME_TOPIC, 1, 1)
        await self._context.topics.create(topic)
        core, properties = self._context.core, message.properties
        if offset not in core.open_halves(offset, 1)[2]:
            return  # its producer has ended it meanwhile
        place = self._store(topic.name, message, properties, message.physical_offset)
        self._aside_end += place[1] == self._aside_end
        if not core.end_halves([offset], 1):
            return  # it was ended a moment later: a commit that is repeated must not count again
        self._remember_aside(properties.get("UNIQ_KEY"))
        log.error("transaction %s of group %s is set aside in %s after %s checks",
                  properties.get("UNIQ_KEY"), properties.get("PGROUP"), topic.name,
                  properties.get(CHECK_TIMES, "0"))  # fmt: skip
