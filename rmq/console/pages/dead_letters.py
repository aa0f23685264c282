"""Dead letters: messages that groups gave up: counted, searched, sent again, exported.

The brokers keep how far dead letters were sent again, and `rmq dlq` uses the same offsets.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from rmq.base import clock
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.partial import Missing
from rmq.client.blocking.tail import ReceivedMessage, Start
from rmq.console.change import Change, Plan
from rmq.console.console import console_of
from rmq.console.forms import Field, group_name, place, text, topic_name, whole
from rmq.console.forms import read as read_form
from rmq.console.page import page, url
from rmq.console.pages.messages import Row, look_end, offsets_in, offsets_text, row_of
from rmq.console.paging import Paging
from rmq.errors import RmqError, UnreachableError
from rmq.operations.client_keywords import client_keywords
from rmq.operations.dead_letters import (
    ORIGIN,
    Chosen,
    GroupLetters,
    Place,
    Sending,
    Words,
    check_sending,
    group_letters,
    groups_with_letters,
    letters,
    origin_of,
    places_of,
    topic_of,
)
from rmq.operations.json_lines import members
from rmq.operations.message_pages import Browsed, Filter, from_offsets
from rmq.operations.texts import counted

SHOWN, SHOWN_MAX = 50, 500
RESEND_MAX = 1000  # at a time
PART_BYTES = 1 << 20  # about as much of an export is in memory at a time

SEARCH = (
    Field("group", "Group", group_name, "hidden"),
    Field("from", "From", place, is_required=False,
          help="first, an offset, -N for the last N of each queue, or a time. Nothing: those that "
               "were not sent again."),
    Field("key", "Key", text, is_required=False),
    Field("id", "Unique id", text, is_required=False),
    Field("count", "At most", whole(1, SHOWN_MAX), "number", default=str(SHOWN)),
)  # fmt: skip


WORDS = Words("choose the topic below", "choose where each came from", "choose others in the list")


class Letter(msgspec.Struct):
    row: Row
    origin: str | None
    id: str


def group_rows(
    cluster: Cluster, groups: tuple[str, ...], missing: Missing
) -> list[GroupLetters]:  # fmt: skip
    return [group_letters(cluster, group, missing) for group in groups]


def search(
    cluster: Cluster, group: str, start: Start | None, key: str | None, id_: str | None, count: int,
    after: str | None, missing: Missing,
) -> Browsed:  # fmt: skip
    """Dead letters from `start` on. Without a start it begins at the first that was not sent again,
    or, if a key or an id is given, at the first of all. after: where an answer before this one
    ended."""
    if start is None and (key is not None or id_ is not None):
        start = Start("first")
    until, topic = look_end(), topic_of(cluster, group)
    ranges = admin.topic_queues(cluster, topic, missing)
    if after is not None:
        begins = offsets_in(ranges, after)
    else:
        places = places_of(cluster, topic, start, missing)
        begins = {each.queue: each.begin for each in places}
    return from_offsets(cluster, ranges, begins, count, Filter(key=key, unique=id_), until)


async def dead_letters(request: Request) -> Response:
    console = console_of(request)
    paging = Paging.of(request, await console.ask(request, groups_with_letters))
    missing: Missing = {}
    paging.rows = await console.ask_some(request, missing, group_rows, tuple(paging.rows))
    return page(request, "dead_letters.html", paging=paging, missing=missing)


async def of_group(request: Request) -> Response:
    console, asked = console_of(request), request.query_params
    form = read_form(SEARCH, {"count": [str(SHOWN)], **{n: asked.getlist(n) for n in asked}})
    found = Browsed([])
    missing: Missing = {}
    if not form.faults:
        values = form.values
        found = await console.ask_some(
            request, missing, search, values["group"], values["from"], values["key"], values["id"],
            values["count"], asked.get("after"),
        )  # fmt: skip
    rows = [
        Letter(row_of(each), origin_of(each), each.properties.get("UNIQ_KEY", ""))
        for each in found.messages
    ]
    return page(
        request, "dead_letter_group.html", 422 if form.faults else 200, fields=SEARCH, form=form,
        group=form.texts["group"], letters=rows, missing=missing,
        after=offsets_text(found.following) if found.following else "",
    )  # fmt: skip


class Export:
    """Dead letters as JSON lines, a part at a time: all of them may not fit into memory, and a part
    may hold one of the console's threads for LOOK_S only."""

    def __init__(self, group: str, start: Start, chosen: Chosen) -> None:
        self._group, self._start, self._chosen = group, start, chosen
        self._places: list[Place] | None = None  # places left to read; None: not begun yet

    @property
    def is_over(self) -> bool:
        return self._places == []

    def part(self, cluster: Cluster) -> bytes:
        """The next lines; perhaps none were found."""
        until = look_end()
        if self._places is None:
            self._places = places_of(cluster, topic_of(cluster, self._group), self._start)
        lines = bytearray()
        while self._places:
            for each in letters(cluster, self._places[:1], Chosen()):
                if self._chosen.takes(each):
                    lines += _line(each)
                if len(lines) >= PART_BYTES or clock.monotonic() >= until:
                    following = each.stored.queue_offset + 1
                    self._places[0] = replace(self._places[0], begin=following)
                    return bytes(lines)
            del self._places[0]
        return bytes(lines)


