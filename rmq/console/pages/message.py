"""Message: one message with its properties, body and trace, and which groups have passed it.

/message?topic=t&broker=b&queue=0&offset=17         by its place
/message?id=7F00..61                                by its offset id
/message?topic=t&id=AC11..00                        by the unique id of its sender's client
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.reads import read
from rmq.client.blocking.tail import ReceivedMessage
from rmq.client.blocking.trace import Traced, traces_of
from rmq.codes import ResponseCode
from rmq.console.body_view import KINDS, body_view, whole_body
from rmq.console.change import Change, Plan
from rmq.console.console import console_of
from rmq.console.forms import Field, group_name, text
from rmq.console.page import page, url
from rmq.console.section import section
from rmq.console.trace_picture import BAR, NAMES, TracePicture
from rmq.errors import RemoteError, UnreachableError
from rmq.format.fastjson import MessageQueue
from rmq.names import TRACE_TOPIC
from rmq.operations.message_facts import consume_directly, facts, find, tracks
from rmq.operations.texts import counted
from rmq.operations.trace_rows import COLUMNS, trace_row

NUMBER = re.compile("[0-9]{1,18}")
PLACE = ("topic", "id", "broker", "queue", "offset")  # parameters that name a message


def message_at(
    cluster: Cluster, topic: str, broker: str, queue_id: int, offset: int
) -> ReceivedMessage:
    """The message at this place. RemoteError: there is none."""
    found = read(cluster, MessageQueue(topic, broker, queue_id), offset, count=1)
    for message in found.messages:
        if message.stored.queue_offset == offset:
            return message
    text_ = f"{broker}, queue {queue_id} of {topic} has no message {offset}: perhaps it expired"
    raise RemoteError(ResponseCode.QUERY_NOT_FOUND, text_)


def traces(cluster: Cluster, ids: tuple[str, ...]) -> list[Traced]:
    """The traces of the first of these ids that has any."""
    for each in ids:
        if found := traces_of(cluster, each):
            return found
    return []


def progress(cluster: Cluster, message: ReceivedMessage) -> list[tuple[str, str]]:
    return list(tracks(cluster, message))


async def _asked(request: Request) -> ReceivedMessage:
    console, asked = console_of(request), request.query_params
    topic = asked.get("topic") or None
    if "id" in asked:
        return await console.ask(request, find, asked["id"].strip(), topic)
    queue_id, offset = asked.get("queue", ""), asked.get("offset", "")
    if topic is None or not NUMBER.fullmatch(queue_id) or not NUMBER.fullmatch(offset):
        raise RemoteError(
            ResponseCode.QUERY_NOT_FOUND,
            "A message is named by its id, or by topic, broker, queue and offset.",
        )
    return await console.ask(
        request, message_at, topic, asked.get("broker", ""), int(queue_id), int(offset)
    )


async def message(request: Request) -> Response:
    console, found = console_of(request), await _asked(request)
    ids = tuple(filter(None, (found.properties.get("UNIQ_KEY"), found.stored.message_id)))
    seen = await section(console.ask(request, traces, ids))
    groups = await section(console.ask_now(request, progress, found))
    picture = (
        TracePicture(seen.value, found.broker_name, found.stored.store_timestamp_ms)
        if seen.value else None
    )  # fmt: skip
    return page(
        request, "message.html", message=found, facts=list(facts(found)), seen=seen, groups=groups,
        view=body_view(found, request.query_params.get("view", "")), kinds=KINDS, columns=COLUMNS,
        trace_row=trace_row, trace_topic=TRACE_TOPIC, picture=picture, names=NAMES, bar=BAR,
        place={name: request.query_params.get(name) for name in PLACE},
    )  # fmt: skip


async def body(request: Request) -> Response:
    """The whole body as a file, with headers that keep a browser from showing it as a page. When
    brokers do not answer, the message's page says so: a file cannot look again by itself."""
    try:
        found = await _asked(request)
    except UnreachableError:
        return RedirectResponse(url("/message", **request.query_params), 303)
    name = f"{found.stored.queue_id}-{found.stored.queue_offset}.bin"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(whole_body(found)[0], headers=headers, media_type="application/octet-stream")


# ---- a member consumes it now


def _plan(cluster: Cluster, values: Mapping[str, Any]) -> Plan:
    found = find(cluster, values["id"])
    size = counted(len(found.body), "byte")
    return Plan([
        f"A member of group {values['group']} that is online consumes this message of topic "
        f"{found.stored.topic} now ({size}), again if it had it before.",
        "Offsets stay as they are.",
    ])  # fmt: skip


def _consume(cluster: Cluster, values: Mapping[str, Any]) -> str:
    said = consume_directly(cluster, find(cluster, values["id"]), values["group"])
    remark = f": {said.remark}" if said.remark else ""
    return f"{said.client}: {said.result} after {said.took_ms} ms{remark}"


CONSUME = Change(
    "/message/consume", "Have a member consume it", "Consume it",
    (Field("id", "Offset id", text, "hidden"), Field("group", "Group", group_name)),
    plan=_plan, carry_out=_consume, back=lambda values: url("/message", id=values["id"]),
)  # fmt: skip

ROUTES = {"/message": message, "/message/body": body}
CHANGES = (CONSUME,)
