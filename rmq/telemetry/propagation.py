"""The context of a trace travels as properties of a message: `traceparent`, `tracestate`, baggage.

inject(message)                     # the present span's, before the message is sent
extract(message)                    # the Context that the sender had

As clients of RocketMQ in other languages do it; brokers store properties as they come.
"""

from __future__ import annotations

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter

from cext.client.message import Message, MessageExt


class _Sent(Setter[Message]):
    def set(self, carrier: Message, key: str, value: str) -> None:
        carrier.put_property(key, value)


class _Received(Getter[MessageExt]):
    def get(self, carrier: MessageExt, key: str) -> list[str] | None:
        value = carrier.get_property(key)
        return None if value is None else [value]

    def keys(self, carrier: MessageExt) -> list[str]:
        return list(carrier.properties)


_SENT, _RECEIVED = _Sent(), _Received()


def inject(message: Message, context: Context) -> None:
    propagate.inject(message, context, _SENT)


def extract(message: MessageExt) -> Context:
    """An empty one where the sender had none."""
    return propagate.extract(message, Context(), _RECEIVED)
