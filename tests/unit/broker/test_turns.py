"""Whose request is served next: connections take turns, and those are left out that do not read
their answers, or are gone.

Method: a real Broker on the stand-in core of support/fake_core.py, whose clients stop reading when
told so. Not shown here: real sockets (tests/unit/flow/test_control_link.py) and processes
(tests/fault/test_deaf_clients.py).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.driven_clock import DrivenClock
from support.fake_core import FakeClient, FakeCore, control
from support.name_server import in_loop

from rmq.broker import core_seam
from rmq.broker.broker import Broker
from rmq.broker.clients.connections import Connection
from rmq.broker.dispatch import dispatcher, fair_queue
from rmq.broker.dispatch.dispatcher import Dispatcher
from rmq.broker.dispatch.request import Reply, Request

ANSWER = 50_000


def large(broker: object, request: Request) -> Reply:
    return request.command.reply(body=bytes(ANSWER))


def small(broker: object, request: Request) -> Reply:
    return request.command.reply()


def answers(client: FakeClient) -> int:
    return sum(number == client.number for number, _ in client.core.sent)


@asynccontextmanager
async def serving(directory: Path, handlers: dict[int, Any]) -> AsyncIterator[Broker]:
    """A broker that has only these handlers, by request code."""
    async with control(directory) as broker:
        broker.dispatcher = Dispatcher(broker, handlers)
        yield broker


@in_loop
async def test_requests_are_served_by_turns_and_in_order(tmp_path: Path) -> None:
    async with serving(tmp_path, {1: small}) as broker:
        greedy, modest = broker.core.client(), broker.core.client()
        many = [greedy.put(1) for _ in range(500)]
        last = modest.put(1)
        await broker.core.until(lambda: len(broker.core.sent) == 501)
        order = [command.opaque for number, command in broker.core.sent if number == greedy.number]
        assert order == many
        place = [number for number, _ in broker.core.sent].index(modest.number)
        assert modest.reply_to(last) is not None and place <= 2


@in_loop
async def test_the_loop_is_given_back_however_much_waits(
    clock: DrivenClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(broker: object, request: Request) -> Reply:
        clock.advance(0.002)
        return request.command.reply()

    async with serving(tmp_path, {1: slow}) as broker:
        clients = [broker.core.client() for _ in range(60)]
        for client in clients:
            for _ in range(10):
                client.put(1)
        polls = 0
        poll = broker.dispatcher.poll

        def counted() -> None:
            nonlocal polls
            before = len(broker.core.sent)
            poll()
            polls += 1
            assert len(broker.core.sent) - before <= 1 + dispatcher.POLL_S / 0.002

        monkeypatch.setattr(broker.dispatcher, "poll", counted)
        await broker.core.until(lambda: len(broker.core.sent) == 600)
        assert polls >= 600 * 0.002 / (dispatcher.POLL_S + 0.002)


@in_loop
async def test_who_does_not_read_his_answers_is_asked_for_no_more(tmp_path: Path) -> None:
    async with serving(tmp_path, {1: large, 2: small}) as broker:
        core = broker.core
        core.drains = False
        deaf, good = core.client(), core.client()
        for _ in range(100):
            deaf.put(1)
        await core.until(lambda: deaf.number in core.undrained)
        for _ in range(20):
            assert (await good.call(2)).code == 0
        served = fair_queue.ANSWERS_MAX // ANSWER + 1
        assert answers(deaf) == served
        assert core.held == {deaf.number}
        core.drain(deaf.number)  # the client reads, and is given as much again
        await core.until(lambda: answers(deaf) == 2 * served)
        assert deaf.number in core.undrained
        core.drains = True
        core.drain(deaf.number)
        await core.until(lambda: answers(deaf) == 100)
        await core.until(lambda: not core.held)


@in_loop
async def test_of_who_is_gone_only_one_way_requests_are_served(tmp_path: Path) -> None:
    served: list[int] = []

    def noted(broker: object, request: Request) -> Reply:
        served.append(request.command.opaque)
        assert not request.connection.closed
        return request.command.reply(body=bytes(ANSWER))

    async with serving(tmp_path, {1: noted}) as broker:
        core = broker.core
        core.drains = False
        client = core.client()
        asked = [client.put(1) for _ in range(20)]
        kept = [client.put(1, one_way=True) for _ in range(3)]
        await core.until(lambda: client.number in core.undrained)
        before = list(served)
        assert before == asked[: len(before)] and len(before) < 10
        core.report(1, client.number, b"")
        await core.until(lambda: len(broker.connections) == 0)
        assert served == before + kept


@in_loop
async def test_who_closes_with_one_way_requests_under_way_is_forgotten(tmp_path: Path) -> None:
    release = asyncio.Event()
    running = 0

    async def waits(broker: object, request: Request) -> Reply:
        nonlocal running
        running += 1
        await release.wait()
        return request.command.reply()

    async with serving(tmp_path, {1: waits}) as broker:
        client = broker.core.client()
        for _ in range(3):
            client.put(1, one_way=True)
        broker.core.report(1, client.number, b"")
        await broker.core.until(lambda: running == 3 and len(broker.connections) == 0)
        release.set()
        await broker.core.until(lambda: not broker.dispatcher._waiting)
        assert not broker.dispatcher._queue._lines


def test_a_large_answer_behind_the_close_does_not_keep_the_connection() -> None:
    core = FakeCore()
    core.drains = False
    waiting = fair_queue.FairQueue(core, lambda frame: True)
    connection = Connection(7, "10.0.0.9:50007")
    waiting.waits(connection, 1)
    waiting.gone(connection)  # the closing waits for its turn
    waiting.answered(connection, fair_queue.ANSWERS_MAX + 1)
    waiting.waits(connection, -1)
    assert (waiting.take() or ())[:3] == (connection, core_seam.CLOSED, b"")
    assert not core.undrained and not waiting._lines


@in_loop
async def test_when_too_much_waits_the_deaf_client_with_most_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_queue, "WAITING_ALL_MAX", 100)
    async with serving(tmp_path, {1: large, 2: small}) as broker:
        core = broker.core
        core.drains = False
        modest, greedy, good = core.client(), core.client(), core.client()
        for client, count in ((modest, 30), (greedy, 60)):
            for _ in range(count):
                client.put(1)
            await core.until(lambda client=client: client.number in core.undrained)
        assert core.closed == []
        for _ in range(60):
            greedy.put(1)
        await core.until(lambda: bool(core.closed))
        assert core.closed == [greedy.number]
        assert (await good.call(2)).code == 0


@in_loop
async def test_requests_under_way_of_one_connection_are_bounded(tmp_path: Path) -> None:
    release = asyncio.Event()
    running = 0

    async def waits(broker: object, request: Request) -> Reply:
        nonlocal running
        running += 1
        await release.wait()
        return request.command.reply()

    async with serving(tmp_path, {1: waits, 2: small}) as broker:
        greedy, good = broker.core.client(), broker.core.client()
        for _ in range(fair_queue.WAITING_MAX + 50):
            greedy.put(1)
        assert (await good.call(2)).code == 0
        await broker.core.until(lambda: running == fair_queue.WAITING_MAX)
        assert (await good.call(2)).code == 0
        assert running == fair_queue.WAITING_MAX
        release.set()
        await broker.core.until(lambda: answers(greedy) == fair_queue.WAITING_MAX + 50)


@in_loop
async def test_tables_are_made_once_for_all_who_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rmq.format import fastjson

    made: list[object] = []
    dumps = fastjson.dumps

    def counted(value: object) -> bytes:
        made.append(value)
        return dumps(value)

    async with control(tmp_path) as broker:
        client = broker.core.client()
        now = [100.0]
        broker.bodies._clock = lambda: now[0]
        first = {code: (await client.call(code)).body for code in (21, 26, 28)}
        monkeypatch.setattr("rmq.broker.requests.topics.fastjson.dumps", counted)
        for code, body in first.items():
            assert (await client.call(code)).body == body
        assert not [each for each in made if "able" in str(each)]
        now[0] += 1
        await client.call(28)
        assert any("table" in str(each) for each in made)
        # Whoever asks after a change must see it.
        body = b"fileReservedTime=48\n"
        assert (await client.call(25, body)).code == 0
        assert b"fileReservedTime=48" in (await client.call(26)).body
        fields = {"readQueueNums": 3, "writeQueueNums": 3, "perm": 6, "topic": "new"}
        assert (await client.call(17, **fields)).code == 0
        assert b'"new"' in (await client.call(21)).body
