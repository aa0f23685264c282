"""Servers of a demo that is a fork (rmq_process.py): forks of it, that need not read all modules.

    start_rmq(["demo", "cluster", ..], stderr=errors, in_child=demo_forks.begin)

As long as the demo has one thread; what it starts later, as a master that was killed, is a program
as ever. A demo that is a program from its beginning: test_demo.py, too.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import IO, Any, NoReturn

from support.shard_forks import MODULES

from rmq.system import child

OURS = [sys.executable, "-m", "rmq"]


class _Server(subprocess.Popen[bytes]):
    def __init__(
        self, command: Sequence[str], *, stdout: IO[bytes], preexec_fn: Callable[[], None],
        **given: Any,
    ) -> None:  # fmt: skip
        self._log, self._first = stdout, preexec_fn
        self._is_fork = list(command[:3]) == OURS and threading.active_count() == 1
        super().__init__(command, stdout=stdout, preexec_fn=preexec_fn, **given)

    def _execute_child(self, args: Sequence[str], *more: Any) -> None:
        if not self._is_fork:
            super()._execute_child(args, *more)  # type: ignore[misc]
            return
        self.pid = os.fork()
        if self.pid == 0:
            _serve(list(args[3:]), self._log, self._first)
        self._child_created = True


def begin() -> None:
    """In the process that is to be a demo, before it is."""
    if MODULES in sys.modules:
        child.subprocess = SimpleNamespace(  # type: ignore[attr-defined]
            Popen=_Server, DEVNULL=subprocess.DEVNULL, TimeoutExpired=subprocess.TimeoutExpired
        )


def begin_without_hangups() -> None:
    """As `trap '' HUP` in the shell that starts it."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    begin()


def begin_without_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    begin()


def _serve(words: list[str], log: IO[bytes], first: Callable[[], None]) -> NoReturn:
    code = 1
    try:
        os.setsid()
        first()
        _take_streams(log)
        _take_signals()
        atexit._clear()
        sys.argv = ["rmq", *words]
        from rmq.cli.main import main  # read long ago; a process of tests needs none

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _take_streams(log: IO[bytes]) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    for number in (1, 2):
        os.dup2(log.fileno(), number)


def _take_signals() -> None:
    """What is ignored stays so, as when a program begins."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, usual)
