"""Groups: the list of all consumer groups, and a new one.

Members and lags come from the survey, if brokers tell them all in one answer. RocketMQ's brokers do
not, and are asked only for the groups on the page that is shown; so are all brokers for dead
letters. As in `rmq group list`, the lag of retry topics is told apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.partial import Missing, of_brokers
from rmq.client.blocking.waiting_retries import WaitingRetries, waiting_retries
from rmq.client.connection.replicas import Purpose
from rmq.codes import RequestCode, ResponseCode
from rmq.console.change import Change, Plan
from rmq.console.console import console_of
from rmq.console.forms import Field, flag, group_name, whole
from rmq.console.page import page
from rmq.console.pages.topics import page_of
from rmq.console.paging import Paging
from rmq.console.section import section
from rmq.console.survey import GroupSight
from rmq.errors import RmqError, UnreachableError
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.limits import TOPIC_QUEUES_MAX
from rmq.names import dlq_topic, is_retry, is_system_group, retry_topic

INT_MAX = 2**31 - 1
LOOK_S = 0.5  # for delayed retries: pages are looked at again and again


class GroupRow(msgspec.Struct):
    name: str
    sight: GroupSight | None  # None: members and lags are not known
    is_enabled: bool
    is_ordered: bool
    delayed: int | None = None
    dead_letters: int | None = None

    @property
    def lag(self) -> int:
        return sum(lag for topic, lag in self._lags.items() if not is_retry(topic))

    @property
    def retries(self) -> int:
        return sum(lag for topic, lag in self._lags.items() if is_retry(topic))

    @property
    def _lags(self) -> dict[str, int]:
        return self.sight.lags if self.sight is not None else {}


def delayed_retries(cluster: Cluster, missing: Missing) -> WaitingRetries:
    return waiting_retries(cluster, missing, LOOK_S)


def dead_letters(
    cluster: Cluster, names: Sequence[str], missing: Missing
) -> dict[str, int | None]:  # fmt: skip
    """How many each of these groups has; None: the account may not see them."""
    found: dict[str, int | None] = dict.fromkeys(names, 0)
    asked = [{"topic": dlq_topic(name)} for name in names]
    places = [(each.name, cluster.address_of(each.name, Purpose.STATE))
              for each in cluster.masters()]  # fmt: skip

    def stats(broker: str) -> list[Command]:
        return cluster.ask_all(broker, RequestCode.GET_TOPIC_STATS_INFO, asked)

    for replies in of_brokers(cluster, places, stats, missing):
        for name, reply in zip(names, replies, strict=True):
            before = found[name]
            if reply.code == ResponseCode.NO_PERMISSION or before is None:
                found[name] = None
            elif reply.code == ResponseCode.SUCCESS:
                found[name] = before + _messages(reply.body)
    return found


def _messages(body: bytes) -> int:
    rows = admin.queue_table(body).values()
    return sum(int(row.get("maxOffset", 0)) - int(row.get("minOffset", 0)) for row in rows)


def group_sights(cluster: Cluster, names: Sequence[str]) -> dict[str, GroupSight]:
    """Lags and members of these groups. Brokers are asked for each group, with many requests under
    way at a time."""
    found = {name: GroupSight() for name in names}
    asked = [{"consumerGroup": name} for name in names]
    retry_topics = [{"topic": retry_topic(name)} for name in names]
    for broker in cluster.masters():
        try:
            stats = cluster.ask_all(broker.name, RequestCode.GET_CONSUME_STATS, asked)
            online = cluster.ask_all(broker.name, RequestCode.GET_CONSUMER_CONNECTION_LIST, asked)
            retries = cluster.ask_all(broker.name, RequestCode.GET_TOPIC_STATS_INFO, retry_topics)
        except UnreachableError:
            continue
        for name, progress, members, retried in zip(names, stats, online, retries, strict=True):
            told = progress.code == ResponseCode.SUCCESS and _add_lags(found[name], progress.body)
            if not told and retried.code == ResponseCode.SUCCESS:
                # It has committed nothing there, and will read everything.
                sight, topic = found[name], retry_topic(name)
                sight.lags[topic] = sight.lags.get(topic, 0) + _messages(retried.body)
            if members.code == ResponseCode.SUCCESS:
                connected = fastjson.loads_object(members.body).get("connectionSet") or []
                found[name].members = max(found[name].members, len(connected))
    return found


def _add_lags(sight: GroupSight, body: bytes) -> bool:
    """Whether its retry topic is among them."""
    table = admin.queue_table(body)
    for queue, row in table.items():
        lag = int(row.get("brokerOffset", 0)) - max(0, int(row.get("consumerOffset", 0)))
        sight.lags[queue.topic] = sight.lags.get(queue.topic, 0) + max(0, lag)
    return any(is_retry(queue.topic) for queue in table)


async def groups(request: Request) -> Response:
    console, asked = console_of(request), request.query_params
    part, with_system = asked.get("part", "").strip(), asked.get("system") == "yes"
    missing: Missing = {}
    configs = await console.ask_some(request, missing, admin.groups)
    survey = await console.survey(request)
    names = sorted({*configs, *survey.groups})
    rows = [
        GroupRow(name, survey.groups.get(name), _is(configs, name, "consumeEnable", True),
                 _is(configs, name, "consumeMessageOrderly", False))
        for name in names
        if part.lower() in name.lower() and (with_system or not is_system_group(name))
    ]  # fmt: skip
    if asked.get("sort") == "lag":
        rows.sort(key=lambda row: -row.lag)
    paging = Paging.of(request, rows)
    shown = tuple(row.name for row in paging.rows)
    waiting = await section(console.ask_some(request, missing, delayed_retries))
    letters = await section(console.ask_some(request, missing, dead_letters, shown))
    for row in paging.rows:
        row.delayed = waiting.value.of(row.name) if waiting.value is not None else None
        row.dead_letters = (letters.value or {}).get(row.name)
    if not survey.tells_groups:
        sights = await console.ask(request, group_sights, shown)
        for row in paging.rows:
            row.sight = sights[row.name]
    return page(
        request, "groups.html", paging=paging, part=part, with_system=with_system,
        sort=asked.get("sort", ""), left_out=survey.left_out, missing=missing,
        waiting=waiting.value,
    )  # fmt: skip


def _is(configs: Mapping[str, Mapping[str, Any]], name: str, key: str, default: bool) -> bool:
    return bool(configs.get(name, {}).get(key, default))


# ---- a new one

SETTINGS = (
    Field("consumeEnable", "It may consume", flag, "checkbox", default="yes", is_required=False),
    Field("consumeMessageOrderly", "It consumes in order", flag, "checkbox", is_required=False),
    Field("consumeBroadcastEnable", "It may broadcast", flag, "checkbox", default="yes",
          is_required=False),
    Field("retryMaxTimes", "Tries before a message is a dead letter", whole(0, INT_MAX), "number",
          default="16"),
    Field("retryQueueNums", "Queues of its retry topic", whole(1, TOPIC_QUEUES_MAX),
          "number", default="1"),
    Field("consumeTimeoutMinute", "Minutes that consuming a message may take", whole(1, INT_MAX),
          "number", default="15"),
)  # fmt: skip


def settings_of(values: Mapping[str, Any]) -> dict[str, Any]:
    return {each.name: values[each.name] for each in SETTINGS}


def _plan(cluster: Cluster, values: Mapping[str, Any]) -> Plan:
    name = values["group"]
    if name in admin.groups(cluster):
        raise RmqError(f"Group {name} exists: its page can change it.")
    brokers = ", ".join(each.name for each in cluster.masters())
    return Plan([f"Group {name} is created on {brokers}."])


def _create(cluster: Cluster, values: Mapping[str, Any]) -> str:
    admin.create_group(cluster, values["group"], settings_of(values))
    return f"Group {values['group']} was created."


CREATE = Change(
    "/group/create", "Create a consumer group", "Create it",
    (Field("group", "Name", group_name, help="Letters, digits, % | - and _"), *SETTINGS),
    plan=_plan, carry_out=_create, back=page_of("group"),
)  # fmt: skip

ROUTES = {"/groups": groups}
CHANGES = (CREATE,)
