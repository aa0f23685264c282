"""Producer, TransactionProducer of rmq.aio: sends that a coroutine awaits.

`send` is the engine's asynchronous send, and its result is delivered in the loop. Work that may
block (looking up the route of a topic for the first time, making a connection with TLS, starting,
closing, local transactions) runs in a thread of the loop's executor. Back-pressure does not block
the loop: sends that find no room wait in turn, and the first of them looks again every 2 ms.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from cext.client.mailbox import Mailbox
from cext.client.message import Message, MessageExt
from cext.client.result import SendResult
from cext.client.sender import monotonic_ms
from rmq.aio.base import LoopClient, threaded
from rmq.client.connection.instance import ClientInstance
from rmq.client.parameters import ProducerParameters, TransactionProducerParameters
from rmq.client.parameters.parameter_help import documented
from rmq.client.producer.base import Chosen
from rmq.client.producer.producer import ProducerImpl
from rmq.client.producer.targets import Selector
from rmq.client.producer.transaction import (
    TransactionListener,
    TransactionProducerImpl,
    TransactionResult,
)
from rmq.errors import BusyError, ClosedError, RequestTimeoutError, UnreachableError
from rmq.format.fastjson import MessageQueue

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from rmq.client.parameters.keywords import ProducerKeywords, TransactionProducerKeywords

R = TypeVar("R")
WAIT_S = 0.002  # the pause between two looks at whether there is room


class _LoopProducer(ProducerImpl):
    """A producer whose sends are completed in an event loop."""

    loop_mailbox: Mailbox | None = None

    def _connect(self, instance: ClientInstance) -> None:
        super()._connect(instance)
        self.loop_mailbox = Mailbox(instance.engine)
        self.connect_sender(instance.engine, self.loop_mailbox)

    @property
    def is_idle(self) -> bool:
        """Whether no send is under way or waits for another try."""
        return not self._in_flight()


@documented(ProducerParameters)
class Producer(LoopClient[_LoopProducer]):
    """The same as rmq.Producer, used in one event loop.

    async with Producer("orders-service", namesrv_addr="127.0.0.1:9876") as producer:
        result = await producer.send(Message("orders", b"paid"))
    """

    def __init__(
        self,
        producer_group: str | None = None,
        *,
        parameters: ProducerParameters | None = None,
        **changes: Unpack[ProducerKeywords],
    ) -> None:
        super().__init__(_LoopProducer(producer_group, parameters=parameters, **changes))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0  # the loop's
        self._closing: asyncio.Future[None] | None = None  # set by close; no sends from then on
        self._turn = asyncio.Lock()  # held by the send that is next to get room
        self._dials: dict[str, asyncio.Future[int]] = {}  # by address

    async def start(self) -> Self:
        """Connects; an `async with` does this. If it is cancelled, the producer is closed."""
        if self._loop is not None:
            return self
        loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        await super().start()
        mailbox = self._client.loop_mailbox
        assert mailbox is not None
        mailbox.on_error = self._report
        loop.add_reader(mailbox.fileno(), mailbox.deliver)
        self._loop = loop
        return self

    async def close(self) -> None:
        """Sends what was gathered, waits for sends under way, and unregisters from the brokers.
        If a coroutine that waits for close is cancelled, closing goes on; another call of close
        waits for it."""
        if self._loop is None:
            return
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._end(self._loop))
        await asyncio.shield(self._closing)

    async def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        mailbox = self._client.loop_mailbox
        assert mailbox is not None
        try:
            await self._drain(self._client.timeout_ms)
        finally:  # also if the loop ends meanwhile
            try:
                await super().close()
                mailbox.deliver()  # the sends that failed because the engine was closed
            finally:
                loop.remove_reader(mailbox.fileno())
                self._loop = None

    async def _drain(self, timeout_ms: float) -> bool:
        self._client.seal_batches()
        until = asyncio.get_running_loop().time() + timeout_ms / 1000
        while not self._client.is_idle:
            if asyncio.get_running_loop().time() > until:
                return False
            await asyncio.sleep(WAIT_S)
        return True

    async def flush(self, timeout_ms: float | None = None) -> bool:
        """Sends what was gathered, and waits until no send is under way. False: some still are
        after timeout_ms."""
        return await self._drain(self._client.timeout_ms if timeout_ms is None else timeout_ms)

    @property
    def _open_loop(self) -> asyncio.AbstractEventLoop:
        """The producer's loop; ClosedError before start, and as soon as close is called."""
        if self._loop is None or self._closing is not None:
            raise ClosedError("the producer is not started, or closed")
        return self._loop

    def _report(self, error: BaseException) -> None:
        assert self._loop is not None
        self._loop.call_exception_handler({"message": "a send's end", "exception": error})

    # ---- sends

    async def send(
        self,
        message: Message,
        *,
        timeout_ms: float | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> SendResult:
        """Sends the message, and returns where it was stored. Other brokers are tried as by
        rmq.Producer.send_async."""
        return await (await self.send_soon(
            message, timeout_ms=timeout_ms, queue=queue, selector=selector, arg=arg
        ))  # fmt: skip

    async def send_soon(
        self,
        message: Message,
        *,
        timeout_ms: float | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> asyncio.Future[SendResult]:
        """Returns when the message is on its way, with a future that is done when it is stored."""
        loop, producer = self._open_loop, self._client
        if message.topic not in producer.topics:
            await loop.run_in_executor(None, producer.queues, message.topic)
        limit_ms = producer.timeout_ms if timeout_ms is None else timeout_ms
        future: asyncio.Future[SendResult] = loop.create_future()
        ended = functools.partial(self._ended, loop, future)
        if producer.parameters.use_tls:
            chosen = producer.chosen(message, queue, selector, arg)
            await self._send_by_tls(chosen, message, ended, limit_ms)
            return future
        size = len(message.body)
        if self._turn.locked() or not producer.has_room(size):
            await self._room(size, limit_ms)
        if timeout_ms is None and queue is None and selector is None:
            producer.send_async(message, ended)
        else:
            producer.send_async(
                message, ended, queue=queue, selector=selector, arg=arg, timeout_ms=timeout_ms
            )
        return future

    async def _send_by_tls(
        self, chosen: Chosen, message: Message, ended: Callable[..., None], timeout_ms: float
    ) -> None:
        """Makes the connection first. A broker that cannot be reached is not an exception here: the
        send goes on to other tries, as without TLS, and `ended` is called with its end."""
        producer, until_ms = self._client, monotonic_ms() + timeout_ms
        try:
            await self._ready(len(message.body), timeout_ms, chosen.target.address)
        except UnreachableError as error:
            left_ms = until_ms - monotonic_ms()
            producer.send_chosen(message, ended, chosen, left_ms, error)
        else:
            producer.send_chosen(message, ended, chosen, timeout_ms)

    def _ended(
        self,
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[SendResult],
        result: SendResult | None,
        error: Exception | None,
    ) -> None:
        """Settles the future of a send. As a rule this is called in the loop. A send that waited
        for another try may end in the thread that makes the tries, or in the one that closes; from
        there the loop must be woken."""
        if threading.get_ident() == self._thread:
            _settle(future, result, error)
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_settle, future, result, error)

    async def _ready(self, size: int, timeout_ms: float, address: str) -> None:
        """Returns when a send of `size` bytes to this address can begin without waiting."""
        producer = self._client
        while True:
            if self._turn.locked() or not producer.has_room(size):
                await self._room(size, timeout_ms)
            if not producer.must_dial(address):
                return
            await self._dial(address, timeout_ms)

    async def _dial(self, address: str, timeout_ms: float) -> None:
        """Makes a connection in a thread, because it takes as long as its handshake. All sends that
        need the same connection wait for one dial."""
        dial = self._dials.get(address)
        if dial is None:
            dial = asyncio.ensure_future(threaded(self._client.instance.link, address))
            self._dials[address] = dial
            dial.add_done_callback(functools.partial(self._dialled, address))
        done, _ = await asyncio.wait([dial], timeout=timeout_ms / 1000)
        if not done:
            raise RequestTimeoutError(f"{address}: no connection within {timeout_ms:g} ms")
        dial.result()

    def _dialled(self, address: str, dial: asyncio.Future[int]) -> None:
        del self._dials[address]
        if not dial.cancelled():
            dial.exception()  # marks it as seen: the sends that waited may have been cancelled

    async def _room(self, size: int, timeout_ms: float) -> None:
        """Waits until there is room for a send of `size` bytes. BusyError: there was none in
        time."""
        producer, loop = self._client, asyncio.get_running_loop()
        until = loop.time() + timeout_ms / 1000
        try:
            await asyncio.wait_for(self._turn.acquire(), timeout_ms / 1000)
        except asyncio.TimeoutError:
            raise self._busy(timeout_ms) from None
        try:
            while not producer.has_room(size):
                if loop.time() > until:
                    raise self._busy(timeout_ms)
                await asyncio.sleep(WAIT_S)
        finally:
            self._turn.release()

    def _busy(self, timeout_ms: float) -> BusyError:
        producer = self._client
        return BusyError(
            f"{producer.messages_in_flight} messages ({producer.bytes_in_flight} bytes) are under "
            f"way, and it did not get less within {timeout_ms:g} ms"
        )

    async def send_batch(
        self,
        messages: Iterable[Message],
        *,
        timeout_ms: float | None = None,
        queue: MessageQueue | None = None,
    ) -> list[SendResult]:
        """Sends messages of one topic in as few requests as max_message_size allows, and returns
        one result for each, in their order."""
        return await self._threaded(self._client.send_batch, list(messages),
                                    timeout_ms=timeout_ms, queue=queue)  # fmt: skip

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> None:
        """Sends without an answer: it is not known whether the message was stored."""
        await self._threaded(self._client.send_oneway, message, queue=queue, selector=selector,
                             arg=arg)  # fmt: skip

    async def recall(self, topic: str, recall_handle: str) -> str:
        """Takes back a message that is delayed to a time, and returns its message id."""
        return await self._threaded(self._client.recall, topic, recall_handle)

    async def request(self, message: Message, timeout_ms: float | None = None) -> MessageExt:
        """Sends the message and waits for a consumer's reply to it."""
        return await self._threaded(self._client.request, message, timeout_ms)

    async def reply(self, request: MessageExt, body: bytes) -> None:
        """Answers a message that somebody sent with `request`."""
        await self._threaded(self._client.reply, request, body)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that messages of this topic are sent to."""
        return await self._threaded(self._client.queues, topic)

    async def _threaded(self, function: Callable[..., R], *arguments: Any, **named: Any) -> R:
        _ = self._open_loop
        return await threaded(function, *arguments, **named)


def _settle(
    future: asyncio.Future[SendResult], result: SendResult | None, error: Exception | None
) -> None:
    """Gives the future its result or exception, unless it is done. Called in the future's loop."""
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        assert result is not None
        future.set_result(result)


@documented(TransactionProducerParameters)
class TransactionProducer(LoopClient[TransactionProducerImpl]):
    """The same as rmq.TransactionProducer, but it sends in transactions only; a Producer sends
    other messages. The listener is called in threads, as it is there."""

    def __init__(
        self,
        producer_group: str | None = None,
        transaction_listener: TransactionListener | None = None,
        *,
        parameters: TransactionProducerParameters | None = None,
        **changes: Unpack[TransactionProducerKeywords],
    ) -> None:
        super().__init__(
            TransactionProducerImpl(
                producer_group, transaction_listener, parameters=parameters, **changes
            )
        )

    async def send_in_transaction(
        self, message: Message, arg: Any = None, *, timeout_ms: float | None = None
    ) -> TransactionResult:
        """Stores the half message, runs the local transaction, and tells the broker its end, as
        rmq.TransactionProducer does, in a thread."""
        return await threaded(self._client.send_in_transaction, message, arg, timeout_ms=timeout_ms)
