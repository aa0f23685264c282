"""Errors: the exception tree of rmq. Of rmq it imports only rmq.codes.

RmqError
|-- ConfigError          a setting is unknown, malformed or out of range
|-- ProtocolError        bytes that are not a RocketMQ frame, or a field that breaks a limit
|   `-- AddressError         a server's address is not host:port (also a ConfigError)
|-- StoreError           the store cannot do what was asked
|   |-- StoreLockedError     another process holds the store directory
|   |-- StoreCorruptError    a file holds bytes that cannot be right
|   `-- StorePoisonedError   a write or fsync failed; nothing is acked any more
|-- RemoteError          a peer answered with a code other than SUCCESS
|   `-- RouteError           no name server knows where the topic is (code 17)
|-- UnreachableError     a peer cannot be reached, has closed, or does not answer in time
|   `-- RequestTimeoutError  there was no answer in time; the request may have been carried out
|-- MessageError         a message that no broker would take (also a ValueError)
|-- BusyError            as much is under way as may be, and that did not get less in time
|-- ClosedError          the client was closed, or not started
`-- NotBuiltError        the compiled modules are missing or from another version
"""

from collections.abc import Mapping
from typing import Any

from rmq.codes import ResponseCode

# Refusals that are about the account that asks (code 16): how their remarks end, in RocketMQ's
# words, and the remedy.
ACCESS_REMEDIES = {
    "username cannot be null.": "it is not signed: give access_key and secret_key",
    "is not found.": "there is no such account there: look at access_key",
    "is disabled.": "whoever is Super can enable the account",
    "check signature failed.": "secret_key is not the one of this account",
    "no matched policies.": "whoever is Super can allow it to this account",
    "the decision is deny.": "an entry forbids it to this account",
}

# How both clients say in an UnreachableError that what answers there is something else.
FOREIGN = "what came is not RocketMQ's protocol"


def not_copied(thing: object, instead: str) -> TypeError:
    """The error for `__reduce__` of an object that exists in one process only, because it has
    connections, threads, locks or memory of C. Both pickle and copy call `__reduce__`. `instead`
    says what to do."""
    return TypeError(f"a {type(thing).__qualname__} cannot be pickled or copied: {instead}")


class RmqError(Exception):
    """The base of all errors that rmq raises on purpose."""


class ConfigError(RmqError):
    """A setting is unknown, malformed or out of range; the text names key, value and remedy."""


class ProtocolError(RmqError):
    """Bytes from the wire that are not what the protocol allows."""


class AddressError(ConfigError, ProtocolError):
    """A server's address is not host:port. It is a ConfigError and a ProtocolError, because users
    give addresses, and name servers list those that brokers have registered."""


class StoreError(RmqError):
    """The store cannot do what was asked."""


class StoreLockedError(StoreError):
    """Another process holds the store directory; the text names it."""


class StoreCorruptError(StoreError):
    """A file of the store holds bytes that cannot be right; the text names file and offset."""


class StorePoisonedError(StoreError):
    """A write or fsync failed; the log refuses everything until it is reopened."""


class RemoteError(RmqError):
    """A peer answered with a code other than SUCCESS."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"code {code}: {remark}")
        self.code = code
        self.remark = remark

    def __str__(self) -> str:
        text, remedy = str(self.args[0]), self.of_access(ACCESS_REMEDIES)
        return f"{text} ({remedy})" if remedy else text

    def of_access(self, by_ending: Mapping[str, str]) -> str | None:
        """The value of `by_ending`, which has the keys of ACCESS_REMEDIES, for this error. None:
        the error is not about the account that asks."""
        if self.code != ResponseCode.NO_PERMISSION:
            return None
        remark = self.remark.strip()
        return next((text for end, text in by_ending.items() if remark.endswith(end)), None)

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is pickled as its class and `args`, which are the text alone.
        return type(self), (self.code, self.remark), self.__dict__


class RouteError(RemoteError):
    """No name server knows where the topic is."""


class UnreachableError(RmqError):
    """A peer cannot be reached, has closed, or does not answer in time; the text names it."""


class NoControllerError(UnreachableError):
    """No controller can be reached that leads."""


class PartialError(UnreachableError):
    """Some of several peers cannot be reached; what the others have was given."""


class RequestTimeoutError(UnreachableError):
    """There was no answer in time. The request may have been carried out nevertheless."""


class MessageError(RmqError, ValueError):
    """A message that no broker would take: its topic, body or a property; the text says why."""


class BusyError(RmqError):
    """Back-pressure: as much is under way as may be, and that did not get less in time."""


class ClosedError(RmqError):
    """The client is closed, or not started yet."""


class NotBuiltError(RmqError):
    """The compiled modules are missing or do not match this version of rmq."""


def exception_of(error: BaseException) -> Exception:
    """The error itself if it is an Exception. SystemExit and the like, which a user's hook may
    raise, become an RmqError, because callbacks of requests get only Exceptions."""
    return error if isinstance(error, Exception) else RmqError(repr(error))
