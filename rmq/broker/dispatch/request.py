"""Request: what a handler gets, and what it may give back.

    def handler(context, request) -> Reply | Awaitable[Reply]

The context is what the handlers of one area use of the broker: each area states it as a Protocol,
and Broker has it all.

A Reply is the Command to send, or None when nothing is to be said (the frame went back to the hot
path, or was answered already). A handler that must wait returns an awaitable; what it did before
returning is done in the order of arrival. To refuse, a handler raises Refusal; a field that is
missing or malformed raises ProtocolError by itself and is answered with code 1 and its text.

Example: raise Refusal(ResponseCode.TOPIC_NOT_EXIST, "topic[t] does not exist")
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

from rmq.auth.admin import Asker
from rmq.auth.user import User
from rmq.base import clock
from rmq.broker.clients.connections import Connection
from rmq.errors import ProtocolError
from rmq.format import fastjson
from rmq.format.remoting import Command

Reply: TypeAlias = Command | None


class Request(msgspec.Struct):
    """One request of a client."""

    connection: Connection
    command: Command
    frame: bytes  # as it came, without the length bytes; for core.resubmit
    user: User | None = None  # who has signed it, where that is asked
    began: float = msgspec.field(default_factory=clock.monotonic)

    @property
    def asker(self) -> Asker:
        return Asker(self.user, self.connection.address)

    @property
    def of_sibling(self) -> bool:
        """Another shard of this machine asks: it is answered for this shard alone."""
        return self.connection.number < 0

    def json_body(self) -> dict[Any, Any]:
        """The body as a JSON object; ProtocolError when it is none."""
        if not self.command.body:
            raise ProtocolError(f"request {self.command.code} has no body")
        return fastjson.request_object(self.command.body)


C = TypeVar("C", contravariant=True)
Handler: TypeAlias = Callable[[C, Request], Reply | Awaitable[Reply]]
