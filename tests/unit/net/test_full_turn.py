"""A protocol says that the turn is full: the next turn goes on where this one stopped.

Not shown here: what the flow layer does with this.
"""

import pytest
from support.driven import Driven


def lines(count: int, first: int = 1) -> bytes:
    return b"".join(b"%d:%d\n" % (first + at, first + at) for at in range(count))


def asked(count: int, first: int = 1) -> bytes:
    return b"".join(b"%d\n" % (first + at) for at in range(count))


def fill(driven: Driven) -> None:
    driven.until(driven.reactor.turn_is_full)


def test_the_rest_of_what_came_is_handed_over_turn_by_turn() -> None:
    with Driven() as driven:
        port, echo = driven.listen()
        client = driven.connect(port)
        echo.lines_per_turn = 3
        client.sendall(asked(10) + b"half")
        fill(driven)
        assert echo.lines == 3
        driven.reactor.turn()
        assert echo.lines == 6
        driven.reactor.turn()
        driven.reactor.turn()
        assert (echo.lines, driven.reactor.turn_is_full()) == (10, False)
        client.sendall(b"\n")
        expected = lines(10) + b"11:half\n"
        assert driven.receive(client, len(expected)) == expected
        assert driven.reactor.in_use() == (0, 0, 0, 0)


def test_others_that_were_ready_come_behind_and_nothing_is_lost_or_overtaken() -> None:
    with Driven() as driven:
        port, echo = driven.listen()
        clients = [driven.connect(port) for _ in range(5)]
        echo.lines_per_turn = 2
        for client in clients:
            client.sendall(asked(5))
        expected = lines(5)
        turns = 0
        fill(driven)
        while echo.lines < 25:
            before = echo.lines
            driven.reactor.turn()
            turns += 1
            assert echo.lines - before <= 2
            assert turns < 1000
        for client in clients:
            assert driven.receive(client, len(expected)) == expected


def test_more_that_comes_meanwhile_waits_in_the_socket() -> None:
    with Driven() as driven:
        port, echo = driven.listen()
        client = driven.connect(port)
        echo.lines_per_turn = 1
        client.sendall(asked(3))
        fill(driven)
        client.sendall(asked(3, 4))
        expected = lines(6)
        assert driven.receive(client, len(expected)) == expected


@pytest.mark.parametrize("everybody", [False, True])
def test_a_connection_that_closes_meanwhile_takes_its_bytes_along(everybody: bool) -> None:
    """Its neighbours' bytes are still handed over, and a new connection in its slot gets none of
    its bytes."""
    with Driven(connections_max=3) as driven:
        port, echo = driven.listen()
        clients = [driven.connect(port) for _ in range(3)]
        echo.lines_per_turn = 1
        clients[0].sendall(asked(4))
        fill(driven)
        clients[1].sendall(asked(2))
        if everybody:
            driven.reactor.close_all()
        else:
            driven.reactor.close_first()
        seen = echo.lines
        driven.reactor.turn()  # from here on the slot is free
        assert not driven.reactor.turn_is_full() or echo.lines > seen
        for client in clients if everybody else clients[:1]:
            assert client.recv(4) == b"1:1\n" if client is clients[0] else True
            client.close()
        newcomer = driven.connect(port)
        newcomer.sendall(b"new\n")
        assert driven.receive(newcomer, 6) == b"1:new\n"
        if not everybody:
            assert driven.receive(clients[1], 8) == lines(2)
            assert echo.lines == seen + 3
        else:
            assert echo.lines == seen + 1


def test_a_turn_is_full_in_the_middle_of_a_large_buffer() -> None:
    """What follows a large line lies behind that line in the same buffer."""
    with Driven() as driven:
        port, echo = driven.listen()
        client = driven.connect(port)
        echo.lines_per_turn = 2
        large = b"a" * 200_000 + b"\n"
        client.setblocking(True)
        client.sendall(large[:100_000])
        driven.until(lambda: driven.reactor.in_use()[1] == 1)
        client.sendall(large[100_000:] + asked(5, 2) + b"half")
        client.setblocking(False)
        expected = b"1:" + large + lines(5, 2)
        assert driven.receive(client, len(expected)) == expected
        client.sendall(b"\n")
        assert driven.receive(client, 7) == b"7:half\n"
        assert driven.reactor.in_use() == (0, 0, 0, 0)


def test_a_full_turn_in_a_large_buffer_is_closed_and_the_buffer_comes_back() -> None:
    with Driven() as driven:
        port, echo = driven.listen()
        client = driven.connect(port)
        echo.lines_per_turn = 1
        client.setblocking(True)
        client.sendall(b"a" * 100_000)
        driven.until(lambda: driven.reactor.in_use()[1] == 1)
        client.sendall(b"\n" + asked(5, 2))
        fill(driven)
        driven.reactor.close_all()
        driven.reactor.turn()
        driven.reactor.turn()
        assert driven.reactor.in_use() == (0, 0, 0, 0)
        assert driven.reactor.connections() == 0
