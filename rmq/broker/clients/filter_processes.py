"""Filter processes: the broker owner's message filters, one process each, and their pulls.

    reactor: records that passed the SQL92 part -> pull() -> question to the filter's process
    its answer -> the reply to the client: the wanted records, and the next offset

The loop never waits for a filter: questions and answers are frames on a socket pair. When a filter
cannot answer (it died, it hangs, too many questions wait) the pull is refused; the client asks
again from the same offset, so nothing is skipped. A process has at most two questions, the one it
works on and the next one. The others wait here, for at most rmqMessageFilterTimeoutMillis, so that
the process does not work on questions that were refused meanwhile. A process hangs when it has a
question and has given no answer for that time; one that answers slowly is not killed. A process
that ended or hung is started anew, first at once and then with growing pauses up to 5 s. It is
asked nothing until it has imported its function, which may take START_S. A message for which the
function raises is given to the consumer: filters may let too much through, never too little.

Example: of 32 records the function wants 3: the reply holds these 3 and nextBeginOffset + 32.
"""

import asyncio
import logging
import socket
import struct
import sys
from collections import deque
from typing import Any

import msgspec

from rmq.base.background_tasks import BackgroundTasks
from rmq.base.rate_limited_log import RateLimitedLog
from rmq.broker.core_seam import ConnectionCalls
from rmq.codes import ResponseCode
from rmq.config import Settings
from rmq.errors import ProtocolError, RmqError
from rmq.filters.functions import (
    FRAME_LENGTH,
    RAISED,
    READY,
    UNWANTED,
    Answer,
    Question,
    named_functions,
)
from rmq.format.remoting import Command, encode
from rmq.limits import FUNCTION_FRAME_BYTES_MAX

log = logging.getLogger("rmq.broker.filter_processes")
quiet = RateLimitedLog(log)

QUESTIONS_MAX = 256  # per filter; further pulls are refused, and clients try again
IN_PROCESS_MAX = 2  # of these questions, how many its process has
PAUSES_S = (0.0, 0.1, 0.5, 1.0, 2.0, 5.0)
START_S = 120.0  # to import a function: it may load a model
HEALTHY_S = 10.0  # a process that lived this long is started again at once
_PULL = struct.Struct("=iiiiqqqqqq")


class FilterDownError(RmqError):
    """The filter cannot answer now."""


class _Asked(msgspec.Struct, eq=False):
    """A question that waits until the process can take it."""

    records: bytes
    answer: asyncio.Future[Answer]
    late: asyncio.TimerHandle | None = None  # refuses it


class _Process(msgspec.Struct, eq=False):
    """A running filter: its socket, the questions that it has and those that wait here."""

    handle: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    line: deque[_Asked]
    waiting: dict[int, asyncio.Future[Answer]] = {}
    silent: asyncio.TimerHandle | None = None  # kills the process; set while it has a question


