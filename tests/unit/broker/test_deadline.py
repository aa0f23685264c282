"""A wait with a time limit ends with its result, at its limit, or with its cancellation; none of
these is lost."""

import asyncio

import pytest

from rmq.base.deadline import within


async def answer(delay_s: float = 0.0, failure: Exception | None = None) -> str:
    await asyncio.sleep(delay_s)
    if failure is not None:
        raise failure
    return "answer"


def test_a_result_in_time_is_returned() -> None:
    assert asyncio.run(within(answer(), 5.0)) == "answer"


def test_a_failure_in_time_is_raised() -> None:
    with pytest.raises(KeyError):
        asyncio.run(within(answer(failure=KeyError("x")), 5.0))


def test_time_over_cancels_what_was_waited_for() -> None:
    async def run() -> bool:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with pytest.raises(asyncio.TimeoutError):
            await within(future, 0.01)
        return future.cancelled()

    assert asyncio.run(run())


@pytest.mark.parametrize("steps", range(6))
def test_a_cancellation_that_meets_the_result_is_not_lost(steps: int) -> None:
    async def run() -> None:
        event = asyncio.Event()
        task = asyncio.create_task(within(event.wait(), 5.0))
        await asyncio.sleep(0.01)
        event.set()
        for _ in range(steps):
            await asyncio.sleep(0)
        if task.cancel():  # False: the task has ended already
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(run())


def test_time_over_is_told_as_such_of_a_gather_too() -> None:
    """When the time is over, a gather() must raise a timeout, too, although a cancelled gather()
    looks like one that failed with a cancellation."""

    async def run() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await within(asyncio.gather(asyncio.sleep(60), asyncio.sleep(60)), 0.01)

    asyncio.run(run())
