"""Answers: what was asked a moment ago is not asked again.

    found = await answers.get(("topics", account), make)

However many browsers show a page, brokers are asked once in KEPT_S for it. Who comes while the
answer is under way waits for the same one. Errors are kept as well: brokers that are away are not
asked by every browser. After a change forget() has everything asked anew.
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
        """What `make` gives, or gave a moment ago for the same key."""
        found = self._found.get(key)
        if found is None or self._is_old(found):
            self._leave_room()
            found = self._found[key] = _Answer(asyncio.ensure_future(_made(make)))
            found.task.add_done_callback(partial(_note_end, found))
        # A browser that goes away does not take the answer from the others.
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
        answer.task.exception()  # somebody has looked at it, whoever has gone meanwhile
