"""`rmq message show | direct`: one message with all there is to it, and handed to a consumer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from rmq.cli.json_lines import members
from rmq.cli.options import json_option, namesrv_option
from rmq.cli.output import printable, show_json, show_rows, time_text
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.lookup import UNIQUE, by_id, by_key
from rmq.client.blocking.tail import ReceivedMessage
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RemoteError
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue

HEX_BYTES_MAX = 512
DIRECT_TIMEOUT_S = 15.0  # a broker waits for its consumer for ten seconds


def find(cluster: Cluster, message_id: str, topic: str | None) -> ReceivedMessage:
    """By its offset id, or with its topic by its unique id; RemoteError: there is none."""
    if topic is None:
        return by_id(cluster, message_id)
    found = by_key(cluster, topic, message_id, UNIQUE)
    if not found:
        text = f"topic {topic} has no message with the unique id {message_id}"
        raise RemoteError(ResponseCode.QUERY_NOT_FOUND, text)
    return found[-1]


@click.command()
@click.argument("message_id", metavar="ID")
@click.argument("topic", required=False)
@namesrv_option
@json_option
def show(message_id: str, topic: str | None, namesrv: str, as_json: bool) -> None:
    """Show a message with all there is to it, and which groups have passed it.

    A group has passed what it consumed, sent back for a later try, or filtered out.
    ID is the offset message id, or with TOPIC the unique id that the sender's client made.
    """
    with Cluster(namesrv) as cluster:
        found = find(cluster, message_id, topic)
        tracks = list(_tracks(cluster, found))
    if as_json:
        show_json({**members(found), "topic": found.stored.topic,
                   "groups": dict(tracks)})  # fmt: skip
        return
    for name, value in _facts(found):
        click.echo(f"{name:<18}{printable(str(value))}")
    for name, value in sorted(found.properties.items()):
        click.echo(f"  {printable(name):<16}{printable(value)}")
    click.echo()
    _show_body(found)
    if tracks:
        click.echo()
        show_rows(("GROUP", "THIS MESSAGE"), tracks, False)


def _facts(found: ReceivedMessage) -> Iterator[tuple[str, object]]:
    stored = found.stored
    yield "topic", stored.topic
    yield "place", f"{found.broker_name}, queue {stored.queue_id}, offset {stored.queue_offset}"
    yield "unique id", found.properties.get("UNIQ_KEY", "-")
    yield "offset id", stored.message_id
    yield "sent", f"{time_text(stored.born_timestamp_ms)} from {stored.born_host}"
    yield "stored", f"{time_text(stored.store_timestamp_ms)} at {stored.store_host}"
    yield "came again", f"{stored.reconsume_times} times"
    yield "flags", f"{stored.flag}, system {stored.sys_flag}"
    packed = f", packed by {found.packing}" if found.packing is not None else ""
    yield "body", f"{len(found.body)} bytes{packed}"
    yield "properties", len(found.properties)


def _show_body(found: ReceivedMessage) -> None:
    try:
        if found.packing is not None:
            raise UnicodeDecodeError("utf-8", b"", 0, 1, "packed")
        click.echo(printable(found.body.decode(), kept="\n\t"))
    except UnicodeDecodeError:
        for at in range(0, min(len(found.body), HEX_BYTES_MAX), 16):
            line = found.body[at : at + 16]
            text = "".join(chr(each) if 32 <= each < 127 else "." for each in line)
            click.echo(f"{at:06x}  {line.hex(' '):<48} {text}")
        if len(found.body) > HEX_BYTES_MAX:
            more = len(found.body) - HEX_BYTES_MAX
            click.echo(f"... and {more} bytes more: rmq consume --format %v")


def _tracks(cluster: Cluster, found: ReceivedMessage) -> Iterator[tuple[str, str]]:
    """Each group that reads the topic: passed, not yet, or unknown."""
    stored = found.stored
    queue = MessageQueue(stored.topic, found.broker_name, stored.queue_id)
    groups: set[str] = set()
    for broker in cluster.masters():
        assert broker.master is not None
        reply = cluster.ask(
            broker.master, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": stored.topic}
        )
        if reply.code == ResponseCode.SUCCESS:
            groups.update(map(str, fastjson.loads_object(reply.body).get("groupList") or []))
    for group in sorted(groups):
        offset = admin.committed_offset(cluster, group, queue)
        state = "unknown" if offset is None else (
            "passed" if offset > stored.queue_offset else "not yet")  # fmt: skip
        yield group, state


@click.command()
@click.argument("message_id", metavar="ID")
@click.argument("group")
@click.option("--topic", help="Of the message, where ID is its unique id.")
@click.option("--client", help="The member that gets it; default: any that is online.")
@namesrv_option
@json_option
def direct(
    message_id: str,
    group: str,
    topic: str | None,
    client: str | None,
    namesrv: str,
    as_json: bool,
) -> None:
    """Have a member of a group consume one message now, and say what came of it.

    Its offsets stay as they are. Exits with 1 unless it was consumed.
    """
    with Cluster(namesrv) as cluster:
        found = find(cluster, message_id, topic)
        member = client or _member(cluster, group)
        stored = found.stored
        fields = {
            "consumerGroup": group, "clientId": member, "topic": stored.topic,
            "brokerName": found.broker_name,
            "msgId": stored.message_id,
        }  # fmt: skip
        reply = cluster.call(
            cluster.address_of(found.broker_name), RequestCode.CONSUME_MESSAGE_DIRECTLY, fields,
            timeout_s=DIRECT_TIMEOUT_S,
        )  # fmt: skip
    result: dict[str, Any] = fastjson.loads_object(reply.body)
    said = str(result.get("consumeResult"))
    if as_json:
        show_json({"client": member, "result": said, "remark": result.get("remark"),
                   "ms": result.get("spentTimeMills")})  # fmt: skip
    else:
        remark = printable(f": {result['remark']}") if result.get("remark") else ""
        click.echo(f"{member}: {said} after {result.get('spentTimeMills')} ms{remark}")
    if said not in ("CR_SUCCESS", "CR_COMMIT"):
        sys.exit(1)


def _member(cluster: Cluster, group: str) -> str:
    online = (admin.group_members(cluster, group) or {}).get("connectionSet") or []
    ids = sorted(str(row.get("clientId")) for row in online)
    if not ids:
        raise RemoteError(
            ResponseCode.CONSUMER_NOT_ONLINE, f"no member of group {group} is online: start one"
        )
    return ids[0]
