"""`rmq group member`: what members of a group say about themselves, asked through their broker.

The answer comes from a client, which may be of any kind: values of unexpected types are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any

import click

from rmq.cli.options import namesrv_option
from rmq.cli.output import Output, output_option
from rmq.cli.table import Column, columns, moment, records
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.partial import Missing, require_all
from rmq.format.fastjson import MessageQueue
from rmq.operations.texts import printable, time_text
from rmq.operations.times import moment_members

QUEUES = (*columns("TOPIC", "BROKER", "QUEUE", "AT", "HELD"), moment("LAST PULLED"),
          moment("LAST CONSUMED"))  # fmt: skip
TOPICS = (
    Column("TOPIC"), Column("PULL MS"), Column("PULLED/S", "pulled_per_second"),
    Column("CONSUME MS"), Column("CONSUMED/S", "consumed_per_second"),
    Column("FAILED/S", "failed_per_second"), Column("FAILED IN AN HOUR"),
)  # fmt: skip
OF_QUEUE = ("commitOffset", "cachedMsgCount", "lastPullTimestamp", "lastConsumeTimestamp")
OF_TOPIC = ("pullRT", "pullTPS", "consumeRT", "consumeOKTPS", "consumeFailedTPS",
            "consumeFailedMsgs")  # fmt: skip
STARTED = "PROP_CONSUMER_START_TIMESTAMP"


@click.command()
@click.argument("name")
@click.argument("client_id", metavar="[CLIENT]", required=False)
@namesrv_option
@output_option
def member(name: str, client_id: str | None, namesrv: str, output: Output) -> None:
    """Show what the members of a group are doing, as they report it.

    CLIENT is the id of one member, as `rmq group describe` shows it; without it, all are asked. AT
    is the member's offset in each of its queues, HELD the number of messages that it has pulled and
    not consumed yet. Times and rates are those of the last minutes. Clients of RocketMQ 5 that
    connect through a proxy do not answer. Exit code 3 if a broker does not answer: members that are
    connected to it alone are missing.
    """
    missing: Missing = {}
    with Cluster(namesrv) as cluster:
        if client_id is not None:
            told = [(client_id, admin.running_info(cluster, name, client_id))]
        else:
            online = admin.online_members(cluster, name, missing)
            if not online and not missing:
                admin.require_groups(cluster, name)
            ids = [str(each.get("clientId")) for each in online]
            told = [(each, admin.running_info(cluster, name, each, missing)) for each in ids]
    if output.is_data:
        output.value([_members(name, each, info) for each, info in told])
        require_all(missing)
        return
    for each, info in told:
        started = time_text(_started_ms(info)) or "at an unknown time"
        click.echo(printable(f"member {each}, started {started}"))
        output.rows(QUEUES, _queues(info))
        output.rows(TOPICS, _topics(info))
    if not told:
        click.echo("no member is online")
    require_all(missing)


def _members(name: str, client_id: str, info: Mapping[str, Any]) -> dict[str, Any]:
    properties = {str(key): str(value) for key, value in _table(info, "properties").items()}
    return {
        "group": name,
        "client_id": client_id,
        **moment_members("started", _started_ms(info)),
        "queues": records(QUEUES, _queues(info)),
        "topics": records(TOPICS, _topics(info)),
        "properties": properties,
    }


def _started_ms(info: Mapping[str, Any]) -> int:
    """When the member started, in ms since 1970; 0: it does not say."""
    started = str(_table(info, "properties").get(STARTED, ""))
    return int(started) if started.isdecimal() and len(started) < 16 else 0


def _table(info: Mapping[str, Any], name: str) -> Mapping[Any, Any]:
    found = info.get(name)
    return found if isinstance(found, dict) else {}


def _queues(info: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    for queue, figures in _table(info, "mqTable").items():
        if isinstance(queue, MessageQueue) and isinstance(figures, dict):
            place = (queue.topic, queue.broker_name, queue.queue_id)
            yield (*place, *_numbers(figures, OF_QUEUE, int))


def _topics(info: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    for topic, figures in _table(info, "statusTable").items():
        if isinstance(figures, dict):
            yield (str(topic), *_numbers(figures, OF_TOPIC, int | float))


def _numbers(
    figures: Mapping[str, Any], names: tuple[str, ...], kind: type | UnionType
) -> Iterator[Any]:
    for name in names:
        value = figures.get(name)
        yield value if isinstance(value, kind) else None
