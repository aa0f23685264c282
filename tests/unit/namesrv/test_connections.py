"""Goal: what one connection does harms no other, and every limit holds.

Method: real sockets on loopback: garbage, half frames, pipelining, clients that do not read. Not
shown here: thousands of connections; only the counting is tested.
"""

import asyncio
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.calm_clock import calm_seconds
from support.driven_clock import DrivenClock
from support.name_server import Client, in_loop, name_server
from support.volume import volume
from support.waiting import until, until_is

from rmq.errors import ConfigError
from rmq.format.remoting import Command, encode
from rmq.limits import FRAME_BYTES_MAX
from rmq.namesrv.expiry import expire_once
from rmq.serving import listener

GOOD = encode(Command(code=206, opaque=5))


def framed(header: bytes, kind: int = 0) -> bytes:
    word = kind << 24 | len(header)
    return (4 + len(header)).to_bytes(4, "big") + word.to_bytes(4, "big") + header


BAD = [
    b"\x00\x00\x00\x00",
    b"\x00\x00\x00\x03abc",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    (FRAME_BYTES_MAX - 3).to_bytes(4, "big"),
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS hello
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x00\x00\x00\x04\x00\x00\x00\x09",
    b"\x00\x00\x00\x06\x00\x00\x00\x02{]",
    b"\x00\x00\x00\x04\x09\x00\x00\x00",
    *(
        framed(b'{"code":105,' + opens + b"[" * depth + b"]" * depth + closes)
        for depth in (70, 300, 900, 1100, 100_000)
        for opens, closes in (
            (b'"extFields":{"topic":', b"}}"),
            (b'"extFields":{topic:', b"}}"),
            (b'"remark":', b"}"),
            (b'"nobody":', b"}"),
        )
    ),
    framed(b"[" * 1_000_000),
    framed(b'{"code":' + b"1" * 4000 + b"}"),
    framed(b'{"code":105,"extFields":{"topic":' + b"1" * 5000 + b"}}"),
    framed(b'{"code":1e400}'),
    framed(b'{"code":NaN}'),
    framed(b'{"code":{}}'),
    framed(b'{"code":105,"extFields":[]}'),
    framed(b"{code:105,nobody:[" + b"[]," * 100_000 + b"]}"),  # half a second of work for each MiB
    framed(b'{"code":105,"nobody":"' + bytes(1 << 20).replace(b"\0", b"x") + b'"}'),
    framed(b"\0\x69" + bytes(15) + (2_100_000).to_bytes(4, "big") + bytes(2_100_000), kind=1),
]


async def write(client: Client, data: bytes) -> None:
    client.writer.write(data)
    await client.writer.drain()


@pytest.mark.parametrize("data", BAD, ids=lambda data: f"{data[:24]!r} of {len(data)}")
@in_loop
async def test_a_malformed_frame_closes_its_connection_and_no_other(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with name_server() as server, Client(server.port) as good, Client(server.port) as bad:
        await good.register()
        assert (await bad.call(206)).code == 0
        await write(bad, data)
        assert await bad.closed_by_peer()
        assert (await good.call(105, topic="T")).code == 0
    assert len(caplog.records) == 1
    line = caplog.records[0].getMessage()
    assert "connection closed: " in line
    assert caplog.records[0].exc_info is None
    assert len(line) < 300


@in_loop
async def test_a_header_as_large_as_clients_have_one_is_read() -> None:
    """A header as large as clients send it must be read: 32 KiB of properties, each byte of which
    is written as six."""
    async with name_server() as server, Client(server.port) as client:
        await client.register()
        given = '"topic":"T","i":"' + "\\u0001" * 32767 + '"'
        header = '{"code":105,"opaque":7,"extFields":{' + given + "}}"
        for spelling in (header, header.replace('"code"', "code")):
            await write(client, framed(spelling.encode()))
            reply = await client.reply()
            assert (reply.opaque, reply.code) == (7, 0)


@in_loop
async def test_requests_in_pieces_and_in_a_row_are_answered_in_order() -> None:
    async with name_server() as server, Client(server.port) as client:
        codes = [206, 100, 106, 101, 999, 319]
        requests = [client.request(c, namespace="N", key="k", value="v") for c in codes]
        data = b"".join(map(encode, requests))
        await write(client, data[:7])
        await asyncio.sleep(0.01)
        for at in range(7, len(data), 97):
            await write(client, data[at : at + 97])
        replies = [await client.reply() for _ in codes]
        assert [reply.opaque for reply in replies] == [request.opaque for request in requests]
        assert [reply.code for reply in replies] == [0, 0, 0, 0, 3, 0]
        assert replies[3].fields == {"value": "v"}  # read after it was written


@in_loop
async def test_one_way_requests_and_responses_are_not_answered() -> None:
    async with name_server() as server, Client(server.port) as client:
        await client.send(client.request(100, flag=2, namespace="N", key="k", value="v"))
        await client.send(client.request(206, flag=2))
        await client.send(client.request(0, flag=1))
        assert (await client.call(101, namespace="N", key="k")).fields == {"value": "v"}


@in_loop
async def test_brokers_of_a_closed_connection_leave_at_once() -> None:
    async with name_server() as server, Client(server.port) as client:
        async with Client(server.port) as broker:
            await broker.register()
            assert (await client.call(105, topic="T")).code == 0
        await until_is(lambda: client.call(105, topic="T"), lambda reply: reply.code == 17)


@in_loop
async def test_silent_brokers_expire_and_their_connections_are_closed() -> None:
    async with (
        name_server(scanNotActiveBrokerInterval=20) as server,
        Client(server.port) as broker,
        Client(server.port) as client,
    ):
        await broker.register()
        assert (await client.call(105, topic="T")).code == 0
        await broker.register(heartbeatTimeoutMillis=50)
        assert await broker.closed_by_peer()
        assert (await client.call(105, topic="T")).code == 17


@in_loop
async def test_idle_connections_are_closed_and_busy_ones_are_not(
    clock: DrivenClock,
) -> None:
    async with (
        name_server(serverChannelMaxIdleTimeSeconds=60) as server,
        Client(server.port) as idle,
        Client(server.port) as busy,
    ):
        await idle.call(206)
        clock.advance(61)
        await busy.call(206)
        assert server._listener is not None
        expire_once(server.tables, server._listener)
        assert await idle.closed_by_peer()
        assert (await busy.call(206)).code == 0


@in_loop
async def test_connections_beyond_the_limit_are_refused_until_one_leaves() -> None:
    async with (
        name_server(rmqMaxConnections=2, rmqMaxConnectionsPerAddress=2) as server,
        Client(server.port) as one,
        Client(server.port) as two,
    ):
        assert (await one.call(206)).code == (await two.call(206)).code == 0
        async with Client(server.port) as three:
            assert await three.closed_by_peer()
        two.writer.close()
        await until(lambda: is_let_in(server.port))
        assert (await one.call(206)).code == 0


async def is_let_in(port: int) -> bool:
    async with Client(port) as client:
        try:
            return (await client.call(206)).code == 0
        except (asyncio.IncompleteReadError, ConnectionError):
            return False


@in_loop
async def test_half_frames_of_all_connections_together_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener, "PARTIAL_BYTES_MAX", 100_000)
    async with (
        name_server() as server,
        Client(server.port) as one,
        Client(server.port) as two,
        Client(server.port) as three,
    ):
        half = (1_000_000).to_bytes(4, "big") + b"x" * 60_000
        await write(one, half)
        assert server._listener is not None
        await until(lambda: server._listener.partial_bytes >= 60_000)
        await write(two, half)
        assert await two.closed_by_peer()
        assert not await one.closed_by_peer(0.05)
        one.writer.close()
        await until(lambda: server._listener.partial_bytes == 0)
        assert (await three.call(206)).code == 0


