"""Group: its progress in every queue, members and settings; moved, changed, deleted.

The short history of each queue's lag is what this console has seen since the page was first opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rmq.client.blocking import admin
from rmq.client.blocking.admin import QueueProgress
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.group_lag import GroupLag, group_lag
from rmq.client.blocking.partial import Missing, lost
from rmq.client.blocking.tail import Start
from rmq.codes import ResponseCode
from rmq.console.change import Change, Plan
from rmq.console.console import console_of
from rmq.console.forms import Field, flag, group_name, place, topic_name, whole
from rmq.console.page import page
from rmq.console.pages.groups import SETTINGS, dead_letters, delayed_retries, settings_of
from rmq.console.pages.topics import page_of
from rmq.console.section import section
from rmq.console.spark_line import SparkLine
from rmq.errors import RemoteError, RmqError
from rmq.limits import TOPIC_QUEUES_MAX
from rmq.names import dlq_topic
from rmq.operations import group_changes
from rmq.operations.offset_moves import carry_out, moves_to, summary
from rmq.operations.texts import counted

QUEUES_SHOWN_MAX = 500


class QueueLag(msgspec.Struct):
    progress: QueueProgress
    history: SparkLine


def lag_of(cluster: Cluster, group: str, known: frozenset[str], missing: Missing) -> GroupLag:
    """Dead letters are asked for by themselves, as the account may not be allowed to see them."""
    topics = {*cluster.topics()} - {dlq_topic(group)}
    return group_lag(cluster, group, topics, known, missing)


def members_of(cluster: Cluster, group: str, missing: Missing) -> dict[str, Any]:
    return admin.group_members(cluster, group, missing) or {}


async def group(request: Request) -> Response:
    console, name = console_of(request), request.query_params.get("group", "")
    missing: Missing = {}
    configs = await console.ask_some(request, missing, admin.groups)
    found = await console.ask_some(request, missing, lag_of, name, frozenset(configs))
    progress = [*found.queues, *found.retry_queues]
    members = await section(console.ask_some(request, missing, members_of, name))
    waiting = await section(console.ask_some(request, missing, delayed_retries))
    letters = await section(console.ask_some(request, missing, dead_letters, (name,)))
    if name not in configs and not progress and not members.value:
        if missing:
            raise lost(missing)
        text = f"there is no consumer group {name[:100]}"
        raise RemoteError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
    history = console.surveyor.history
    queues = []
    for each in progress[:QUEUES_SHOWN_MAX]:
        history.note((name, each.queue), max(0, each.lag))
        queues.append(QueueLag(each, SparkLine(history.of((name, each.queue)))))
    names = sorted({each.queue.topic for each in progress})
    lines = {topic: SparkLine(history.of((name, topic))) for topic in names}
    return page(
        request, "group.html", group=name, config=configs.get(name, {}), queues=queues, found=found,
        waiting=waiting.value, dead_letters=(letters.value or {}).get(name), count=len(progress),
        topics=lines, members=members, missing=missing,
    )  # fmt: skip


async def client(request: Request) -> Response:
    """The page of what a member says about itself; it is asked through a broker."""
    console, asked = console_of(request), request.query_params
    name, client_id = asked.get("group", ""), asked.get("client", "")
    info = await console.ask(request, admin.running_info, name, client_id)
    return page(
        request, "client.html", group=name, client=client_id, properties=info.get("properties"),
        subscriptions=info.get("subscriptionSet"), queues=info.get("mqTable"),
        figures=info.get("statusTable"),
    )  # fmt: skip


# ---- moved


def _moves_plan(cluster: Cluster, values: Mapping[str, Any]) -> Plan:
    moves = _moves(cluster, values)
    skipped = sum(each.skipped for each in moves)
    warnings = [f"{counted(skipped, 'message')} would not be consumed."] if skipped else []
    rows = [
        (each.queue.broker_name, each.queue.queue_id, each.at, each.to, each.skipped, each.again)
        for each in moves
    ]
    columns = ("Broker", "Queue", "At", "To", "Skipped", "Again")
    lines = [summary(values["group"], moves), "Members that are online go there at once."]
    return Plan(lines, warnings, columns, rows)


def _moves(cluster: Cluster, values: Mapping[str, Any]) -> list[Any]:
    queue = values["queue"]
    where = values.get("to") or Start("last")
    return moves_to(
        cluster, values["group"], values["topic"], where, () if queue is None else (queue,)
    )


def _move(cluster: Cluster, values: Mapping[str, Any]) -> str:
    moves = _moves(cluster, values)
    carry_out(cluster, values["group"], moves)
    skipped, again = sum(each.skipped for each in moves), sum(each.again for each in moves)
    return (
        f"Group {values['group']} was moved in topic {values['topic']}: it skips {skipped} "
        f"messages and gets {again} again."
    )


# ---- changed, deleted


def _present(cluster: Cluster, given: Mapping[str, str]) -> dict[str, str]:
    config = _config(cluster, given.get("group", ""))
    return {name: _text(config[name]) for name in (f.name for f in SETTINGS) if name in config}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    return str(value)


def _config(cluster: Cluster, name: str) -> dict[str, Any]:
    return admin.require_groups(cluster, name)[name]


def _plan_update(cluster: Cluster, values: Mapping[str, Any]) -> Plan:
    before = _config(cluster, values["group"])
    rows = [
        (name, before.get(name), value)
        for name, value in settings_of(values).items()
        if before.get(name) != value
    ]
    if not rows:
        raise RmqError("It is so already: nothing would change.")
    return Plan([f"Group {values['group']} is changed."], [], ("Setting", "Is", "To be"), rows)


def _update(cluster: Cluster, values: Mapping[str, Any]) -> str:
    present = _config(cluster, values["group"])
    kept = group_changes.settings_of(present)
    admin.create_group(cluster, values["group"], {**kept, **settings_of(values)})
    return f"Group {values['group']} was changed."


def _plan_delete(cluster: Cluster, values: Mapping[str, Any]) -> Plan:
    name = values["group"]
    admin.require_groups(cluster, name)
    _refuse_online(cluster, name)
    progress, _ = admin.group_progress(cluster, name)
    lines = [f"Group {name} is deleted on every broker."]
    if not values["clean"]:
        return Plan([*lines, "Its offsets stay: a group of this name goes on there."])
    names = sorted({each.queue.topic for each in progress})
    lost = [f"Its progress in {', '.join(names)} is lost."] if names else []
    return Plan(lines, lost)


def _refuse_online(cluster: Cluster, name: str) -> None:
    members = admin.online_members(cluster, name)
    if members:
        raise RmqError(
            f"Group {name} has {counted(len(members), 'member')} online, which would make it "
            "again: stop them first."
        )


def _delete(cluster: Cluster, values: Mapping[str, Any]) -> str:
    _refuse_online(cluster, values["group"])
    admin.delete_group(cluster, values["group"], clean_offsets=values["clean"])
    return f"Group {values['group']} was deleted."


GROUP = Field("group", "Group", group_name, "hidden")
TOPIC = Field("topic", "Topic", topic_name)
QUEUE = Field("queue", "Queue", whole(0, TOPIC_QUEUES_MAX), "number", is_required=False,
              help="Of each broker; nothing: all.")  # fmt: skip

MOVE = Change(
    "/group/move", "Move a group", "Move it",
    (GROUP, TOPIC,
     Field("to", "To", place,
           help="In each queue: first, last, an offset, -N for the last N, or a time: "
                "2025-06-01T08:30, -1h."),
     QUEUE),
    plan=_moves_plan, carry_out=_move, back=page_of("group"),
)  # fmt: skip
SKIP = Change(
    "/group/skip", "Skip all that is in a topic now", "Skip it", (GROUP, TOPIC, QUEUE),
    plan=_moves_plan, carry_out=_move, back=page_of("group"), is_grave=True,
)  # fmt: skip
UPDATE = Change(
    "/group/update", "Change a group", "Change it", (GROUP, *SETTINGS),
    plan=_plan_update, carry_out=_update, back=page_of("group"), prefill=_present,
)  # fmt: skip
DELETE = Change(
    "/group/delete", "Delete a group", "Delete it",
    (GROUP, Field("clean", "Forget how far it was", flag, "checkbox", default="yes",
                  is_required=False)),
    plan=_plan_delete, carry_out=_delete, back=lambda _: "/groups", is_grave=True,
)  # fmt: skip

ROUTES = {"/group": group, "/client": client}
CHANGES = (MOVE, SKIP, UPDATE, DELETE)
