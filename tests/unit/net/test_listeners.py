"""Several listeners on one reactor, each with a protocol of its own.

Not shown here: TLS, which is in test_tls.py.
"""

import socket
from pathlib import Path

import pytest
from cext.testing.line_echo import add_line_echo
from support.driven import Driven, listening
from support.shard import Client, Shard, bodies, pull, send


def test_a_second_protocol_is_served_by_a_shard_beside_remoting(tmp_path: Path) -> None:
    shard = Shard(tmp_path)
    shard.core.open()
    second = listening()
    echo = add_line_echo(shard.core, second.fileno())
    shard.core.start()
    try:
        shard.topic("t")
        shard.group("g", "t")
        remoting, lines = shard.connect(), Client(second.getsockname()[1])
        lines.put(b"one\ntw")
        assert remoting.ask(send("t", b"x", 7)).opaque == 7
        lines.put(b"o\n")
        assert lines._stream.read(12) == b"1:one\n2:two\n"
        assert bodies(remoting.ask(pull("g", "t"))) == [b"x"]
        lines.put(b"quit\n")
        assert lines.is_closed()
        lines.close()
        for client in shard.clients:
            client.close()
        shard.expect_all_given_back()
        assert (echo.lines, echo.closed) == (2, 1)
    finally:
        shard.stop()
        second.close()


def test_each_listener_has_its_own_owner_and_each_connection_its_own_block() -> None:
    with Driven() as driven:
        ports = [driven.listen() for _ in range(5)]
        clients = [(driven.connect(port), echo) for port, echo in ports for _ in range(2)]
        for number, (client, _) in enumerate(clients):
            client.sendall(b"x\n" * (number + 1))
        for number, (client, _) in enumerate(clients):
            expected = b"".join(b"%d:x\n" % (line + 1) for line in range(number + 1))
            assert driven.receive(client, len(expected)) == expected
        assert [echo.lines for _, echo in ports] == [3, 7, 11, 15, 19]


def test_a_reactor_takes_sixteen_listeners_and_says_so_of_the_next() -> None:
    with Driven() as driven:
        ports = [driven.listen() for _ in range(16)]
        with pytest.raises(Exception, match="POOL_EMPTY"):
            driven.listen()
        client = driven.connect(ports[15][0])
        client.sendall(b"x\n")
        assert driven.receive(client, 4) == b"1:x\n"


def test_all_listeners_stop_accepting_and_connections_go_on() -> None:
    with Driven() as driven:
        one, _ = driven.listen()
        other, _ = driven.listen()
        client = driven.connect(one)
        driven.reactor.stop_accepting()
        late = socket.create_connection(("127.0.0.1", other))
        driven.sockets.append(late)
        client.sendall(b"x\n")
        assert driven.receive(client, 4) == b"1:x\n"
        assert driven.reactor.connections() == 1


def test_a_long_line_is_kept_in_a_large_buffer_that_comes_back() -> None:
    with Driven() as driven:
        port, _ = driven.listen()
        client = driven.connect(port)
        line = b"a" * 300_000 + b"\n"
        client.setblocking(True)
        for at in range(0, len(line), 50_000):
            client.sendall(line[at : at + 50_000])
            driven.reactor.turn(10)
        client.setblocking(False)
        assert driven.receive(client, len(line) + 2) == b"1:" + line
        assert driven.reactor.in_use() == (0, 0, 0, 0)
