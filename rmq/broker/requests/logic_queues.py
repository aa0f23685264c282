"""Logic queues: what the handlers of offsets and pulls do for a static topic.

Requests for a logical queue must go to its leader (else 501), which knows the chain of physical
queues (tables/queue_mapping.py). For items on another broker the leader asks that broker, with
lo=false: this means the physical queue, so the other broker does not ask further.

    30, 31, 32, 29    from the last, the first or each item of the chain
    15                to the item in which the offset is, on its broker, as its physical offset
    14                from the newest item back, the first that has one
    11, 361           messages of an item of another broker; the reactor serves its own ones

So a group's offset moves to the new leader when the group has read what the old one had.

Example: logical queue 0 has broker-a's queue 0 from 0 on, and this broker's queue 2 from 10000 on.
broker-a is asked to answer a pull at 7, and its nextBeginOffset at the end of that queue becomes
10000.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from rmq.broker.dispatch.request import Reply
from rmq.broker.registration.peer_brokers import PeerBrokers, PeerError
from rmq.broker.store.queue_reader import QueueReader
from rmq.broker.tables.offsets import OffsetTable
from rmq.broker.tables.queue_mapping import Chain, LogicQueueItem
from rmq.broker.tables.queue_mappings import QueueMappings
from rmq.codes import FLAG_COMMIT_OFFSET, FLAG_SUSPEND, RequestCode, ResponseCode
from rmq.errors import ProtocolError
from rmq.format.remoting import Command, field_texts
from rmq.refusal import Refusal

PULL_CODES = frozenset(
    (
        ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    )
)  # fmt: skip


class Context(Protocol):
    """What is used here of the broker."""

    offsets: OffsetTable
    peers: PeerBrokers
    queue_mappings: QueueMappings
    queues: QueueReader


class LogicQueue:
    """A logical queue that this broker leads, for the time of a request."""

    def __init__(self, context: Context, topic: str, own_name: str, chain: Chain) -> None:
        self._context = context
        self._topic = topic
        self._own_name = own_name
        self.leader = chain[-1]
        self.placed = tuple(item for item in chain if item.is_placed)
        if not self.placed:
            raise _refusal(f"static topic {topic}: the queue has no offsets yet")

    def item_of(self, offset: int) -> LogicQueueItem:
        """The item that has this logical offset; the first item for offsets before it."""
        found = self.placed[0]
        for item in self.placed:
            if item.logic_offset <= offset:
                found = item
        return found

    def is_here(self, item: LogicQueueItem) -> bool:
        return item.bname == self._own_name

    @property
    def is_plain(self) -> bool:
        """Whether its offsets are the same as those of one physical queue here."""
        first = self.placed[0]
        return self.leader is first and first.logical(0) == first.start_offset == 0

    async def range(self, item: LogicQueueItem) -> tuple[int, int]:
        """(first, next) physical offset of an item, limited to the part that belongs to the logical
        queue."""
        if self.is_here(item):
            first, end = self._context.queues.range(self._topic, item.queue_id)
        else:
            first = await self._number(item, RequestCode.GET_MIN_OFFSET, "offset")
            end = await self._number(item, RequestCode.GET_MAX_OFFSET, "offset")
        return first, min(end, item.end_offset) if item.is_ended else end

    async def minimum(self) -> int:
        first = self.placed[0]
        return first.logical((await self.range(first))[0])

    async def maximum(self) -> int:
        last = self.placed[-1]
        return last.logical((await self.range(last))[1])

    async def earliest_store_time(self) -> int:
        for item in self.placed:
            if self.is_here(item):
                first, end = await self.range(item)
                time_ms = (
                    self._context.queues.store_time_at(self._topic, item.queue_id, first)
                    if first < end else -1
                )  # fmt: skip
            else:
                code = RequestCode.GET_EARLIEST_MSG_STORETIME
                time_ms = await self._number(item, code, "timestamp")
            if time_ms >= 0:
                return time_ms
        return -1

    async def search(self, time_ms: int, boundary: str | None) -> int:
        """Searches as in one queue: the first message at or after that time, or with the boundary
        UPPER the last one at or before it."""
        if (boundary or "").lower() == "upper":
            return await self._search_back(time_ms)
        for item in self.placed:
            found = await self._search_in(item, time_ms, None)
            if found < (await self.range(item))[1]:
                return item.logical(found)
        return await self.maximum()

    async def _search_back(self, time_ms: int) -> int:
        """The last message at or before that time; it is in the newest item that begins at or
        before it."""
        for item in reversed(self.placed):
            first, end = await self.range(item)
            if first < end and await self._search_in(item, time_ms + 1, None) > first:
                return item.logical(min(await self._search_in(item, time_ms, "UPPER"), end - 1))
        return await self.minimum()

    async def _search_in(self, item: LogicQueueItem, time_ms: int, boundary: str | None) -> int:
        if self.is_here(item):
            upper = boundary is not None
            return self._context.queues.search(self._topic, item.queue_id, time_ms, upper)
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        return await self._number(item, code, "offset", timestamp=time_ms, boundaryType=boundary)

    async def group_offset(self, group: str) -> int:
        """The group's offset in the newest item in which it has one, as a logical offset; -1: it
        has none."""
        for item in reversed(self.placed):
            if self.is_here(item):
                offset = self._context.offsets.query(group, self._topic, item.queue_id)
            else:
                reply = await self.ask(
                    item, RequestCode.QUERY_CONSUMER_OFFSET,
                    consumerGroup=group, setZeroIfNotFound=False,
                )  # fmt: skip
                if reply.code == ResponseCode.QUERY_NOT_FOUND:
                    continue
                offset = _number_of(reply, item, "offset")
            if offset >= 0:
                return item.logical(offset)
        return -1

    async def commit(self, group: str, offset: int) -> None:
        """Commits a group's offset, given as a logical offset."""
        item = self.item_of(offset)
        physical = max(item.physical(offset), 0)
        if self.is_here(item):
            self._context.offsets.commit(group, self._topic, item.queue_id, physical)
            return
        reply = await self.ask(
            item, RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup=group, commitOffset=physical
        )
        if reply.code != ResponseCode.SUCCESS:
            raise _passed_on(item, reply)

    async def pull(self, command: Command) -> Reply:
        """Pulls messages that another broker has; returns its answer, in logical offsets."""
        offset = command.int_field("queueOffset")
        item = self.item_of(offset)
        physical = item.physical(offset) if offset >= item.logic_offset else -1
        count = command.int_field("maxMsgNums")
        if item.is_ended and physical < item.end_offset:
            count = min(count, item.end_offset - physical)
        flags = command.int_field("sysFlag") & ~(FLAG_SUSPEND | FLAG_COMMIT_OFFSET)
        fields = {**command.fields, **self._address(item)}
        fields |= field_texts({"queueOffset": physical, "maxMsgNums": count, "sysFlag": flags})
        reply = await self._call(item, Command(code=RequestCode.PULL_MESSAGE, fields=fields))
        if reply.code not in PULL_CODES:
            raise _passed_on(item, reply)
        told = {name: _number_of(reply, item, name, reply.code)
                for name in ("nextBeginOffset", "minOffset", "maxOffset")}  # fmt: skip
        code, fields_back = self._in_logical(item, physical, reply.code, told)
        fields_back["suggestWhichBrokerId"] = 0
        return command.reply(code, reply.remark, fields=fields_back, body=reply.body)

    def _in_logical(
        self, item: LogicQueueItem, physical: int, code: int, told: Mapping[str, int]
    ) -> tuple[int, dict[str, Any]]:
        """Code and offsets of an answer, as the reactor gives them for its own items
        (cext/flow/pull/pull_answer.pyx)."""
        following, first, end = told["nextBeginOffset"], told["minOffset"], told["maxOffset"]
        if item.is_ended:
            end = min(end, item.end_offset)
            following = min(following, item.end_offset)
        at = self.placed.index(item)
        if code != ResponseCode.SUCCESS and physical >= end and at + 1 < len(self.placed):
            item = self.placed[at + 1]
            following = first = end = item.start_offset
            code = ResponseCode.PULL_RETRY_IMMEDIATELY
        elif code == ResponseCode.PULL_OFFSET_MOVED and physical < first and at > 0:
            code = ResponseCode.PULL_RETRY_IMMEDIATELY  # no reset: it goes on behind the gap
        return code, {
            "nextBeginOffset": item.logical(following),
            "minOffset": item.logical(first),
            "maxOffset": max(item.logical(end), self.leader.logical_end()),
            "offsetDelta": item.logic_offset - item.start_offset,
        }

    # ---- to the other brokers

    async def ask(self, item: LogicQueueItem, code: int, **fields: Any) -> Command:
        texts = {"topic": self._topic, **field_texts(fields), **self._address(item)}
        return await self._call(item, Command(code=code, fields=texts))

    def _address(self, item: LogicQueueItem) -> dict[str, str]:
        return {"queueId": str(item.queue_id), "bname": item.bname, "lo": "false"}

    async def _call(self, item: LogicQueueItem, command: Command) -> Command:
        try:
            return await self._context.peers.call(item.bname, self._topic, command)
        except PeerError as error:
            raise _refusal(
                f"static topic {self._topic}: what is asked for is on broker {item.bname}: {error}"
            ) from None

    async def _number(self, item: LogicQueueItem, code: int, name: str, **fields: Any) -> int:
        return _number_of(await self.ask(item, code, **fields), item, name)


