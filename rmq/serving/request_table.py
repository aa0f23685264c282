"""Request table: which function answers which request code, for servers that hold no store.

    requests: RequestTable[Requests] = RequestTable()

    @requests.handles(RequestCode.GET_KV_CONFIG)
    def _get_kv(ns: Requests, request: Command, connection: object) -> Command: ...

    requests.start(ns, request, connection)     the reply, or a coroutine for it

A handler takes the server's state, the request and the connection it came on. The caller handles
its exceptions: the server's failure() makes the reply, with unexpected() if it is a bug.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from rmq.codes import RequestCode, ResponseCode
from rmq.format.remoting import Command

State = TypeVar("State")
Reply = Command | Awaitable[Command]


class RequestTable(Generic[State]):
    def __init__(self) -> None:
        self._handlers: dict[int, Callable[[State, Command, object], Reply]] = {}

    def handles(
        self, code: RequestCode
    ) -> Callable[
        [Callable[[State, Command, object], Reply]], Callable[[State, Command, object], Reply]
    ]:
        """A decorator that makes a function the handler of a code; a code has only one."""

        def note(
            handler: Callable[[State, Command, object], Reply],
        ) -> Callable[[State, Command, object], Reply]:
            assert code not in self._handlers
            self._handlers[int(code)] = handler
            return handler

        return note

    @property
    def codes(self) -> frozenset[int]:
        return frozenset(self._handlers)

    def start(self, state: State, request: Command, connection: object) -> Reply:
        handler = self._handlers.get(request.code)
        if handler is None:
            return request.reply(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                f" request type {request.code} not supported",
            )
        return handler(state, request, connection)


def unexpected(log: logging.Logger, request: Command, error: Exception) -> Command:
    """The reply to a request that failed because of a bug, which is logged."""
    log.error("request %d failed", request.code, exc_info=error)
    return request.reply(ResponseCode.SYSTEM_ERROR, f"internal error: {type(error).__name__}")
