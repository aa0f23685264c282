"""Request table: which function answers which request code, of a server that holds no store.

    requests: RequestTable[Requests] = RequestTable()

    @requests.handles(RequestCode.GET_KV_CONFIG)
    def _get_kv(ns: Requests, request: Command, connection: object) -> Command: ...

    requests.start(ns, request, connection)     the reply, or a coroutine for it

A handler takes the server's state, the request and the connection it came on. What it raises is the
caller's: failure() of the server makes the reply, unexpected() that of a fault of ours.
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
        """A decorator; a code has one handler."""

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
    """The reply to a request that met a fault of ours, which is logged."""
    log.error("request %d failed", request.code, exc_info=error)
    return request.reply(ResponseCode.SYSTEM_ERROR, f"internal error: {type(error).__name__}")
