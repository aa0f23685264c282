"""Dispatcher: takes the core's reports to handlers and their answers back to the core.

    core.control_fd readable -> core.poll() -> OPENED   note the connection
                                               EVENT    log
                                               REFUSED  audit
                                               REQUEST  wait for the connection's turn: fair_queue
                                               CLOSED   the same, behind its requests
    turn -> REQUEST  a response: matched with a call of the broker
                     a request: checked for permission, then the handler of its code
            CLOSED   every table forgets the connection

After POLL_S the loop gets control back, even if requests still wait: so tasks that run at
intervals, such as the beats that show the supervisor that this shard lives, are late by at most
POLL_S and the time of one handler.

The reactor stops reading from a client whose send is here
(cext/flow/send/pending_topic_sends.pxd), so each send is reported as done, whatever its result.

A binary header has only 16 bits for the code (docs/protocol.md). The bits above are restored here,
once, so that everything after this point, the reactor included, judges and serves the same code.

A handler's Refusal is answered with the refusal's code; a ProtocolError (missing or malformed
field) with code 1 and its text; any other exception with code 1, a description and one log line
that names the place. A one-way request gets no reply, whatever happens. Unknown codes get 3.

Example: request 999 is answered with code 3 and " request type 999 not supported".
"""

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Generic, Protocol, TypeVar

from rmq.auth import audit
from rmq.auth.guard import note_refusal
from rmq.base import clock
from rmq.base.rate_limited_log import RateLimitedLog
from rmq.broker import core_seam
from rmq.broker.access import Access
from rmq.broker.clients.broker_to_client import BrokerToClient
from rmq.broker.clients.connections import Connection, Connections
from rmq.broker.clients.filter_processes import FilterProcesses
from rmq.broker.core_seam import ConnectionCalls
from rmq.broker.dispatch.fair_queue import FairQueue
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.dispatch.response_times import ResponseTimes
from rmq.broker.dispatch.slow_requests import SlowRequests
from rmq.broker.dispatch.topic_creations import TopicCreations
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ProtocolError
from rmq.format.remoting import ROCKETMQ, Command, decode, encode
from rmq.limits import REQUEST_HEADER_BYTES_MAX
from rmq.refusal import Refusal

log = logging.getLogger("rmq.broker.dispatcher")
quiet = RateLimitedLog(log)

SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
POLL_S = 0.010
WAITING_MAX = 8192  # requests whose handlers wait; further ones are answered "busy"


class DispatchContext(Protocol):
    """What the dispatcher itself uses of the broker."""

    access: Access
    broker_to_client: BrokerToClient
    connections: Connections
    creations: TopicCreations
    functions: FilterProcesses
    response_times: ResponseTimes
    slow_requests: SlowRequests

    @property
    def core(self) -> ConnectionCalls: ...

    def connection_closed(self, connection: Connection) -> None: ...


C = TypeVar("C", bound=DispatchContext)


