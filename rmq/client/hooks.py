"""The seam for accounts: something that sees every request before it leaves and every answer.

    class Signer:
        def before_request(self, address, code, fields, body): fields["Signature"] = ...
        def after_response(self, address, code, fields, reply): ...

    Producer("g", rpc_hook=Signer())

`fields` are the header's extension fields by name, as text; what the hook adds is sent. With a hook
every send takes the general way (fields as a dict), which costs some microseconds a message.
"""

from __future__ import annotations

from typing import Protocol

from cext.client.reply import Reply


class RpcHook(Protocol):
    """Both methods are called in the thread that sends or tells the answer."""

    def before_request(self, address: str, code: int, fields: dict[str, str], body: bytes) -> None:
        """May add to fields; what it raises ends the request."""

    def after_response(
        self, address: str, code: int, fields: dict[str, str], reply: Reply | None
    ) -> None:
        """The answer to that request; None when there was none."""
