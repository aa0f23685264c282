"""A request that took longer than rmqSlowRequestMs is in the log, with where its time went.

Method: a real Broker on the stand-in core of support/fake_core.py, and a clock that is moved by
hand. The reactor's counts are made up here; tests/fault/test_busy_disk.py shows real ones.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support.driven_clock import DrivenClock
from support.fake_core import FakeCore, control
from support.name_server import in_loop

from rmq.broker.broker import Broker
from rmq.broker.dispatch.dispatcher import Dispatcher
from rmq.broker.dispatch.request import Reply, Request
from rmq.codes import RequestCode, ResponseCode
from rmq.config import Settings
from rmq.logs import JsonFormatter
from rmq.refusal import Refusal

CREATE = RequestCode.UPDATE_AND_CREATE_TOPIC
Change = Callable[[FakeCore], None]


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "rmq.broker.slow_requests"
    ]


def numbers(line: str) -> list[int]:
    """The milliseconds in a log line: in all, until its turn, at work, waiting."""
    found = re.search(
        r"took (\d+) ms: (\d+) until its turn, (\d+) at work, (\d+) waiting for others", line
    )
    assert found is not None, line
    return [int(each) for each in found.groups()]


@in_loop
async def test_a_slow_request_is_told_with_where_its_time_went(
    tmp_path: Path, clock: DrivenClock, caplog: pytest.LogCaptureFixture
) -> None:
    release = asyncio.Event()

    def handler(broker: object, request: Request) -> object:
        clock.advance(0.3)
        return rest(request)

    async def rest(request: Request) -> Reply:
        await release.wait()
        clock.advance(0.9)
        return request.command.reply()

    with clock.standing_still():
        async with control(tmp_path, rmqSlowRequestMs="1000") as broker:
            broker.dispatcher = Dispatcher(broker, {CREATE: handler})  # type: ignore[dict-item]
            client = broker.core.client()
            opaque = client.put(CREATE, topic="orders")
            asyncio.get_running_loop().call_soon(release.set)
            await broker.core.until(lambda: client.reply_to(opaque) is not None)
    (line,) = said(caplog)
    took, turn, work, wait = numbers(line)
    assert work >= 300 and wait >= 900 and turn < took and abs(turn + work + wait - took) <= 2
    head = r"slow: request 17 \(UPDATE_AND_CREATE_TOPIC\) from [\w.]+:\d+ took .*: .*Topic:orders"
    assert re.fullmatch(head, line), line
    record = next(each for each in caplog.records if each.name == "rmq.broker.slow_requests")
    assert record.levelno == logging.WARNING
    parts = f'"took_ms":{took},"turn_ms":{turn},"work_ms":{work},"wait_ms":{wait},"resources":"'
    assert parts in JsonFormatter({}).format(record)


@in_loop
async def test_who_had_to_wait_for_another_was_waiting_for_its_turn(
    tmp_path: Path, clock: DrivenClock, caplog: pytest.LogCaptureFixture
) -> None:
    def slow(broker: object, request: Request) -> Reply:
        clock.advance(2)
        return request.command.reply()

    def quick(broker: object, request: Request) -> Reply:
        return request.command.reply()

    with clock.standing_still():
        async with control(tmp_path, rmqSlowRequestMs="1999") as broker:
            broker.dispatcher = Dispatcher(broker, {CREATE: slow, 30: quick})
            first, second = broker.core.client(), broker.core.client()
            first.put(CREATE, topic="t")
            opaque = second.put(30, topic="t", queueId=0)
            await broker.core.until(lambda: second.reply_to(opaque) is not None)
    (at_work, waited) = (numbers(line) for line in said(caplog))
    assert at_work[2] >= 2000 > at_work[1]
    assert waited[1] >= 2000 > waited[2]


@in_loop
async def test_a_refusal_that_took_long_was_at_work(
    tmp_path: Path, clock: DrivenClock, caplog: pytest.LogCaptureFixture
) -> None:
    def refuses(broker: object, request: Request) -> Reply:
        clock.advance(2)
        raise Refusal(ResponseCode.SYSTEM_ERROR, "no")

    with clock.standing_still():
        async with control(tmp_path) as broker:
            broker.dispatcher = Dispatcher(broker, {CREATE: refuses})
            await broker.core.client().call(CREATE, topic="t")
    (line,) = said(caplog)
    assert numbers(line)[2] >= 2000 > numbers(line)[3]


@in_loop
async def test_what_a_slave_asks_to_be_held_for_is_not_slow(
    tmp_path: Path, clock: DrivenClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A slave's question that is held as long as the slave asked must not count as slow: a slave
    that knows all tables asks again every ten seconds, day and night."""
    slave = {"rmqReplicaAddresses": "10.0.0.9"}
    async with control(tmp_path, rmqSlowRequestMs="20000", **slave) as broker:
        client = broker.core.client()
        known = (await client.call(906, rmqSlave=1)).fields["rmqVersions"]
        for passes_s, lines in ((30, 0), (60, 1)):
            opaque = client.put(906, rmqSlave=1, rmqKnown=known, rmqWaitMillis=30_000)
            await broker.core.until(lambda: broker.dispatcher._waiting)
            clock.advance(passes_s)
            await broker.core.until(lambda sent=opaque: client.reply_to(sent) is not None)
            await broker.core.until(lambda: not broker.dispatcher._waiting)
            assert len(said(caplog)) == lines
    (line,) = said(caplog)
    assert "request 906 " in line and numbers(line)[3] >= 60_000


