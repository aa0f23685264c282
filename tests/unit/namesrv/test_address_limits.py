"""What one address may have at a server without a store: as at a broker, whose reactor counts in C
(tests/unit/net/test_address_limits.py)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven_clock import DrivenClock
from support.name_server import Client, in_loop, name_server
from support.waiting import until

from rmq.namesrv.server import NameServer
from rmq.serving.address_table import (
    CONNECTIONS,
    HANDSHAKES,
    RATE,
    AddressLimits,
    AddressTable,
)
from rmq.serving.listener import Listener

HERE, THERE, BALANCER = "127.0.0.1", "127.0.0.2", "127.0.0.9"


class From(Client):
    """A client of an address of this machine, and what it says first."""

    def __init__(self, port: int, source: str = HERE, said: bytes = b"") -> None:
        super().__init__(port)
        self._source, self._said = source, said

    async def __aenter__(self) -> From:
        self.reader, self.writer = await asyncio.open_connection(
            HERE, self.port, local_addr=(self._source, 0)
        )
        self.writer.write(self._said)
        return self

    async def is_served(self) -> bool:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            return (await self.call(206)).code == 0
        return False


@asynccontextmanager
async def clients(port: int, *sources: str) -> AsyncIterator[list[From]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(From(port, each)) for each in sources]


def listener_of(server: NameServer) -> Listener:
    assert server._listener is not None
    return server._listener


def hello() -> bytes:
    outward = ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outward, server_hostname="x")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outward.read()


async def shakes_hands(port: int, source: str = HERE) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(OSError):
        _, writer = await asyncio.open_connection(HERE, port, ssl=context, local_addr=(source, 0))
        writer.close()
        return True
    return False


@in_loop
async def test_an_address_has_so_many_connections(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        name_server(rmqMaxConnectionsPerAddress=3) as server,
        clients(server.port, HERE, HERE, HERE, THERE) as (one, *others),
    ):
        assert [await each.is_served() for each in (one, *others)] == [True] * 4
        async with From(server.port) as more:
            assert not await more.is_served()
        one.writer.close()
        await until(lambda: len(listener_of(server)) == 3)
        async with From(server.port) as more:
            assert await more.is_served()
    (line,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert line.startswith("127.0.0.1:")
    assert "raise rmqMaxConnectionsPerAddress, or say in rmqProxyProtocolFrom" in line


@in_loop
async def test_three_quarters_of_all_where_nothing_is_said() -> None:
    async with (
        name_server(rmqMaxConnections=4) as server,
        clients(server.port, *[HERE] * 4) as four,
        From(server.port, THERE) as other,
    ):
        assert [await each.is_served() for each in four] == [True, True, True, False]
        assert await other.is_served()


@in_loop
async def test_behind_a_balancer_it_is_the_clients_address() -> None:
    settings = {"rmqMaxConnectionsPerAddress": 2, "rmqProxyProtocolFrom": BALANCER}
    async with name_server(**settings) as server, contextlib.AsyncExitStack() as stack:
        for source, may in [
            ("192.0.2.1", True), ("192.0.2.1", True), ("192.0.2.1", False), ("192.0.2.2", True),
            ("2001:db8:0:1::1", True), ("2001:db8:0:1::2", True), ("2001:db8:0:1:9::3", False),
            ("2001:db8:0:2::1", True),
        ]:  # fmt: skip
            family, other = ("6", "::1") if ":" in source else ("4", "10.0.0.5")
            said = f"PROXY TCP{family} {source} {other} 40000 9876\r\n".encode()
            client = await stack.enter_async_context(From(server.port, BALANCER, said))
            assert await client.is_served() == may, source


@in_loop
async def test_who_does_not_get_on_makes_room(clock: DrivenClock) -> None:
    """Of the same address: who is silent, and whose handshake stands still, for a second."""
    settings = {"rmqMaxConnectionsPerAddress": 3, "rmqMaxHandshakesPerAddress": 2}
    async with (
        name_server(**settings) as server,
        From(server.port, THERE) as other,
        From(server.port, said=hello()[:50]) as one,
        From(server.port, said=hello()[:50]) as two,
    ):
        table = listener_of(server)._addresses
        await until(lambda: sum(len(each.shaking) for each in table._by_key.values()) == 2)
        assert not await shakes_hands(server.port)
        clock.advance(1.1)
        assert await shakes_hands(server.port)
        assert await one.closed_by_peer()
        await until(lambda: len(listener_of(server)) == 2)
        async with clients(server.port, HERE, HERE) as asking:
            assert [await each.is_served() for each in asking] == [True, True]
            async with From(server.port) as last:
                assert await last.is_served(), "the other half made room"
                assert await two.closed_by_peer()
                async with From(server.port) as more:
                    assert not await more.is_served(), "all that are left have asked for something"
        assert await other.is_served()


@in_loop
async def test_handshakes_in_a_second(clock: DrivenClock) -> None:
    async with name_server(rmqHandshakeRatePerAddress=1) as server:
        for _ in range(2):
            assert await shakes_hands(server.port)
            while await shakes_hands(server.port):  # in another second, perhaps
                pass
            assert await shakes_hands(server.port, THERE)
            clock.advance(1)


@in_loop
async def test_nothing_is_kept_of_those_that_have_gone() -> None:
    async with name_server() as server:
        said = hello()
        for number in range(60):
            async with From(server.port, said=said[: number * len(said) // 50]) as client:
                if number % 3 == 0:
                    client.writer.transport.abort()
        assert await shakes_hands(server.port)
        table = listener_of(server)._addresses
        await until(lambda: len(listener_of(server)) == len(table) == 0)
        assert table._of == {}
        assert listener_of(server)._silent == {}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["enter", "asked", "begin", "end", "leave"]),
        st.integers(0, 5),  # who
        st.sampled_from(["10.0.0.1", "10.0.0.2", "::ffff:10.0.0.1", "2001:db8::1", "2001:db8::2"]),
    ),
    max_size=60,
)


@given(STEPS)
def test_counts_are_those_of_who_is_there(steps: list[tuple[str, int, str]]) -> None:
    table = AddressTable(AddressLimits(connections=2, handshakes=1))
    here: dict[int, str] = {}  # who -> what its address counts as
    shaking: set[int] = set()
    counted = {"::ffff:10.0.0.1": "10.0.0.1", "2001:db8::2": "2001:db8::1"}
    for now, (step, who, host) in enumerate(steps):
        key = counted.get(host, host)
        if step == "enter":
            if here.get(who, key) != key:
                shaking.discard(who)
            known = who in here and here[who] == key
            here[who] = key
            mine = sum(each == key for each in here.values())
            assert table.enter(who, host, now) == (CONNECTIONS if mine > 2 and not known else "")
        elif who not in here:
            continue
        elif step == "begin":
            shaking.add(who)
            mine = sum(here[each] == here[who] for each in shaking)
            assert table.begin(who, now) == (HANDSHAKES if mine > 1 else "")
        elif step == "end":
            shaking.discard(who)
            table.end(who, now)
        elif step == "asked":
            table.asked(who)
        else:
            del here[who]
            shaking.discard(who)
            table.leave(who)
            table.leave(who)
        assert len(table) == len(set(here.values()))


def test_the_one_that_has_waited_longest_is_the_rival() -> None:
    table = AddressTable(AddressLimits())
    for who, now in (("a", 1.0), ("b", 2.0), ("c", 3.0)):
        table.enter(who, "10.0.0.1", now)
        table.begin(who, now)
    table.enter("other", "10.0.0.2", 0.0)
    assert table.rival("c", CONNECTIONS, 0.5) is None
    assert table.rival("c", CONNECTIONS, 1.0) == "a"
    table.asked("a")
    assert table.rival("c", CONNECTIONS, 2.0) == "b"
    assert table.rival("c", HANDSHAKES, 2.0) == "a"
    table.end("a", 4.0)
    table.end("b", 4.0)
    assert table.rival("c", HANDSHAKES, 9.0) is None, "itself makes no room"
    assert table.rival("a", CONNECTIONS, 9.0) == "c", "silence counts from the handshake's end"
    assert table.rival("a", RATE, 9.0) is None
