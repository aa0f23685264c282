"""q ends a command that keeps redrawing, other keys do not, and the terminal is as before
afterwards."""

from __future__ import annotations

import os
import termios
from collections.abc import Iterator
from typing import TextIO

import pytest
from support.waiting import HANG_S

from rmq.cli.keys import quit_key


@pytest.fixture
def terminal() -> Iterator[tuple[int, TextIO]]:
    """The end where keys are pressed, and the terminal."""
    person, descriptor = os.openpty()
    with os.fdopen(descriptor) as found:
        yield person, found
    os.close(person)


@pytest.mark.parametrize("keys", [b"q", b"Q", b"xyzq"])
def test_q_ends_it_at_once(terminal: tuple[int, TextIO], keys: bytes) -> None:
    person, screen = terminal
    before = termios.tcgetattr(screen)
    with quit_key(screen) as pause:
        assert termios.tcgetattr(screen) != before, "keys come one by one, without a line end"
        os.write(person, keys)
        assert pause(HANG_S) is True
    assert termios.tcgetattr(screen) == before


def test_other_keys_and_none_do_not(terminal: tuple[int, TextIO]) -> None:
    person, screen = terminal
    with quit_key(screen) as pause:
        assert pause(0.01) is False
        os.write(person, b"x\n")
        assert pause(0.01) is False


def test_an_interrupt_leaves_the_terminal_as_it_was(terminal: tuple[int, TextIO]) -> None:
    _, screen = terminal
    before = termios.tcgetattr(screen)
    with pytest.raises(KeyboardInterrupt), quit_key(screen):
        raise KeyboardInterrupt
    assert termios.tcgetattr(screen) == before


def test_what_is_no_terminal_is_not_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"q")
    with os.fdopen(reading) as pipe:
        with quit_key(pipe) as pause:
            assert pause(0.001) is False
        assert os.read(pipe.fileno(), 9) == b"q"
    os.close(writing)
