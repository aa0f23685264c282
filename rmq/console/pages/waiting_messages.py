"""Waiting messages: those that wait for a delay, for a time, or for the end of a transaction.

They are in system topics of the brokers, which the message browser shows like any other. A half
message that was checked too often is set aside; its check can be started again here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import BrokerEntry, Cluster
from rmq.codes import RequestCode
from rmq.console.change import Change, Plan
from rmq.console.console import console_of
from rmq.console.forms import Field, text
from rmq.console.page import page
from rmq.console.section import section
from rmq.console.survey import BrokerSight
from rmq.errors import RemoteError, RmqError
from rmq.names import (
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANSACTION_GROUP,
)
from rmq.operations.message_facts import find

LEVEL = "scheduleMessageOffset_"  # prefix of keys of the runtime table: "delivered up to,end"
TOPICS = (
    (SCHEDULE_TOPIC, "messages of delay levels, a queue for each level"),
    (TIMER_TOPIC, "messages of any time"),
    (HALF_TOPIC, "half messages of open transactions, and of ended ones"),
    (TRANS_CHECK_MAX_TIME_TOPIC, "half messages that were set aside"),
)


class Level(msgspec.Struct):
    number: int
    delay: str
    delivered: int
    end: int

    @property
    def waiting(self) -> int:
        return max(0, self.end - self.delivered)


class Waiting(msgspec.Struct):
    """The messages that wait at one master."""

    broker: str
    levels: list[Level]
    timed: str  # number of timed messages; empty: the broker does not tell it
    timed_late_s: str
    half: int | None  # number of open transactions
    is_half_exact: bool = True


def delays(cluster: Cluster, *brokers: str) -> dict[str, str]:
    """Broker -> its delay levels, in the form of messageDelayLevel."""
    found = {}
    for name in brokers:
        settings = admin.broker_settings(cluster, cluster.address_of(name))
        found[name] = settings.get("messageDelayLevel", "")
    return found


def half_messages(cluster: Cluster, *brokers: str) -> dict[str, int]:
    """Broker -> number of half messages after the offset up to which all of them are ended. For
    brokers that do not tell the number of open transactions; some of these may have ended, too."""
    found: dict[str, int] = {}
    for entry in cluster.masters():
        if entry.name in brokers:
            try:
                found[entry.name] = _half_messages(cluster, entry)
            except RemoteError:
                continue  # no transaction was ever begun there
    return found


def _half_messages(cluster: Cluster, entry: BrokerEntry) -> int:
    assert entry.master is not None
    asked = {"consumerGroup": TRANSACTION_GROUP, "topic": HALF_TOPIC}
    reply = cluster.call(entry.master, RequestCode.GET_CONSUME_STATS, asked)
    rows = admin.queue_table(reply.body).values()
    return sum(int(row.get("brokerOffset", 0)) - int(row.get("consumerOffset", 0)) for row in rows)


async def later(request: Request) -> Response:
    console = console_of(request)
    survey = await console.survey(request)
    masters = [each for each in survey.masters if each.sample is not None]
    texts = await section(console.ask(request, delays, *(each.entry.name for each in masters)))
    silent = [each.entry.name for each in masters if _half_said(each) is None]
    half = await section(console.ask(request, half_messages, *silent))
    rows = [_waiting(each, texts.value or {}, half.value or {}) for each in masters]
    return page(request, "later.html", rows=rows, topics=TOPICS)


def _half_said(sight: BrokerSight) -> int | None:
    count = sight.sample.half_messages if sight.sample is not None else -1
    return count if count >= 0 else None


def _waiting(sight: BrokerSight, texts: Mapping[str, str], half: Mapping[str, int]) -> Waiting:
    name, table, said = sight.entry.name, sight.table, _half_said(sight)
    delay_texts = texts.get(name, "").split()
    levels = []
    for key, value in table.items():
        number, (delivered, _, end) = key.removeprefix(LEVEL), value.partition(",")
        if key.startswith(LEVEL) and all(each.isdigit() for each in (number, delivered, end)):
            at = int(number) - 1
            delay = delay_texts[at] if 0 <= at < len(delay_texts) else ""
            levels.append(Level(int(number), delay, int(delivered), int(end)))
    levels.sort(key=lambda each: each.number)
    return Waiting(
        name, levels, table.get("timerCongestNum", ""), table.get("timerReadBehind", ""),
        half.get(name) if said is None else said, is_half_exact=said is not None,
    )  # fmt: skip


# ---- a transaction is asked about again


def _plan(cluster: Cluster, values: Mapping[str, Any]) -> Plan:
    found = find(cluster, values["id"])
    if found.stored.topic not in (HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC):
        raise RmqError(f"{values['id']} is no half message: it lies in topic {found.stored.topic}.")
    group = found.properties.get("PGROUP", "its group")
    topic = found.properties.get("REAL_TOPIC", "its topic")
    return Plan([
        f"A producer of {group} is asked again how the transaction of this message for topic "
        f"{topic} ended."
    ])  # fmt: skip


def _check(cluster: Cluster, values: Mapping[str, Any]) -> str:
    found = find(cluster, values["id"])
    fields = {"msgId": values["id"], "topic": found.stored.topic}
    address = cluster.address_of(found.broker_name)
    cluster.call(address, RequestCode.RESUME_CHECK_HALF_MESSAGE, fields)
    return f"The half message {values['id']} is checked again."


CHECK = Change(
    "/later/check", "Check a transaction again", "Check it",
    (Field("id", "Offset id of the half message", text),),
    plan=_plan, carry_out=_check, back=lambda _: "/later",
)  # fmt: skip

ROUTES = {"/later": later}
CHANGES = (CHECK,)
