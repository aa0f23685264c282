"""A reactor that polls for a while before it sleeps finds what comes, and sleeps all the same."""

import itertools
import socket
import threading

from support.driven import Driven
from support.waiting import HANG_S

LONG_US = int(HANG_S * 1e6)


def exchange(driven: Driven, client: socket.socket, line: int) -> None:
    """Sends a line while the reactor waits, or just before that, and reads the answer."""
    sender = threading.Thread(target=client.sendall, args=(b"x\n",))
    sender.start()
    driven.reactor.turn(-1)
    sender.join()
    expected = b"%d:x\n" % line
    assert driven.receive(client, len(expected)) == expected


def test_what_comes_while_it_looks_is_found_without_a_sleep() -> None:
    with Driven(busy_poll_us=LONG_US) as driven:
        client = driven.connect(driven.listen()[0])
        before = driven.reactor.busy_polls()
        lines = itertools.count(1)
        while driven.reactor.busy_polls() == before:  # what is there at once is not counted
            exchange(driven, client, next(lines))


def test_without_the_setting_it_sleeps_at_once() -> None:
    with Driven() as driven:
        client = driven.connect(driven.listen()[0])
        for line in range(1, 21):
            exchange(driven, client, line)
        assert driven.reactor.busy_polls() == 0


def test_a_poll_that_may_not_sleep_looks_once() -> None:
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
