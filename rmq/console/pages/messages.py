"""Messages: those of a topic: the newest, from a place on, by key or id, and as they come.

    /messages?topic=t                           the newest of all queues
    /messages?topic=t&from=-1h&tag=paid         from a place on: an offset, a time, first, -N
    /messages?topic=t&from=-1h&after={..}       what follows on that, from an offset in each queue
    /messages?topic=t&key=order-7               by the brokers' index; unique=.. and id=.. too
    /messages?topic=t&key=order-7&from=first    by looking through all from that place on
    /messages/tail?topic=t                      as they come

For a tail the browser asks again and again for more, and says up to which offset it has seen each
queue; the console keeps nothing about it. If brokers do not answer, the row that asks again says
so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from rmq.base import clock
from rmq.client.blocking import admin
from rmq.client.blocking.admin import QueueRange
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.lookup import KEY, UNIQUE, by_key
from rmq.client.blocking.partial import Missing, lost
from rmq.client.blocking.reads import read
from rmq.client.blocking.tail import ReceivedMessage, Start
from rmq.codes import ResponseCode
from rmq.console.change import Change
from rmq.console.console import console_of
from rmq.console.errors import explained
from rmq.console.forms import Field, Form, filled, place, text, whole
from rmq.console.forms import read as read_form
from rmq.console.page import page, url
from rmq.errors import MessageError, ProtocolError, RemoteError, RmqError
from rmq.format.fastjson import MessageQueue
from rmq.operations.askers import is_unknown_asker
from rmq.operations.message_pages import Browsed, Filter, from_offsets, newest, onwards
from rmq.operations.texts import shown_line

LOOK_S = 3.0  # how long messages are searched for one page
COUNT, COUNT_MAX = 20, 200
INDEX_MAX = 64  # messages with a key that each broker is asked for
TAIL_QUEUES_MAX = 64
TAIL_ROWS_MAX = 1000
TAIL_COUNT = 32  # of a queue at a time

FIELDS = (
    Field("topic", "Topic", text, is_required=False,
          help="It is needed, unless an offset id is given."),
    Field("queue", "Queue", text, "select", is_required=False),
    Field("from", "From", place, is_required=False,
          help="first, an offset, -N for the last N of each queue, or a time: "
               "2025-06-01T08:30, -1h. Nothing: the newest."),
    Field("count", "Messages", whole(1, COUNT_MAX), "number", default=str(COUNT)),
    Field("tag", "Tag", text, is_required=False),
    Field("sql", "SQL92 filter", text, is_required=False, help="amount > 100 AND region = 'eu'"),
    Field("key", "Key", text, is_required=False),
    Field("unique", "Unique key", text, is_required=False,
          help="The id that the sender's client made."),
    Field("id", "Offset id", text, is_required=False,
          help="A broker's address and a place in its log."),
)  # fmt: skip


class Row(msgspec.Struct):
    """A message in a table."""

    link: str
    broker: str
    queue: int
    offset: int
    stored_ms: int
    tag: str
    keys: str
    line: str


def row_of(message: ReceivedMessage) -> Row:
    stored, properties = message.stored, message.properties
    link = url(
        "/message", topic=stored.topic, broker=message.broker_name, queue=stored.queue_id,
        offset=stored.queue_offset,
    )  # fmt: skip
    return Row(
        link, message.broker_name, stored.queue_id, stored.queue_offset, stored.store_timestamp_ms,
        properties.get("TAGS", ""), properties.get("KEYS", ""), shown_line(message),
    )  # fmt: skip


def queue_name(queue: MessageQueue) -> str:
    return f"{queue.broker_name}/{queue.queue_id}"


def ranges_of(
    cluster: Cluster, topic: str, queue: str | None = None, *, missing: Missing
) -> list[QueueRange]:
    """The ranges of all queues, or of one. RemoteError: there is no such topic or queue."""
    found = admin.topic_queues(cluster, topic, missing)
    if queue is None:
        return found
    chosen = [each for each in found if queue_name(each.queue) == queue]
    if not chosen and missing:
        raise lost(missing)
    if not chosen:
        raise RemoteError(ResponseCode.INVALID_PARAMETER, f"topic {topic} has no queue {queue}")
    return chosen


def look_end() -> float:
    """When a search that begins now has looked long enough."""
    return clock.monotonic() + LOOK_S


def browsed(
    cluster: Cluster, topic: str, queue: str | None, start: Start | None, count: int,
    wanted: Filter, after: str | None, *, missing: Missing,
) -> Browsed:  # fmt: skip
    ranges, until = ranges_of(cluster, topic, queue, missing=missing), look_end()
    if after is not None:
        begins = offsets_in(ranges, after)
        return from_offsets(cluster, ranges, begins, count, wanted, until)
    if start is None:
        return newest(cluster, ranges, count, wanted, until)
    return onwards(cluster, ranges, start, count, wanted, until)


def looked_up(
    cluster: Cluster, topic: str, queue: str | None, count: int, wanted: Filter, *,
    missing: Missing,
) -> Browsed:  # fmt: skip
    """The newest messages with a key or a unique key, by the brokers' index."""
    ranges_of(cluster, topic, queue, missing=missing)  # there is such a queue
    text_, kind = (wanted.unique, UNIQUE) if wanted.unique is not None else (wanted.key, KEY)
    assert text_ is not None
    found = by_key(cluster, topic, text_, kind, count=INDEX_MAX, missing=missing)
    kept = [
        each
        for each in reversed(found)
        if wanted.passes(each) and queue in (None, f"{each.broker_name}/{each.stored.queue_id}")
    ]
    return Browsed(kept[:count], is_cut=len(kept) > count or len(found) >= INDEX_MAX)


