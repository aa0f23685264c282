"""Change: something that is changed by a form, in two steps: a description, and a confirmation.

    GET   /topic/delete?topic=t       the form; a form without questions skips to the next step
    POST  /topic/delete  topic=t      what is wrong with it, or what would happen, with a button
    POST  /topic/delete  pending=..   does it, and goes to the page that shows the result

A Change has in one place the fields it asks for, the description, and the function that does it:

    Change("/topic/delete", "Delete a topic", fields, plan=.., carry_out=.., back=..)

plan and carry_out run in a thread with a Cluster (brokers.py). An RmqError that they raise is shown
in the form. Only Changes change anything in the console: the gate knows the paths of all changes,
and refuses them when the console was started with --read-only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from rmq.client.blocking.cluster import Cluster
from rmq.console import journal
from rmq.console.console import console_of
from rmq.console.errors import explained
from rmq.console.forms import Field, Form, filled, read
from rmq.console.page import page, refusal_page
from rmq.errors import RmqError

Values = Mapping[str, Any]


class Plan(msgspec.Struct):
    """What would happen: sentences, warnings first, and perhaps a table."""

    lines: list[str]
    warnings: list[str] = []
    columns: tuple[str, ...] = ()
    rows: Sequence[Sequence[Any]] = ()


class Change(msgspec.Struct, frozen=True):
    path: str
    title: str
    verb: str  # on the button that does it
    fields: tuple[Field, ...]
    plan: Callable[[Cluster, Values], Plan]
    carry_out: Callable[[Cluster, Values], str]  # does it; returns what was done, in a sentence
    back: Callable[[Values], str]  # the page that shows the result
    # The values that the form shows at first, from the parameters it was opened with.
    prefill: Callable[[Cluster, Mapping[str, str]], Mapping[str, str]] | None = None
    check: Callable[[Values], dict[str, str]] | None = None  # faults of several fields together
    is_grave: bool = False  # the change removes something

    @property
    def has_questions(self) -> bool:
        return any(each.kind != "hidden" for each in self.fields)

    def route(self) -> Route:
        async def endpoint(request: Request) -> Response:
            return await respond(self, request)

        return Route(self.path, endpoint, methods=["GET", "POST"])


async def respond(change: Change, request: Request) -> Response:
    if request.method == "POST":
        given: Mapping[str, Sequence[str]] = request.state.form
        if "pending" in given:
            return await _carry_out(change, request, given["pending"][-1])
        return await _plan(change, request, given)
    opened = {name: request.query_params.getlist(name) for name in request.query_params}
    if not change.has_questions:
        return await _plan(change, request, opened)
    if change.prefill is not None:
        first = dict(request.query_params)
        known = await console_of(request).ask_now(request, change.prefill, first)
        opened = {**{name: [text] for name, text in known.items()}, **opened}
    return _form(change, request, filled(change.fields, opened))


async def _plan(
    change: Change, request: Request, given: Mapping[str, Sequence[str]]
) -> Response:  # fmt: skip
    console, form = console_of(request), read(change.fields, given)
    if change.check is not None and not form.faults:
        form.faults.update(change.check(form.values))
    if form.faults and not change.has_questions:
        return refusal_page(request, 400, "; ".join(form.faults.values()))
    if form.faults:
        return _form(change, request, form, status=422)
    try:
        plan = await console.ask_now(request, change.plan, form.values)
    except RmqError as error:
        if not change.has_questions:
            raise
        return _form(change, request, form, status=422, fault=explained(error).text)
    pending = console.pending.put(request.state.cookie, change.path, form.values)
    return page(
        request, "confirm.html", change=change, plan=plan, pending=pending,
        back=change.back(form.values),
    )  # fmt: skip


def _form(
    change: Change, request: Request, form: Form, status: int = 200, fault: str = ""
) -> Response:
    return page(request, "form.html", status, change=change, form=form, fault=fault)


async def _carry_out(change: Change, request: Request, number: str) -> Response:
    console, cookie = console_of(request), request.state.cookie
    values = console.pending.take(cookie, change.path, number)
    if values is None:
        return refusal_page(
            request, 409, "This was done already, or nobody said yes for ten minutes: begin anew."
        )
    try:
        done = await console.do(request, change.carry_out, values)
    except RmqError as error:
        journal.failed(request, change.path, error)
        raise
    journal.did(request, done)
    console.note(cookie, done)
    return RedirectResponse(change.back(values), 303)