async def export(request: Request) -> Response:
    """JSON lines, as `rmq send --json-lines` takes them. When an error comes after the first part,
    the download breaks off. When brokers do not answer, the page of the group's letters says so."""
    console, asked = console_of(request), request.query_params
    form = read_form(SEARCH[:4], {name: asked.getlist(name) for name in asked})
    if form.faults:
        raise RmqError("; ".join(form.faults.values()))
    values = form.values
    start = values["from"] or Start("first")
    ids = (values["id"],) if values["id"] is not None else ()
    exported = Export(values["group"], start, Chosen(values["key"], ids))
    try:
        first = await console.ask_now(request, exported.part)  # a refusal here still gives a page
    except UnreachableError:
        return RedirectResponse(url("/dead-letters/group", **asked), 303)

    async def parts() -> AsyncIterator[bytes]:
        yield first
        while not exported.is_over:
            yield await console.ask_now(request, exported.part)

    headers = {"Content-Disposition": 'attachment; filename="dead-letters.jsonl"'}
    return StreamingResponse(parts(), headers=headers, media_type="application/x-ndjson")


def _line(message: ReceivedMessage) -> bytes:
    return msgspec.json.encode({**members(message), "origin_topic": origin_of(message)}) + b"\n"


# ---- sent again


def _places(cluster: Cluster, values: Mapping[str, Any]) -> list[Place]:
    start = Start("first") if values["id"] else None
    return places_of(cluster, topic_of(cluster, values["group"]), start)


def _chosen(values: Mapping[str, Any]) -> Chosen:
    return Chosen(None, values["id"] or (), RESEND_MAX)


def _plan(cluster: Cluster, values: Mapping[str, Any]) -> Plan:
    target = _target(values)
    if target not in (None, ORIGIN):
        cluster.route(target)  # raises RmqError when the topic does not exist
    places, group = _places(cluster, values), values["group"]
    total = check_sending(cluster, places, _chosen(values), group, target, WORDS)
    if not total:
        raise RmqError("All dead letters of this group were sent again already.")
    where = "where each came from, for all groups that read it"
    if target is None:
        where = f"group {group} alone"
    elif target != ORIGIN:
        where = f"topic {target}"
    lines = [f"{counted(total, 'dead letter')} of {group} go to {where}.",
             "They stay among the dead letters until they expire."]  # fmt: skip
    if not values["id"]:
        lines.insert(1, "It is noted that they were sent again.")
        if left := _left(cluster, group, total, total):
            lines.insert(1, f"{left}: as many as {RESEND_MAX:,} go out at a time.")
    return Plan(lines)


def _left(cluster: Cluster, group: str, count: int, waiting: int) -> str:
    """How many were not sent again, but for `waiting` of them; empty where all went at a time."""
    left = group_letters(cluster, group).waiting - waiting if count >= RESEND_MAX else 0
    return "" if left <= 0 else "1 is left" if left == 1 else f"{left:,} are left"


def _target(values: Mapping[str, Any]) -> str | None:
    return {"group": None, "origin": ORIGIN}.get(values["to"], values["topic"])


def _resend(cluster: Cluster, values: Mapping[str, Any]) -> str:
    group, target, places = values["group"], _target(values), _places(cluster, values)
    total = check_sending(cluster, places, _chosen(values), group, target, WORDS)
    keywords = client_keywords(cluster.asker)
    keywords["namesrv_addr"] = ";".join(cluster.name_servers)
    sending = Sending(cluster, keywords, group, target, notes=not values["id"], words=WORDS)
    try:
        sending.run(places, _chosen(values))
    except RmqError as error:
        before = f"{counted(sending.count, 'dead letter')} of {total} went out before"
        raise RmqError(f"{before}: {error}") from error
    done = f"{counted(sending.count, 'dead letter')} of {group} went out again."
    left = "" if values["id"] else _left(cluster, group, sending.count, 0)
    return f"{done} {left}: send all again to go on." if left else done


def _check(values: Mapping[str, Any]) -> dict[str, str]:
    needs = values["to"] == "topic" and values["topic"] is None
    return {"topic": "it is needed"} if needs else {}


def _destinations(value: str) -> str:
    if value not in ("group", "origin", "topic"):
        raise ValueError("group, origin or topic")
    return value


RESEND = Change(
    "/dead-letters/resend", "Send dead letters again", "Send them",
    (
        Field("group", "Group", group_name, "hidden"),
        Field("id", "Unique ids", text, "hidden", is_required=False, is_list=True),
        Field("to", "To", _destinations, "select", default="group",
              choices=(("group", "the group alone, by its retry topic"),
                       ("origin", "where each came from, for all groups"),
                       ("topic", "the topic below"))),
        Field("topic", "Topic", topic_name, is_required=False),
    ),
    plan=_plan, carry_out=_resend, check=_check,
    back=lambda values: url("/dead-letters/group", group=values["group"]),
)  # fmt: skip

ROUTES = {"/dead-letters": dead_letters, "/dead-letters/group": of_group,
          "/dead-letters/export": export}  # fmt: skip
CHANGES = (RESEND,)
