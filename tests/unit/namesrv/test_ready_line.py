"""The ready line of a server with a name server of its own: what it suggests to try works."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest
from support.name_server import Client, in_loop, name_server
from support.waiting import until

from rmq.config import load_properties
from rmq.node import ready_line
from rmq.node.ready_line import print_ready

SERVED = [("broker-a", "10.0.0.1:10911")]


@in_loop
async def test_it_is_said_when_clients_find_the_broker(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line must appear only when clients find the broker: a start does not wait for its
    registration, which may be late on a busy machine."""
    asked: list[str] = []
    knows = ready_line._knows

    def counted(address: str, served: ready_line.Served) -> Awaitable[bool | None]:
        asked.append(address)
        return knows(address, served)

    monkeypatch.setattr(ready_line, "_knows", counted)
    broker = load_properties(None, {})
    async with name_server() as server, Client(server.port) as client:
        own = f"127.0.0.1:{server.port}"
        printing = asyncio.create_task(print_ready(own, broker, SERVED, []))
        await until(lambda: len(asked) > 2)
        assert capsys.readouterr().out == ""
        await client.register()
        await printing
        assert f"name server {own}, broker broker-a at 10.0.0.1:10911," in capsys.readouterr().out


@in_loop
async def test_a_broker_without_a_role_yet_is_ready_all_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    broker = load_properties(None, {"enableControllerMode": "true", "controllerAddr": "h:1"})
    async with name_server() as server:
        await print_ready(f"127.0.0.1:{server.port}", broker, [], [])
    assert "is ready in" in capsys.readouterr().out
