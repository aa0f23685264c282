"""Logins over a socket: how many tries of one address reach the brokers.

Method: a console whose name server accepts connections and never answers. Not shown here: what
brokers say of passwords; tests/process/test_console_accounts.py does.
"""

from __future__ import annotations

import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from support.console import NOBODY, served_console
from support.waiting import wait_until

from rmq.console.login import FAILURES_MAX
from rmq.console.server import listen
from rmq.console.settings import ConsoleSettings

TRIES = 20


def test_answers_do_not_wait_for_acknowledgements() -> None:
    """TCP_NODELAY must be set. Without it the second of two writes would wait for the
    acknowledgement of the first, up to 40 ms."""
    with (
        listen(ConsoleSettings(NOBODY)) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_tries_that_wait_for_a_broker_count_as_failed() -> None:
    """Tries that still wait for a broker must count as failed: if many come at once, none of them
    has failed yet when the next one comes."""
    held: list[socket.socket] = []

    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        settings = ConsoleSettings(f"127.0.0.1:{silent.getsockname()[1]}", needs_login=True)

        def reached() -> int:
            with suppress(BlockingIOError):
                while True:
                    held.append(silent.accept()[0])
            return len(held)

        with served_console(settings) as console, ThreadPoolExecutor(TRIES) as pool:
            fields = {"name": "alice", "password": "guess", "csrf": console.token("/login")}
            tries = [pool.submit(console.post, "/login", fields) for _ in range(TRIES)]
            try:
                # The console looks at its brokers itself, by one more connection.
                wait_until(
                    lambda: (
                        reached() > FAILURES_MAX + 1
                        or sum(each.done() for each in tries) == TRIES - FAILURES_MAX
                    )
                )
            finally:
                silent.close()
                for each in held:
                    each.close()
            codes = Counter(each.result().status_code for each in tries)
    assert codes == {403: FAILURES_MAX, 429: TRIES - FAILURES_MAX}