@in_loop
async def test_codes_that_nobody_knows_are_one_line(
    tmp_path: Path, clock: DrivenClock, caplog: pytest.LogCaptureFixture
) -> None:
    def slow(broker: object, request: Request) -> Reply:
        clock.advance(2)
        return request.command.reply()

    with clock.standing_still():
        async with control(tmp_path) as broker:
            broker.dispatcher = Dispatcher(broker, {CREATE: slow})
            client, other = broker.core.client(), broker.core.client()
            client.put(CREATE, topic="t")
            opaques = [other.put(code) for code in (777_001, 777_002)]
            client.put(CREATE, topic="t")
            await broker.core.until(lambda: other.reply_to(opaques[1]) is not None)
    told = [line for line in said(caplog) if "request 777" in line]
    assert len(told) == 1 and "request 777001 from" in told[0]


@in_loop
async def test_names_that_somebody_chose_stay_within_the_line(
    tmp_path: Path, clock: DrivenClock, caplog: pytest.LogCaptureFixture
) -> None:
    def slow(broker: object, request: Request) -> Reply:
        clock.advance(2)
        return request.command.reply()

    with clock.standing_still():
        async with control(tmp_path) as broker:
            broker.dispatcher = Dispatcher(broker, {CREATE: slow})
            name = "a\nrmq: all is well\x1b[2J" + "x" * 10_000
            await broker.core.client().call(CREATE, topic=name)
    (line,) = said(caplog)
    assert "Topic:a?rmq: all is well?[2Jxxx" in line and line.isprintable() and len(line) < 1000
    (record,) = [each for each in caplog.records if each.getMessage() == line]
    assert record.__dict__["resources"].isprintable()


@in_loop
async def test_of_what_is_held_back_nothing_is_read_again(
    tmp_path: Path, clock: DrivenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the log holds lines back, nothing more may be done for each slow request, because then
    all are slow, and many."""
    read = []

    def slow(broker: object, request: Request) -> Reply:
        clock.advance(2)
        return request.command.reply()

    with clock.standing_still():
        async with control(tmp_path) as broker:
            broker.dispatcher = Dispatcher(broker, {CREATE: slow})
            about = broker.slow_requests._about
            monkeypatch.setattr(
                broker.slow_requests, "_about", lambda each: read.append(each) or about(each)
            )
            for _ in range(4):
                await broker.core.client().call(CREATE, topic="t")
    assert len(read) == 1


@in_loop
async def test_what_is_slow_is_a_setting_and_a_flood_is_one_line(
    tmp_path: Path, clock: DrivenClock, caplog: pytest.LogCaptureFixture
) -> None:
    def slow(broker: object, request: Request) -> Reply:
        clock.advance(1)
        return request.command.reply()

    with clock.standing_still():
        async with control(tmp_path, rmqSlowRequestMs="0") as broker:
            real = broker.dispatcher
            broker.dispatcher = Dispatcher(broker, {CREATE: slow})
            client = broker.core.client()
            await client.call(CREATE, topic="t")
            assert said(caplog) == []
            for limit, lines in (("60000", 0), ("999", 1)):
                broker.dispatcher, own = real, broker.dispatcher
                changed = await client.call(25, f"rmqSlowRequestMs={limit}\n".encode())
                assert changed.code == 0
                broker.dispatcher = own
                for _ in range(5):
                    await client.call(CREATE, topic="t")
                assert len(said(caplog)) == lines
            clock.advance(10)
            await client.call(CREATE, topic="t")
            assert said(caplog)[-1].endswith("(4 more like it since)")


def slow_sends(core: FakeCore) -> None:
    """Of five sends one took 1 to 2 s, and one longer than 3 s; a pull was held, and pulls were
    refused."""
    core.rows = {
        (310, 0, False): ([3, 0, 0, 0, 0, 0, 0, 1, 0, 1], 5000),
        (11, 19, True): ([0] * 9 + [7], 60_000),
        (11, 20, False): ([0] * 6 + [4, 0, 0, 0], 3000),
    }
    core.buckets = {"append": ([0, 9] + [0] * 98, 9), "flush": ([0] * 80 + [1] + [0] * 19, 2)}


async def looks(broker: Broker, *changes: Change) -> None:
    core = broker.core
    core.rows, core.buckets = {}, {}
    core.rpc_times = lambda: core.rows
    core.latencies = lambda: core.buckets
    for change in changes:
        change(core)
        await broker._sample()


def unchanged(core: FakeCore) -> None: ...


@pytest.mark.parametrize(("limit", "sends"), [(1000, 2), (1001, 1), (2000, 1), (3000, 1)])
@in_loop
async def test_what_the_reactor_answered_late_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, limit: int, sends: int
) -> None:
    async with control(tmp_path, rmqSlowRequestMs=limit) as broker:
        await looks(broker, slow_sends, unchanged)
    (line,) = said(caplog)  # the second look logs nothing, because nothing was new
    bound = {1001: 2000}.get(limit, limit)
    assert line.startswith(
        f"slow: {sends} answers to request 310 (SEND_MESSAGE_V2) took more than {bound} ms, within "
    )
    assert "SUCCESS; the log meanwhile: 99 % were written within 0 ms, synced within " in line


@in_loop
async def test_nothing_is_said_of_what_was_before_it_was_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with control(tmp_path, rmqSlowRequestMs="0") as broker:

        def turn_on(core: FakeCore) -> None:
            broker.settings.set("rmqSlowRequestMs", "500")

        await looks(broker, slow_sends, turn_on, unchanged)
        assert said(caplog) == []


@in_loop
async def test_beyond_the_last_bound_the_reactors_counts_tell_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with control(tmp_path, rmqSlowRequestMs="3001") as broker:
        await looks(broker, slow_sends)
    assert said(caplog) == []


def test_the_setting_is_on_by_default() -> None:
    assert Settings().rmqSlowRequestMs == 1000
