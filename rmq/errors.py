"""Errors: the exception tree of rmq. It imports rmq.codes, and nothing else of ours.

RmqError
|-- ConfigError          a setting is unknown, malformed or out of range
|-- ProtocolError        bytes that are not a RocketMQ frame, or a field that breaks a limit
|-- StoreError           the store cannot do what was asked
|   |-- StoreLockedError     another process holds the store directory
|   |-- StoreCorruptError    a file holds bytes that cannot be right
|   `-- StorePoisonedError   a write or fsync failed; nothing is acked any more
|-- RemoteError          a peer answered with a code other than SUCCESS
|   `-- RouteError           no name server knows where the topic is (code 17)
|-- UnreachableError     a peer cannot be reached, hung up, or does not answer in time
|   `-- RequestTimeoutError  there was no answer in time; what was asked may have been done
|-- MessageError         a message that no broker would take (also a ValueError)
|-- BusyError            more is under way than allowed, and it did not get less in time
|-- ClosedError          the client was closed, or not started
`-- NotBuiltError        the compiled modules are missing or from another version
"""

from collections.abc import Mapping
from typing import Any

from rmq.codes import ResponseCode

# How the refusal of who asks ends (code 16), in RocketMQ's words, and what helps.
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
    """What `__reduce__` raises of a thing that lives in one process: connections, threads, locks,
    memory of C. pickle and copy both ask there. `instead` says what to do."""
    return TypeError(f"a {type(thing).__qualname__} cannot be pickled or copied: {instead}")


class RmqError(Exception):
    """Base of all errors that rmq raises on purpose."""


class ConfigError(RmqError):
    """A setting is unknown, malformed or out of range; the text names key, value and remedy."""


class ProtocolError(RmqError):
    """Bytes from the wire that are not what the protocol allows."""


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
        """What `by_ending` has for it, with the keys of ACCESS_REMEDIES; None: it is about
        something else than who asks."""
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
    """A peer cannot be reached, hung up, or does not answer in time; the text names it."""


class NoControllerError(UnreachableError):
    """No controller that leads can be reached."""


class RequestTimeoutError(UnreachableError):
    """There was no answer in time. What was asked for may have been done nevertheless."""


class MessageError(RmqError, ValueError):
    """A message that no broker would take: its topic, body or a property; the text says why."""


class BusyError(RmqError):
    """More is under way than allowed, and it did not get less in time: back-pressure."""


class ClosedError(RmqError):
    """The client was closed, or not started yet."""


class NotBuiltError(RmqError):
    """The compiled modules are missing or do not match this version of rmq."""


def exception_of(error: BaseException) -> Exception:
    """Itself; an RmqError for SystemExit and its like, which a user's hook may raise: who is told
    of a request's end is told of exceptions."""
    return error if isinstance(error, Exception) else RmqError(repr(error))
