"""Attempts: the tries of an asynchronous send, each on another broker where there is one.

    attempts = Attempts(producer, targets, hooked, later, ends)
    attempts.begin(chosen, message, callback, timeout_ms)
    attempts.unreached(chosen, message, callback, error, until_ms)     # rmq.aio has no connection
    attempts.ended(...)            # True: it goes on elsewhere; False: the callback is due

A send that a broker could not take, or that got no answer because its connection broke, is tried
again; one that got no answer in time only with send_msg_max_timeout_per_request. A queue that the
user chose is kept: NO_MORE attempts are behind such a send. Where there is no other broker its next
master is waited for (failover_grace.py), in delayed_retries.py; so is room, where all requests are
under way. There, too, a try makes the connection that it wants with TLS: whoever tells ends waits
for neither. The first one is made by who sends; that it cannot be made is an end like others, never
raised, nor told by who sends (deferred_completions.py).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import NamedTuple

from cext.client.message import Message
from cext.client.result import SendResult
from cext.client.sender import Target, monotonic_ms
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
    """The callback of a send that has waited for its broker, with what is left of its grace."""

    def __init__(self, producer: ProducerBase, callback: Completion, grace: FailoverGrace) -> None:
        self._producer = producer
        self._callback = callback
        self.grace = grace

    def __call__(self, result: object, error: Exception | None) -> None:
        self._producer.tell_callback(self._callback, result, error)


class FailedTry(NamedTuple):
    """A try that may be followed by another: of one message, or of those of a batch."""

    target: Target
    topic: str
    number: int  # of the try (DelayedRetry)
    attempts: int  # that count as behind it
    until_ms: float  # the time for the send is over, by monotonic_ms()
    grace: FailoverGrace
    error: Exception | None  # None: it was stored, but not safely
    resend: Callable[[Target, float, int], None]  # (target, timeout_ms, attempts behind it)
    give_up: Callable[[], None]  # tells its end


def _time_left(until_ms: float) -> float:
    left_ms = until_ms - monotonic_ms()
    if left_ms <= 0:
        raise RequestTimeoutError("the time for the send is over")
    return left_ms


class Attempts:
    """Of one producer; any thread."""

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
        """Whether another broker may do better."""
        if isinstance(error, RequestTimeoutError):
            return self._producer.parameters.send_msg_max_timeout_per_request > 0
        if isinstance(error, RemoteError):
            return error.code in TRY_ELSEWHERE
        return isinstance(error, UnreachableError)

    def begin(
        self, chosen: Chosen, message: Message, callback: Completion, timeout_ms: float
    ) -> None:
        """The first try."""
        try:
            self.submit(chosen.target, message, callback, timeout_ms, chosen.attempts)
        except UnreachableError as error:  # by TLS, and no try is left
            self._end_soon(callback, error)

    def unreached(
        self,
        chosen: Chosen,
        message: Message,
        callback: Completion,
        error: UnreachableError,
        until_ms: float,
    ) -> None:
        """The first try had no connection: as a try that failed, but this thread, which may not
        wait, sends nothing."""
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
        """One more try; `attempts` are behind it. alone: it is gathered with no others."""
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
        """Notes how the broker did; True when the message is on its way to another one."""
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
        """The same for messages of one request; their callbacks are called, or they go on."""
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
        """After a pause, or elsewhere at once."""
        error, attempts = failed.error, failed.attempts
        lasts = error is not None and failed.grace.lasts(failed.target, error)
        if lasts and self._try_later(failed, attempts):
            return True
        try:
            following = self._targets.following(failed.topic, failed.target)
            if self._producer.must_dial(following.address):  # and the ends of others would wait
                return self._try_later(failed, attempts + 1)
            failed.resend(following, _time_left(failed.until_ms), attempts + 1)
        except BusyError:  # who tells ends does not wait for room; who comes later does
            return self._try_later(failed, attempts + 1)
        except Exception:  # a hook's, too: the end is that of the try before
            return False
        except KeyboardInterrupt:  # for this thread, where it is an event loop's
            raise
        except BaseException:  # SystemExit of a hook
            log.exception("another try of a send to %s", failed.topic)
            return False
        return True

    def _try_later(self, failed: FailedTry, attempts: int) -> bool:
        """`attempts` are behind the later try. False: it is not to come."""

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
