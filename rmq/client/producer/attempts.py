"""Attempts: the tries of an asynchronous send, each on another broker where there is one.

    attempts = Attempts(producer, targets, hooked, later, ends)
    attempts.begin(chosen, message, callback, timeout_ms)
    attempts.unreached(chosen, message, callback, error, until_ms)     # rmq.aio has no connection
    attempts.ended(...)            # True: another try follows; False: call the callback

A send that a broker could not take, or that got no answer because its connection broke, is tried
again; one that got no answer in time is tried again only with send_msg_max_timeout_per_request. A
queue that the user chose is kept: such a send begins with NO_MORE tries, so none follows.

Three things may have to be waited for, and the thread that calls callbacks must not wait. So
delayed_retries.py makes the next try later if there is no other broker (it waits for a new master,
failover_grace.py), if as many requests are under way as may be, or if TLS needs a new connection.

The connection for the first try is made by the thread that sends. If that fails, the failure is
the end of a try like any other: it is not raised, and the sending thread does not call the callback
(deferred_completions.py).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import NamedTuple

from cext.client.message import Message
from cext.client.result import SendResult
from cext.client.sender import monotonic_ms
from cext.client.target import Target
from rmq.client.producer.base import NO_MORE, Chosen, Completion, ProducerBase
from rmq.client.producer.deferred_completions import DeferredCompletions
from rmq.client.producer.delayed_retries import DelayedRetries, DelayedRetry
from rmq.client.producer.failover_grace import FailoverGrace
from rmq.client.producer.hooked_sends import HookedSends
from rmq.client.producer.targets import Targets
from rmq.codes import ResponseCode
from rmq.errors import BusyError, RemoteError, RequestTimeoutError, UnreachableError

log = logging.getLogger("rmq.client")

TRY_ELSEWHERE = {
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.NO_PERMISSION,
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.NO_BUYER_ID,
    ResponseCode.NOT_IN_CURRENT_UNIT,
    ResponseCode.NOT_LEADER_FOR_QUEUE,
    ResponseCode.GO_AWAY,
}


class Waited:
    """The callback of a send that has failed once, together with its grace, which goes on."""

    def __init__(self, producer: ProducerBase, callback: Completion, grace: FailoverGrace) -> None:
        self._producer = producer
        self._callback = callback
        self.grace = grace

    def __call__(self, result: object, error: Exception | None) -> None:
        self._producer.tell_callback(self._callback, result, error)


class FailedTry(NamedTuple):
    """A try, of one message or of a batch, that failed and that another may follow."""

    target: Target
    topic: str
    number: int  # of the try (DelayedRetry)
    attempts: int  # how many tries before this one count
    until_ms: float  # when the time for the send is over, by monotonic_ms()
    grace: FailoverGrace
    error: Exception | None  # None: it was stored, but not safely
    resend: Callable[[Target, float, int], None]  # (target, timeout_ms, tries that count)
    give_up: Callable[[], None]  # calls the callback


def _time_left(until_ms: float) -> float:
    left_ms = until_ms - monotonic_ms()
    if left_ms <= 0:
        raise RequestTimeoutError("the time for the send is over")
    return left_ms


class Attempts:
    """The tries of one producer's sends; any thread may use it."""

    def __init__(
        self,
        producer: ProducerBase,
        targets: Targets,
        hooked: HookedSends,
        delayed_retries: DelayedRetries,
        completions: DeferredCompletions,
    ) -> None:
        self._producer = producer
        self._targets = targets
        self._hooked = hooked
        self._delayed_retries = delayed_retries
        self._completions = completions

    def may_retry(self, error: Exception) -> bool:
        """Whether another broker may take what failed with this error."""
        if isinstance(error, RequestTimeoutError):
            return self._producer.parameters.send_msg_max_timeout_per_request > 0
        if isinstance(error, RemoteError):
            return error.code in TRY_ELSEWHERE
        return isinstance(error, UnreachableError)

    def begin(
        self, chosen: Chosen, message: Message, callback: Completion, timeout_ms: float
    ) -> None:
        """Makes the first try of a send."""
        try:
            self.submit(chosen.target, message, callback, timeout_ms, chosen.attempts)
        except UnreachableError as error:  # no connection by TLS, and no try is left
            self._end_soon(callback, error)

    def unreached(
        self,
        chosen: Chosen,
        message: Message,
        callback: Completion,
        error: UnreachableError,
        until_ms: float,
    ) -> None:
        """The first try got no connection. This is treated as a try that failed, except that the
        next one is not sent here, because this thread must not wait."""
        target, attempts = chosen
        if attempts < NO_MORE:
            self._targets.note(target, 0.0, error)
        late = isinstance(error, RequestTimeoutError)
        if self._goes_on(None, error, attempts, until_ms, late):
            failed = self._failed_send(
                target, message, callback, None, error, attempts, until_ms,
                next(self._hooked.numbers),
            )  # fmt: skip
            lasts = failed.grace.lasts(target, error)
            if self._try_later(failed, attempts if lasts else attempts + 1):
                return
        self._end_soon(callback, error)

    def _end_soon(self, callback: Completion, error: UnreachableError) -> None:
        self._completions.tell_soon(
            functools.partial(self._producer.tell_callback, callback, None, error)
        )

    def submit(
        self,
        target: Target,
        message: Message,
        callback: Completion,
        timeout_ms: float,
        attempts: int,
        alone: bool = False,
    ) -> None:
        """Makes one more try, after `attempts` that count. alone: the message is not gathered with
        others."""
        producer = self._producer
        body, sys_flag = producer.compressor.compress(message.body)
        if producer.direct:
            gathered = sys_flag == 0 and attempts == 0 and not alone
            producer.submit_to(
                target, message, body, sys_flag, callback, timeout_ms, attempts, None, gathered
            )
        else:
            self._hooked.submit(target, message, body, sys_flag, callback, timeout_ms, attempts)

    def ended(
        self,
        target: Target,
        message: Message,
        callback: Completion,
        result: SendResult | None,
        error: Exception | None,
        attempts: int,
        deadline_us: float,
        late: bool,
        ms: float,
        number: int,
    ) -> bool:
        """Notes how the broker did. True: another try follows; False: call the callback."""
        if attempts < NO_MORE:
            self._targets.note(target, ms, error)
        until_ms = deadline_us / 1000
        if not self._goes_on(result, error, attempts, until_ms, late):
            return False
        return self._tries_again(
            self._failed_send(target, message, callback, result, error, attempts, until_ms, number)
        )

    def _failed_send(
        self,
        target: Target,
        message: Message,
        callback: Completion,
        result: SendResult | None,
        error: Exception | None,
        attempts: int,
        until_ms: float,
        number: int,
    ) -> FailedTry:
        waited = self._waited(callback, until_ms)

        def resend(following: Target, timeout_ms: float, behind: int) -> None:
            self.submit(following, message, waited, timeout_ms, behind, True)

        return FailedTry(
            target, message.topic, number, attempts, until_ms, waited.grace, error, resend,
            functools.partial(waited, result, error),
        )  # fmt: skip

    def batch_ended(
        self,
        target: Target,
        messages: list[Message],
        callbacks: list[Completion],
        callback: Completion,
        results: list[SendResult] | None,
        error: Exception | None,
        attempts: int,
        deadline_us: float,
        late: bool,
        ms: float,
        number: int,
    ) -> None:
        """The same for the messages of one request: another try follows, or their callbacks are
        called here."""
        producer = self._producer
        if attempts < NO_MORE:
            self._targets.note(target, ms, error)

        def tell() -> None:
            if callback is not None:
                producer.tell_callback(callback, results, error)
            for i, each in enumerate(callbacks):
                producer.tell_callback(each, None if results is None else results[i], error)

        until_ms = deadline_us / 1000
        if self._goes_on(results[0] if results else None, error, attempts, until_ms, late):
            waited = self._waited(callback, until_ms)

            def resend(following: Target, timeout_ms: float, behind: int) -> None:
                producer.submit_batch_to(following, messages, callbacks, waited, timeout_ms, behind)

            failed = FailedTry(
                target, messages[0].topic, number, attempts, until_ms, waited.grace, error,
                resend, tell,
            )  # fmt: skip
            if self._tries_again(failed):
                return
        tell()

    def _tries_again(self, failed: FailedTry) -> bool:
        """Tries again, after a pause or at another broker at once. False: no try follows."""
        error, attempts = failed.error, failed.attempts
        lasts = error is not None and failed.grace.lasts(failed.target, error)
        if lasts and self._try_later(failed, attempts):
            return True
        try:
            following = self._targets.following(failed.topic, failed.target)
            if self._producer.must_dial(following.address):  # other callbacks would wait meanwhile
                return self._try_later(failed, attempts + 1)
            failed.resend(following, _time_left(failed.until_ms), attempts + 1)
        except BusyError:  # this thread calls callbacks and must not wait for room
            return self._try_later(failed, attempts + 1)
        except Exception:  # also from a hook: the send ends as its last try did
            return False
        except KeyboardInterrupt:  # meant for this thread if it runs an event loop
            raise
        except BaseException:  # SystemExit from a hook
            log.exception("another try of a send to %s", failed.topic)
            return False
        return True

    def _try_later(self, failed: FailedTry, attempts: int) -> bool:
        """Makes another try after a pause, with `attempts` that count before it. False: no try
        will follow."""

        def again() -> None:
            left_ms = _time_left(failed.until_ms)
            following = self._targets.following(failed.topic, failed.target)
            failed.resend(following, left_ms, attempts)

        lasts = functools.partial(failed.grace.lasts, failed.target)
        retry = DelayedRetry(failed.topic, failed.number, again, lasts, failed.give_up)
        return self._delayed_retries.add(retry)

    def _waited(self, callback: Completion, until_ms: float) -> Waited:
        if isinstance(callback, Waited):
            return callback
        return Waited(self._producer, callback, FailoverGrace(self._targets, until_ms))

    def _goes_on(
        self,
        result: SendResult | None,
        error: Exception | None,
        attempts: int,
        until_ms: float,
        late: bool,
    ) -> bool:
        producer = self._producer
        if until_ms <= monotonic_ms() or attempts >= producer.retries:
            return False
        if late or not producer.is_open:
            return False
        if error is None:
            return producer.retries_not_stored and result is not None and not result.is_ok
        return self.may_retry(error)
