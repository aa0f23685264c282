"""Gate: whether a request may be served, asked before it is.

    white addresses  of ACL 1.0's files: all is served
    authentication   AccessKey names a user that is enabled, whose password made the Signature
    authorization    its policies allow what the request wants

    gate = Gate(accounts, "DefaultCluster", authenticates=True, authorizes=True)
    gate.verdict(request, "10.0.0.1:4711")      Verdict(user, ""), or Verdict(None, "check ..")

What is refused goes to the audit log, rate-limited by who asks; what is allowed does at DEBUG. The
texts to clients are RocketMQ's. Where nothing is authenticated everybody is let in.
"""

from __future__ import annotations

import logging

import msgspec

from rmq.auth.accounts import Accounts
from rmq.auth.authorization import address, refusal
from rmq.auth.permissions import wanted
from rmq.auth.user import User
from rmq.base.rate_limited_log import RateLimitedLog
from rmq.errors import ProtocolError
from rmq.format.remoting import Command
from rmq.format.signature import ACCESS_KEY, is_right

audit = logging.getLogger("rmq.audit")
quiet = RateLimitedLog(audit)

NAME_SHOWN = 64  # characters of a name that nobody has checked


class Verdict(msgspec.Struct, frozen=True):
    user: User | None  # who asks, where that is known
    refusal: str  # for the client; empty: it may be served


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
        """The codes are RocketMQ's white lists: served without a signature, or to any user."""
        self.accounts = accounts
        self._cluster = cluster
        self._authenticates = authenticates
        self._authorizes = authorizes
        self._unauthenticated = unauthenticated
        self._unauthorized = unauthorized

    def verdict(self, request: Command, peer: str) -> Verdict:
        """peer: where it comes from, as host:port."""
        if not self._authenticates or request.code in self._unauthenticated:
            return OPEN
        if self._is_trusted(request, peer):
            return OPEN
        user, text = self._user(request)
        if user is not None and self._authorizes and request.code not in self._unauthorized:
            text = self._refusal(user, request, peer)
        name = request.fields.get(ACCESS_KEY, "")[:NAME_SHOWN]
        if text:
            quiet.log(
                logging.INFO,
                f"{user.name if user else '?'} {request.code} {peer.rpartition(':')[0]}",
                "refused: request %d of %r from %s: %s", request.code, name, peer, text,
            )  # fmt: skip
        elif audit.isEnabledFor(logging.DEBUG):
            audit.debug("allowed: request %d of %r from %s", request.code, name, peer)
        return Verdict(user, text)

    def _is_trusted(self, request: Command, peer: str) -> bool:
        """Whether ACL 1.0 lets everything in from there, or everything that gives this name."""
        accounts = self.accounts
        fixed = accounts.fixed
        if not fixed.white and not fixed.unsigned:
            return False
        source = address(peer)
        name = request.fields.get(ACCESS_KEY, "")
        return fixed.lets_in(source) or (accounts.is_fixed(name) and fixed.trusts(name, source))

    def _user(self, request: Command) -> tuple[User | None, str]:
        """Who has signed it; else why that is not known."""
        name = request.fields.get(ACCESS_KEY, "")
        if not name.strip():
            return None, "username cannot be null."
        user = self.accounts.user(name)
        if user is None:
            return None, f"User:{name[:NAME_SHOWN]} is not found."
        if not user.is_enabled:
            return None, f"User:{name} is disabled."
        if not is_right(request.fields, request.body, user.password):
            return None, "check signature failed."
        return user, ""

    def _refusal(self, user: User, request: Command, peer: str) -> str:
        if user.is_super:
            return ""
        try:
            found = wanted(request, self._cluster)
        except ProtocolError as error:
            return str(error)
        return refusal(user, self.accounts.acl(user.name), found, address(peer))
