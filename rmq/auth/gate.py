"""Gate: decides whether a request may be served, before it is served.

    white addresses  of ACL 1.0's files: everything is served
    authentication   AccessKey names an enabled user, with whose password the Signature was made; or
                     there is no AccessKey, and the client's certificate names such a user
    authorization    the user's policies allow what the request wants

    gate = Gate(accounts, "DefaultCluster", authenticates=True, authorizes=True)
    gate.verdict(request, "10.0.0.1:4711")      Verdict(user, ""), or Verdict(None, "check ..")

Each verdict goes to the audit log (audit.py). The texts for clients are RocketMQ's. Without
authentication everybody is let in.
"""

from __future__ import annotations

import msgspec

from rmq.auth import audit
from rmq.auth.accounts import Accounts
from rmq.auth.authorization import Wanted, address, refusal
from rmq.auth.permissions import wanted
from rmq.auth.user import User
from rmq.errors import ProtocolError
from rmq.format.remoting import Command
from rmq.format.signature import ACCESS_KEY, is_right


class Verdict(msgspec.Struct, frozen=True):
    user: User | None  # who asks, if that is known and the user's policies count
    refusal: str  # the text for the client; empty: the request may be served
    name: str = ""  # the account; also one of ACL 1.0 that is let in by address alone


OPEN = Verdict(None, "")


class Gate:
    """Owned by one thread, as the accounts are."""

    def __init__(
        self,
        accounts: Accounts,
        cluster: str,
        *,
        authenticates: bool,
        authorizes: bool,
        unauthenticated: frozenset[int] = frozenset(),
        unauthorized: frozenset[int] = frozenset(),
    ) -> None:
        """The sets of codes are RocketMQ's white lists: unauthenticated codes are served without a
        signature, unauthorized ones to any user."""
        self.accounts = accounts
        self._cluster = cluster
        self._authenticates = authenticates
        self._authorizes = authorizes
        self._unauthenticated = unauthenticated
        self._unauthorized = unauthorized

    def verdict(self, request: Command, peer: str, proved: str = "") -> Verdict:
        """The verdict on a request. peer: its source, as host:port; proved: the name in the
        client's certificate, where that is enough."""
        if not self._authenticates or request.code in self._unauthenticated:
            return OPEN
        user: User | None = None
        text, found = "", list[Wanted]()
        given = request.fields.get(ACCESS_KEY, "")
        is_signed = bool(given.strip(" "))  # the same rule as in the reactor
        name = given if is_signed else proved
        by = "signature" if is_signed else "certificate"
        trusted = self._trusted(given, peer)
        if trusted is not None:
            by = "address"
        else:
            user, text = self._user(request, name, is_signed)
        if not text:
            found, problem = self._wanted(request)
            if user is not None and self._authorizes and request.code not in self._unauthorized:
                text = self._refusal(user, problem, found, peer)
        if text:
            shown = name.strip(" ")
            audit.refused(request.code, shown, peer, text, known=user is not None)
        else:
            asker = user.name if user is not None else ""
            audit.allowed(request.code, asker, by, peer, found, audit.subject(request))
        return Verdict(user, text, user.name if user is not None else trusted or "")

    def _trusted(self, name: str, peer: str) -> str | None:
        """The account, if ACL 1.0 lets in every request from this peer that gives this name; empty:
        it lets in every request from this peer; None: neither."""
        accounts = self.accounts
        fixed = accounts.fixed
        if not fixed.white and not fixed.unsigned:
            return None
        source = address(peer)
        if fixed.lets_in(source):
            return ""
        return name if accounts.is_fixed(name) and fixed.trusts(name, source) else None

    def _user(self, request: Command, name: str, is_signed: bool) -> tuple[User | None, str]:
        """(who asks, why that is not known)."""
        if not name.strip(" "):
            return None, "username cannot be null."
        user = self.accounts.user(name)
        if user is None:
            return None, f"User:{name[: audit.NAME_SHOWN]} is not found."
        if not user.is_enabled:
            return None, f"User:{name} is disabled."
        if is_signed and not is_right(request.fields, request.body, user.password):
            return None, "check signature failed."
        return user, ""

    def _wanted(self, request: Command) -> tuple[list[Wanted], str]:
        """(what the request wants, why that is not known)."""
        try:
            return wanted(request, self._cluster), ""
        except ProtocolError as error:
            return [], str(error)

    def _refusal(self, user: User, problem: str, found: list[Wanted], peer: str) -> str:
        if user.is_super:
            return ""
        return problem or refusal(user, self.accounts.acl(user.name), found, address(peer))
