"""Page: makes answers from templates, and formats the numbers in them.

    page(request, "topics.html", rows=rows)         an HTML answer
    url("/topic", topic="a&b")                      "/topic?topic=a%26b"

Every value in a template is escaped (autoescape), wherever it comes from; a page has no script or
style of its own (gate.py). It is an error when a template uses a name that it was not given.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from rmq import __version__
from rmq.operations.texts import counted, printable, span, time_text

HERE = Path(__file__).parent
NOTHING = "–"
EVERY_S = 2  # how often a live part of a page is drawn anew
BYTES_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

# Path, title, and the prefixes of other paths that belong to the section.
SECTIONS = (
    ("/", "Overview", ()),
    ("/brokers", "Brokers", ("/broker",)),
    ("/topics", "Topics", ("/topic",)),
    ("/messages", "Messages", ("/message",)),
    ("/groups", "Groups", ("/group", "/client")),
    ("/dead-letters", "Dead letters", ("/dead-letters",)),
    ("/later", "Delayed and pending", ("/later",)),
    ("/accounts", "Accounts", ("/account", "/acl")),
    ("/audit", "Audit log", ()),
    ("/config", "Settings", ("/config",)),
)


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    console = request.state.console
    cookie = request.state.cookie
    text = _environment().get_template(template).render(
        request=request,
        settings=console.settings,
        session=request.state.session,
        csrf=console.sessions.token(cookie),
        # When only a part of a page is drawn anew the note is kept: the browser would not show it.
        note="" if request.headers.get("hx-request") else console.take_note(cookie),
        is_live=request.query_params.get("live") != "off",
        may_change=not console.settings.read_only,
        **values,
    )  # fmt: skip
    return HTMLResponse(text, status)


def refusal_page(
    request: Request, status: int, text: str, remedy: str = "", *, is_lost: bool = False,
    may_pass: bool = False,
) -> Response:  # fmt: skip
    """The page that refuses a request, and says why. is_lost: brokers do not answer. may_pass: the
    answer may be another one soon; a page then looks again by itself, at its own URL, until all of
    it can be shown. So does a page that draws itself anew, whatever is in its way. The result of a
    change is at no URL."""
    is_page = request.method == "GET"
    looks_again = is_page and (may_pass or "hx-request" in request.headers)
    if is_lost and not is_page:
        remedy = "It may have been done, or a part of it: look before you do it again."
    return page(
        request, "refusal.html", status, text=text, remedy=remedy, is_lost=is_lost,
        looks_again=looks_again,
    )  # fmt: skip


def url(path: str, **parameters: Any) -> str:
    """A URL with those parameters that are neither None nor empty."""
    kept = {name: value for name, value in parameters.items() if value not in (None, "")}
    return f"{path}?{urlencode(kept)}" if kept else path


def here(request: Request) -> str:
    """The URL of this page, as it was asked for."""
    asked_for = request.scope["query_string"].decode("latin-1")
    return f"{request.scope['path']}?{asked_for}" if asked_for else request.scope["path"]


def this_page(request: Request, **changes: Any) -> str:
    """The URL of this page with other parameters; None takes one away."""
    return url(request.scope["path"], **{**request.query_params, **changes})


def is_section(request: Request, path: str, beginnings: tuple[str, ...]) -> bool:
    here: str = request.scope["path"]
    return here == path or any(here.startswith(each) for each in beginnings)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(
        url=url, here=here, this_page=this_page, is_section=is_section, sections=SECTIONS,
        version=__version__, counted=counted, every_s=EVERY_S,
    )  # fmt: skip
    made.filters.update(
        number=number, rate=rate, percent=percent, size=size, moment=moment, span=_span,
        printable=printable, yes=yes,
    )  # fmt: skip
    return made


def number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def rate(value: float | None) -> str:
    """A rate as text; one below 10 has one decimal."""
    if value is None:
        return NOTHING
    return f"{value:,.1f}" if 0 < value < 10 else f"{value:,.0f}"


def percent(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.0%}"


def size(value: float | None) -> str:
    """A number of bytes as text, in a unit that fits."""
    if value is None:
        return NOTHING
    amount, unit = float(value), BYTES_UNITS[0]
    for larger in BYTES_UNITS[1:]:
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:,.0f} {unit}" if unit == BYTES_UNITS[0] else f"{amount:,.1f} {unit}"


def moment(ms: int) -> str:
    return time_text(ms) or NOTHING


def yes(value: bool | None) -> str:
    return NOTHING if value is None else "yes" if value else "no"


def _span(seconds: float | None) -> str:
    return span(seconds) or NOTHING
