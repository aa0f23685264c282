"""Sessions: who is logged in in which browser; only in memory, so a restart logs everybody out.

    sessions.of(cookie)                         Session; None: not logged in
    cookie = sessions.begin("alice", account)   after a login: a new cookie for this browser
    sessions.token(cookie)                      the token in forms for this browser

A cookie is a random name, and its session stays in the console: the account's password, which signs
the console's requests for this browser, is in no cookie and no page. A browser that is not logged
in has a cookie, too, for the token in its forms; nothing is kept for it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

import msgspec

from rmq.base import clock
from rmq.format.signature import Credentials

IDLE_S = 30 * 60.0
LIFE_S = 12 * 3600.0
SESSIONS_MAX = 256
_NAME = re.compile("[A-Za-z0-9_-]{43}")  # 32 bytes


class Session(msgspec.Struct):
    """Who is logged in in a browser."""

    name: str  # of the account; empty: logged in by the console's own password
    account: Credentials | None  # for questions to brokers; None: the console's own
    began: float
    used: float


class Sessions:
    """Owned by the event loop."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._sessions: dict[str, Session] = {}

    def of(self, cookie: str) -> Session | None:
        """The session of the cookie; None: there is none, or its time is over."""
        session = self._sessions.get(cookie)
        if session is None:
            return None
        now = clock.monotonic()
        if now - session.used > IDLE_S or now - session.began > LIFE_S:
            del self._sessions[cookie]
            return None
        session.used = now
        return session

    def begin(self, name: str, account: Credentials | None) -> str:
        """Begins a session; returns its cookie. When there are too many sessions, the one that was
        unused for longest ends."""
        while len(self._sessions) >= SESSIONS_MAX:
            oldest = min(self._sessions, key=lambda each: self._sessions[each].used)
            del self._sessions[oldest]
        cookie, now = new_cookie(), clock.monotonic()
        self._sessions[cookie] = Session(name, account, now, now)
        return cookie

    def end(self, cookie: str) -> None:
        self._sessions.pop(cookie, None)

    def token(self, cookie: str) -> str:
        """The token which proves that a form was made by this console for this browser."""
        return hmac.new(self._key, cookie.encode(), hashlib.sha256).hexdigest()

    def is_token(self, cookie: str, token: str) -> bool:
        return hmac.compare_digest(self.token(cookie).encode(), token.encode())


def new_cookie() -> str:
    return secrets.token_urlsafe(32)


def is_cookie(text: str) -> bool:
    return _NAME.fullmatch(text) is not None
