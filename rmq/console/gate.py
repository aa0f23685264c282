"""Gate: every request goes through here, before any page sees it.

    host        the name in Host must be one of this console's, so that no foreign name can be
                pointed at loopback
    session     the cookie, and who is logged in by it
    login       a browser that must log in first is sent to the login
    read-only   all requests that change something are refused, in this one place
    form        a POST must come from a page of this console (csrf.py), and must not be too large

The path is taken from the scope, as the router takes it. The path of request.url is not used: it is
built with the Host that a client sends, and once began inside that (CVE-2026-48710).

Every answer gets headers that keep shown data from being run: a page loads scripts and styles from
this console only, and a script that stands in the page itself is not run.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rmq.console import journal
from rmq.console.console import Console
from rmq.console.csrf import TOKEN_FIELD, origin_fault
from rmq.console.page import here, refusal_page
from rmq.console.sessions import is_cookie, new_cookie

BODY_BYTES_MAX = 1 << 20
FIELDS_MAX = 2000
SAFE_METHODS = ("GET", "HEAD")
LOGIN, LOGOUT, STATIC = "/login", "/logout", "/static/"
FORM_TYPE = "application/x-www-form-urlencoded"

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer browsers would send "Origin: null"
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Rmq-Console": "yes",  # for console.js: the answer is no proxy's
}


class Gate:
    def __init__(self, app: ASGIApp, console: Console) -> None:
        self._app = app
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        is_new = self._open(request)
        cookie: str = request.state.cookie

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                self._add_headers(headers, scope["path"])
                if is_new and "set-cookie" not in headers:
                    headers.append("Set-Cookie", self._console.cookie_line(cookie))
            await send(message)

        refusal = self._refusal(request)
        if refusal is None and request.method not in SAFE_METHODS:
            refusal = await self._form(request)
        await (refusal or self._app)(scope, receive, answer)

    def _open(self, request: Request) -> bool:
        """Sets the request's session. Returns whether the browser needs a new cookie."""
        console, state = self._console, request.state
        given = request.cookies.get(console.cookie_name, "")
        is_new = not is_cookie(given)
        state.console = console
        state.cookie = new_cookie() if is_new else given
        state.session = console.sessions.of(state.cookie)
        state.form = {}
        return is_new

    def _refusal(self, request: Request) -> Response | None:
        settings, path = self._console.settings, request.scope["path"]
        name = _host_name(request)
        if settings.hosts and name not in settings.hosts:
            return _refused(request, 421, f"This console has not the name {name[:100]}.")
        if path.startswith(STATIC):
            return None
        if path in (LOGIN, LOGOUT):
            return None
        if settings.needs_login and request.state.session is None:
            return login_first(request)
        is_change = request.method not in SAFE_METHODS or path in self._console.changes
        if settings.read_only and is_change:
            return _refused(
                request, 403, "This console was started with --read-only: it changes nothing."
            )
        return None

    async def _form(self, request: Request) -> Response | None:
        """Reads the form. Returns the refusal if there is one."""
        fault = origin_fault(request, self._console.settings.origin)
        if fault is not None:
            return _refused(request, 403, f"The request was refused: {fault}.")
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind != FORM_TYPE:
            return _refused(request, 415, f"A form is wanted, {FORM_TYPE}.")
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > BODY_BYTES_MAX:
                return _refused(request, 413, f"A form holds at most {BODY_BYTES_MAX >> 20} MiB.")
        try:
            pairs = parse_qsl(
                bytes(body).decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX,
                errors="strict",
            )  # fmt: skip
        except ValueError:
            return _refused(request, 400, "The form cannot be read.")
        form: dict[str, list[str]] = {}
        for name, value in pairs:
            form.setdefault(name, []).append(value)
        token = (form.pop(TOKEN_FIELD, None) or [""])[0]
        if not self._console.sessions.is_token(request.state.cookie, token):
            return _refused(
                request, 403, "The form is of another session: open its page again, and send it."
            )
        request.state.form = form
        return None

    def _add_headers(self, headers: MutableHeaders, path: str) -> None:
        for name, value in HEADERS.items():
            headers[name] = value
        headers["Cache-Control"] = "no-cache" if path.startswith(STATIC) else "no-store"


def _refused(request: Request, status: int, text: str) -> Response:
    journal.refused(request, text)
    return refusal_page(request, status, text)


def _host_name(request: Request) -> str:
    """The name in Host; empty when Host has more than a name and a port."""
    host = request.headers.get("host", "")
    try:
        parts = urlsplit(f"//{host}")
        return parts.hostname or "" if parts.netloc == host else ""
    except ValueError:
        return ""


def login_first(request: Request) -> Response:
    """Sends the browser to the login, which leads back to this page."""
    asked = LOGIN if request.method not in SAFE_METHODS else f"{LOGIN}?next={quote(here(request))}"
    if request.headers.get("hx-request"):
        return Response(status_code=401, headers={"HX-Redirect": asked})
    return RedirectResponse(asked, 303)
