"""Brokers are asked once a second for many browsers, and once again after a change."""

from __future__ import annotations

import asyncio

import pytest
from support.driven_clock import DrivenClock
from support.name_server import in_loop

from rmq.console.answers import ANSWERS_MAX, KEPT_S, Answers
from rmq.errors import UnreachableError


class Asked:
    """A question whose answer comes when the test allows it."""

    def __init__(self) -> None:
        self.count = 0
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.count += 1
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return self.count


@pytest.mark.still_clock
@in_loop
async def test_an_answer_serves_all_who_ask_until_it_is_old(clock: DrivenClock) -> None:
    answers, asked = Answers(), Asked()
    waiting = [asyncio.ensure_future(answers.get("topics", asked)) for _ in range(50)]
    await asyncio.sleep(0)
    asked.go.set()
    assert await asyncio.gather(*waiting) == [1] * 50
    clock.advance(KEPT_S * 0.9)
    assert await answers.get("topics", asked) == 1
    clock.advance(KEPT_S * 0.2)
    assert await answers.get("topics", asked) == 2


@in_loop
async def test_others_have_their_own_and_a_change_has_all_asked_anew() -> None:
    answers, asked = Answers(kept_s=3600), Asked()
    asked.go.set()
    assert await answers.get(("topics", "alice"), asked) == 1
    assert await answers.get(("topics", "bob"), asked) == 2
    assert await answers.get(("topics", "alice"), asked) == 1
    answers.forget()
    assert await answers.get(("topics", "alice"), asked) == 3


@in_loop
async def test_brokers_that_are_away_are_not_asked_by_each_browser() -> None:
    answers, asked = Answers(kept_s=3600), Asked()
    asked.error = UnreachableError("no name server answers")
    asked.go.set()
    for _ in range(3):
        with pytest.raises(UnreachableError):
            await answers.get("topics", asked)
    assert asked.count == 1


@in_loop
async def test_a_browser_that_goes_takes_the_answer_from_nobody() -> None:
    answers, asked = Answers(), Asked()
    gone, other = (asyncio.ensure_future(answers.get("topics", asked)) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    asked.go.set()
    assert await other == 1
    assert gone.cancelled()


@in_loop
async def test_so_many_are_kept_and_no_more() -> None:
    answers, asked = Answers(kept_s=3600), Asked()
    asked.go.set()
    for number in range(3 * ANSWERS_MAX):
        await answers.get(number, asked)
    assert len(answers._found) == ANSWERS_MAX
    assert await answers.get(3 * ANSWERS_MAX - 1, asked) == 3 * ANSWERS_MAX
