"""What a push consumer's listener gets and returns.

    def listener(messages, context): ...                # returning means: dealt with
        return ConsumeConcurrentlyStatus.RECONSUME_LATER    # or raise: again later

With consume_orderly the context is a ConsumeOrderlyContext and the statuses are those of
ConsumeOrderlyStatus. An object with a method consume_message is a listener, too. Unlike in Java,
a listener that returns None has succeeded: functions that say nothing are what Python has most of.
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
    """What became of a batch."""

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"  # through the group's retry topic, after a delay


class ConsumeOrderlyStatus(enum.Enum):
    """What became of a batch of a queue in order."""

    SUCCESS = "SUCCESS"
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"  # then the same again
    COMMIT = "COMMIT"  # these two with context.auto_commit = False
    ROLLBACK = "ROLLBACK"


@dataclass
class ConsumeConcurrentlyContext:
    """Of one call; the listener may change the last two."""

    message_queue: MessageQueue
    delay_level_when_next_consume: int = 0  # 0: by the number of tries; -1: dead letter at once
    ack_index: int = ALL  # the last message of the batch that was dealt with; -1: none


@dataclass
class ConsumeOrderlyContext:
    """Of one call; the listener may change the last two."""

    message_queue: MessageQueue
    auto_commit: bool = True
    suspend_current_queue_time_millis: int = -1  # -1: as the parameter of that name says


Context = ConsumeConcurrentlyContext | ConsumeOrderlyContext
Listen = Callable[[list[MessageExt], Any], Any]
Status = TypeVar("Status", ConsumeConcurrentlyStatus, ConsumeOrderlyStatus)


def call(
    listen: Listen, messages: list[MessageExt], context: Context, success: Status
) -> tuple[Status | None, BaseException | None]:
    """The listener's status, which is of the kind of `success`; None with what it raised. From then
    on the context's level is a number."""
    try:
        status = listen(messages, context)
    except BaseException as error:  # SystemExit, too: its messages have to come again
        return None, error
    finally:
        _check_level(context)
    # It is counted by afterwards, where nobody tells what it raises: the messages would never end.
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
    """One that is no number is 0, as what it would raise nobody is told."""
    if isinstance(context, ConsumeConcurrentlyContext):
        level: object = context.delay_level_when_next_consume
        if not isinstance(level, Integral):
            log.warning("the listener set context.delay_level_when_next_consume to %r", level)
            context.delay_level_when_next_consume = 0


def is_coroutine(listen: Listen) -> bool:
    """Whether it has to be awaited; also an object whose __call__ has."""
    call = type(listen).__call__
    return inspect.iscoroutinefunction(listen) or inspect.iscoroutinefunction(call)


def function_of(listener: Any) -> Listen:
    """The function of what the user gave as listener."""
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
        pass  # of a function in C that does not say what it takes
    return found  # type: ignore[no-any-return]
