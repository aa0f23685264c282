"""Console: what all requests share: brokers, kept answers, sessions, surveys, pending changes.

    console.ask(request, question, *arguments)        an answer that may be a second old
    console.ask_now(request, question, *arguments)    a new answer, which is not kept
    console.ask_some(request, missing, question, ..)  an answer of those brokers that answer
    console.do(request, change, *arguments)           a change; afterwards all is asked anew

A question is a function of a Cluster and its arguments. It runs in a thread (brokers.py), with the
account that is logged in in the browser, or without a login with the console's own.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from starlette.requests import Request

from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.partial import Missing
from rmq.console.answers import Answers
from rmq.console.brokers import Account, Brokers
from rmq.console.pending_changes import PendingChanges
from rmq.console.sessions import Sessions
from rmq.console.settings import ConsoleSettings
from rmq.console.survey import Survey, Surveyor
from rmq.errors import RmqError
from rmq.format.signature import Credentials

log = logging.getLogger("rmq.console")
P = ParamSpec("P")
T = TypeVar("T")
WATCH_S = 10.0  # between two surveys that the console makes itself, for the history of lags
NOTES_MAX = 256


class Console:
    """Owned by the event loop."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self.settings = settings
        self.brokers = Brokers(settings.namesrv)
        self.answers = Answers()
        self.sessions = Sessions()
        self.pending = PendingChanges()
        self.surveyor = Surveyor()
        self.changes: frozenset[str] = frozenset()  # paths of pages that change something
        self.cookie_name = "__Host-rmq-console" if settings.is_https else "rmq-console"
        self._notes: OrderedDict[str, str] = OrderedDict()  # cookie -> what was done last

    def account(self, request: Request) -> Credentials | None:
        """The account with which brokers are asked for this request."""
        session = request.state.session
        return session.account if session is not None else None

    async def ask(
        self,
        request: Request,
        question: Callable[Concatenate[Cluster, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        account = self.account(request)
        asked = partial(_asked, question, args, kwargs)
        key: Hashable = (question, account, args, tuple(sorted(kwargs.items())))
        return await self.answers.get(key, lambda: self.brokers.ask(account, asked))

    async def ask_some(
        self, request: Request, missing: Missing, question: Callable[..., T], *args: object
    ) -> T:
        """The question gets `missing`, too (rmq/client/blocking/partial.py), of which those found
        are put into the page's own."""
        found, away = await self.ask(request, _some, question, *args)
        for name, why in away.items():
            missing.setdefault(name, why)
        return found

    async def ask_now(
        self,
        request: Request,
        question: Callable[Concatenate[Cluster, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        asked = partial(_asked, question, args, kwargs)
        return await self.brokers.ask(self.account(request), asked)

    async def do(
        self,
        request: Request,
        change: Callable[Concatenate[Cluster, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        try:
            return await self.ask_now(request, change, *args, **kwargs)
        finally:
            self.answers.forget()

    async def survey(self, request: Request) -> Survey:
        """A survey of all brokers, with their topics and lags."""
        account = self.account(request)
        return await self.answers.get(("survey", account), lambda: self._survey(account))

    async def _survey(self, account: Account) -> Survey:
        return await self.brokers.ask(account, partial(self.surveyor.look, account))

    async def watch(self) -> None:
        """Makes a survey from time to time, so that there is a history of lags when a page asks for
        it. Ends when brokers want an account and the console has none."""
        while True:
            try:
                await self.answers.get(("survey", None), lambda: self._survey(None))
            except RmqError as error:
                log.debug("not seen: %s", error)
            if self.surveyor.is_refused:
                return
            await asyncio.sleep(WATCH_S)

    # ---- what is said to a browser once

    def note(self, cookie: str, text: str) -> None:
        self._notes[cookie] = text
        if len(self._notes) > NOTES_MAX:
            self._notes.popitem(last=False)

    def take_note(self, cookie: str) -> str:
        return self._notes.pop(cookie, "")

    def cookie_line(self, cookie: str) -> str:
        """The value of Set-Cookie. It is SameSite=Lax: a user who follows a link from another site
        is still logged in, and that is safe because no GET changes anything."""
        secure = "; Secure" if self.settings.is_https else ""
        return f"{self.cookie_name}={cookie}; Path=/; HttpOnly; SameSite=Lax{secure}"

    def close(self) -> None:
        self.brokers.close()


def _some(cluster: Cluster, question: Callable[..., T], *args: object) -> tuple[T, Missing]:
    missing: Missing = {}
    return question(cluster, *args, missing=missing), missing


def console_of(request: Request) -> Console:
    found = request.state.console
    assert isinstance(found, Console)
    return found


def _asked(
    question: Callable[..., T], args: tuple[object, ...], kwargs: dict[str, object],
    cluster: Cluster,
) -> T:  # fmt: skip
    return question(cluster, *args, **kwargs)
