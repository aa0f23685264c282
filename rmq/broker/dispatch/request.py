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
from rmq.format.remoting import Command, encode

Reply: TypeAlias = Command | None


class Request(msgspec.Struct):
    """One request of a client."""

    connection: Connection
    command: Command
    user: User | None = None  # who has signed it, where that is asked
    account: str = ""  # his, also one of ACL 1.0 that its address alone lets in
    began: float = msgspec.field(default_factory=clock.monotonic)
    arrived: float = msgspec.field(default_factory=clock.monotonic)  # it has waited for its turn
    parted: float = 0.0  # when its handler began to wait for something; 0: it has not waited
    held_s: float = 0.0  # it asks to be held so long while there is nothing to tell

    @property
    def asker(self) -> Asker:
        return Asker(self.user, self.connection.address, self.command.code)

    @property
    def frame(self) -> bytes:
        """For core.resubmit: without the length bytes, and written anew from what was read here,
        so that the hot path, which reads a header once more, finds the same asker and the same
        fields that were judged, however the client wrote them."""
        return encode(self.command)[4:]

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
