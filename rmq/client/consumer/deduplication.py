"""@deduplicate: makes a listener's effect happen once, though brokers deliver at least once.

    @deduplicate(store=SqliteStore("seen.db"))                    # by message_id
    @deduplicate(lambda message: message.get_property("order"), RedisStore(redis.Redis()))
    def bill(messages, context): ...

It wraps listeners of push consumers, functions of one message (for `for message in consumer`), and
async functions of both kinds. Before a call each message's key is claimed in the store for lease_s.
After the call the keys are marked as done, and stay so for the store's keep_s. Messages whose keys
are done are left out; if no message is left, the function is not called. If another consumer has
claimed a key and not finished, the message of this key, and those behind it in the batch, are
delivered again later. A call that fails gives its claims back. Listeners in order that set
auto_commit = False are refused, because messages that they roll back later would count as done.

What it cannot do: if a process dies between the effect and the store's commit, its claim expires
after lease_s, and the message's effect happens again. Where that matters, write the key in the same
transaction as the effect. Until the claim expires, tries of its message fail, and they count:
max_reconsume_times must allow for the tries of more than lease_s.
"""

from __future__ import annotations

import asyncio
import enum
import functools
import inspect
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, Protocol, TypeVar

from cext.client.message import MessageExt
from rmq.client.consumer.listener import (
    ALL,
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
)
from rmq.errors import BusyError, ConfigError

F = TypeVar("F", bound=Callable[..., Any])
LEASE_S = 900.0  # consume_timeout
GOOD = {
    ConsumeConcurrentlyContext: (None, ConsumeConcurrentlyStatus.CONSUME_SUCCESS),
    ConsumeOrderlyContext: (None, ConsumeOrderlyStatus.SUCCESS, ConsumeOrderlyStatus.COMMIT),
}


class Claim(enum.Enum):
    """A store's answer to a claim of a key."""

    OURS = "ours"  # claimed by this call: consume the message
    DONE = "done"  # the message was consumed before
    BUSY = "busy"  # claimed by another consumer, which has not finished


class SeenStore(Protocol):
    """Remembers keys; any thread may use it. rmq/client/consumer/seen_stores.py has three."""

    def claim(self, keys: Sequence[str], lease_s: float) -> list[Claim]:
        """Claims keys for lease_s, and returns one answer for each. Keys whose lease is over are
        free."""

    def finish(self, keys: Sequence[str]) -> None:
        """Marks keys as done."""

    def release(self, keys: Sequence[str]) -> None:
        """Gives claims back, so that other consumers can claim the keys."""


def deduplicate(
    key: Callable[[MessageExt], object] | None = None,
    store: SeenStore | None = None,
    *,
    lease_s: float = LEASE_S,
) -> Callable[[F], F]:
    """Makes the effect of a listener, or of a function of one message, happen once for each key.

    Messages whose keys are done in the store are left out of a call; see the module
    rmq.client.consumer.deduplication. `key` is a function of a message (by default its
    message_id); a message for which it returns None is not deduplicated. lease_s: how long a key
    stays claimed if the process dies during the call.
    """
    if store is None:
        raise ConfigError("deduplicate() wants a store: SqliteStore, DbApiStore or RedisStore")
    if not lease_s > 0:
        raise ConfigError(f"lease_s={lease_s}: more than 0")
    seen = store  # never None from here on

    def decorate(function: F) -> F:
        def plan(messages: Sequence[MessageExt]) -> _Plan:
            return _Plan(messages, key, seen, lease_s)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(given: Any, *rest: Any) -> Any:
                planned = await asyncio.to_thread(plan, _several(given))
                if not planned.left:
                    return planned.end(rest)
                try:
                    result = await function(planned.argument(given), *rest)
                except BaseException:
                    await asyncio.to_thread(planned.failed)
                    raise
                await asyncio.to_thread(planned.ended, result, rest)
                return planned.end(rest, result)

            return awaited  # type: ignore[return-value]

        @functools.wraps(function)
        def called(given: Any, *rest: Any) -> Any:
            planned = plan(_several(given))
            if not planned.left:
                return planned.end(rest)
            try:
                result = function(planned.argument(given), *rest)
            except BaseException:
                planned.failed()
                raise
            planned.ended(result, rest)
            return planned.end(rest, result)

        return called  # type: ignore[return-value]

    return decorate


