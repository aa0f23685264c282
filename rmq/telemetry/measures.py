"""Metrics of the client, by OpenTelemetry's names for messaging.

messaging.client.operation.duration     s: a send, or a poll that brought messages
messaging.client.sent.messages          messages that were given to a producer
messaging.client.consumed.messages      messages that a listener or a poll was given
messaging.process.duration              s: a call of a listener
"""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.metrics import Meter

from rmq.telemetry.attributes import DESTINATION, Attributes

SECONDS, MESSAGES = "s", "{message}"
# The bounds that the conventions advise.
BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


class Measures:
    def __init__(self, meter: Meter) -> None:
        self._operations = meter.create_histogram(
            "messaging.client.operation.duration", SECONDS,
            "How long sends took, and polls that brought messages.",
            explicit_bucket_boundaries_advisory=BOUNDS_S,
        )  # fmt: skip
        self._calls = meter.create_histogram(
            "messaging.process.duration", SECONDS, "How long calls of listeners took.",
            explicit_bucket_boundaries_advisory=BOUNDS_S,
        )  # fmt: skip
        self._sent = meter.create_counter(
            "messaging.client.sent.messages", MESSAGES, "Messages given to producers."
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", MESSAGES, "Messages given to consumers' code."
        )

    def sent(self, attributes: Attributes, count: int, took_s: float) -> None:
        self._sent.add(count, attributes)
        self._operations.record(took_s, attributes)

    def received(self, attributes: Attributes, counts: Mapping[str, int], took_s: float) -> None:
        """counts: how many of each topic."""
        for topic, count in counts.items():
            self._consumed.add(count, {**attributes, DESTINATION: topic})
        self._operations.record(took_s, attributes)

    def processed(self, attributes: Attributes, count: int, took_s: float) -> None:
        self._consumed.add(count, attributes)
        self._calls.record(took_s, attributes)
