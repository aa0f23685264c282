"""Topic changes: what a change of a topic would do, before it is made.

    check_change(states, {"write_queues": 4})                       RmqError: why it must not be
    for line in unread(cluster, states, {"read_queues": 4}): ...    messages nobody could read
    for state in states: described(state)                           broker-a has 8 queues, rw
    for state in states: state_members(state)                       the same as data

States are those of rmq/client/blocking/topics.py, one for each broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.topics import TopicState
from rmq.codes import PERM_READ, PERM_WRITE
from rmq.errors import RmqError
from rmq.operations.texts import counted

MESSAGE_TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")  # values of the attribute message.type
PERMS = {"r": PERM_READ, "w": PERM_WRITE, "rw": PERM_READ | PERM_WRITE}


def check_change(
    there: Sequence[TopicState], named: Mapping[str, Any], write_queues: str = "--write-queues"
) -> None:
    """named: fields of TopicState by name; write_queues: what the user calls this one. RmqError:
    the change is impossible, or new messages would go to queues that nobody reads."""
    for state in there:
        if state.is_static:
            raise RmqError(
                f"topic {state.topic} is a static one: its queues lie on several brokers, and "
                "`mqadmin updateStaticTopic` changes them together"
            )
        reads = named.get("read_queues", state.read_queues)
        if reads < named.get("write_queues", state.write_queues):
            raise RmqError(
                f"new messages would go to queues that nobody reads: {described(state)}. Lower "
                f"{write_queues} as well, to {reads} at most"
            )


def unread(cluster: Cluster, there: Sequence[TopicState], named: Mapping[str, Any]) -> list[str]:
    """A line for each broker about messages that nobody could read after the change."""
    lines = []
    for state in there:
        count = named.get("read_queues", state.read_queues)
        if not named.get("perm", PERM_READ) & PERM_READ:
            count = 0
        if count >= state.read_queues or not state.perm & PERM_READ:
            continue
        going = [
            each
            for each in admin.queue_ranges(cluster, state.topic, state.broker.name)
            if count <= each.queue.queue_id < state.read_queues
        ]
        messages = sum(each.max_offset - each.min_offset for each in going)
        if messages:
            lines.append(
                f"{state.broker.name}: queues {count} to {state.read_queues - 1} hold "
                f"{counted(messages, 'message')}, which nobody could read any more."
            )
    return lines


def described(state: TopicState) -> str:
    """Example: broker-a has 8 queues, rw."""
    count = f"{state.read_queues} queues"
    if state.read_queues != state.write_queues:
        count = f"{state.read_queues} queues to read, {state.write_queues} to write"
    order = ", ordered" if state.order else ""
    kind = state.attributes.get("message.type")
    perm = perm_text(state.perm) or "neither read nor written"
    return f"{state.broker.name} has {count}, {perm}{order}{f', {kind}' if kind else ''}"


def state_members(state: TopicState) -> dict[str, Any]:
    return {
        "broker": state.broker.name, "read_queues": state.read_queues,
        "write_queues": state.write_queues, "perm": perm_text(state.perm), "order": state.order,
        "type": state.attributes.get("message.type"),
    }  # fmt: skip


def perm_text(perm: int) -> str:
    """Example: 6 is rw."""
    return ("r" if perm & PERM_READ else "") + ("w" if perm & PERM_WRITE else "")
