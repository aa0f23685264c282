"""TransactionProducerImpl: a message and a local transaction, both or neither.

    class Payments:
        def execute_local_transaction(self, message, arg): ...; return LocalTransactionState.COMMIT
        def check_local_transaction(self, message): ...      # asked when the end is not known

    with TransactionProducer("payments", Payments(), namesrv_addr=..) as producer:
        result = producer.send_in_transaction(Message("orders", b"paid"), arg)
        result.state

First the message is stored where no consumer sees it, as a half message. Then the listener's
execute_local_transaction runs in the caller's thread, and what it returns is the end of the
transaction. UNKNOWN, or an exception, leaves the transaction open: the broker later asks any
producer of the group, whose check_local_transaction decides. The name of the group must therefore
stay the same, and every producer of the group must know about all of the group's transactions.
"""

from __future__ import annotations

import enum
import functools
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from cext.client.message import Message, MessageExt, decode_messages
from cext.client.reply import Reply
from cext.client.result import SendResult
from rmq.base import clock
from rmq.client.connection.instance import ClientInstance
from rmq.client.connection.namespaces import unwrap, wrap
from rmq.client.connection.workers import Workers
from rmq.client.parameters import TransactionProducerParameters
from rmq.client.producer.producer import ProducerImpl
from rmq.codes import (
    TRANSACTION_COMMIT_TYPE,
    TRANSACTION_NOT_TYPE,
    TRANSACTION_PREPARED_TYPE,
    TRANSACTION_ROLLBACK_TYPE,
    RequestCode,
)
from rmq.errors import ConfigError, MessageError, RmqError
from rmq.format.message import decode_message_id
from rmq.format.remoting import field_texts

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rmq.client.parameters.keywords import TransactionProducerKeywords

log = logging.getLogger("rmq.client")

CHECKS_IN_FLIGHT_S = 30.0  # how long close waits for checks under way


class LocalTransactionState(enum.Enum):
    """How a local transaction ended."""

    COMMIT = TRANSACTION_COMMIT_TYPE
    ROLLBACK = TRANSACTION_ROLLBACK_TYPE
    UNKNOWN = TRANSACTION_NOT_TYPE


class TransactionListener(Protocol):
    """What the user implements. Both methods may be called from several threads at once."""

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        """Runs the local transaction that the message is about, and returns how it ended."""

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        """Returns how the local transaction ended. After UNKNOWN it is called again later."""


@dataclass(frozen=True)
class TransactionResult:
    """Where the half message went, and how the local transaction ended."""

    result: SendResult
    state: LocalTransactionState

    @property
    def message_id(self) -> str:
        return self.result.message_id

    @property
    def transaction_id(self) -> str:
        return self.result.transaction_id


