"""Access: who may ask this broker for what, in the reactor and in control.

    requests that the reactor serves    it has a copy of the users (cext/flow/auth), which gets each
                                        change of the accounts
    requests that control serves        the dispatcher asks the guard (rmq/auth/guard.py)

Each request is judged anew. What a broker sends unasked (39, 40, 309, 326) goes to clients that
are registered by a heartbeat: so clients whose user is deleted or disabled are removed (`on_gone`).

Where accounts are in use, the reactor hands all requests to control, from the first connection on,
until open() has brought it the users.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from rmq import names
from rmq.auth.admin import Asker
from rmq.auth.authorization import Wanted
from rmq.auth.gate import Verdict
from rmq.auth.guard import Guard
from rmq.auth.packed_policies import packed, packed_addresses
from rmq.auth.policy import Acl, Action
from rmq.auth.resource import topic
from rmq.auth.user import User
from rmq.broker.core_seam import AuthCalls
from rmq.codes import ResponseCode
from rmq.errors import ProtocolError
from rmq.format.message import StoredMessage, decode_message
from rmq.format.remoting import Command
from rmq.refusal import Refusal

ON_THEIR_WAY = (names.HALF_TOPIC, names.TRANS_CHECK_MAX_TIME_TOPIC, names.SCHEDULE_TOPIC,
                names.TIMER_TOPIC)  # fmt: skip

log = logging.getLogger("rmq.broker.access")


def topic_of(message: StoredMessage) -> str:
    """The topic that the message is in, or that it is on its way to."""
    if message.topic in ON_THEIR_WAY:
        return message.properties.get("REAL_TOPIC", message.topic)
    return message.topic


class Access:
    """Owned by the control thread."""

    def __init__(self, guard: Guard, core: AuthCalls) -> None:
        """guard: opened by the process, which also lets it follow its file."""
        self._guard = guard
        self._core = core
        # Called with the names of users that were deleted or disabled.
        self.on_gone: Callable[[set[str]], None] = lambda names: None
        # What the reactor has: of each user also the addresses from where its name is enough; and
        # the addresses from where everybody is let in.
        self._known: dict[str, tuple[User, Acl, bytes]] = {}
        self._white = b""
        self._enabled: set[str] = set()  # also users that are gone, until on_gone has succeeded

    def open(self) -> None:
        guard = self._guard
        if not guard.is_on:
            return
        assert guard.is_open
        guard.store.on_change = self._bring
        self._core.remove_users()
        self._bring()
        options = guard.options
        self._core.set_auth(
            options.authenticates,
            options.authorizes,
            sorted(options.unauthenticated),
            sorted(options.unauthorized),
        )
        log.info("requests need an account: there are %d", len(self._known))

    def require_record(self, asker: Asker, record: bytes, actions: frozenset[Action]) -> None:
        """Refusal unless the asker may do one of the actions on the topic of the record. For
        requests that name a message by its place in the log, which may be any place."""
        if asker.is_bound:
            try:
                self.require(asker, topic_of(decode_message(record)[0]), actions)
            except ProtocolError as error:
                text = f"the message is damaged: {error}"
                raise Refusal(ResponseCode.SYSTEM_ERROR, text) from None

    def require(self, asker: Asker, name: str, actions: frozenset[Action]) -> None:
        """Refusal unless the asker may do one of the actions on the topic; a retry topic counts as
        its group."""
        text = self._guard.refusal(asker, [Wanted(topic(name), actions)])
        if text:
            raise Refusal(ResponseCode.NO_PERMISSION, text)

    def verdict(self, request: Command, peer: str, proved: str) -> Verdict:
        return self._guard.verdict(request, peer, proved)

    async def answer(self, request: Command, asker: Asker) -> Command:
        """The answer to a request that is about accounts."""
        return await self._guard.answer(request, asker)

    def _bring(self) -> None:
        """Brings the reactor every account that differs from what it has."""
        accounts, core = self._guard.store.accounts, self._core
        fixed = accounts.fixed
        failure = self._bring_white(packed_addresses(fixed.white))
        trusted = {
            name: packed_addresses([addresses])
            for name, addresses in fixed.unsigned.items()
            if accounts.is_fixed(name)
        }
        present = {
            user.name: (user, accounts.acl(user.name), trusted.get(user.name, b""))
            for user in accounts.users()
        }
        for name in self._known.keys() - present.keys():
            core.remove_user(name.encode())
        enabled = {name for name, (user, *_) in present.items() if user.is_enabled}
        for name, known in list(present.items()):
            if self._known.get(name) != known:
                try:
                    self._put(*known)
                except Exception as error:  # any error: the user must not keep its old rights
                    core.remove_user(name.encode())
                    del present[name]
                    failure = error
        self._known = present
        gone = self._enabled - (enabled & present.keys())
        self._enabled |= enabled
        if gone:
            self.on_gone(gone)
        self._enabled = enabled
        if failure is not None:
            raise failure  # the AccountStore tries everything again

    def _bring_white(self, white: bytes) -> Exception | None:
        """Returns why the white list could not be brought; the reactor's list is empty then."""
        if white == self._white:
            return None
        try:
            self._core.set_white_list(white)
        except Exception as error:
            self._core.set_white_list(b"")
            self._white = b""
            return error
        self._white = white
        return None

    def _put(self, user: User, acl: Acl, addresses: bytes) -> None:
        self._core.put_user(user.name.encode(), user.password.encode(), user.is_super,
                            user.is_enabled, packed(acl), addresses)  # fmt: skip
