"""Login: an account of the brokers, or the console's own password.

    GET  /login?next=/topics        name and password
    POST /login                     tried at a broker; then the session has name and password
    POST /logout

Only a broker knows whether a password is right. It gets a request that is signed with name and
password; what counts is its answer about the signature, not whether the account may make that
request. Brokers that do not ask for accounts have none to log in with. After FAILURES_MAX failures
an address must wait. A try counts as failed until it has succeeded, so that no more than
FAILURES_MAX tries of an address wait for a broker at once.
"""

from __future__ import annotations

import hmac

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from rmq.base import clock
from rmq.console import journal
from rmq.console.console import Console, console_of
from rmq.console.errors import explained
from rmq.console.page import page
from rmq.console.sessions import new_cookie
from rmq.errors import RmqError
from rmq.format.signature import Credentials
from rmq.operations.askers import STRANGER, is_let_in

FAILURES_MAX = 5
WAIT_S = 60.0
ADDRESSES_MAX = 1024
ASKED_AGAIN_S = 600.0  # between two checks whether brokers want accounts at all
NOTHING = "These brokers ask nobody for an account: there is nothing to log in to."
AGAIN = (
    " Start the console again while they answer, which then asks for no login; beyond this machine "
    "with --password-file."
)


class Pace:
    """Failed logins by address, and whether an address must wait."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, float]] = {}

    def must_wait(self, address: str) -> bool:
        count, last = self._failures.get(address, (0, 0.0))
        return count >= FAILURES_MAX and clock.monotonic() - last < WAIT_S

    def failed(self, address: str) -> None:
        count, last = self._failures.pop(address, (0, 0.0))
        if clock.monotonic() - last > WAIT_S:
            count = 0
        self._failures[address] = (count + 1, clock.monotonic())
        if len(self._failures) > ADDRESSES_MAX:
            self._failures.pop(next(iter(self._failures)))

    def succeeded(self, address: str) -> None:
        self._failures.pop(address, None)


class Login:
    """The pages of login and logout; owned by the event loop."""

    def __init__(self) -> None:
        self._pace = Pace()
        self._wants_accounts_until = 0.0  # brokers want accounts; until then no new check

    def routes(self) -> list[Route]:
        return [
            Route("/login", self._show, methods=["GET"], name="login"),
            Route("/login", self._enter, methods=["POST"]),
            Route("/logout", self._leave, methods=["POST"]),
        ]

    async def _show(self, request: Request) -> Response:
        return _login_page(request, after(request.query_params.get("next", "")))

    async def _enter(self, request: Request) -> Response:
        console = console_of(request)
        given = {name: values[-1] for name, values in request.state.form.items()}
        name, password = given.get("name", "").strip(), given.get("password", "")
        target = after(given.get("next", ""))
        where = journal.origin(request)
        if self._pace.must_wait(where):
            text = f"Too many failed logins from {where}: wait a minute."
            journal.refused(request, text)
            return _login_page(request, target, name, text, 429)
        self._pace.failed(where)
        if console.settings.password:
            fault = _password_fault(console, password)
        else:
            fault = await self._account_fault(console, name, password)
        if fault is not None:
            journal.failed(request, f"login as {name[:100]!r}", fault)
            return _login_page(request, target, name, fault, 403)
        self._pace.succeeded(where)
        console.sessions.end(request.state.cookie)
        account = None if console.settings.password else Credentials(name, password)
        cookie = console.sessions.begin(name if account is not None else "", account)
        request.state.session = console.sessions.of(cookie)
        journal.did(request, "login")
        return _moved(console, target, cookie)

    async def _account_fault(self, console: Console, name: str, password: str) -> str | None:
        """What is wrong with the account; None: it is right."""
        if not name or not password:
            return "Name and password are both needed."
        try:
            if not await console.brokers.ask(Credentials(name, password), is_let_in):
                return "There is no such account with this password, or it is disabled."
            # Brokers that check no signatures accept any password, which proves nothing.
            now = clock.monotonic()
            if now >= self._wants_accounts_until:
                if await console.brokers.ask(STRANGER, is_let_in):
                    return NOTHING + (AGAIN if console.settings.needs_login else "")
                self._wants_accounts_until = now + ASKED_AGAIN_S
        except RmqError as error:
            return explained(error).text
        return None

    async def _leave(self, request: Request) -> Response:
        console = console_of(request)
        if request.state.session is not None:
            journal.did(request, "logout")
        console.sessions.end(request.state.cookie)
        return _moved(console, "/login", new_cookie())


def after(target: str) -> str:
    """Where to go after the login: the target if it is a page of this console, else the first
    page."""
    is_own = target.startswith("/") and not target.startswith(("//", "/\\", "/login", "/logout"))
    return target if is_own and target.isprintable() else "/"


def _moved(console: Console, target: str, cookie: str) -> Response:
    answer = RedirectResponse(target, 303)
    answer.headers["Set-Cookie"] = console.cookie_line(cookie)
    return answer


def _login_page(
    request: Request, target: str, name: str = "", fault: str = "", status: int = 200
) -> Response:
    return page(request, "login.html", status, target=target, name=name, fault=fault)


def _password_fault(console: Console, password: str) -> str | None:
    is_right = hmac.compare_digest(password.encode(), console.settings.password.encode())
    return None if is_right else "The password is another one."
