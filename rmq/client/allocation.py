"""Allocation: which member of a group reads which queue, by RocketMQ's allocation strategies.

    PushConsumer("g", listener, allocate_message_queue_strategy=ConsistentHash(virtual_nodes=20))

All members call the same strategy with the same lists of queues and members, both in order, and so
agree without talking to each other. A strategy is an object with a name and a method
allocate(group, member, queues, members), which returns the member's queues. Members in other
languages must use the strategy of the same name.

    AVG                     runs of neighbouring queues
    AVG_BY_CIRCLE           one queue for each member in turn
    CONFIG                  the queues that are configured
    MACHINE_ROOM            queues of brokers named "room@name" in the configured rooms
    MACHINE_ROOM_NEARBY-x   by strategy x inside a room; all share queues of rooms without members
    CONSISTENT_HASH         by MD5 on a ring, so that few queues move when members come or go
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from rmq.errors import ConfigError, RmqError
from rmq.format.fastjson import MessageQueue

Queues = Sequence[MessageQueue]


@runtime_checkable
class AllocateMessageQueueStrategy(Protocol):
    """The attributes of a strategy."""

    @property
    def name(self) -> str:
        """RocketMQ's name for the strategy."""

    def allocate(
        self, group: str, member: str, queues: Queues, members: Sequence[str]
    ) -> list[MessageQueue]:
        """The queues of `member`; none if it is not among the members."""


class Averagely:
    """Runs of neighbouring queues. If the queues do not divide evenly, the first runs have one
    more."""

    name = "AVG"

    def allocate(
        self, group: str, member: str, queues: Queues, members: Sequence[str]
    ) -> list[MessageQueue]:
        return average_allocation(queues, members, member)


def average_allocation(queues: Queues, members: Sequence[str], member: str) -> list[MessageQueue]:
    """The run of neighbouring queues for `member`; none if it is not among the members. If the
    queues do not divide evenly, the first runs have one more. All members must see the same queues
    and members."""
    ids = sorted(set(members))
    if member not in ids:
        return []
    index = ids.index(member)
    each, rest = divmod(len(queues), len(ids))
    begin = index * each + min(index, rest)
    return sorted(queues)[begin : begin + each + (index < rest)]


class AveragelyByCircle:
    """One queue for each member in turn."""

    name = "AVG_BY_CIRCLE"

    def allocate(
        self, group: str, member: str, queues: Queues, members: Sequence[str]
    ) -> list[MessageQueue]:
        if member not in members:
            return []
        return list(queues[members.index(member) :: len(members)])


class ByConfig:
    """The given queues that exist, whatever the other members read."""

    name = "CONFIG"

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        self.queues = list(queues)

    def allocate(
        self, group: str, member: str, queues: Queues, members: Sequence[str]
    ) -> list[MessageQueue]:
        there = set(queues)
        return [each for each in self.queues if each in there]


class ByMachineRoom:
    """Runs of the queues on brokers whose names begin with one of these rooms and "@". If these do
    not divide evenly, the first members take one each of the queues behind the runs."""

    name = "MACHINE_ROOM"

    def __init__(self, rooms: Collection[str]) -> None:
        self.rooms = frozenset(rooms)

    def allocate(
        self, group: str, member: str, queues: Queues, members: Sequence[str]
    ) -> list[MessageQueue]:
        if member not in members:
            return []
        index = members.index(member)
        near = [each for each in queues if self._is_near(each)]
        share, rest = divmod(len(near), len(members))
        mine = near[index * share : (index + 1) * share]
        return mine + near[share * len(members) + index :][: index < rest]

    def _is_near(self, queue: MessageQueue) -> bool:
        parts = queue.broker_name.split("@")
        return len(parts) == 2 and parts[0] in self.rooms


