"""Producer, TransactionProducer: the classes that users call; rmq/client/producer does the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, overload

from cext.client.message import Message, MessageExt
from cext.client.result import SendResult
from rmq.client.parameters import ProducerParameters, TransactionProducerParameters
from rmq.client.parameters.parameter_help import documented
from rmq.client.producer.producer import ProducerImpl
from rmq.client.producer.targets import Selector
from rmq.client.producer.transaction import (
    TransactionListener,
    TransactionProducerImpl,
    TransactionResult,
)
from rmq.client.threaded.base import ThreadedClient
from rmq.format.fastjson import MessageQueue

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rmq.client.parameters.keywords import ProducerKeywords, TransactionProducerKeywords

SendCallback = Callable[[SendResult | None, Exception | None], object]


@documented(ProducerParameters)
class Producer(ThreadedClient[ProducerImpl]):
    """Sends messages of one group; any number of threads may use it.

        with Producer("orders-service", namesrv_addr="127.0.0.1:9876") as producer:
            result = producer.send(Message("orders", b"paid", tags="card", keys="42"))
            producer.send_async(message, lambda result, error: ...)  # or .result() of its Future
            producer.send_oneway(message)
            results = producer.send_batch([message, ...])

    By default messages go to the topic's queues in turn. With a sharding_key, messages of equal
    keys go to one queue and keep their order; `selector(queues, message, arg)` returns the queue to
    use, and `queue` names it. A send that a broker could not take, or that got no answer because
    its connection broke, is tried again on another broker if there is one
    (retry_times_when_send_failed); a message may therefore be stored twice, with the same
    message_id. A send that got no answer in time is not tried again.
    """

    def __init__(
        self,
        producer_group: str | None = None,
        *,
        parameters: ProducerParameters | None = None,
        **changes: Unpack[ProducerKeywords],
    ) -> None:
        """`changes` are parameters by name, listed above. ConfigError: one of them is not valid."""
        self._hold(ProducerImpl(producer_group, parameters=parameters, **changes))

    def _hold(self, client: ProducerImpl) -> None:
        """Makes send_async the method of the client that is held. This saves one call of a Python
        function for each message, which is a fifth of the time that a send takes here. If a
        subclass or a test has replaced send_async, the replacement is called."""
        super().__init__(client)
        if type(self).send_async is _SEND_ASYNC:
            self.send_async = self._client.send_async  # type: ignore[method-assign]

    @property
    def parameters(self) -> ProducerParameters:
        """The parameters that the producer was made with."""
        return self._client.parameters

    # ---- life

    def close(self) -> None:
        """Sends what was gathered, waits for sends under way, and unregisters from the brokers."""
        self._client.close()

    def flush(self, timeout_ms: float | None = None) -> bool:
        """Sends what was gathered, and waits until no send is under way. False: some still are
        after timeout_ms."""
        return self._client.flush(timeout_ms)

    # ---- sends

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that messages of this topic are sent to."""
        return self._client.queues(topic)

    def send(
        self,
        message: Message,
        *,
        timeout_ms: float | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> SendResult:
        """Sends the message, and returns where it was stored. RemoteError or UnreachableError: no
        broker took it."""
        return self._client.send(
            message, timeout_ms=timeout_ms, queue=queue, selector=selector, arg=arg
        )

    @overload
    def send_async(
        self,
        message: Message,
        callback: None = None,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout_ms: float | None = None,
    ) -> Future[SendResult]: ...
    @overload
    def send_async(
        self,
        message: Message,
        callback: SendCallback,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout_ms: float | None = None,
    ) -> None: ...
    def send_async(
        self,
        message: Message,
        callback: SendCallback | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout_ms: float | None = None,
    ) -> Future[SendResult] | None:
        """Sends without waiting. When the send has ended, callback(result, error) is called in a
        thread of the client; one of the two is None. Without a callback a concurrent Future of the
        SendResult is returned."""
        return self._client.send_async(
            message, callback, queue=queue, selector=selector, arg=arg, timeout_ms=timeout_ms
        )

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> None:
        """Sends without an answer: it is not known whether the message was stored. BusyError: the
        broker reads so slowly that as many bytes as asynchronous sends may have under way are
        waiting to be sent to it."""
        self._client.send_oneway(message, queue=queue, selector=selector, arg=arg)

    def send_batch(
        self,
        messages: Iterable[Message],
        *,
        timeout_ms: float | None = None,
        queue: MessageQueue | None = None,
    ) -> list[SendResult]:
        """Sends messages of one topic in as few requests as max_message_size allows, and returns
        one result for each, in their order. If a later request fails, the messages of the earlier
        ones are stored."""
        return self._client.send_batch(messages, timeout_ms=timeout_ms, queue=queue)

    def recall(self, topic: str, recall_handle: str) -> str:
        """Takes back a message that is delayed to a time, and returns its message id. RemoteError:
        the broker does not allow it, or it is too late."""
        return self._client.recall(topic, recall_handle)

    def request(self, message: Message, timeout_ms: float | None = None) -> MessageExt:
        """Sends the message and waits for a consumer's reply to it."""
        return self._client.request(message, timeout_ms)

    def reply(self, request: MessageExt, body: bytes) -> None:
        """Answers a message that somebody sent with `request`."""
        self._client.reply(request, body)


_SEND_ASYNC = Producer.send_async


@documented(TransactionProducerParameters)
class TransactionProducer(Producer):
    """A Producer that can also send in transactions.

    class Payment(TransactionListener):
        def execute_local_transaction(self, message, arg): ...    # a LocalTransactionState
        def check_local_transaction(self, message): ...           # asked again by the broker

    with TransactionProducer("payments", Payment()) as producer:
        producer.send_in_transaction(Message("orders", b"paid", keys="42"))
    """

    _client: TransactionProducerImpl

    def __init__(
        self,
        producer_group: str | None = None,
        transaction_listener: TransactionListener | None = None,
        *,
        parameters: TransactionProducerParameters | None = None,
        **changes: Unpack[TransactionProducerKeywords],
    ) -> None:
        """`changes` are parameters by name, listed above. ConfigError: one of them is not valid."""
        self._hold(
            TransactionProducerImpl(
                producer_group, transaction_listener, parameters=parameters, **changes
            )
        )

    @property
    def parameters(self) -> TransactionProducerParameters:
        """The parameters that the producer was made with."""
        return self._client.parameters

    def close(self) -> None:
        """Waits for the checks under way, then closes as Producer.close does. A check that calls
        close is not waited for."""
        self._client.close()

    def send_in_transaction(
        self, message: Message, arg: Any = None, *, timeout_ms: float | None = None
    ) -> TransactionResult:
        """Stores the half message, runs the local transaction, and tells the broker its end.

        If execute_local_transaction raises, the exception is raised here, and the broker is told
        that the state is unknown: it will ask later. A half message that was not stored safely is
        rolled back, and no local transaction runs.
        """
        return self._client.send_in_transaction(message, arg, timeout_ms=timeout_ms)
