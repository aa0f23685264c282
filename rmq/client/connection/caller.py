"""Caller: requests to addresses, over the connections of one client's engine.

    caller.call(address, code, fields, body)       # Reply with code SUCCESS, or RemoteError
    caller.ask(address, code, fields, body)        # Reply, whatever its code
    caller.submit(address, code, fields, body, timeout_ms, done)     # done(reply, error) later
    caller.post(address, code, fields, body)       # one-way
    caller.name_server_ask(code, fields)           # of the first name server that answers

The hook (rpc_hook, or that of access_key) sees every request before it is sent, and every answer.
With TLS the thread that first needs a connection makes it, here; without TLS the engine does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cext.client.engine import Engine
from cext.client.mailbox import Mailbox
from cext.client.reply import Reply
from cext.client.request import encode_request
from rmq.base.server_address import split_address
from rmq.client.connection.name_servers import NameServerSource
from rmq.client.connection.routes import NO_NAME_SERVER
from rmq.client.parameters import ClientParameters
from rmq.client.parameters.hooks import RpcHook
from rmq.codes import FLAG_ONE_WAY, ResponseCode
from rmq.errors import ClosedError, RemoteError, RmqError, UnreachableError
from rmq.format.remoting import field_texts

Fields = Mapping[str, Any] | None
Done = Callable[[Reply | None, Exception | None], object]


class Caller:
    """The requests of one client; any thread may use it."""

    def __init__(self, parameters: ClientParameters) -> None:
        self.parameters = parameters
        self.engine = Engine(parameters.mq_client_api_timeout)
        self.callbacks = Mailbox(self.engine)
        self.closed = False
        self._name_servers = NameServerSource(parameters)
        self._turn = 0
        self._links: dict[str, int] = {}

    def link_number(self, address: str) -> int:
        """The number of the engine's link to this address, connected or not. UnreachableError: the
        host's name has no address."""
        number = self._links.get(address)
        if number is None:
            if self.closed:
                raise ClosedError("the client is closed")
            host, port = split_address(address)
            number = self._links[address] = self.engine.link(host, port)
        return number

    def link(self, address: str) -> int:
        """The same for a caller that sends at once: with TLS the connection is made first."""
        number = self.link_number(address)
        if self.parameters.use_tls and not self.engine.is_open(number):
            from rmq.client.connection.tls import dial

            host, port = split_address(address)
            self.engine.give(number, dial(host, port, self.parameters))
        return number

    def open_link(self, address: str) -> int:
        """The same for a caller that must not wait. UnreachableError: with TLS there is no
        connection."""
        number = self.link_number(address)
        if self.must_connect(address):
            raise UnreachableError(f"{address}: connection lost")
        return number

    def is_linked(self, address: str) -> bool:
        """Whether there is an open connection to this address."""
        return address in self._links and self.engine.is_open(self._links[address])

    def must_connect(self, address: str) -> bool:
        """Whether a request to this address must first wait: while its host is looked up, or with
        TLS for a connection."""
        number = self._links.get(address)
        return number is None or (self.parameters.use_tls and not self.engine.is_open(number))

    def frame(
        self, address: str, code: int, fields: Fields, body: bytes = b"", flag: int = 0
    ) -> bytes:
        """The request's bytes, with what the hook adds."""
        hook = self.parameters.hook
        given = dict(fields) if fields else {}
        if hook is not None:
            given = field_texts(given)
            hook.before_request(address, int(code), given, body)
        return encode_request(int(code), given, body, flag)

    def ask(
        self,
        address: str,
        code: int,
        fields: Fields = None,
        body: bytes = b"",
        timeout_ms: int | None = None,
    ) -> Reply:
        """Waits for the answer, whatever its code."""
        timeout_ms = self.parameters.mq_client_api_timeout if timeout_ms is None else timeout_ms
        frame = self.frame(address, code, fields, body)
        reply = self.engine.call(self.link(address), frame, timeout_ms)
        hook = self.parameters.hook
        if hook is not None:
            given = field_texts(dict(fields or {}))
            hook.after_response(address, int(code), given, reply)
        return reply

    def call(
        self,
        address: str,
        code: int,
        fields: Fields = None,
        body: bytes = b"",
        timeout_ms: int | None = None,
    ) -> Reply:
        """Waits for the answer. RemoteError: its code is not SUCCESS."""
        return self.ask(address, code, fields, body, timeout_ms).check()

    def submit(
        self,
        address: str,
        code: int,
        fields: Fields,
        body: bytes,
        timeout_ms: int,
        done: Done,
        mailbox: Mailbox | None = None,
        *,
        may_wait: bool = True,
    ) -> None:
        """Sends a request; done(reply, error) is called in a callback thread, or where `mailbox` is
        delivered. may_wait: with TLS, make a connection first if there is none; otherwise that is
        an UnreachableError."""
        frame = self.frame(address, code, fields, body)
        hook = self.parameters.hook
        completed = done if hook is None else _hooked(hook, address, int(code), fields, done)
        link = self.link(address) if may_wait else self.open_link(address)
        self.engine.submit(link, frame, timeout_ms, mailbox or self.callbacks, completed)

    def post(
        self,
        address: str,
        code: int,
        fields: Fields,
        body: bytes = b"",
        bytes_max: int = 0,
        timeout_ms: int = 0,
    ) -> None:
        """Sends a one-way request, which has no answer. bytes_max: how many bytes may wait to be
        sent to this address (0: any number). Beyond that the call waits, and is a BusyError after
        timeout_ms."""
        frame = self.frame(address, code, fields, body, FLAG_ONE_WAY)
        self.engine.post(self.link(address), frame, bytes_max, timeout_ms)

    def name_server_ask(self, code: int, fields: Fields = None, body: bytes = b"") -> Reply:
        """The answer of the first name server that answers; they are asked in turn. RemoteError:
        the peer that answers is not a name server."""
        addresses = self._name_servers.addresses()
        failures = []
        for i in range(len(addresses)):
            address = addresses[(self._turn + i) % len(addresses)]
            try:
                reply = self.ask(address, code, fields, body)
                self._turn = (self._turn + i) % len(addresses)
                if reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    text = f"{address}: {(reply.remark or '').strip()}; {NO_NAME_SERVER}"
                    raise RemoteError(reply.code, text)
                return reply
            except UnreachableError as error:
                failures.append(str(error))
        raise UnreachableError("no name server answers: " + "; ".join(failures))

    @property
    def name_servers(self) -> list[str]:
        return self._name_servers.addresses()


def _hooked(hook: RpcHook, address: str, code: int, fields: Fields, done: Done) -> Done:
    """A `done` that first shows the answer to the hook. If the hook raises, the request has
    failed."""

    def completed(reply: Reply | None, error: Exception | None) -> None:
        try:
            hook.after_response(address, code, field_texts(dict(fields or {})), reply)
        except Exception as problem:
            reply, error = None, problem
        except BaseException as problem:  # only this request ends; the mailbox reports it
            done(None, RmqError(f"the hook raised {problem!r}"))
            raise
        done(reply, error)

    return completed