class FunctionFilter:
    """One filter; its process is kept running by run()."""

    def __init__(self, name: str, place: str, path: str, timeout_ms: int) -> None:
        self.name = name
        self.place = place
        self.path = path
        self.timeout_ms = timeout_ms
        self.starts = 0
        self._process: _Process | None = None
        self._numbers = 0

    async def ask(self, records: bytes) -> Answer:
        """The verdicts; FilterDownError when the process cannot answer."""
        process = self._process
        if process is None:
            raise FilterDownError(f"message filter {self.name!r} is being started again")
        if len(process.line) + len(process.waiting) >= QUESTIONS_MAX:
            raise self._overloaded()
        loop = asyncio.get_running_loop()
        asked = _Asked(records, loop.create_future())
        process.line.append(asked)
        asked.late = loop.call_later(self.timeout_ms / 1000, self._refuse, process, asked)
        is_idle = not process.waiting
        self._send(process)
        if is_idle:
            self._watch(process)
        try:
            return await asked.answer
        finally:
            asked.late.cancel()

    def _overloaded(self) -> FilterDownError:
        return FilterDownError(f"message filter {self.name!r} has more to do than it can")

    def _refuse(self, process: _Process, asked: _Asked) -> None:
        """Refuses a question whose turn has not come in time."""
        process.line.remove(asked)
        if not asked.answer.done():
            asked.answer.set_exception(self._overloaded())

    def _send(self, process: _Process) -> None:
        """Sends the next questions, as many as the process may have."""
        while process.line and len(process.waiting) < IN_PROCESS_MAX:
            asked = process.line.popleft()
            if asked.late is not None:
                asked.late.cancel()
            if asked.answer.done():
                continue  # nobody waits for it any more
            self._numbers += 1
            process.waiting[self._numbers] = asked.answer
            frame = msgspec.msgpack.encode(Question(self._numbers, asked.records))
            process.writer.write(FRAME_LENGTH.pack(len(frame)) + frame)

    def _watch(self, process: _Process) -> None:
        """Starts the time within which the process must give its next answer."""
        if process.silent is not None:
            process.silent.cancel()
            process.silent = None
        if process.waiting:
            loop = asyncio.get_running_loop()
            process.silent = loop.call_later(self.timeout_ms / 1000, self._hangs, process)

    def _hangs(self, process: _Process) -> None:
        if process is self._process:
            log.error("message filter %r hangs: its process is killed", self.name)
            self._process = None
            self._fail(process, f"did not answer within {self.timeout_ms} ms")
            kill(process)

    def _fail(self, process: _Process, why: str) -> None:
        """Fails all questions of the process, with the reason."""
        for answer in [*process.waiting.values(), *(asked.answer for asked in process.line)]:
            if not answer.done():
                answer.set_exception(FilterDownError(f"message filter {self.name!r} {why}"))

    def _is_late(self, process: _Process) -> None:
        if process is not self._process:
            log.error("message filter %r is not imported within %.0f s: its process is killed",
                      self.name, START_S)  # fmt: skip
            kill(process)

    async def run(self) -> None:
        """Keeps the filter's process running until it is cancelled."""
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(PAUSES_S[min(failures, len(PAUSES_S) - 1)])
            began = loop.time()
            try:
                await self._one_life()
            except OSError as error:
                log.error("message filter %r cannot be started: %s", self.name, error)
            failures = 0 if loop.time() - began > HEALTHY_S else failures + 1

    async def _one_life(self) -> None:
        process = await start_process(self.place, self.path)
        self.starts += 1
        late = asyncio.get_running_loop().call_later(START_S, self._is_late, process)
        try:
            await self._read(process)
        except (asyncio.IncompleteReadError, ConnectionError, ProtocolError) as error:
            if isinstance(error, ProtocolError):
                log.error("message filter %r: %s", self.name, error)
        finally:
            late.cancel()
            if process.silent is not None:
                process.silent.cancel()
            self._process = None
            kill(process)
            self._fail(process, "ended")
            process.writer.close()
            code = await process.handle.wait()
        quiet.log(
            logging.ERROR, f"ended {self.name}",
            "message filter %r (%s) ended with %d and is started again; why stands above",
            self.name, self.place, code,
        )  # fmt: skip

    async def _read(self, process: _Process) -> None:
        decoder = msgspec.msgpack.Decoder(Answer)
        while True:
            (length,) = FRAME_LENGTH.unpack(await process.reader.readexactly(FRAME_LENGTH.size))
            if length > FUNCTION_FRAME_BYTES_MAX:
                raise ProtocolError(f"an answer of {length} bytes")
            try:
                answer = decoder.decode(await process.reader.readexactly(length))
            except msgspec.DecodeError as error:
                raise ProtocolError(f"no answer: {error}") from None
            if answer.number == READY:
                self._process = process
                continue
            waiting = process.waiting.pop(answer.number, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)
            self._send(process)
            self._watch(process)


