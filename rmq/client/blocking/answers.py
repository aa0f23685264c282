"""Answers: converts bodies that a server has written to values of the expected types.

converted(reply.body, _Topics, "10.0.0.5:10911")    ProtocolError with the address, if the body is
                                                    something else
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from rmq.errors import ProtocolError
from rmq.format import fastjson

T = TypeVar("T")


def converted(body: bytes, kind: type[T], where: str) -> T:
    """The body as a value of this type. Numbers may be written as texts, as RocketMQ's brokers
    write some."""
    try:
        return msgspec.convert(fastjson.loads_object(body), kind, strict=False)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"{where}: {error}") from None
