"""From the core's reports to handlers and back: poll, decode, look up, answer.

    core.control_fd readable -> core.poll() -> OPENED   note the connection
                                               CLOSED   everyone forgets it
                                               EVENT    log
                                               REQUEST  response flag: match a call of ours
                                                        else: handler by code

The reactor reads no more of a client whose send is here (cext/flow/send/sends_away.pxd), so each is
reported as done, whatever came of it.

A handler's Refusal is answered with its code, a ProtocolError (missing or malformed field) with 1
and its text, anything else with 1, the exception's description and one log line with the place. A
one-way request gets no reply, whatever happens. Unknown codes get 3.

Example: request 999 is answered with code 3 and " request type 999 not supported".
"""

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING

from rmq.broker import core_seam
from rmq.broker.connections import Connection
from rmq.broker.quiet_log import QuietLog
from rmq.broker.request import Handler, Refusal, Reply, Request
from rmq.broker.request_times import RequestTimes
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ProtocolError
from rmq.format.remoting import Command, decode, encode

if TYPE_CHECKING:
    from rmq.broker.broker import Broker

log = logging.getLogger("rmq.broker.requests")
quiet = QuietLog(log)

SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
WAITING_MAX = 8192  # requests whose handlers wait for something; more are told to come back later


class Dispatcher:
    """Owned by the control thread."""

    def __init__(self, broker: "Broker", handlers: Mapping[int, Handler]) -> None:
        self._broker = broker
        self._handlers = handlers
        self._waiting: set[asyncio.Task[None]] = set()
        self.times = RequestTimes(lambda topic: broker.topics.is_system(topic))

    def poll(self) -> None:
        """Takes all that the core has to report."""
        broker = self._broker
        for kind, number, payload in broker.core.poll():
            if kind == core_seam.REQUEST:
                self._frame(broker.connections.get(number), payload)
            elif kind == core_seam.OPENED:
                broker.connections.opened(number, payload.decode("utf-8", "replace"))
            elif kind == core_seam.CLOSED:
                connection = broker.connections.closed(number)
                if connection is not None:
                    broker.connection_closed(connection)
            elif kind == core_seam.FUNCTION_PULL:
                broker.functions.pull(number, payload)
            elif kind == core_seam.WANT_TOPIC:
                broker.delays.want_topic(payload.decode("utf-8", "replace"), number)
            else:
                text = payload.decode("utf-8", "replace")
                quiet.warning(f"core {text}", "core: %s", text)

    async def for_sibling(self, frame: bytes) -> Command:
        """Answers a request (frame without its length bytes) that another shard passes on."""
        command = decode(frame)
        request = Request(Connection(-1, "0.0.0.0:0"), command, frame)
        handler = self._handlers.get(command.code)
        try:
            if handler is None:
                raise ProtocolError(f"request type {command.code} not supported")
            result = handler(self._broker, request)
            reply = result if result is None or isinstance(result, Command) else await result
        except Exception as error:
            reply = self._failure(request, error)
        return reply if reply is not None else command.reply(ResponseCode.SYSTEM_ERROR)

    async def drain(self, timeout_s: float) -> None:
        """Waits for handlers under way; those that take longer are cancelled."""
        if self._waiting:
            _, late = await asyncio.wait(set(self._waiting), timeout=timeout_s)
            for task in late:
                task.cancel()

    def _frame(self, connection: Connection, frame: bytes) -> None:
        try:
            command = decode(frame)
        except ProtocolError as error:
            quiet.warning("frame", "%s is closed: malformed frame: %s", connection.address, error)
            self._broker.core.close_connection(connection.number)
            return
        if command.is_response:
            self._broker.client_calls.answered(connection, command)
            return
        connection.language, connection.version = command.language, command.version
        self._request(Request(connection, command, frame))

    def _request(self, request: Request) -> None:
        command = request.command
        handler = self._handlers.get(command.code)
        if handler is None:
            self._answer(
                request,
                command.reply(
                    ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                    f" request type {command.code} not supported",
                ),
            )
            return
        try:
            result = handler(self._broker, request)
        except Exception as error:
            self._answer(request, self._failure(request, error))
            return
        if result is None or isinstance(result, Command):
            self._answer(request, result)
        elif len(self._waiting) >= WAITING_MAX:
            _discard(result)
            self._answer(
                request,
                command.reply(
                    ResponseCode.SYSTEM_BUSY,
                    "[OVERLOAD]system busy, start flow control for a while: "
                    f"{WAITING_MAX} requests are waiting",
                ),
            )
        else:
            task = asyncio.get_running_loop().create_task(self._finish(request, result))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    async def _finish(self, request: Request, result: Awaitable[Reply]) -> None:
        try:
            reply = await result
        except Exception as error:
            reply = self._failure(request, error)
        self._answer(request, reply)

    def _failure(self, request: Request, error: Exception) -> Command:
        command = request.command
        if isinstance(error, Refusal):
            return command.reply(error.code, error.remark)
        if isinstance(error, ProtocolError):
            quiet.warning(
                f"bad {command.code}",
                "request %d of %s: %s", command.code, request.connection.address, error,
            )  # fmt: skip
            return command.reply(ResponseCode.SYSTEM_ERROR, str(error))
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown place"
        quiet.say(
            logging.ERROR,
            f"failed {command.code} {place}",
            "request %d of %s failed at %s: %r",
            command.code, request.connection.address, place, error,
        )  # fmt: skip
        return command.reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")

    def _answer(self, request: Request, reply: Reply) -> None:
        core, number = self._broker.core, request.connection.number
        if reply is not None and not request.command.is_oneway:
            try:
                frame = encode(reply)
            except ProtocolError as error:
                reply = request.command.reply(ResponseCode.SYSTEM_ERROR, str(error))
                frame = encode(reply)
            self.times.answered(request, reply.code)
            core.send(number, frame)
        if request.command.code in SENDS:
            core.send_done(number)


def _discard(result: Awaitable[Reply]) -> None:
    """Says to a coroutine or future that nobody awaits it."""
    for name in ("close", "cancel"):
        method = getattr(result, name, None)
        if method is not None:
            method()
            return
