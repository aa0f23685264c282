"""How much one address may have at a server without a store. The limits are those of a broker,
whose reactor counts in C (tests/unit/net/test_address_limits.py)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven_clock import DrivenClock
from support.name_server import Client, in_loop, name_server
from support.waiting import until

from bench.half_open import hello
from rmq.format.client_tls import ClientTls
from rmq.namesrv.server import NameServer
from rmq.serving.address_table import (
    CONNECTIONS,
    HANDSHAKES,
    RATE,
    AddressLimits,
    AddressTable,
)
from rmq.serving.listener import Listener
from rmq.serving.pace import HANDSHAKES_A_TURN, Pace

pytestmark = pytest.mark.still_clock

HERE, THERE, BALANCER = "127.0.0.1", "127.0.0.2", "127.0.0.9"
ITSELF = b"PROXY UNKNOWN\r\n"  # a balancer that checks whether the server is there


class From(Client):
    """A client from an address of this machine, with what it sends first."""

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


async def shakes_hands(port: int, source: str = HERE) -> bool:
    context = ClientTls(verify=False).context()
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
        clients(server.port, *[HERE] * 3) as three,
    ):
        assert [await each.is_served() for each in three] == [True, True, True]
        async with From(server.port) as more, From(server.port, THERE) as other:
            assert not await more.is_served()
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
async def test_a_balancer_has_to_say_who_comes_by_it(caplog: pytest.LogCaptureFixture) -> None:
    async with name_server(rmqProxyProtocolFrom=BALANCER) as server:
        for said, is_served in ((b"", False), (ITSELF, True), (b"PROXY TCP4 1 1 1 1\r\n", False)):
            async with From(server.port, BALANCER, said) as client:
                assert await client.is_served() is is_served
        async with From(server.port, BALANCER):
            pass  # it only checks whether somebody listens
        await until(lambda: len(listener_of(server)) == 0)
    (line,) = {each.getMessage() for each in caplog.records if each.levelno == logging.WARNING}
    assert "and does not say by the PROXY protocol who comes by it" in line
    settings = {"rmqProxyProtocolFrom": BALANCER, "rmqProxyProtocol": "optional"}
    async with name_server(**settings) as server, From(server.port, BALANCER) as client:
        assert await client.is_served()


@in_loop
async def test_what_a_balancer_has_not_named_yet_is_refused_to_nobody() -> None:
    settings = {"rmqMaxConnectionsPerAddress": 2, "rmqProxyProtocolFrom": BALANCER}
    async with (
        name_server(**settings) as server,
        clients(server.port, *[BALANCER] * 5) as waiting,
    ):
        await until(lambda: len(listener_of(server)) == 5)
        for number, each in enumerate(waiting):
            each.writer.write(f"PROXY TCP4 192.0.2.{number} 10.0.0.5 40000 9876\r\n".encode())
        assert [await each.is_served() for each in waiting] == [True] * 5
        async with clients(server.port, *[BALANCER] * 3) as own:
            for each in own:
                each.writer.write(ITSELF)
            assert [await each.is_served() for each in own] == [True, True, False]


@in_loop
async def test_who_does_not_get_on_makes_room(
    clock: DrivenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is silent, or whose handshake makes no progress, must make room for another
    one of the same address after a second (here a minute, as on a machine that is that slow)."""
    monkeypatch.setattr("rmq.serving.listener.SILENT_S", 60.0)
    monkeypatch.setattr("rmq.serving.listener.HELLO_S", 86_400.0)
    settings = {"rmqMaxConnectionsPerAddress": 3, "rmqMaxHandshakesPerAddress": 2}
    async with (
        name_server(**settings) as server,
        From(server.port, THERE) as other,
        From(server.port, said=hello()[:50]) as one,
        From(server.port, said=hello()[:50]) as two,
    ):
        table = listener_of(server)._addresses
        await until(
            lambda: sum(len(each.shaking) for each in table._by_key.values()) == 2, still=True
        )
        assert not await shakes_hands(server.port)
        clock.advance(61)
        assert await shakes_hands(server.port)
        assert await one.closed_by_peer()
        await until(lambda: len(listener_of(server)) == 2, still=True)
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
            for _ in range(50):  # perhaps one of them is in the next second
                if not await shakes_hands(server.port):
                    break
            else:
                pytest.fail("a second has room for any number of them")
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


