"""Offset moves: where a group would go on in a topic, computed before anything is changed.

    moves = moves_to(cluster, "billing", "orders", Start("time", moment_ms))
    for each in moves: each.queue, each.at, each.to, each.skipped, each.again
    carry_out(cluster, "billing", moves)

Members that are online go on from there, too: the broker tells them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.tail import Start, first_offset
from rmq.codes import ResponseCode
from rmq.errors import RemoteError
from rmq.format.fastjson import MessageQueue


@dataclass(frozen=True)
class Move:
    """A group in one queue: its offset of now (None: it never committed) and the one to be set."""

    queue: MessageQueue
    at: int | None
    to: int

    @property
    def skipped(self) -> int:
        return max(self.to - self.at, 0) if self.at is not None else 0

    @property
    def again(self) -> int:
        return max(self.at - self.to, 0) if self.at is not None else 0


def moves_to(
    cluster: Cluster, group: str, topic: str, place: Start, queue_ids: Sequence[int] = ()
) -> list[Move]:
    """Moves in all queues of the topic, or in `queue_ids`. RemoteError: the group or a queue does
    not exist."""
    admin.require_groups(cluster, group)
    return [
        Move(queue, admin.committed_offset(cluster, group, queue), _place(cluster, queue, place))
        for queue in _queues(cluster, topic, queue_ids)
    ]


def moves_after(cluster: Cluster, group: str, other: str, topic: str) -> list[Move]:
    """What brings `other`, which need not be there yet, to where `group` is; of queues in which
    that has committed."""
    admin.require_groups(cluster, group)
    moves = []
    for queue in _queues(cluster, topic, ()):
        to = admin.committed_offset(cluster, group, queue)
        if to is not None:
            to = max(to, admin.min_offset(cluster, queue))
            moves.append(Move(queue, admin.committed_offset(cluster, other, queue), to))
    return moves


def carry_out(cluster: Cluster, group: str, moves: Sequence[Move]) -> None:
    for each in moves:
        admin.move_offset(cluster, group, each.queue, each.to)


def summary(group: str, moves: Sequence[Move]) -> str:
    """Example: Group billing skips 12 messages and gets 0 again."""
    skipped, again = sum(each.skipped for each in moves), sum(each.again for each in moves)
    return f"Group {group} skips {skipped} messages and gets {again} again."


def _queues(cluster: Cluster, topic: str, queue_ids: Sequence[int]) -> list[MessageQueue]:
    readable = cluster.route(topic).readable()
    found = [each for each in readable if not queue_ids or each.queue_id in queue_ids]
    if missing := sorted(set(queue_ids) - {each.queue_id for each in found}):
        raise RemoteError(
            ResponseCode.INVALID_PARAMETER, f"topic {topic} has no queue {missing[0]}"
        )
    return sorted(found)


def _place(cluster: Cluster, queue: MessageQueue, place: Start) -> int:
    end = admin.max_offset(cluster, queue)
    return min(first_offset(cluster, queue, place, end), end)