class MachineRoomNearby:
    """Members share the queues of their own room; all members share the queues of rooms without
    members."""

    def __init__(
        self,
        strategy: AllocateMessageQueueStrategy,
        broker_deploy_in: Callable[[MessageQueue], str],
        consumer_deploy_in: Callable[[str], str],
    ) -> None:
        self.strategy = strategy
        self.room_of_queue = broker_deploy_in
        self.room_of_member = consumer_deploy_in
        self.name = f"MACHINE_ROOM_NEARBY-{strategy.name}"

    def allocate(
        self, group: str, member: str, queues: Queues, members: Sequence[str]
    ) -> list[MessageQueue]:
        if member not in members:
            return []
        by_room: dict[str, list[MessageQueue]] = {}
        people: dict[str, list[str]] = {}
        for queue in queues:
            by_room.setdefault(self._known(self.room_of_queue(queue), queue), []).append(queue)
        for each in members:
            people.setdefault(self._known(self.room_of_member(each), each), []).append(each)
        own = self.room_of_member(member)
        found = self.strategy.allocate(group, member, by_room.pop(own, []), people[own])
        for room, there in sorted(by_room.items()):
            if room not in people:
                found = found + self.strategy.allocate(group, member, there, members)
        return found

    @staticmethod
    def _known(room: str, of: object) -> str:
        if not room:
            raise ConfigError(f"no machine room is known for {of}")
        return room


class ConsistentHash:
    """Each member has some places on a ring of hashes; a queue goes to the member of the next
    place."""

    name = "CONSISTENT_HASH"

    def __init__(
        self, virtual_nodes: int = 10, hash_function: Callable[[str], int] | None = None
    ) -> None:
        if virtual_nodes < 0:
            raise ConfigError(f"virtual_nodes={virtual_nodes}: at least 0")
        self.virtual_nodes = virtual_nodes
        self.hash = hash_function or _md5_begin

    def allocate(
        self, group: str, member: str, queues: Queues, members: Sequence[str]
    ) -> list[MessageQueue]:
        places = {self.hash(f"{each}-{i}"): each
                  for each in members for i in range(self.virtual_nodes)}  # fmt: skip
        ring = sorted(places)
        if not ring or member not in members:
            return []
        found = []
        for queue in queues:
            # the text of a queue in Java, so that members of both languages agree
            text = (f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
                    f"queueId={queue.queue_id}]")  # fmt: skip
            at = bisect.bisect_left(ring, self.hash(text))
            if places[ring[at % len(ring)]] == member:
                found.append(queue)
        return found


def _md5_begin(text: str) -> int:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


BY_NAME: dict[str, Callable[[], AllocateMessageQueueStrategy]] = {
    each.name: each for each in (Averagely, AveragelyByCircle, ConsistentHash)
}


def allocation_of(
    strategy: AllocateMessageQueueStrategy, group: str, member: str, queues: Queues,
    members: Sequence[str],
) -> list[MessageQueue]:  # fmt: skip
    """The queues of `member`. RmqError: the strategy, which may be the user's, has raised, or has
    returned things that are not queues."""
    try:
        found = list(strategy.allocate(group, member, queues, members))
    except RmqError:
        raise
    except Exception as error:
        raise RmqError(f"the allocate_message_queue_strategy: {error!r}") from error
    for each in found:
        if not isinstance(each, MessageQueue):
            raise RmqError(f"the allocate_message_queue_strategy: {each!r} is no MessageQueue")
    return found


def strategy_of(given: Any) -> AllocateMessageQueueStrategy:
    """The strategy that the user has chosen, by name or as an object."""
    if given is None:
        return Averagely()
    if isinstance(given, str):
        if given not in BY_NAME:
            raise ConfigError(f"allocate_message_queue_strategy={given}: {', '.join(BY_NAME)}")
        return BY_NAME[given]()
    if not isinstance(given, AllocateMessageQueueStrategy):
        raise ConfigError("an allocate_message_queue_strategy has a name and allocate()")
    return given