class TransactionProducerImpl(ProducerImpl):
    """A producer that can also send in transactions."""

    parameters: TransactionProducerParameters

    def __init__(
        self,
        producer_group: str | None = None,
        transaction_listener: TransactionListener | None = None,
        *,
        parameters: TransactionProducerParameters | None = None,
        **changes: Unpack[TransactionProducerKeywords],
    ) -> None:
        given: dict[str, Any] = {**changes}
        if transaction_listener is not None:
            given["transaction_listener"] = transaction_listener
        super().__init__(producer_group, parameters=parameters, **given)
        if self.parameters.transaction_listener is None:
            self.parameters.transaction_listener = self.parameters.transaction_check_listener
        for name in ("execute_local_transaction", "check_local_transaction"):
            if not callable(getattr(self.parameters.transaction_listener, name, None)):
                raise ConfigError(f"the transaction listener has no method {name}")
        self._checks: Workers | None = None
        self._checking = 0

    @staticmethod
    def _defaults() -> TransactionProducerParameters:
        return TransactionProducerParameters()

    def _connect(self, instance: ClientInstance) -> None:
        threads = max(self.parameters.check_thread_pool_max_size,
                      self.parameters.check_thread_pool_min_size, 1)  # fmt: skip
        self._checks = Workers("checks", threads)
        super()._connect(instance)
        instance.notices.handle(RequestCode.CHECK_TRANSACTION_STATE, self._checker(instance))

    @staticmethod
    def _checker(instance: ClientInstance) -> Any:
        """Returns the handler that gives a broker's question to the producer of the message's
        group."""

        def asked(request: Reply, address: str) -> None:
            for message in decode_messages(request):
                producer = instance.heartbeats.producer(message.get_property("PGROUP") or "")
                if isinstance(producer, TransactionProducerImpl):
                    producer._check_later(message, request, address)
                else:
                    log.warning("%s asks about a transaction of an unknown group", address)

        return asked

    def close(self) -> None:
        """Waits for the checks under way, then closes. A check that calls close is not waited
        for."""
        checks, self._checks = self._checks, None
        if checks is not None and not self.is_forked:
            until = clock.monotonic() + CHECKS_IN_FLIGHT_S
            if not checks.close(until, threading.current_thread()):
                log.warning("a check of %s does not return: it is left behind", self.group)
        super().close()

    def send_in_transaction(
        self, message: Message, arg: Any = None, *, timeout_ms: float | None = None
    ) -> TransactionResult:
        """Stores the half message, runs the local transaction, and tells the broker its end.

        If execute_local_transaction raises, the exception is raised here, and the broker is told
        that the state is unknown: it will ask later. A half message that was not stored safely is
        rolled back, and no local transaction runs.
        """
        self._check(message)
        for name in ("DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"):
            if message.get_property(name) not in (None, "0"):
                raise MessageError("a message in a transaction cannot be delayed")
        message.put_property("TRAN_MSG", "true")
        message.put_property("PGROUP", self.group)
        body, sys_flag = self.compressor.compress(message.body)
        self._register(message.topic)
        result = self._synchronous.send(
            message, body, sys_flag | TRANSACTION_PREPARED_TYPE, timeout_ms
        )
        state = LocalTransactionState.UNKNOWN
        try:
            if result.is_ok:
                listener = self.parameters.transaction_listener
                found = listener.execute_local_transaction(message, arg)
                state = _state(found)
            else:
                state = LocalTransactionState.ROLLBACK
        finally:
            try:
                self._end(result, state)
            except RmqError as error:
                log.warning("end of transaction %s: %s", result.transaction_id, error)
        return TransactionResult(result, state)

    def _register(self, topic: str) -> None:
        """Sends heartbeats before the first half message of a topic: a broker that does not know
        the group has nobody to ask."""
        if topic not in self.topics:
            self.queues(topic)
            self.instance.heartbeats.send(
                wait_ms=self.parameters.mq_client_api_timeout, only_new=True
            )

    def _end(self, result: SendResult, state: LocalTransactionState) -> None:
        _, log_offset = decode_message_id(result.offset_message_id)
        fields = {
            "topic": wrap(self.parameters.namespace, result.topic), "producerGroup": self.group,
            "tranStateTableOffset": result.queue_offset, "commitLogOffset": log_offset,
            "commitOrRollback": state.value, "fromTransactionCheck": False,
            "msgId": result.message_id, "transactionId": result.transaction_id,
            "bname": result.broker_name,
        }  # fmt: skip
        address = self.instance.routes.address_of(result.broker_name)
        self.instance.post(address, RequestCode.END_TRANSACTION, fields)

    # ---- questions of brokers

    def _check_later(self, message: MessageExt, request: Reply, address: str) -> None:
        checks = self._checks
        if checks is None or self._checking >= self.parameters.check_request_hold_max:
            log.warning("a question about transaction %s is dropped", message.transaction_id)
            return
        self._checking += 1
        checks.submit(functools.partial(self._check_now, message, request, address))

    def _check_now(self, message: MessageExt, request: Reply, address: str) -> None:
        try:
            message.topic = unwrap(self.parameters.namespace, message.topic)
            state, remark = LocalTransactionState.UNKNOWN, None
            try:
                listener = self.parameters.transaction_listener
                state = _state(listener.check_local_transaction(message))
            except Exception as error:
                log.exception("check of transaction %s", message.transaction_id)
                remark = f"checkLocalTransactionState Exception, {error!r}"
            given = request.fields
            fields = {
                "topic": given.get("topic", message.topic), "producerGroup": self.group,
                "tranStateTableOffset": given.get("tranStateTableOffset"),
                "commitLogOffset": given.get("commitLogOffset"),
                "commitOrRollback": state.value, "fromTransactionCheck": True,
                "msgId": message.get_property("UNIQ_KEY") or message.message_id,
                "transactionId": given.get("transactionId"), "bname": given.get("bname"),
            }  # fmt: skip
            known = {name: value for name, value in fields.items() if value is not None}
            if remark is not None:
                log.info("transaction %s stays open: %s", message.transaction_id, remark)
            if self._instance is not None:
                self._instance.post(address, RequestCode.END_TRANSACTION, field_texts(known))
        except RmqError as error:
            log.warning("answer about transaction %s: %s", message.transaction_id, error)
        finally:
            self._checking -= 1


def _state(found: object) -> LocalTransactionState:
    """The state that the listener returned; UNKNOWN for anything that is not a state."""
    if isinstance(found, LocalTransactionState):
        return found
    log.warning("a transaction listener returned %r instead of a LocalTransactionState", found)
    return LocalTransactionState.UNKNOWN
