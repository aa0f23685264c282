"""Answers: bodies that a server has written, as values of the types that are expected in them.

converted(reply.body, _Topics, "10.0.0.5:10911")    ProtocolError with the address, when it is
                                                    something else
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from rmq.errors import ProtocolError
from rmq.format import fastjson

T = TypeVar("T")


def converted(body: bytes, kind: type[T], where: str) -> T:
    """Numbers may be texts, as RocketMQ's brokers write some."""
    try:
        return msgspec.convert(fastjson.loads_object(body), kind, strict=False)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"{where}: {error}") from None
