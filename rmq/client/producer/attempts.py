"""Attempts: the tries of an asynchronous send, each on another broker where there is one.

    attempts = Attempts(producer, targets, hooked, later)
    attempts.submit(target, message, callback, timeout_ms, done_before)
    attempts.ended(...)            # True: it goes on elsewhere; False: the callback is due

A send that a broker could not take, or that got no answer because its connection broke, is tried
again; one that got no answer in time only with send_msg_max_timeout_per_request. A queue that the
user chose is kept: NO_MORE attempts are behind such a send. Where there is no other broker its next
master is waited for (patience.py), in later_tries.py; so is room, where all requests are under way.
There, too, a try makes the connection that it wants with TLS: whoever tells ends waits for neither.
"""

from __future__ import annotations

import functools

from cext.client.message import Message
from cext.client.result import SendResult
from cext.client.sender import Target, monotonic_ms
from rmq.client.producer.base import NO_MORE, Completion, ProducerBase
from rmq.client.producer.hooked_sends import HookedSends
from rmq.client.producer.later_tries import LaterTries, LaterTry
from rmq.client.producer.patience import Patience
from rmq.client.producer.targets import Targets
from rmq.errors import BusyError, RemoteError, RequestTimeoutError, UnreachableError

TRY_ELSEWHERE = {1, 2, 14, 16, 17, 204, 205, 501, 1500}


class Waited:
    """The callback of a send that has waited for its broker, with what is left of its patience."""

    def __init__(self, producer: ProducerBase, callback: Completion, patience: Patience) -> None:
        self._producer = producer
        self._callback = callback
        self.patience = patience

    def __call__(self, result: object, error: Exception | None) -> None:
        self._producer.tell_callback(self._callback, result, error)


def _time_left(until_ms: float) -> float:
    left_ms = until_ms - monotonic_ms()
    if left_ms <= 0:
        raise RequestTimeoutError("the time for the send is over")
    return left_ms


class Attempts:
    """Of one producer; any thread."""

    def __init__(
        self, producer: ProducerBase, targets: Targets, hooked: HookedSends, later: LaterTries
    ) -> None:
        self._producer = producer
        self._targets = targets
        self._hooked = hooked
        self._later = later

    def may_retry(self, error: Exception) -> bool:
        """Whether another broker may do better."""
        if isinstance(error, RequestTimeoutError):
            return self._producer.parameters.send_msg_max_timeout_per_request > 0
        if isinstance(error, RemoteError):
            return error.code in TRY_ELSEWHERE
        return isinstance(error, UnreachableError)

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
        targets = self._targets
        if attempts < NO_MORE:
            targets.note(target, ms, error)
        left = deadline_us / 1000 - monotonic_ms()
        if left <= 0 or not self._goes_on(result, error, attempts, late):
            return False
        topic, until_ms = message.topic, deadline_us / 1000
        waited = self._patient(callback, deadline_us)
        lasts = functools.partial(waited.patience.lasts, target)

        def add_later(behind: int) -> bool:
            def again() -> None:
                left = _time_left(until_ms)
                self.submit(targets.following(topic, target), message, waited, left, behind, True)

            give_up = functools.partial(waited, result, error)
            return self._later.add(LaterTry(topic, number, again, lasts, give_up))

        if error is not None and lasts(error) and add_later(attempts):
            return True
        try:
            following = targets.following(topic, target)
            if self._producer.must_dial(following.address):  # and the ends of others would wait
                return add_later(attempts + 1)
            self.submit(following, message, callback, left, attempts + 1)
        except BusyError:  # who tells ends does not wait for room; who comes later does
            return add_later(attempts + 1)
        except Exception:  # a hook's, too: the end is that of the try before
            return False
        return True

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
        topic, until_ms = messages[0].topic, deadline_us / 1000

        def again(completed: Completion = callback, behind: int = attempts + 1) -> None:
            left = _time_left(until_ms)
            following = self._targets.following(topic, target)
            producer.submit_batch_to(following, messages, callbacks, completed, left, behind)

        def tell() -> None:
            if callback is not None:
                producer.tell_callback(callback, results, error)
            for i, each in enumerate(callbacks):
                producer.tell_callback(each, None if results is None else results[i], error)

        is_in_time = until_ms > monotonic_ms()
        if is_in_time and self._goes_on(results[0] if results else None, error, attempts, late):
            waited = self._patient(callback, deadline_us)
            lasts = functools.partial(waited.patience.lasts, target)
            one_more = functools.partial(again, waited, attempts)
            if (
                error is not None
                and lasts(error)
                and self._later.add(LaterTry(topic, number, one_more, lasts, tell))
            ):
                return
            try:
                again()
                return
            except BusyError:
                if self._later.add(LaterTry(topic, number, again, lasts, tell)):
                    return
            except Exception:
                pass
        tell()

    def _patient(self, callback: Completion, deadline_us: float) -> Waited:
        if isinstance(callback, Waited):
            return callback
        patience = Patience(self._targets, deadline_us / 1000)
        return Waited(self._producer, callback, patience)

    def _goes_on(
        self, result: SendResult | None, error: Exception | None, attempts: int, late: bool
    ) -> bool:
        producer = self._producer
        if attempts >= producer.retries or late or not producer.is_open:
            return False
        if error is None:
            return producer.retries_not_stored and result is not None and not result.is_ok
        return self.may_retry(error)
