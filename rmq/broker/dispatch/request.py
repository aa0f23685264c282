"""What a handler gets and what it may give back.

    def handler(broker, request) -> Reply | Awaitable[Reply]

A Reply is the Command to send, or None when nothing is to be said (the frame went back to the hot
path, or was answered already). A handler that must wait returns an awaitable; what it did before
returning is done in the order of arrival. To refuse, a handler raises Refusal; a field that is
missing or malformed raises ProtocolError by itself and is answered with code 1 and its text.

Example: raise Refusal(ResponseCode.TOPIC_NOT_EXIST, "topic[t] does not exist")
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from rmq.broker.clients.connections import Connection
from rmq.codes import ResponseCode
from rmq.errors import ProtocolError, RmqError
from rmq.format import fastjson
from rmq.format.remoting import Command

if TYPE_CHECKING:
    from rmq.broker.broker import Broker

Reply: TypeAlias = Command | None


@dataclass(slots=True)
class Request:
    """One request of a client."""

    connection: Connection
    command: Command
    frame: bytes  # as it came, without the length bytes; for core.resubmit
    began: float = field(default_factory=time.monotonic)

    @property
    def of_sibling(self) -> bool:
        """Another shard of this machine asks: it is answered for this shard alone."""
        return self.connection.number < 0

    def json_body(self) -> dict[Any, Any]:
        """The body as a JSON object; ProtocolError when it is none."""
        if not self.command.body:
            raise ProtocolError(f"request {self.command.code} has no body")
        return fastjson.loads_object(self.command.body)


Handler: TypeAlias = "Callable[[Broker, Request], Reply | Awaitable[Reply]]"


class Refusal(RmqError):
    """The request is answered with this code and remark; nothing is wrong with the broker."""

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(code, remark)
        self.code = code
        self.remark = remark

    def __str__(self) -> str:
        return self.remark


def text_member(members: Any, name: str, default: str | None = None) -> str:
    """A text in a JSON body; ProtocolError naming it when it is missing or of another type."""
    value = members.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise ProtocolError(f"member {name} of the body is missing or not text")
    return value


def int_member(
    members: Any, name: str, default: int | None, low: int = -(2**63), high: int = 2**63 - 1
) -> int:
    """A whole number in a JSON body, as number or as text."""
    value = members.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) <= 20:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ProtocolError(f"member {name} of the body is missing or not a whole number")
    if not low <= value <= high:
        raise ProtocolError(f"member {name} of the body is {value}: outside {low}..{high}")
    return value


def bool_member(members: Any, name: str, default: bool) -> bool:
    """A truth value in a JSON body, as true/false or as text."""
    value = members.get(name)
    if value is None:
        return default
    if isinstance(value, str):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise ProtocolError(f"member {name} of the body is not true or false")
    return value


def list_member(members: Any, name: str) -> list[Any]:
    """An array in a JSON body; a missing one is empty."""
    value = members.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ProtocolError(f"member {name} of the body is not an array")
    return value
