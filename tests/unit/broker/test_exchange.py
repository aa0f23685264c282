"""What a master knows of its slaves' copies of the tables.

Goal: a slave counts as having the tables only because of what it reported itself, to this
mastership. The tables are plain numbers here; with brokers: test_replicas.py.
"""

from __future__ import annotations

import asyncio

import pytest
from support.driven_clock import DrivenClock
from support.name_server import in_loop
from support.waiting import HANG_S

from rmq.base.deadline import within
from rmq.broker.replication.exchange import GONE_S, POLL_S, Exchange
from rmq.limits import SLAVES_MAX

pytestmark = pytest.mark.still_clock

BOTH = ("topics", "offsets")


@pytest.fixture
def counts() -> dict[str, int]:
    return {"topics": 5, "offsets": 70}


def exchange_of(counts: dict[str, int]) -> Exchange:
    return Exchange("1763726400.5", {name: lambda name=name: counts[name] for name in counts})


@pytest.fixture
def exchange(counts: dict[str, int]) -> Exchange:
    return exchange_of(counts)


def is_up_to_date(exchange: Exchange, slave: int, tables: tuple[str, ...] = BOTH) -> bool:
    """Whether the slave has reported that it has the present state of these tables."""
    return exchange.has(slave, exchange.counts(tables))


@in_loop
async def test_a_slave_has_what_it_says(exchange: Exchange, counts: dict[str, int]) -> None:
    exchange.begin()
    assert not is_up_to_date(exchange, 2)
    await exchange.changed(2, {}, 0)
    assert not is_up_to_date(exchange, 2)
    await exchange.changed(2, {"topics": "1763726400.5 5", "offsets": "1763726400.5 69"}, 0)
    assert is_up_to_date(exchange, 2, ("topics",)) and not is_up_to_date(exchange, 2)
    await exchange.changed(2, {"topics": "1763726400.5 5", "offsets": "1763726400.5 70"}, 0)
    before = exchange.counts(BOTH)
    counts["offsets"] = 90
    assert exchange.has(2, before) and not exchange.has(3, before)
    assert not is_up_to_date(exchange, 2)


@in_loop
async def test_who_only_looks_says_nothing_new(exchange: Exchange) -> None:
    """A slave that asks without reporting, as when it looks for the master's log while another
    question of it is held, must still count with what it reported before."""
    exchange.begin()
    await exchange.changed(2, exchange.versions(), 0)
    await exchange.changed(2, None, 0)
    assert is_up_to_date(exchange, 2)
    assert await exchange.settled(("topics",), lambda: {2}, 0)
    await exchange.changed(2, {}, 0)  # the slave begins anew, with no tables
    assert not is_up_to_date(exchange, 2)


@in_loop
async def test_what_is_kept_from_a_slave_it_does_not_have_and_is_not_told_of_again(
    exchange: Exchange, counts: dict[str, int]
) -> None:
    known = exchange.versions()
    kept = {"topics": known.pop("topics")}
    asking = asyncio.ensure_future(exchange.changed(2, known, 3600, kept))
    await asyncio.sleep(0)
    assert is_up_to_date(exchange, 2, ("offsets",)) and not is_up_to_date(exchange, 2, ("topics",))
    assert not await exchange.settled(("topics",), lambda: {2}, 0)
    await asyncio.sleep(0)
    assert not asking.done(), "it was woken, and there is nothing new"
    counts["topics"] += 1
    exchange.wake()
    assert await within(asking, HANG_S) == exchange.versions()


@in_loop
async def test_a_table_that_a_slave_of_an_older_rmq_does_not_copy_is_not_waited_for(
    clock: DrivenClock, counts: dict[str, int]
) -> None:
    """A slave of an older rmq never reports the table "orders". It must be in sync without it, and
    its question must be held instead of being answered at once each time."""
    exchange = exchange_of(counts | {"orders": 3})
    three = (*BOTH, "orders")
    assert not is_up_to_date(exchange, 2, ("orders",)), "it has said nothing"
    await exchange.changed(2, {}, 0)
    assert not is_up_to_date(exchange, 2, three)
    known = exchange.versions()
    orders = known.pop("orders")
    asking = asyncio.ensure_future(exchange.changed(2, known, 3600))
    await asyncio.sleep(0)
    assert is_up_to_date(exchange, 2, three)
    assert await exchange.settled(three, lambda: {2}, 0)
    clock.advance(POLL_S)
    for _ in range(3):
        await asyncio.sleep(0)
        exchange.wake()
    assert not asking.done(), "all are looked at by now"
    await exchange.changed(2, known | {"orders": ""}, 0)
    assert not is_up_to_date(exchange, 2, three), "one that copies them is waited for"
    assert await exchange.changed(2, known | {"orders": ""}, 3600) == exchange.versions()
    await exchange.changed(2, known | {"orders": orders}, 0)
    assert is_up_to_date(exchange, 2, three)
    exchange.close()
    assert await within(asking, HANG_S) == exchange.versions()


@in_loop
async def test_who_does_not_count_any_more_is_not_waited_for(
    clock: DrivenClock, exchange: Exchange
) -> None:
    """A waiter must notice that a replica left the set: 3 was about to join and is dropped, of
    which the waiter is not told."""
    await exchange.changed(2, exchange.versions(), 0)
    others = {2, 3}
    waiting = asyncio.ensure_future(exchange.settled(("topics",), lambda: others, 3600))
    await asyncio.sleep(0)
    others.discard(3)
    clock.advance(POLL_S)
    assert await within(waiting, HANG_S)


@in_loop
async def test_what_was_said_before_this_mastership_does_not_count(
    exchange: Exchange, counts: dict[str, int]
) -> None:
    """A report to an earlier mastership must not count: since then both the slave and this broker
    have followed another master."""
    exchange.begin()
    before = exchange.versions()
    await exchange.changed(2, before, 0)
    counts["topics"] = 9
    exchange.begin()
    assert not is_up_to_date(exchange, 2)
    await exchange.changed(2, before, 0)
    assert not is_up_to_date(exchange, 2)
    await exchange.changed(2, exchange.versions(), 0)
    assert is_up_to_date(exchange, 2)


@in_loop
async def test_a_slave_that_is_gone_makes_room(clock: DrivenClock, exchange: Exchange) -> None:
    exchange.begin()
    for slave in range(1, SLAVES_MAX + 2):
        await exchange.changed(slave, exchange.versions(), 0)
        clock.advance(0.1)
    assert not is_up_to_date(exchange, SLAVES_MAX + 1)
    clock.advance(GONE_S)
    await exchange.changed(SLAVES_MAX + 1, exchange.versions(), 0)
    assert is_up_to_date(exchange, SLAVES_MAX + 1) and not is_up_to_date(exchange, 1)