@in_loop
async def test_a_client_that_does_not_read_is_not_read_either() -> None:
    async with name_server() as server, Client(server.port) as deaf, Client(server.port) as other:
        await other.register({f"topic-{number:06d}": 4 for number in range(3000)})
        request = encode(deaf.request(206))
        written = 0
        while written < 200_000_000:
            deaf.writer.write(request * 200)
            written += 200
            try:
                await asyncio.wait_for(deaf.writer.drain(), 0.3)
            except asyncio.TimeoutError:
                break
        assert server._listener is not None
        assert server._listener.partial_bytes < 4_000_000
        assert (await other.call(206)).code == 0
        for _ in range(100):  # when it reads, it gets its replies
            assert len((await deaf.reply()).body) > 40_000
        deaf.writer.transport.abort()


@in_loop
async def test_several_name_servers_know_nothing_of_each_other() -> None:
    async with (
        name_server() as one,
        name_server() as two,
        Client(one.port) as first,
        Client(two.port) as second,
    ):
        await first.register()
        assert (await first.call(105, topic="T")).code == 0
        assert (await second.call(105, topic="T")).code == 17
        await second.register(name="other", address="h9:1")
        assert b"other" in (await second.call(105, topic="T")).body
        assert b"other" not in (await first.call(105, topic="T")).body


@in_loop
async def test_stopping_lets_replies_out_closes_all_and_frees_the_port() -> None:
    async with name_server() as server, Client(server.port) as client, Client(server.port) as idle:
        await idle.call(206)
        reply = await client.call(206)
        assert reply.code == 0
        begun = calm_seconds()
        await server.stop()
        assert calm_seconds() - begun < 10
        assert await client.closed_by_peer()
        assert await idle.closed_by_peer()
        await server.stop()
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", server.port)
        async with name_server(listenPort=server.port) as again:
            assert again.port == server.port


@in_loop
async def test_a_taken_port_is_named() -> None:
    async with name_server() as server:
        with pytest.raises(ConfigError, match=str(server.port)):
            async with name_server(listenPort=server.port):
                pass


@settings(max_examples=volume(25, 60), deadline=None)
@given(st.lists(st.binary(max_size=80) | st.sampled_from([GOOD, *BAD]), min_size=1, max_size=5))
def test_no_bytes_stop_the_service(pieces: list[bytes]) -> None:
    @in_loop
    async def scenario() -> None:
        async with (
            name_server() as server,
            Client(server.port) as wild,
            Client(server.port) as good,
        ):
            for piece in pieces:
                wild.writer.write(piece)
            wild.writer.write_eof()
            await wild.closed_by_peer()
            assert (await good.call(206)).code == 0

    scenario()