async def start_process(place: str, path: str) -> _Process:
    ours, theirs = socket.socketpair()
    try:
        handle = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "rmq.filters.worker", str(theirs.fileno()), place, path,
            pass_fds=(theirs.fileno(),), stdin=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    reader, writer = await asyncio.open_connection(sock=ours)
    return _Process(handle, reader, writer, deque())


def kill(process: _Process) -> None:
    if process.handle.returncode is None:
        process.handle.kill()


class FilterProcesses:
    """All filters of this broker, by name and by the number that the reactor uses."""

    def __init__(self, settings: Settings, core: ConnectionCalls) -> None:
        self._core = core
        places = named_functions(settings.rmqMessageFilters)
        self._filters = [
            FunctionFilter(
                name, place, settings.rmqMessageFilterPath, settings.rmqMessageFilterTimeoutMillis
            )
            for name, place in places.items()
        ]
        self._numbers = {name: number for number, name in enumerate(places, 1)}
        self._tasks = BackgroundTasks()

    def number(self, name: str) -> int:
        """The filter's number, 0 for the empty name; ValueError names the filters that exist."""
        if not name:
            return 0
        if name not in self._numbers:
            known = ", ".join(self._numbers) or "none; the setting is rmqMessageFilters"
            raise ValueError(f"this broker has no message filter {name[:64]!r}, but: {known}")
        return self._numbers[name]

    def filter(self, name: str) -> FunctionFilter:
        return self._filters[self.number(name) - 1]

    def start(self) -> None:
        for each in self._filters:
            self._tasks.start(each.run())

    async def stop(self) -> None:
        await self._tasks.stop()

    def pull(self, connection: int, payload: bytes) -> None:
        """Takes a pull from the reactor whose records a filter must judge."""
        head = _PULL.unpack_from(payload)
        opaque, kind, number, queue_id, following, least, most, delta, is_static, length = head
        at = _PULL.size + length
        topic = payload[_PULL.size : at].decode("utf-8", "replace")
        request = Command(code=0, opaque=opaque, serialize_type=kind)
        fields = {
            "suggestWhichBrokerId": 0, "nextBeginOffset": following,
            "minOffset": least, "maxOffset": most,
        }  # fmt: skip
        if is_static:
            fields["offsetDelta"] = delta
        self._tasks.start(
            self._answer(connection, request, fields, self._filters[number - 1],
                         payload[at:], f"{topic} queue {queue_id}")
        )  # fmt: skip

    async def _answer(
        self, connection: int, request: Command, fields: dict[str, Any],
        function: FunctionFilter, records: bytes, where: str,
    ) -> None:  # fmt: skip
        try:
            answer = await function.ask(records)
            body = wanted(records, answer.verdicts)
        except (FilterDownError, ProtocolError) as error:
            quiet.warning(f"down {function.name}", "pull of %s: %s", where, error)
            reply = request.reply(ResponseCode.SYSTEM_ERROR, f"{error}; pull again")
        else:
            if RAISED in answer.verdicts:
                quiet.warning(
                    f"raised {function.name}",
                    "message filter %r raised, the message is given to the consumer: %s",
                    function.name, answer.error,
                )  # fmt: skip
            reply = request.reply(
                ResponseCode.SUCCESS if body else ResponseCode.PULL_RETRY_IMMEDIATELY,
                "FOUND" if body else "NO_MATCHED_MESSAGE", fields, body,
            )  # fmt: skip
        self._core.send(connection, encode(reply))


def wanted(records: bytes, verdicts: bytes) -> bytes:
    """The records that pass or for which the function raised; ProtocolError unless each record has
    a verdict."""
    found, at = [], 0
    for verdict in verdicts:
        size = int.from_bytes(records[at : at + 4], "big")
        if not 0 < size <= len(records) - at:
            raise ProtocolError("a message filter answered about more messages than it was asked")
        if verdict != UNWANTED:
            found.append(records[at : at + size])
        at += size
    if at != len(records):
        raise ProtocolError("a message filter answered about fewer messages than it was asked")
    return b"".join(found)