async def messages(request: Request) -> Response:
    console, asked = console_of(request), request.query_params
    if not asked:
        form = filled(FIELDS, {})
        return page(request, "messages.html", **_shown(form, [], None, ""))
    given = {"count": [str(COUNT)], **{name: asked.getlist(name) for name in asked}}
    form = read_form(FIELDS, given)
    if not form.faults:
        form.faults.update(_check(form.values))
    if form.faults:
        return page(request, "messages.html", 422, **_shown(form, [], None, ""))
    values = form.values
    if values["id"] is not None:
        return RedirectResponse(url("/message", id=values["id"]), 303)
    missing: Missing = {}
    queues = await console.ask_some(request, missing, ranges_of, values["topic"])
    try:
        found = await _found(request, missing, values)
    except RmqError as error:
        if not isinstance(error, RemoteError | ProtocolError | MessageError):
            raise
        return page(request, "messages.html", 422, **_shown(form, queues, None, str(error)))
    return page(request, "messages.html", **_shown(form, queues, found, "", missing))


async def _found(request: Request, missing: Missing, values: dict[str, Any]) -> Browsed:
    console, topic, count = console_of(request), values["topic"], values["count"]
    tags = (values["tag"],) if values["tag"] is not None else ()
    wanted = Filter(tags, values["sql"], values["key"], values["unique"])
    if values["from"] is None and (wanted.key is not None or wanted.unique is not None):
        return await console.ask_some(
            request, missing, looked_up, topic, values["queue"], count, wanted
        )
    return await console.ask_some(
        request, missing, browsed, topic, values["queue"], values["from"], count, wanted,
        request.query_params.get("after"),
    )  # fmt: skip


def _check(values: dict[str, Any]) -> dict[str, str]:
    """Faults of several fields together."""
    if values["topic"] is None and values["id"] is None:
        return {"topic": "it is needed"}
    if values["sql"] is None:
        return {}
    if values["tag"] is not None:
        return {"sql": "messages are filtered by a tag or by an expression, not by both"}
    if values["from"] is None and (values["key"] is not None or values["unique"] is not None):
        return {"sql": "what is found by its key is not filtered by an expression: say where to "
                       "begin (From), or leave one of the two out"}  # fmt: skip
    return {}


def _shown(
    form: Form, ranges: Sequence[QueueRange], found: Browsed | None, fault: str,
    missing: Missing | None = None,
) -> dict[str, Any]:  # fmt: skip
    names = [(queue_name(each.queue), each.max_offset - each.min_offset) for each in ranges]
    choices = [("", "all queues"), *((name, f"{name}, {held:,}") for name, held in names)]
    rows = [row_of(each) for each in found.messages] if found is not None else None
    return {
        "fields": FIELDS, "form": form, "choices": choices, "rows": rows, "found": found,
        "fault": fault, "topic": form.texts.get("topic", ""), "following": _following(form, found),
        "missing": missing or {},
    }  # fmt: skip


