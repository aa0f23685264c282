"""A reactor that looks for a while before it sleeps finds what is there, and sleeps all the same."""

import socket

import pytest
from support.driven import Driven

LONG_US = 5_000_000  # a busy machine, too, delivers by then
ASKED = 9


def asked(driven: Driven, client: socket.socket) -> None:
    """One line, and the answer to it."""
    client.sendall(b"x\n")
    assert driven.receive(client, 4).endswith(b":x\n")


@pytest.mark.parametrize("busy_poll_us", [0, LONG_US])
def test_what_is_there_is_found_without_a_sleep_where_that_is_asked_for(busy_poll_us: int) -> None:
    with Driven(busy_poll_us=busy_poll_us) as driven:
        client = driven.connect(driven.listen()[0])
        before = driven.reactor.busy_polls()
        for _ in range(ASKED):
            asked(driven, client)
        found = driven.reactor.busy_polls() - before
        assert found == (ASKED if busy_poll_us else 0)


def test_a_poll_that_may_not_sleep_does_not_look_again() -> None:
    with Driven(busy_poll_us=LONG_US) as driven:
        client = driven.connect(driven.listen()[0])
        before = driven.reactor.busy_polls()
        client.sendall(b"x\n")
        while driven.reactor.turn(0) == 0:
            pass
        assert driven.receive(client, 4) == b"1:x\n"
        assert driven.reactor.busy_polls() == before


def test_where_nothing_comes_it_sleeps_until_its_time_is_over() -> None:
    with Driven(busy_poll_us=1000) as driven:
        driven.listen()
        assert driven.reactor.turn(1) == 0
        assert driven.reactor.busy_polls() == 0
