"""Request: what a handler gets, and what it may give back.

    def handler(context, request) -> Reply | Awaitable[Reply]

The context is what the handlers of one area use of the broker: each area states it as a Protocol,
and Broker fulfils all of them.

A Reply is the Command to send, or None when no answer must be sent (the frame went back to the hot
path, or was answered already). A handler that must wait returns an awaitable; what it does before
it returns happens in the order of arrival. To refuse, a handler raises Refusal. Reading a missing
or malformed field raises ProtocolError, which is answered with code 1 and its text.

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
    user: User | None = None  # who has signed it, where signatures are required
    account: str = ""  # the user's name; also one of ACL 1.0 that is let in by address alone
    began: float = msgspec.field(default_factory=clock.monotonic)
    arrived: float = msgspec.field(default_factory=clock.monotonic)  # when it began to wait
    parted: float = 0.0  # when its handler began to wait for something; 0: it has not waited
    held_s: float = 0.0  # how long it asks to be held while there is nothing to tell

    @property
    def asker(self) -> Asker:
        return Asker(self.user, self.connection.address, self.command.code)

    @property
    def frame(self) -> bytes:
        """The frame for core.resubmit(), without the length bytes. It is encoded anew from what was
        decoded here, so that the hot path, which decodes the header again, finds the same asker and
        the same fields that were judged, however the client wrote them."""
        return encode(self.command)[4:]

    @property
    def of_sibling(self) -> bool:
        """Whether another shard of this machine asks: then the answer is for this shard alone."""
        return self.connection.number < 0

    def json_body(self) -> dict[Any, Any]:
        """The body as a JSON object; ProtocolError when it is none."""
        if not self.command.body:
            raise ProtocolError(f"request {self.command.code} has no body")
        return fastjson.request_object(self.command.body)


C = TypeVar("C", contravariant=True)
Handler: TypeAlias = Callable[[C, Request], Reply | Awaitable[Reply]]
