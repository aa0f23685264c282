"""Answers: answers of brokers, kept for a moment so that the same is not asked again.

    found = await answers.get(("topics", account), make)

However many browsers show a page, brokers are asked for it only once in KEPT_S. A request that
comes while the answer is under way waits for the same answer. Errors are kept, too, so that brokers
that are down are not asked for every browser. forget(), after a change, drops all answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any, TypeVar

import msgspec

from rmq.base import clock

T = TypeVar("T")
KEPT_S = 1.0
ANSWERS_MAX = 256


class _Answer(msgspec.Struct):
    task: asyncio.Task[Any]
    ended: float | None = None  # when it came


class Answers:
    """Owned by the event loop."""

    def __init__(self, kept_s: float = KEPT_S) -> None:
        self._kept_s = kept_s
        self._found: dict[Hashable, _Answer] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """The answer of `make`, or the one that it gave for the same key a moment ago."""
        found = self._found.get(key)
        if found is None or self._is_old(found):
            self._leave_room()
            found = self._found[key] = _Answer(asyncio.ensure_future(_made(make)))
            found.task.add_done_callback(partial(_note_end, found))
        # When a browser goes away, its request is cancelled, but not the answer for the others.
        answer: T = await asyncio.shield(found.task)
        return answer

    def forget(self) -> None:
        self._found.clear()

    def _is_old(self, answer: _Answer) -> bool:
        return answer.ended is not None and clock.monotonic() - answer.ended >= self._kept_s

    def _leave_room(self) -> None:
        if len(self._found) < ANSWERS_MAX:
            return
        self._found = {key: each for key, each in self._found.items() if not self._is_old(each)}
        while len(self._found) >= ANSWERS_MAX:
            self._found.pop(next(iter(self._found)))


async def _made(make: Callable[[], Awaitable[T]]) -> T:
    return await make()


def _note_end(answer: _Answer, _: asyncio.Task[Any]) -> None:
    answer.ended = clock.monotonic()
    if not answer.task.cancelled():
        # Looks at the error: asyncio complains of errors that nobody looked at, as it would here if
        # all requests that waited for the answer are gone.
        answer.task.exception()
