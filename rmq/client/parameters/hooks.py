"""Hooks: objects that see every request before it is sent, and every answer; they sign requests.

    Producer("g", access_key="alice", secret_key="secret")      signs: AclClientRpcHook

    class Counter:
        def before_request(self, address, code, fields, body): self.count += 1
        def after_response(self, address, code, fields, reply): ...

    Producer("g", rpc_hook=Counter())

`fields` are the header's extension fields by name, as text; fields that the hook adds are sent.
With a hook every send makes its header as a dict of fields, which costs some microseconds for each
message.
"""

from __future__ import annotations

from typing import Protocol

from cext.client.reply import Reply
from rmq.format.signature import Credentials


class RpcHook(Protocol):
    """A hook. Its methods are called in the thread that sends, or that handles the answer."""

    def before_request(self, address: str, code: int, fields: dict[str, str], body: bytes) -> None:
        """May add to `fields`. If it raises, the request has failed; requests that the client makes
        by itself, such as pulls and heartbeats, are made again later."""

    def after_response(
        self, address: str, code: int, fields: dict[str, str], reply: Reply | None
    ) -> None:
        """Sees the answer to that request; None if there was none."""


class AclClientRpcHook:
    """Signs every request with an account's password, as RocketMQ's class of this name does."""

    def __init__(self, access_key: str, secret_key: str, security_token: str | None = None) -> None:
        self._credentials = Credentials(access_key, secret_key, security_token)

    def before_request(self, address: str, code: int, fields: dict[str, str], body: bytes) -> None:
        fields.update(self._credentials.sign(fields, body))

    def after_response(
        self, address: str, code: int, fields: dict[str, str], reply: Reply | None
    ) -> None:
        """Does nothing: the caller handles a refusal."""