@in_loop
async def test_who_is_displaced_before_its_first_step_leaves_nothing() -> None:
    """A connection that is displaced before its task's first step must be closed all the same: a
    task that is cancelled so early runs none of its own code that would clean up."""
    async with name_server() as server, From(server.port) as client:
        listener = listener_of(server)
        assert await client.is_served()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        listener._accept(ours)
        (connection,) = listener._setting_up
        listener._drop(connection)
        await until(lambda: ours.fileno() == -1)
        assert theirs.recv(1) == b""
        theirs.close()
        assert len(listener) == 1
        assert await client.is_served()


@in_loop
async def test_the_address_with_most_half_frames_loses_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """When the room for half frames is used up, the address with most of them must lose one, not
    the connection that came last, nor the one with the largest half frame."""
    monkeypatch.setattr("rmq.serving.listener.PARTIAL_BYTES_MAX", 100_000)
    begun = (1_000_000).to_bytes(4, "big")
    async with name_server() as server, clients(server.port, HERE, HERE, HERE, THERE) as all_four:
        *many, other = all_four
        for client, size in ((many[0], 20_000), (many[1], 25_000), (many[2], 15_000)):
            await write_partial(server, client, begun + bytes(size))
        other.writer.write(begun + bytes(45_000))
        assert await many[1].closed_by_peer()
        await until(lambda: listener_of(server).partial_bytes == 80_012)
        for each in (many[0], many[2], other):
            each.writer.close()
        await until(lambda: len(listener_of(server)) == listener_of(server).partial_bytes == 0)
    (line,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert "of requests that are not whole, and its address most of them" in line


async def write_partial(server: NameServer, client: Client, data: bytes) -> None:
    before = listener_of(server).partial_bytes
    client.writer.write(data)
    await until(lambda: listener_of(server).partial_bytes == before + len(data))


@in_loop
async def test_what_a_displaced_one_held_is_held_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmq.serving.listener.SILENT_S", 0.0)
    begun = (1_000_000).to_bytes(4, "big")
    async with (
        name_server(rmqMaxConnectionsPerAddress=2) as server,
        clients(server.port, HERE) as (served,),
    ):
        assert await served.is_served()
        listener = listener_of(server)
        (address,) = listener._addresses._by_key.values()
        for _ in range(5):
            async with From(server.port, said=begun + bytes(20_000)) as half:
                await until(lambda: listener.partial_bytes == 20_004)
                assert address.partial_bytes == 20_004
                async with From(server.port) as more:
                    assert await more.is_served()
                assert await half.closed_by_peer()
            await until(lambda: len(listener) == 1)
            assert listener.partial_bytes == address.partial_bytes == 0
        assert await served.is_served()


@in_loop
async def test_handshakes_of_many_wait_for_their_turn() -> None:
    """Handshakes of many connections must wait: only so many begin in a turn of the loop, however
    many have come."""
    taken = list[int]()

    class Counted(Pace):
        def _go_on(self) -> None:
            before = len(self._waiting)
            super()._go_on()
            taken.append(before - len(self._waiting))

    async with name_server() as server:
        listener_of(server)._pace = Counted(HANDSHAKES_A_TURN)
        done = await asyncio.gather(*(shakes_hands(server.port) for _ in range(50)))
    assert all(done)
    assert sum(taken) == 50
    assert max(taken) <= HANDSHAKES_A_TURN


@in_loop
async def test_a_turn_has_so_many_steps() -> None:
    pace, order = Pace(3), list[int]()

    async def step(number: int) -> None:
        await pace.step()
        order.append(number)

    tasks = [asyncio.ensure_future(step(number)) for number in range(10)]
    tasks[1].cancel()
    done = []
    while len(order) < 9:
        before = len(order)
        await asyncio.sleep(0)
        done.append(len(order) - before)
    assert [each for each in done if each] == [3, 3, 3]
    assert order == [0, *range(2, 10)]
    await asyncio.ensure_future(step(10))
    assert order[-1] == 10


HOSTS = {"10.0.0.1": "A", "10.0.0.2": "B", "::ffff:10.0.0.1": "A", "2001:db8::1": "C",
         "2001:db8::2": "C"}  # fmt: skip
LIMITS = AddressLimits(connections=2, handshakes=1, rate=2)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["enter", "asked", "begin", "end", "leave"]),
        st.integers(0, 5),  # which connection
        st.sampled_from(list(HOSTS)),
        st.sampled_from([0.0, 0.3, 1.1]),  # the seconds since the last step
    ),
    max_size=60,
)


