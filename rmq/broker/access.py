"""Access: who may ask this broker for what, on both of its sides.

    what the reactor serves    it has the users itself (cext/flow/auth); each change of the accounts
                               is brought to it
    what control serves        the guard is asked by the dispatcher (rmq/auth/guard.py)

From the first connection on the reactor hands all requests to control where accounts are in use,
until open() has brought it the users.
"""

from __future__ import annotations

import logging

from rmq.auth.admin import Asker
from rmq.auth.gate import Verdict
from rmq.auth.guard import Guard
from rmq.auth.packed import packed
from rmq.auth.policy import Acl
from rmq.auth.user import User
from rmq.broker.core_seam import AuthCalls
from rmq.format.remoting import Command

log = logging.getLogger("rmq.broker.access")


class Access:
    """Owned by the control thread."""

    def __init__(self, guard: Guard, core: AuthCalls) -> None:
        """guard: its process opens it, and follows its file."""
        self._guard = guard
        self._core = core
        self._known: dict[str, tuple[User, Acl]] = {}  # what the reactor has

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

    def verdict(self, request: Command, peer: str) -> Verdict:
        return self._guard.verdict(request, peer)

    async def answer(self, request: Command, asker: Asker) -> Command:
        """To a request that is about accounts."""
        return await self._guard.answer(request, asker)

    def _bring(self) -> None:
        """What is other than the reactor has it."""
        accounts, core = self._guard.store.accounts, self._core
        present = {user.name: (user, accounts.acl(user.name)) for user in accounts.users()}
        for name in self._known.keys() - present.keys():
            core.remove_user(name.encode())
        for name, (user, acl) in present.items():
            if self._known.get(name) != (user, acl):
                password = user.password.encode()
                core.put_user(name.encode(), password, user.is_super, user.is_enabled, packed(acl))
        self._known = present
