"""Goal: a user at a terminal is told what a command waits for; programs are not.

Method: a port that accepts connections and says nothing; commands as processes at a terminal. The
server ends once the line has come, so that the test need not wait for the command's own time-out.
Cannot show: how long a second is on a busy machine.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.terminal import at_terminal
from support.waiting import HANG_S

WORD = "has not answered for 1 s; waiting for it"


@contextmanager
def silent_port() -> Iterator[tuple[str, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # the kernel accepts
        yield f"127.0.0.1:{listener.getsockname()[1]}", listener


@pytest.mark.parametrize(
    ("words", "who"),
    [(("topic", "list"), ""), (("send", "orders", "x"), ", or a broker of it,"),
     (("topic", "list", "--tls"), "")],
)  # fmt: skip
def test_a_terminal_shows_who_is_waited_for(words: tuple[str, ...], who: str) -> None:
    with silent_port() as (address, listener), at_terminal(*words, "-n", address) as terminal:
        terminal.until(f"rmq: {address}{who} {WORD}")
        listener.close()  # and all that it has accepted
        assert terminal.code() == 3
    assert terminal.shown.count(WORD) == 1


def test_nothing_is_said_where_json_is_asked_for() -> None:
    with (
        silent_port() as (address, _),
        at_terminal("send", "orders", "x", "-o", "json", "-n", address) as terminal,
    ):
        assert terminal.code() == 3
    assert json.loads(terminal.shown)["exit_code"] == 3


def test_nothing_is_said_where_there_is_no_terminal() -> None:
    with silent_port() as (address, _):
        words = (sys.executable, "-m", "rmq", "send", "orders", "x", "-n", address)
        done = subprocess.run(words, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 3 and WORD not in done.stderr