def _following(form: Form, found: Browsed | None) -> dict[str, Any] | None:
    """The parameters of the page with what follows; None: nothing does."""
    if found is None or not found.following:
        return None
    if form.texts["queue"]:
        [offset] = found.following.values()
        return {"from": offset, "after": None}
    return {"after": offsets_text(found.following)}


def offsets_text(offsets: Mapping[MessageQueue, int]) -> str:
    """For the link to what follows."""
    return _names_text({queue_name(queue): at for queue, at in offsets.items()})


def offsets_in(ranges: Sequence[QueueRange], said: str) -> dict[MessageQueue, int]:
    """The offsets in a text, of those queues that are there."""
    names = _names(said)
    there = {queue_name(each.queue): each.queue for each in ranges}
    return {queue: names[name] for name, queue in there.items() if name in names}


# ---- as they come


def ends(cluster: Cluster, topic: str, missing: Missing) -> dict[str, int]:
    """Where each queue ends; if there are many queues, only those with the newest messages."""
    queues = admin.topic_queues(cluster, topic, missing)
    found = sorted(queues, key=lambda each: -each.last_stored_ms)
    return {queue_name(each.queue): each.max_offset for each in found[:TAIL_QUEUES_MAX]}


def news(
    cluster: Cluster, topic: str, seen: dict[str, int], tag: str | None
) -> tuple[list[ReceivedMessage], dict[str, int], Missing]:
    """The messages after the offsets in `seen`, and the offsets after these messages. A queue that
    was not there before is shown from its end of now on."""
    missing: Missing = {}
    tags = (tag,) if tag is not None else ()
    after, found = dict(seen), []
    for each in admin.topic_queues(cluster, topic, missing):
        name = queue_name(each.queue)
        if name not in seen:
            if len(after) < TAIL_QUEUES_MAX:
                after[name] = each.max_offset
            continue
        begin = max(seen[name], each.min_offset)
        if begin < each.max_offset:
            part = read(cluster, each.queue, begin, count=TAIL_COUNT, tags=tags)
            found += part.messages
            after[name] = max(part.next_offset, begin)
    found.sort(key=lambda message: message.stored.store_timestamp_ms)
    return found, after, missing


async def tail(request: Request) -> Response:
    console, asked = console_of(request), request.query_params
    topic, tag = asked.get("topic", ""), asked.get("tag") or None
    if "seen" not in asked:
        seen = await console.ask_some(request, {}, ends, topic)
        return page(request, "tail.html", topic=topic, tag=tag, **_tail([], seen, 0))
    seen, shown = _names(asked["seen"]), asked.get("shown", "0")
    before = int(shown) if shown.isascii() and shown.isdigit() and len(shown) < 7 else 0
    try:
        found, after, missing = await console.ask_now(request, news, topic, seen, tag)
    except RmqError as error:
        if is_unknown_asker(error):
            raise
        said = explained(error)
        values = _tail([], seen, before, problem=said.text)
        return page(request, "tail_rows.html", said.status, topic=topic, tag=tag, **values)
    values = _tail(found, after, before, missing)
    return page(request, "tail_rows.html", topic=topic, tag=tag, **values)


def _tail(
    found: list[ReceivedMessage], seen: dict[str, int], before: int,
    missing: Missing | None = None, problem: str = "",
) -> dict[str, Any]:  # fmt: skip
    shown = before + len(found)
    return {
        "rows": [row_of(each) for each in found], "seen": _names_text(seen), "shown": shown,
        "is_over": shown >= TAIL_ROWS_MAX, "problem": problem,
        "missing": missing or {},
    }  # fmt: skip


def _names_text(offsets: dict[str, int]) -> str:
    return msgspec.json.encode(offsets).decode()


def _names(said: str) -> dict[str, int]:
    """Offsets by queue, as a page's own links have them."""
    try:
        found = msgspec.json.decode(said, type=dict[str, int])
    except msgspec.DecodeError:
        raise ProtocolError("up to where the messages were seen cannot be read") from None
    if len(found) > TAIL_QUEUES_MAX:
        raise ProtocolError(f"a page reads {TAIL_QUEUES_MAX} queues at most")
    return found


ROUTES = {"/messages": messages, "/messages/tail": tail}
CHANGES: tuple[Change, ...] = ()
