"""Listener: what a push consumer's listener gets and returns.

    def listener(messages, context): ...                # returning means: consumed
        return ConsumeConcurrentlyStatus.RECONSUME_LATER    # or raise: delivered again later

With consume_orderly the context is a ConsumeOrderlyContext, and the statuses are those of
ConsumeOrderlyStatus. An object with a method consume_message is a listener, too. Unlike in Java, a
listener that returns None has succeeded, because most functions in Python return nothing.
"""

from __future__ import annotations

import enum
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeVar

from cext.client.message import MessageExt
from rmq.errors import ConfigError
from rmq.format.fastjson import MessageQueue

log = logging.getLogger("rmq.client")

ALL = 2**31 - 1


class ConsumeConcurrentlyStatus(enum.Enum):
    """What a listener returns for a batch."""

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"  # through the group's retry topic, after a delay


class ConsumeOrderlyStatus(enum.Enum):
    """What a listener returns for a batch of a queue that is consumed in order."""

    SUCCESS = "SUCCESS"
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"  # then the same batch again
    COMMIT = "COMMIT"  # these two with context.auto_commit = False
    ROLLBACK = "ROLLBACK"


@dataclass
class ConsumeConcurrentlyContext:
    """The context of one call; the listener may change the last two fields."""

    message_queue: MessageQueue
    delay_level_when_next_consume: int = 0  # 0: by the number of tries; -1: dead letter at once
    ack_index: int = ALL  # index of the last message that was consumed; -1: none


@dataclass
class ConsumeOrderlyContext:
    """The context of one call; the listener may change the last two fields."""

    message_queue: MessageQueue
    auto_commit: bool = True
    suspend_current_queue_time_millis: int = -1  # -1: as the parameter of that name says


Context = ConsumeConcurrentlyContext | ConsumeOrderlyContext
Listen = Callable[[list[MessageExt], Any], Any]
Status = TypeVar("Status", ConsumeConcurrentlyStatus, ConsumeOrderlyStatus)


def call(
    listen: Listen, messages: list[MessageExt], context: Context, success: Status
) -> tuple[Status | None, BaseException | None]:
    """Calls the listener. Returns its status, which has the type of `success`; or None with the
    exception, if it raised or returned something else. Afterwards the context's delay level is a
    number."""
    try:
        status = listen(messages, context)
    except BaseException as error:  # SystemExit, too: the messages must be delivered again
        return None, error
    finally:
        _check_level(context)
    # Callers compute with it later, where an exception would not be seen and the messages would
    # never be finished.
    last = getattr(context, "ack_index", ALL)
    if not isinstance(last, Integral):
        return None, TypeError(f"the listener set context.ack_index to {last!r}, no whole number")
    if status is None:
        return success, None
    if not isinstance(status, type(success)):
        kind = type(success).__name__
        return None, TypeError(f"the listener returned {status!r}, neither None nor a {kind}")
    return status, None


def _check_level(context: Context) -> None:
    """Replaces a delay level that is not a number by 0. It would raise later, where nobody sees
    it."""
    if isinstance(context, ConsumeConcurrentlyContext):
        level: object = context.delay_level_when_next_consume
        if not isinstance(level, Integral):
            log.warning("the listener set context.delay_level_when_next_consume to %r", level)
            context.delay_level_when_next_consume = 0


def is_coroutine(listen: Listen) -> bool:
    """Whether the listener must be awaited: a coroutine function, or an object whose __call__ is
    one."""
    call = type(listen).__call__
    return inspect.iscoroutinefunction(listen) or inspect.iscoroutinefunction(call)


def function_of(listener: Any) -> Listen:
    """The function to call for what the user gave as listener. ConfigError: it cannot be called
    with (messages, context)."""
    found = getattr(listener, "consume_message", listener)
    if not callable(found):
        raise ConfigError(
            "a message_listener is wanted: a function of (messages, context), or an object with "
            "a method consume_message"
        )
    try:
        inspect.signature(found).bind(None, None)
    except TypeError as error:
        raise ConfigError(
            f"the message_listener is called with (messages, context), and cannot be: {error}"
        ) from None
    except ValueError:
        pass  # a function in C that has no signature
    return found  # type: ignore[no-any-return]
