"""Section: a part of a page that may be refused or not answered, while the rest is still shown.

    found = await section(console.ask(request, question))
    found.value, found.problem                  one of them is None
    found.is_lost                               brokers do not answer

An account that may see a topic may perhaps not see its consumers: the page then shows the refusal
instead of them.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Generic, TypeVar

import msgspec

from rmq.console.errors import explained
from rmq.errors import RmqError
from rmq.operations.askers import is_unknown_asker

T = TypeVar("T")


class Section(msgspec.Struct, Generic[T]):
    value: T | None = None
    problem: str | None = None
    is_lost: bool = False


async def section(answer: Awaitable[T]) -> Section[T]:
    try:
        return Section(value=await answer)
    except RmqError as error:
        if is_unknown_asker(error):
            raise
        said = explained(error)
        return Section(problem=said.text, is_lost=said.is_lost)
