"""ReadWarnings: why a consumer gets nothing from a broker, or nothing of one topic from it.

    warnings = ReadWarnings()
    warnings.failed(place, error)       # WARNING the first time, DEBUG while it stays the same
    warnings.answered(place)            # INFO, if there was a warning

If a broker is away, there is one warning for all its queues. If a broker refuses a read, there is
one for the topic. Refusals that are usual when a group begins are only INFO: the broker does not
have the subscription yet, or the topic is still being created.
"""

from __future__ import annotations

import logging
from typing import Protocol

from rmq.client.connection.repeated_warnings import RepeatedWarnings
from rmq.codes import ResponseCode
from rmq.errors import RemoteError

USUAL = frozenset(
    {
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_NOT_LATEST,
    }
)


class Place(Protocol):
    """A queue, or all queues of a topic at one broker."""

    @property
    def topic(self) -> str: ...

    @property
    def broker_name(self) -> str: ...


class ReadWarnings:
    """The read warnings of one consumer; any thread may use it."""

    def __init__(self) -> None:
        self._warnings = RepeatedWarnings()

    def failed(self, place: Place, error: Exception | None) -> None:
        if not isinstance(error, RemoteError) or error.code == ResponseCode.BROKER_NOT_EXIST:
            self._warnings.begin(_broker(place), error or "it does not answer in time")
            return
        if self._warnings.is_any:
            self._warnings.end(_broker(place))  # it answers
        level = logging.INFO if error.code in USUAL else logging.WARNING
        self._warnings.begin(_topic(place), error, level)

    def answered(self, place: Place) -> None:
        if self._warnings.is_any:  # rarely; this function is called for each batch
            self._warnings.end(_broker(place))
            self._warnings.end(_topic(place))


def _broker(place: Place) -> str:
    return f"reading from {place.broker_name}"


def _topic(place: Place) -> str:
    return f"reading {place.topic} from {place.broker_name}"
