"""Audit: who asked brokers and name servers for what, from where, and whether it was allowed.

    /audit                                          the newest lines
    /audit?user=alice&verdict=refused&text=orders   the lines that match
    /audit?until=1764213600123                      the lines before a time

Only Super users may see it. Brokers without such a log, like RocketMQ's, answer that they have
none, and the page says so.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from rmq.console.console import console_of
from rmq.console.errors import explained
from rmq.console.forms import Field, Form, chosen, read, text
from rmq.console.page import page
from rmq.console.paging import Paging
from rmq.errors import RemoteError
from rmq.format.audit_log import LINES_MAX, TEXT_MAX, VERDICTS, AuditQuery
from rmq.operations.askers import is_unknown_asker
from rmq.operations.audit_log import AuditLog, audit_log
from rmq.operations.times import moment_ms


def part(value: str) -> str:
    if len(value) > TEXT_MAX:
        raise ValueError(f"at most {TEXT_MAX} characters")
    return text(value)


def moment(value: str) -> int:
    return max(moment_ms(value), 0)


FIELDS = (
    Field("user", "User", part, is_required=False, help="The whole name."),
    Field("verdict", "Verdict", chosen(*VERDICTS), "select", is_required=False,
          choices=(("", "any"), *((each, each) for each in VERDICTS))),
    Field("text", "Text", part, is_required=False,
          help="Somewhere in the line: a topic, an address, a request's name or code."),
    Field("since", "From", moment, is_required=False, help="2025-06-01T08:30, -1h"),
    Field("until", "Until", moment, is_required=False),
)  # fmt: skip


async def audit(request: Request) -> Response:
    asked = request.query_params
    form = read(FIELDS, {name: asked.getlist(name) for name in asked})
    if form.faults:
        return _shown(request, form, AuditLog([]), status=422)
    values = form.values
    query = AuditQuery(
        LINES_MAX, values["since"] or 0, values["until"], values["user"] or "",
        values["verdict"] or "", values["text"] or "",
    )  # fmt: skip
    try:
        found = await console_of(request).ask(request, audit_log, query)
    except RemoteError as error:
        if is_unknown_asker(error):
            raise
        return _shown(request, form, AuditLog([], problems=[explained(error).text]))
    return _shown(request, form, found)


def _shown(request: Request, form: Form, found: AuditLog, status: int = 200) -> Response:
    return page(
        request, "audit.html", status, fields=FIELDS, form=form, found=found,
        paging=Paging.of(request, found.lines),
    )  # fmt: skip


ROUTES = {"/audit": audit}
CHANGES = ()
