"""The seam for accounts: something that sees every request before it leaves and every answer.

    Producer("g", access_key="alice", secret_key="secret")      signs: AclClientRpcHook

    class Counter:
        def before_request(self, address, code, fields, body): self.count += 1
        def after_response(self, address, code, fields, reply): ...

    Producer("g", rpc_hook=Counter())

`fields` are the header's extension fields by name, as text; what the hook adds is sent. With a hook
every send takes the general way (fields as a dict), which costs some microseconds a message.
"""

from __future__ import annotations

from typing import Protocol

from cext.client.reply import Reply
from rmq.format.signature import Credentials


class RpcHook(Protocol):
    """Both methods are called in the thread that sends or tells the answer."""

    def before_request(self, address: str, code: int, fields: dict[str, str], body: bytes) -> None:
        """May add to fields; what it raises ends the request. What the client asks by itself, as
        pulls and heartbeats, it asks again."""

    def after_response(
        self, address: str, code: int, fields: dict[str, str], reply: Reply | None
    ) -> None:
        """The answer to that request; None when there was none."""


class AclClientRpcHook:
    """Signs every request with an account's password, as RocketMQ's of the name does."""

    def __init__(self, access_key: str, secret_key: str, security_token: str | None = None) -> None:
        self._credentials = Credentials(access_key, secret_key, security_token)

    def before_request(self, address: str, code: int, fields: dict[str, str], body: bytes) -> None:
        fields.update(self._credentials.sign(fields, body))

    def after_response(
        self, address: str, code: int, fields: dict[str, str], reply: Reply | None
    ) -> None:
        """Nothing: a refusal is the caller's to see."""
