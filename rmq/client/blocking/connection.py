"""Connection: one to a broker or a name server, used by one thread; sends requests, reads answers.

    connection = Connection("127.0.0.1:10911")
    reply = connection.call(RequestCode.GET_BROKER_RUNTIME_INFO)

`call` waits for its answer, and raises RemoteError if the code is not SUCCESS. `submit` and
`receive` are its two halves, for callers with several requests under way: answers come in any order
and are matched by their opaque number. `ask_all` does this for many requests of one kind. Requests
that the peer sends (a broker's notices to consumers) are dropped, because nothing here registers as
a consumer.

Times are in seconds. Failures of the network are UnreachableError, and close the connection.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rmq.base import clock, patience
from rmq.base.server_address import split_address
from rmq.client.blocking import credentials, encryption
from rmq.errors import FOREIGN, ProtocolError, RemoteError, UnreachableError
from rmq.format import remoting
from rmq.format.client_tls import ClientTls
from rmq.format.frame_reader import FrameReader
from rmq.format.remoting import Command
from rmq.format.signature import Credentials

CONNECT_TIMEOUT = 3.0
CALL_TIMEOUT = 5.0
IN_FLIGHT = 64  # requests of ask_all() at a time, so that no peer must keep more answers
_READ_BYTES = 256 << 10
# What often has the port that was named instead, by its first bytes.
_OTHERS = {b"HTTP": "HTTP", b"SSH-": "SSH", b"\x15\x03": "TLS"}


class Connection:
    """A socket, the frames that were read ahead from it, and the next opaque number."""

    _tls_options = encryption.COMMAND  # the names of options in errors

    def __init__(
        self,
        address: str,
        connect_timeout: float = CONNECT_TIMEOUT,
        *,
        account: Credentials | None = None,
    ) -> None:
        """account: signs the requests; None: the account of the process (credentials.py)."""
        self.address = address
        # None: requests are not signed.
        self.credentials = account if account is not None else credentials.present()
        self._opaque = 0
        self._frames = FrameReader()
        self._has_heard = False
        self._first_bytes = b""
        tls = self._tls
        with patience.awaited(address):
            try:
                plain = socket.create_connection(split_address(address), connect_timeout)
            except OSError as error:
                raise UnreachableError(f"{address}: cannot connect ({_reason(error)})") from None
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = self._secured(plain, tls)

    def _secured(self, plain: socket.socket, tls: ClientTls | None) -> socket.socket:
        host = split_address(self.address)[0]
        return tls.secured(plain, host, self.address, self._tls_options) if tls else plain

    @property
    def _tls(self) -> ClientTls | None:
        return encryption.checked_tls()

    def fileno(self) -> int:
        """For selectors: readable when `receive` has something, or when the peer has closed."""
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(
        self,
        code: int,
        fields: Mapping[str, Any] | None = None,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Command:
        """The answer, if its code is SUCCESS; RemoteError for every other code."""
        reply = self.ask(code, fields, body, timeout)
        if reply.code != 0:
            raise RemoteError(reply.code, reply.remark or "no reason given")
        return reply

    def ask(
        self,
        code: int,
        fields: Mapping[str, Any] | None = None,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Command:
        """The answer, whatever its code."""
        timeout = CALL_TIMEOUT if timeout is None else timeout
        deadline = clock.monotonic() + timeout
        opaque = self.submit(code, fields, body)
        with self._first_heard():
            while True:
                reply = self.receive(deadline - clock.monotonic())
                if reply is None:
                    raise self._silent(code, timeout)
                if reply.opaque == opaque:
                    return reply

    def _first_heard(self) -> AbstractContextManager[None]:
        return nullcontext() if self._has_heard else patience.awaited(self.address)

    def ask_all(
        self, code: int, rows: Sequence[Mapping[str, Any]], timeout: float | None = None
    ) -> list[Command]:
        """The answers to requests with these fields, in their order, whatever their codes.

        `timeout` is the longest time between two answers.
        """
        waiting: dict[int, int] = {}
        answers: dict[int, Command] = {}
        timeout = CALL_TIMEOUT if timeout is None else timeout
        asked, deadline = 0, clock.monotonic() + timeout
        while len(answers) < len(rows):
            while asked < len(rows) and len(waiting) < IN_FLIGHT:
                waiting[self.submit(code, rows[asked])] = asked
                asked += 1
            reply = self.receive(deadline - clock.monotonic())
            if reply is None:
                raise self._silent(code, timeout)
            at = waiting.pop(reply.opaque, None)
            if at is not None:
                answers[at] = reply
                deadline = clock.monotonic() + timeout
        return [answers[at] for at in range(len(rows))]

    def submit(self, code: int, fields: Mapping[str, Any] | None = None, body: bytes = b"") -> int:
        """Sends a request without waiting, and returns the opaque number of its answer."""
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        texts = remoting.field_texts(fields or {})
        if self.credentials is not None:
            texts = self.credentials.sign(texts, body)
        request = Command(code=int(code), opaque=self._opaque, fields=texts, body=body)
        try:
            self._socket.settimeout(CALL_TIMEOUT)
            self._socket.sendall(remoting.encode(request))
        except OSError as error:
            self.close()
            raise self._lost("cannot send", error) from None
        return self._opaque

    def receive(self, timeout: float) -> Command | None:
        """The next answer that arrives; None: none came within `timeout`."""
        deadline = clock.monotonic() + timeout
        while True:
            try:
                command = self._frames.next()
            except ProtocolError as error:
                self.close()
                raise self._foreign(error) from None
            if command is None:
                left = deadline - clock.monotonic()
                part = clock.sleep_s(left)
                if not self._fill(part) and part == left:
                    return None
            elif command.is_response:
                return command

    def _foreign(self, error: ProtocolError) -> UnreachableError:
        names = [name for mark, name in _OTHERS.items() if self._first_bytes.startswith(mark)]
        what = f"it speaks {names[0]}" if names else str(error)
        hint = self._tls_options.hint(None) if names == ["TLS"] else ""
        return UnreachableError(f"{self.address}: {FOREIGN} ({what}){hint}")

    def _silent(self, code: int, timeout: float) -> UnreachableError:
        self.close()
        return UnreachableError(
            f"{self.address}: no answer to request {int(code)} within {timeout:g} s"
        )

    def _fill(self, timeout: float) -> bool:
        """Reads the bytes that have come. False: none came within `timeout`."""
        try:
            # Zero would make the socket non-blocking; a millisecond serves the same purpose here.
            self._socket.settimeout(max(timeout, 0.001))
            data = self._socket.recv(_READ_BYTES)
            # Bytes that TLS has read ahead do not make the descriptor readable.
            while isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
                data += self._socket.recv(_READ_BYTES)
        except TimeoutError:
            return False
        except OSError as error:
            self.close()
            raise self._lost("connection lost", error) from None
        if not data:
            self.close()
            raise self._lost("the peer closed the connection")
        if not self._has_heard:
            self._has_heard, self._first_bytes = True, data[:4]
        self._frames.feed(data)
        return True

    def _lost(self, what: str, error: OSError | None = None) -> UnreachableError:
        options = self._tls_options
        refused = options.refusal(error) if error is not None else None
        reason = f" ({refused or _reason(error)})" if error is not None else ""
        hint = "" if self._has_heard or refused else options.hint(self._tls)
        return UnreachableError(f"{self.address}: {what}{reason}{hint}")


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return (error.strerror or str(error)).lower()