class Dispatcher(Generic[C]):
    """Owned by the control thread."""

    def __init__(self, context: C, handlers: Mapping[int, Handler[C]]) -> None:
        self._context = context
        self._handlers = handlers
        self._whole_codes = {code & 0xFFFF: int(code) for code in handlers if code > 0xFFFF}
        self._waiting: set[asyncio.Task[None]] = set()
        self._queue = FairQueue(context.core, _expects_answer)
        self._poll_scheduled = False  # a call of poll() is scheduled on the loop
        self._stopped = False
        self._times = context.response_times
        self._slow = context.slow_requests

    def poll(self) -> None:
        """Takes the core's reports and serves requests for POLL_S; the loop calls it again for the
        rest."""
        began = clock.monotonic()
        queue = self._queue
        if not queue.is_full or not queue.any_open:
            self._take()
        if queue.is_full and (number := queue.close_greediest()) is not None:
            quiet.warning("deaf", "closed: a client that asks on and does not read its answers")
            self._context.core.close_connection(number)
        while (item := queue.take()) is not None:
            self._serve(*item)
            if clock.monotonic() - began >= POLL_S:
                break
        self._go_on()

    def _go_on(self) -> None:
        if self._queue.any_open and not self._poll_scheduled and not self._stopped:
            self._poll_scheduled = True
            asyncio.get_running_loop().call_soon(self._again)

    def _again(self) -> None:
        self._poll_scheduled = False
        if not self._stopped:
            self.poll()

    def _serve(self, connection: Connection, kind: int, payload: bytes, came: float) -> None:
        if kind == core_seam.REQUEST:
            self._frame(connection, payload, came)
        elif kind == core_seam.FUNCTION_PULL:
            self._context.functions.pull(connection.number, payload)
        elif self._context.connections.closed(connection.number) is not None:
            self._context.connection_closed(connection)

    def _take(self) -> None:
        context, queue = self._context, self._queue
        for kind, number, payload in context.core.poll():
            if kind in (core_seam.REQUEST, core_seam.FUNCTION_PULL):
                queue.add(context.connections.get(number), kind, payload)
            elif kind == core_seam.OPENED:
                context.connections.opened(number, payload.decode("utf-8", "replace"))
            elif kind == core_seam.CLOSED:
                if (connection := context.connections.find(number)) is not None:
                    queue.gone(connection)
            elif kind == core_seam.DRAINED:
                queue.drained(context.connections.get(number))
            elif kind == core_seam.WANT_TOPIC:
                context.creations.want(payload.decode("utf-8", "replace"), number)
            elif kind == core_seam.REFUSED:
                peer, code, known, name, text = payload.decode("utf-8", "replace").split("\n", 4)
                audit.refused(int(code), name, peer, text, known=known == "1")
            else:
                text = payload.decode("utf-8", "replace")
                quiet.warning(f"core {text}", "core: %s", text)

    async def for_sibling(self, frame: bytes, client: str) -> Command:
        """Answers a request (a frame without its length bytes) that another shard passes on.
        client: the address of the client at that shard, if there is one."""
        command = decode(frame, REQUEST_HEADER_BYTES_MAX)
        request = Request(Connection(-1, client or "0.0.0.0:0"), command)
        handler = self._handlers.get(command.code)
        try:
            if handler is None:
                raise ProtocolError(f"request type {command.code} not supported")
            result = handler(self._context, request)
            reply = result if result is None or isinstance(result, Command) else await result
        except Exception as error:
            reply = self._failure(request, error)
        return reply if reply is not None else command.reply(ResponseCode.SYSTEM_ERROR)

    async def drain(self, timeout_s: float) -> None:
        """Waits for handlers under way and cancels those that take longer; requests that were not
        begun are left."""
        self._stopped = True
        if self._waiting:
            _, late = await asyncio.wait(set(self._waiting), timeout=timeout_s)
            for task in late:
                task.cancel()

    def _frame(self, connection: Connection, frame: bytes, came: float) -> None:
        try:
            command = decode(frame, REQUEST_HEADER_BYTES_MAX)
        except ProtocolError as error:
            quiet.warning("frame", "%s is closed: malformed frame: %s", connection.address, error)
            self._context.core.close_connection(connection.number)
            return
        if command.is_response:
            self._context.broker_to_client.answered(connection, command)
            return
        if command.serialize_type == ROCKETMQ:
            command.code = self._whole_codes.get(command.code, command.code)
        access = self._context.access
        verdict = access.verdict(command, connection.address, connection.proved)
        request = Request(connection, command, verdict.user, verdict.name, arrived=came)
        if verdict.refusal:
            self._answer(request, command.reply(ResponseCode.NO_PERMISSION, verdict.refusal))
            return
        connection.language, connection.version = command.language, command.version
        self._request(request)

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
            result = handler(self._context, request)
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
            request.parted = clock.monotonic()
            task = asyncio.get_running_loop().create_task(self._finish(request, result))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
            if command.code not in SENDS:  # the reactor holds sends back and keeps their order
                self._queue.waits(request.connection, 1)
                task.add_done_callback(partial(self._finished, request.connection))

    def _finished(self, connection: Connection, task: asyncio.Task[None]) -> None:
        self._queue.waits(connection, -1)
        self._go_on()

    async def _finish(self, request: Request, result: Awaitable[Reply]) -> None:
        try:
            reply = await result
        except Exception as error:
            reply = self._failure(request, error)
        self._answer(request, reply)

    def _failure(self, request: Request, error: Exception) -> Command:
        command = request.command
        if isinstance(error, Refusal):
            note_refusal(command, request.asker, error)
            return command.reply(error.code, error.remark)
        if isinstance(error, ProtocolError):
            quiet.warning(
                f"bad {command.code}",
                "request %d of %s: %s", command.code, request.connection.address, error,
            )  # fmt: skip
            return command.reply(ResponseCode.SYSTEM_ERROR, str(error))
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown place"
        quiet.log(
            logging.ERROR,
            f"failed {command.code} {place}",
            "request %d of %s failed at %s: %r",
            command.code, request.connection.address, place, error,
        )  # fmt: skip
        return command.reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")

    def _answer(self, request: Request, reply: Reply) -> None:
        core, number = self._context.core, request.connection.number
        if reply is not None and not request.command.is_oneway and not request.connection.closed:
            try:
                frame = encode(reply)
            except ProtocolError as error:
                reply = request.command.reply(ResponseCode.SYSTEM_ERROR, str(error))
                frame = encode(reply)
            self._times.answered(request, reply.code)
            core.send(number, frame)
            self._queue.answered(request.connection, len(frame))
        if request.command.code in SENDS:
            core.send_done(number)
        self._slow.answered(request)


def _expects_answer(frame: bytes) -> bool:
    """Whether a frame (without its length bytes) would be answered."""
    try:
        command = decode(frame, REQUEST_HEADER_BYTES_MAX)
    except ProtocolError:
        return True
    return not command.is_oneway and not command.is_response


def _discard(result: Awaitable[Reply]) -> None:
    """Closes a coroutine or future that nobody will await."""
    for name in ("close", "cancel"):
        method = getattr(result, name, None)
        if method is not None:
            method()
            return
