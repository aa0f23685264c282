"""Message filters: makes the reactor's filter from the words of a subscription, or refuses them.

    TAG       codes of tags, subscription.py
    SQL92     a program (rmq/filters), and the number of the owner's function if it names one
    others    refused; so are class filters, with which old consumers uploaded Java code

SQL92 is on unless enablePropertyFilter=false is given. The codes of refusals are RocketMQ's:

    23   the expression of a pull or of a check (46) is wrong: position and reason
    27   the expression of the registered subscription is wrong
    1    enablePropertyFilter=false

Example: "a LIKE 'x'" in a pull is refused with 23 and "character 3: RocketMQ has no LIKE; ..".
"""

from typing import Protocol

from rmq.broker.clients.filter_processes import FilterProcesses
from rmq.broker.clients.subscription import TAG, Subscription
from rmq.codes import ResponseCode
from rmq.config import Settings
from rmq.filters.sql92 import SQL92, compile_expression
from rmq.refusal import Refusal

NO_CLASS_FILTERS = (
    "class filters and filter servers are not supported: this broker runs no code that comes from "
    "clients. Use an SQL92 expression, MessageSelector.bySql; for what SQL92 cannot say the "
    "broker's owner can name a filter in rmqMessageFilters, chosen by $filter = 'name'"
)


class FilterContext(Protocol):
    """What is used here of the broker."""

    functions: FilterProcesses
    settings: Settings


def compiled(context: FilterContext, kind: str, expression: str) -> tuple[bytes, int]:
    """(program, function number); ValueError says what is wrong."""
    if kind != SQL92:
        raise ValueError(f"filters of type {kind[:50]!r} are not known, only TAG and SQL92")
    expression.encode()  # half of a surrogate pair is no text: ValueError
    found = compile_expression(expression)
    return found.program, context.functions.number(found.function)


def check(
    context: FilterContext,
    kind: str,
    expression: str,
    code: ResponseCode = ResponseCode.SUBSCRIPTION_PARSE_FAILED,
) -> tuple[bytes, int]:
    """Like compiled(), but raises a Refusal, for the answer to a client."""
    try:
        found = compiled(context, kind, expression)
    except ValueError as error:
        raise Refusal(code, f"{kind[:50]} filter {expression[:300]!r}: {error}") from None
    if not context.settings.enablePropertyFilter:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"The broker does not support consumer to filter message by {kind}: "
            "enablePropertyFilter=false in its settings",
        )
    return found


def refuse_class_filter() -> Refusal:
    return Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, NO_CLASS_FILTERS)


def fault(context: FilterContext, subscription: Subscription) -> str | None:
    """Why the subscription's pulls will be refused, for the log; None: they will be served."""
    if subscription.class_filter:
        return NO_CLASS_FILTERS
    try:
        if subscription.kind != TAG:
            compiled(context, subscription.kind, subscription.expression)
    except ValueError as error:
        return f"{subscription.kind[:50]} filter {subscription.expression[:300]!r}: {error}"
    return None