def _is_good(result: Any, context: Any) -> bool:
    """Whether the call has succeeded. A listener must return what its consumer takes as a success;
    after another status, or False, its messages are delivered again. A function of one message may
    return anything."""
    good = GOOD.get(type(context))
    return good is None or any(result is each for each in good)


def _several(given: Any) -> Sequence[MessageExt]:
    return [given] if isinstance(given, MessageExt) else given


class _Plan:
    """Which messages of one call are given to the function, and the keys claimed for them."""

    def __init__(
        self,
        messages: Sequence[MessageExt],
        key: Callable[[MessageExt], object] | None,
        store: SeenStore,
        lease_s: float,
    ) -> None:
        self._store = store
        self._claimed: list[str] = []
        self._count = len(messages)
        self.left: list[MessageExt] = []
        self.planned = 0  # messages before the first busy one
        keys = [message.message_id if key is None else key(message) for message in messages]
        # of equal keys in one batch the first message is consumed, the others count as done
        asked = list(dict.fromkeys(str(each) for each in keys if each is not None))
        answers = dict(zip(asked, store.claim(asked, lease_s), strict=True)) if asked else {}
        mine = {each for each, claim in answers.items() if claim is Claim.OURS}
        for message, each in zip(messages, keys, strict=True):
            name = None if each is None else str(each)
            if name is not None and answers[name] is Claim.BUSY:
                break
            self.planned += 1
            if name is None:
                self.left.append(message)
            elif name in mine:
                mine.discard(name)
                self._claimed.append(name)
                self.left.append(message)
        if mine:
            store.release(sorted(mine))

    def argument(self, given: Any) -> Any:
        return given if isinstance(given, MessageExt) else self.left

    def failed(self) -> None:
        if self._claimed:
            self._store.release(self._claimed)

    def ended(self, result: Any, rest: Sequence[Any]) -> None:
        context = rest[0] if rest else None
        if isinstance(context, ConsumeOrderlyContext) and not context.auto_commit:
            self.failed()
            raise ConfigError("@deduplicate with auto_commit = False: a ROLLBACK could not be kept")
        last = getattr(context, "ack_index", self._count)
        if not isinstance(last, Integral) or not _is_good(result, context):
            self.failed()
            return
        whole = int(last) >= len(self.left) - 1
        if whole:
            if self._claimed:
                self._store.finish(self._claimed)
            if isinstance(context, ConsumeConcurrentlyContext):
                context.ack_index = ALL  # the function counted only the messages it was given
            return
        # the batch was consumed in part: the messages up to ack_index are done
        good = 0
        if isinstance(context, ConsumeConcurrentlyContext):
            good = max(context.ack_index + 1, 0)
            # It counted only the messages given to the function, so the whole batch must be
            # delivered again; then those that are done are left out.
            context.ack_index = -1
        done = self._claimed[:good] if len(self._claimed) == len(self.left) else []
        if done:
            self._store.finish(done)
        if self._claimed[len(done) :]:
            self._store.release(self._claimed[len(done) :])

    def end(self, rest: Sequence[Any], result: Any = None) -> Any:
        """What the listener returns, so that the busy message and those behind it are delivered
        again."""
        context = rest[0] if rest else None
        if self.planned == self._count or not _is_good(result, context):
            return result
        if isinstance(context, ConsumeConcurrentlyContext):
            context.ack_index = min(context.ack_index, self.planned - 1)
            return result
        if isinstance(context, ConsumeOrderlyContext):
            return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        raise BusyError("another consumer deals with a message of this key")
