"""Notices: requests of brokers to this client, and connections that were lost.

    notices.handle(40, function)                   # function(request, address) for each request
    notices.answer(address, request, body=b"...")  # sends nothing if the request is one-way

Handlers are called in the thread `rmq-notices`. A request that has no handler is refused.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from typing import Any

from cext.client.reply import Reply
from cext.client.request import encode_answer
from rmq.client.connection.caller import Caller
from rmq.codes import ResponseCode

log = logging.getLogger("rmq.client")

Handler = Callable[[Reply, str], object]


class Notices:
    """The notices of one client."""

    def __init__(self, caller: Caller, lost: Callable[[str], object]) -> None:
        """lost(address) is called when a connection has ended."""
        self._caller = caller
        self._lost = lost
        self._handlers: dict[int, Handler] = {}

    def handle(self, code: int, function: Handler) -> None:
        """From now on calls function(request, address) for each request of that code."""
        self._handlers[int(code)] = function

    def answer(
        self,
        address: str,
        request: Reply,
        code: int = 0,
        fields: dict[str, Any] | None = None,
        body: bytes = b"",
        remark: str | None = None,
    ) -> None:
        """Answers a broker's request, unless the request is one-way. Any thread may call it."""
        if not request.is_one_way:
            link = self._caller.link(address)
            self._caller.engine.post(link, encode_answer(request, code, fields, body, remark))

    def came(self, link: int, request: Reply | None, error: int) -> None:
        """Called by the engine for a request, or (None) when a connection has ended."""
        address = self._caller.engine.link_name(link)
        if request is None:
            if not self._caller.closed:
                why = os.strerror(error).lower() if error else "the peer closed it"
                # A refused connection says only that the peer is still away.
                level = logging.DEBUG if error == errno.ECONNREFUSED else logging.INFO
                log.log(level, "connection to %s lost (%s)", address, why)
            self._lost(address)
            return
        handler = self._handlers.get(request.code)
        if handler is None:
            code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            self.answer(address, request, code, remark=f"request {request.code} is not for clients")
            return
        try:
            handler(request, address)
        except Exception as problem:
            log.exception("request %d of %s", request.code, address)
            self.answer(address, request, ResponseCode.SYSTEM_ERROR, remark=str(problem)[:1000])
