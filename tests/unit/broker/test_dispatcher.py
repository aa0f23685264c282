"""From frames to handlers and back: unknown codes, failures, one-way, malformed frames."""

import asyncio
import logging
from pathlib import Path

import pytest
from support.fake_core import control
from support.name_server import in_loop

from rmq.broker.dispatch import dispatcher
from rmq.broker.dispatch.dispatcher import Dispatcher
from rmq.broker.dispatch.request import Reply, Request
from rmq.broker.requests.handlers import handler_table
from rmq.codes import ResponseCode
from rmq.format.remoting import JSON, ROCKETMQ, Command, encode
from rmq.refusal import Refusal


@in_loop
async def test_an_unknown_code_is_answered_with_3(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        reply = await broker.core.client().call(999)
        assert (reply.code, reply.remark) == (3, " request type 999 not supported")


@in_loop
async def test_a_malformed_frame_closes_its_connection_only(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        bad, good = broker.core.client(), broker.core.client()
        broker.core.report(0, bad.number, b"\x09\0\0\0")
        assert (await good.call(30, topic="t", queueId=0)).code == 0
        assert broker.core.closed == [bad.number]


@in_loop
async def test_a_one_way_request_is_never_answered(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        opaque = client.put(999, one_way=True)
        await client.call(30, topic="t", queueId=0)
        assert client.reply_to(opaque) is None


@in_loop
async def test_failures_are_told_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(broker: object, request: Request) -> Reply:
        raise ValueError("broken inside")

    async def refuses(broker: object, request: Request) -> Reply:
        await asyncio.sleep(0)
        raise Refusal(ResponseCode.NO_PERMISSION, "not today")

    async with control(tmp_path) as broker:
        broker.dispatcher = Dispatcher(broker, {1: breaks, 2: refuses})
        client = broker.core.client()
        with caplog.at_level(logging.ERROR):
            for _ in range(3):
                reply = await client.call(1)
                assert (reply.code, reply.remark) == (1, "ValueError: broken inside")
        assert sum("broken inside" in line for line in caplog.messages) == 1
        reply = await client.call(2)
        assert (reply.code, reply.remark) == (16, "not today")


@in_loop
async def test_a_slow_handler_stops_nobody(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def slow(broker: object, request: Request) -> Reply:
        await release.wait()
        return request.command.reply()

    def fast(broker: object, request: Request) -> Reply:
        return request.command.reply()

    async with control(tmp_path) as broker:
        broker.dispatcher = Dispatcher(broker, {1: slow, 2: fast})
        client = broker.core.client()
        opaque = client.put(1)
        assert (await client.call(2)).code == 0
        assert client.reply_to(opaque) is None
        release.set()
        await broker.core.until(lambda: client.reply_to(opaque) is not None)


@in_loop
async def test_too_many_waiting_requests_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "WAITING_MAX", 2)
    release = asyncio.Event()

    async def slow(broker: object, request: Request) -> Reply:
        await release.wait()
        return request.command.reply()

    async with control(tmp_path) as broker:
        broker.dispatcher = Dispatcher(broker, {1: slow})
        client = broker.core.client()
        client.put(1)
        client.put(1)
        reply = await client.call(1)
        assert reply.code == 2
        assert (reply.remark or "").startswith("[OVERLOAD]")
        release.set()


@in_loop
async def test_binary_requests_get_binary_replies(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        command = Command(
            code=30, opaque=5, fields={"topic": "t", "queueId": "0"}, serialize_type=1
        )
        broker.core.report(0, client.number, encode(command)[4:])
        await broker.core.until(lambda: client.reply_to(5) is not None)
        reply = client.reply_to(5)
        assert reply is not None
        assert (reply.serialize_type, reply.fields) == (1, {"offset": "0"})


@in_loop
async def test_a_code_that_a_binary_header_has_cut_is_put_back(tmp_path: Path) -> None:
    """3443 in a binary header means 200051, whose upper bits are cut there; in JSON 3443 means
    nothing."""
    async with control(tmp_path) as broker:
        client = broker.core.client()
        for opaque, kind in ((1, ROCKETMQ), (2, JSON)):
            command = Command(code=3443, opaque=opaque, serialize_type=kind)
            broker.core.report(0, client.number, encode(command)[4:])
        await broker.core.until(lambda: client.reply_to(2) is not None)
        reply = client.reply_to(2)
        assert reply is not None
        assert (reply.code, reply.remark) == (3, " request type 3443 not supported")
        assert client.reply_to(1) is None
        assert [each.opaque for each in client.given_back()] == [1]


@in_loop
async def test_requests_of_a_connection_never_announced_are_served(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        broker.core.reports.clear()
        assert (await client.call(30, topic="t", queueId=0)).code == 0


def test_a_code_with_two_handlers_is_refused() -> None:
    async def answer(context: object, request: Request) -> None: ...

    with pytest.raises(ValueError, match="request code 5 has two handlers"):
        handler_table({5: answer}, {5: answer})
    with pytest.raises(ValueError, match="request code 3442 has two handlers"):
        # Both codes are the same number in a binary header.
        handler_table({200050: answer}, {3442: answer})
    assert set(handler_table({5: answer, 200050: answer})) == {5, 200050}
