"""Guard: accounts, gate and signature of one server, as its settings say.

    guard = Guard(settings, Path("store/config"), "DefaultCluster")
    guard.open()                                    ConfigError if settings or file are unusable
    guard.start()  ..  await guard.stop()           follows the file in between
    guard.verdict(request, "10.0.0.1:4711")         OPEN where no account is required
    await guard.answer(request, asker)              answers the requests of ANSWERED
    guard.credentials()                             those with which the server itself signs

A server signs its own requests as a Super user, because that user is let in everywhere: the user of
innerClientAuthenticationCredentials; without that setting, of initAuthenticationUser; without
either, any other. It uses the password that the user has at that moment.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol, cast

from rmq.auth import admin, audit
from rmq.auth.account_file import NAME
from rmq.auth.account_store import AccountStore
from rmq.auth.admin import Asker
from rmq.auth.audit_tail import AuditTails
from rmq.auth.authorization import Wanted, address, refusal
from rmq.auth.gate import OPEN, Gate, Verdict
from rmq.auth.options import FIRST_USER, INNER, AuthOptions
from rmq.auth.plain_acl import PlainAclFiles
from rmq.base import core_files
from rmq.codes import RequestCode, ResponseCode
from rmq.config import Settings
from rmq.errors import ConfigError, ProtocolError, StoreError
from rmq.format.remoting import Command
from rmq.format.signature import Credentials
from rmq.refusal import Refusal

# Settings whose secrets a core file would contain, besides the passwords of users.
SECRETS = (
    "innerClientAuthenticationCredentials", "rmqMetricsCredentials", "tls.client.keyPath",
    "tls.server.keyPath",
)  # fmt: skip

ANSWERED = frozenset((*admin.HANDLERS, RequestCode.GET_AUDIT_LOG))

Start = Callable[[Command, object], "Command | Awaitable[Command]"]


class Peer(Protocol):
    """What is used here of a server's connections."""

    peer: str  # host:port
    proved: str  # the name in the client's certificate; empty: none


def note_refusal(request: Command, asker: Asker, refusal: Refusal) -> None:
    """Notes the refusal of a request that the gate had let in, but that turned out to want
    something its user may not do. RocketMQ's refusals about accounts have other codes."""
    is_one = refusal.code == ResponseCode.NO_PERMISSION or request.code in ANSWERED
    if asker.user is not None and is_one:
        audit.refused(request.code, asker.user.name, asker.peer, refusal.remark, known=True)


class Guard:
    """Owned by one event loop."""

    def __init__(self, settings: Settings, directory: Path, cluster: str) -> None:
        """directory: where rmqAccounts.json is, unless rmqAccountsPath says otherwise."""
        self.options = AuthOptions.of(settings)
        path = settings.rmqAccountsPath
        plain_acl = self.options.plain_acl
        self.store = AccountStore(
            Path(path).expanduser() if path else directory / NAME,
            fixed=PlainAclFiles(plain_acl) if plain_acl is not None else None,
        )
        self._gate = Gate(
            self.store.accounts,
            cluster,
            authenticates=self.options.authenticates,
            authorizes=self.options.authorizes,
            unauthenticated=self.options.unauthenticated,
            unauthorized=self.options.unauthorized,
        )
        audit_log = settings.rmqAuditLog
        self._audit = AuditTails(Path(audit_log).expanduser() if audit_log else None)
        self._has_secrets = self.options.authenticates or any(
            getattr(settings, key, "") for key in SECRETS
        )
        self._leaves_core_files = settings.rmqCoreFiles
        self.is_open = False
        self._following: asyncio.Task[None] | None = None

    @property
    def is_on(self) -> bool:
        return self.options.authenticates

    def open(self) -> None:
        options = self.options
        if self._has_secrets and not self._leaves_core_files:
            core_files.leave_none()
        if not self.is_on:
            return
        given = ((FIRST_USER, options.first_user), (INNER, options.inner))
        self.store.open([(key, user) for key, user in given if user is not None])
        if options.inner is not None:
            found = self.store.accounts.user(options.inner.access_key)
            assert found is not None
            is_able = found.is_super and found.is_enabled
            if not is_able or found.password != options.inner.secret_key:
                raise ConfigError(
                    f"{INNER}: the user {found.name} is there with another password, is not Super, "
                    "or is disabled: what this server sends would be refused"
                )
        self.is_open = True

    def start(self) -> None:
        if self.is_on:
            self._following = asyncio.get_running_loop().create_task(self.store.follow())

    async def stop(self) -> None:
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following

    async def copy(self, text: bytes) -> None:
        """As slave: takes the master's accounts, and keeps the one with which this server signs."""
        options = self.options
        own = options.inner or options.first_user
        await self.store.copy(text, () if own is None else (own,))

    def verdict(self, request: Command, peer: str, proved: str = "") -> Verdict:
        if not self.is_on:
            return OPEN
        return self._gate.verdict(request, peer, proved if self.options.by_certificate else "")

    def refusal(self, asker: Asker, wanted: list[Wanted]) -> str:
        """Why a request may not do what it turns out to want while it is served; empty: it may."""
        options = self.options
        if asker.user is None or not options.authorizes or asker.code in options.unauthorized:
            return ""
        acl = self.store.accounts.acl(asker.user.name)
        return refusal(asker.user, acl, wanted, address(asker.peer))

    async def answer(self, request: Command, asker: Asker) -> Command:
        """The answer to a request of ANSWERED; Refusal, ProtocolError or StoreError if it is not
        done."""
        if not self.is_on:
            raise admin.not_served(request)
        if request.code == RequestCode.GET_AUDIT_LOG:
            return await self._audit.answer(request, asker)
        return await admin.answer(self.store, request, asker)

    def credentials(self) -> Credentials | None:
        """The account with which this server signs; None: it signs nothing."""
        if not self.is_on:
            return self.options.inner
        given = self.options.inner or self.options.first_user
        user = self.store.accounts.user(given.access_key) if given is not None else None
        if user is None or not user.is_super or not user.is_enabled:
            user = self.store.accounts.some_super()
        return None if user is None else Credentials(user.name, user.password)

    def before(self, start: Start) -> Start:
        """Wraps a server's function that starts requests, so that only allowed requests reach
        it."""

        def guarded(request: Command, connection: object) -> Command | Awaitable[Command]:
            peer = cast(Peer, connection).peer
            verdict = self.verdict(request, peer, cast(Peer, connection).proved)
            if verdict.refusal:
                return request.reply(ResponseCode.NO_PERMISSION, verdict.refusal)
            if request.code in ANSWERED:
                return self._answered(request, Asker(verdict.user, peer, request.code))
            return start(request, connection)

        return guarded

    async def _answered(self, request: Command, asker: Asker) -> Command:
        try:
            return await self.answer(request, asker)
        except Refusal as refusal:
            note_refusal(request, asker, refusal)
            return request.reply(refusal.code, refusal.remark)
        except (ProtocolError, StoreError) as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, str(error))