class Known(msgspec.Struct):
    """What the model knows of a connection that is there."""

    address: str
    silent: float | None  # the time since which it is silent
    shaking: float | None = None


@given(STEPS)
def test_what_is_counted_is_who_is_there(steps: list[tuple[str, int, str, float]]) -> None:
    table = AddressTable(LIMITS)
    here: dict[int, Known] = {}
    begun: list[tuple[str, int]] = []  # address, second
    now = 100.0
    for step, who, host, passed in steps:
        now += passed
        address = HOSTS[host]
        mine = here.get(who)
        if step == "enter":
            if mine is not None:
                continue
            here[who] = Known(address, now)
            crowd = sum(each.address == address for each in here.values())
            assert table.enter(who, host, now) == (CONNECTIONS if crowd > 2 else "")
        elif mine is None:
            continue
        elif step == "begin":
            limit = ""
            if mine.shaking is None:
                mine.shaking = now
                mine.silent = None if mine.silent is None else now
                begun.append((mine.address, int(now)))
                shaking = sum(
                    each.address == mine.address and each.shaking is not None
                    for each in here.values()
                )
                limit = HANDSHAKES if shaking > 1 else ""
                limit = RATE if begun.count((mine.address, int(now))) > 2 else limit
            assert table.begin(who, now) == limit
        elif step == "end":
            if mine.shaking is not None:
                mine.shaking = None
                mine.silent = None if mine.silent is None else now
            table.end(who, now)
        elif step == "asked":
            mine.silent = None
            table.asked(who)
        else:
            del here[who]
            table.leave(who)
            table.leave(who)
        assert len(table) == len({each.address for each in here.values()})
        for each, known in here.items():
            assert_rival(table, here, each, known)
            assert_crowds(table, here, each, known)


def assert_rival(table: AddressTable, here: dict[int, Known], who: int, known: Known) -> None:
    """The rival must be the connection of the same address that has waited longest. If several
    began at that time, it may be any of them."""
    others = [each for name, each in here.items()
              if name != who and each.address == known.address]  # fmt: skip
    for limit, since in (
        (CONNECTIONS, [each.silent for each in others if each.silent is not None]),
        (HANDSHAKES, [each.shaking for each in others if each.shaking is not None]),
    ):
        rival = table.rival(who, limit, 1e9)
        if not since:
            assert rival is None
            continue
        assert isinstance(rival, int)
        found = here[rival]
        assert found.address == known.address
        assert (found.silent if limit == CONNECTIONS else found.shaking) == min(since)
        assert table.rival(who, limit, min(since) - 0.1) is None
    assert table.rival(who, RATE, 1e9) is None


def assert_crowds(table: AddressTable, here: dict[int, Known], who: int, known: Known) -> None:
    """The connections of an address must be in the order in which they came. If several addresses
    have most connections, any of these may be the fullest."""
    by_address: dict[str, list[int]] = {}
    for each, its in here.items():
        by_address.setdefault(its.address, []).append(each)
    mates = by_address[known.address]
    assert table.mates(who) == mates
    most = max(map(len, by_address.values()))
    largest = [each for each in by_address.values() if len(each) == most > len(mates)]
    assert table.of_most(who) in (largest or [[]])


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
