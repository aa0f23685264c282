"""`rmq group member`: what a member of a group says of itself, asked through its broker.

Names and numbers come from a client, whichever it is: what is of another shape is left out.
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
from rmq.format.fastjson import MessageQueue
from rmq.operations.texts import time_text
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
@click.argument("client_id", metavar="CLIENT")
@namesrv_option
@output_option
def member(name: str, client_id: str, namesrv: str, output: Output) -> None:
    """Show what a member of a group is doing, as it says itself.

    CLIENT is its id, which `rmq group describe` shows. AT is how far it is in each queue that it
    has, HELD what it has pulled and not consumed yet; times and rates are those of the last
    minutes. Clients of RocketMQ 5 that come by a proxy do not answer.
    """
    with Cluster(namesrv) as cluster:
        info = admin.running_info(cluster, name, client_id)
    properties = {str(key): str(value) for key, value in _table(info, "properties").items()}
    started = properties.get(STARTED, "")
    started_ms = int(started) if started.isdecimal() else 0
    queues, topics = list(_queues(_table(info, "mqTable"))), list(_topics(info))
    if output.is_data:
        output.value(
            {
                "group": name,
                "client_id": client_id,
                **moment_members("started", started_ms),
                "queues": records(QUEUES, queues),
                "topics": records(TOPICS, topics),
                "properties": properties,
            }
        )
        return
    output.rows(QUEUES, queues)
    output.rows(TOPICS, topics)
    click.echo(f"started {time_text(started_ms) or 'at a time that it does not say'}")


def _table(info: Mapping[str, Any], name: str) -> Mapping[Any, Any]:
    found = info.get(name)
    return found if isinstance(found, dict) else {}


def _queues(table: Mapping[Any, Any]) -> Iterator[tuple[Any, ...]]:
    for queue, figures in table.items():
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
