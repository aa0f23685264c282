"""Queue mapping: the logical queues of a static topic, as one broker has them.

A static topic has a fixed number of logical queues, 0 to n - 1, whatever happens to the brokers.
The messages of a logical queue are in a chain of physical queues, oldest first: an item of the
chain says which queue of which broker it is, and at which logical offset it begins. The last item
is the leader: only it takes new messages, and its broker answers for the whole chain.

    logical 0   gen 0  broker-a  queue 0  logicOffset 0       has the offsets below 10000
                gen 1  broker-b  queue 2  logicOffset 10000   the leader

The message at offset 7 of queue 2 of broker-b is 10007 of logical queue 0. logicOffset is -1 from
the moment that a new leader may take messages until the old leader's end is known: meanwhile
messages are stored and answered with offset -1, and nobody reads them yet. endOffset is -1 while it
is not known: an item that is not the leader then ends where its physical queue does.

A broker knows the chains whose leader it is or was. The epoch, a time in ms, grows with each
change; name servers and clients use the newest.

The JSON is RocketMQ's TopicQueueMappingDetail, in requests (513, 351, 21) and in the file.
"""

import itertools
import struct
from typing import Annotated

import msgspec

from rmq.format import fastjson
from rmq.limits import MAPPING_ITEMS_MAX, TOPIC_QUEUES_MAX

GLOBAL_SCOPE = "__global__"
_HEAD = struct.Struct("=ii")
_ITEM = struct.Struct("=iiiiqqq")  # as MappedItem of cext/flow/control/topic_calls.pyx

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class LogicQueueItem(msgspec.Struct, frozen=True, rename="camel"):
    """A physical queue in the chain of a logical one."""

    gen: Int32 = 0
    queue_id: Int32 = 0  # on its broker
    bname: str = ""
    logic_offset: Int64 = 0  # where it begins in the logical queue; -1: not known yet
    start_offset: Int64 = 0  # where it begins in the physical queue
    end_offset: Int64 = -1  # behind its last message in the physical queue; -1: not known
    time_of_start: Int64 = -1
    time_of_end: Int64 = -1

    @property
    def is_placed(self) -> bool:
        """Whether its place in the logical queue is known."""
        return self.logic_offset >= 0

    @property
    def is_ended(self) -> bool:
        return self.end_offset > self.start_offset

    def logical(self, physical: int) -> int:
        """The logical offset of a physical one; the item's beginning for offsets before it."""
        return self.logic_offset + max(physical - self.start_offset, 0)

    def physical(self, logical: int) -> int:
        return logical - self.logic_offset + self.start_offset

    def logical_end(self) -> int:
        """Where the item says that it ends; its beginning while the end is not known."""
        return self.logic_offset + max(self.end_offset - self.start_offset, 0)


Chain = tuple[LogicQueueItem, ...]