def logic_queue(context: Context, command: Command, topic: str, queue_id: int) -> LogicQueue | None:
    """The logical queue that a request is about; None for a plain topic and for a request that
    means the physical queue (lo=false). Refusal 501: another broker leads it."""
    mapping = context.queue_mappings.get(topic)
    if mapping is None or command.bool_field("lo", True) is False:
        return None
    if not mapping.leads(queue_id):
        raise Refusal(
            ResponseCode.NOT_LEADER_FOR_QUEUE,
            f"queue {queue_id} of the static topic {topic} is not led by this broker",
        )
    return LogicQueue(context, topic, mapping.bname, mapping.hosted_queues[queue_id])


def kept_item(
    context: Context, command: Command, topic: str, queue_id: int, offset: int
) -> LogicQueueItem | None:
    """The item of a logical queue with this offset, if it is here although another broker leads the
    queue by now: a consumer that does not know of the move yet may commit what it has read here.
    RocketMQ's brokers refuse that."""
    mapping = context.queue_mappings.get(topic)
    if mapping is None or command.bool_field("lo", True) is False or mapping.leads(queue_id):
        return None
    found = None
    for item in mapping.hosted_queues.get(queue_id, ()):
        if item.is_placed and item.logic_offset <= offset:
            found = item
    if found is None or found.bname != mapping.bname:
        return None
    # It is not surely known here where the next item begins, so nothing is committed beyond the
    # end.
    end = context.queues.range(topic, found.queue_id)[1]
    return found if found.physical(offset) <= end else None


def _number_of(reply: Command, item: LogicQueueItem, name: str, good: int = 0) -> int:
    if reply.code != good:
        raise _passed_on(item, reply)
    try:
        number: int = reply.int_field(name)
    except ProtocolError as error:
        raise _refusal(f"broker {item.bname}: {error}") from None
    return number


def _passed_on(item: LogicQueueItem, reply: Command) -> Refusal:
    """The other broker's refusal, passed on as one of this broker."""
    text = f"broker {item.bname}: code {reply.code}: {reply.remark}"
    try:
        code = ResponseCode(reply.code)
    except ValueError:
        return _refusal(text)
    return Refusal(code, text) if code != ResponseCode.SUCCESS else _refusal(text)


def _refusal(text: str) -> Refusal:
    return Refusal(ResponseCode.SYSTEM_ERROR, text)