class QueueMapping(msgspec.Struct, frozen=True, rename="camel"):
    """What one broker knows of a static topic."""

    topic: str
    bname: str  # the broker's name
    total_queues: Annotated[int, msgspec.Meta(ge=0, le=TOPIC_QUEUES_MAX)]
    epoch: Int64 = 0
    scope: str = GLOBAL_SCOPE
    dirty: bool = False
    hosted_queues: dict[int, Chain] = {}

    def leads(self, queue_id: int) -> bool:
        chain = self.hosted_queues.get(queue_id)
        return chain is not None and chain[-1].bname == self.bname

    def members(self) -> dict[str, object]:
        """RocketMQ's TopicQueueMappingDetail."""
        return {
            **self._head(),
            "hostedQueues": {
                queue_id: [msgspec.to_builtins(item) for item in chain]
                for queue_id, chain in self.hosted_queues.items()
            },
        }

    def info_members(self) -> dict[str, object]:
        """RocketMQ's TopicQueueMappingInfo, for name servers and clients. currIdMap: the logical
        queues that this broker leads, each with its physical queue."""
        led = {n: chain[-1].queue_id for n, chain in self.hosted_queues.items() if self.leads(n)}
        return {**self._head(), "currIdMap": led}

    def _head(self) -> dict[str, object]:
        return {
            "bname": self.bname, "dirty": self.dirty, "epoch": self.epoch, "scope": self.scope,
            "topic": self.topic, "totalQueues": self.total_queues,
        }  # fmt: skip

    def packed(self) -> bytes:
        """The bytes for the reactor: the logical queues in order, with their items in order."""
        parts = [_HEAD.pack(self.total_queues, sum(map(len, self.hosted_queues.values())))]
        for queue_id, chain in sorted(self.hosted_queues.items()):
            parts += [
                _ITEM.pack(
                    queue_id, item.queue_id, item.bname == self.bname, 0,
                    item.logic_offset, item.start_offset, item.end_offset,
                )
                for item in chain
            ]  # fmt: skip
        return b"".join(parts)

    def fault(self, topic: str, broker_name: str) -> str:
        """Why it cannot be the mapping of this topic on this broker; empty: it can."""
        if self.topic != topic:
            return f"the mapping is of topic {self.topic[:130]!r}"
        if self.bname != broker_name:
            return f"the mapping is of broker {self.bname[:130]!r}, this one is {broker_name}"
        if sum(map(len, self.hosted_queues.values())) > MAPPING_ITEMS_MAX:
            return f"the mapping has more than {MAPPING_ITEMS_MAX} items"
        for queue_id, chain in self.hosted_queues.items():
            if not 0 <= queue_id < self.total_queues:
                return f"queue {queue_id} is none of {self.total_queues}"
            reason = chain_fault(chain)
            if reason:
                return f"queue {queue_id}: {reason}"
        return ""


def read_mapping(body: bytes) -> QueueMapping:
    """The mapping in a body; ProtocolError when there is none."""
    return fastjson.loads_as(body, QueueMapping, "the mapping of a static topic")


def chain_fault(chain: Chain) -> str:
    """Why these items cannot be a logical queue's chain; empty: they can."""
    if not chain:
        return "it has no items"
    for item in chain:
        if item.gen < 0 or not 0 <= item.queue_id < TOPIC_QUEUES_MAX or item.start_offset < 0:
            return f"gen {item.gen}, queueId or startOffset is out of range"
        if item.end_offset != -1 and item.end_offset < item.start_offset:
            return f"gen {item.gen} ends before it starts"
        if not item.bname:
            return f"gen {item.gen} names no broker"
    for before, after in itertools.pairwise(chain):
        if before.gen >= after.gen:
            return f"gen {after.gen} stands behind gen {before.gen}"
        if not before.is_placed:
            return f"gen {before.gen} has no logicOffset, and is not the last"
        if after.is_placed and before.logical_end() >= after.logic_offset:
            return f"gen {after.gen} begins before gen {before.gen} ends"
    return ""


def succession_fault(old: Chain, new: Chain, same_epoch: bool) -> str:
    """Why the new chain of a logical queue may not replace the old one; empty: it may. Items must
    stay the same, but old ones may be left out, and an unknown logicOffset may become known."""
    by_gen = {item.gen: item for item in new}
    for item in old:
        now = by_gen.get(item.gen)
        if now is None:
            continue
        if (now.bname, now.queue_id, now.start_offset) != (
            item.bname, item.queue_id, item.start_offset,
        ):  # fmt: skip
            return f"gen {item.gen} is another physical queue than before"
        if item.is_placed and now.logic_offset != item.logic_offset:
            return f"gen {item.gen} begins at {item.logic_offset}, not at {now.logic_offset}"
    if same_epoch and _place(old[-1]) != _place(new[-1]):
        return "another leader under the same epoch"
    return ""


def _place(item: LogicQueueItem) -> tuple[int, str, int, int]:
    return item.gen, item.bname, item.queue_id, item.start_offset
