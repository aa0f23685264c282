"""`rmq ..` as a process, forked from one that has read the modules of rmq.

    process = start_rmq(["standalone", "--store", store], stderr=log)
    process.stdout.readline(); process.pid; process.terminate(); process.wait(HANG_S)

To read 670 modules is nine tenths of what the start of a server costs, and that was a third of what
a run of all tests did. A process of tests that starts servers has one, of multiprocessing's
forkserver, that has read them and does nothing else; servers are its forks. It has a second one for
those with a faulty disk, whose library a process has from its beginning. From there on they are as
any: descriptors, signals, environment, and the main of rmq's commands, or that of a worker of
tests (start_worker). Shards that such a server starts are forks, too, where it is asked for
(shard_forks.py). What a start itself is about
is started as its users do, by subprocess: see test_standalone.py, test_ready_line.py,
test_operating.py, all that is limited before it begins, and by is_fork=False.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import connection, forkserver, reduction
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import IO, Any
from unittest import mock

from support import work
from support.fault_control import map_control
from support.source_tree import ROOT
from support.stopping import signal_process

MODULES = "support.rmq_modules"
# Read where a program begins, which a fork does not: who wants another value has a program begin.
AT_BEGIN = ("ASAN_OPTIONS", "LD_", "MALLOC_", "PYTHON")
READ_BY = os.getpid()
BEGAN_WITH = {key: value for key, value in os.environ.items() if key.startswith(AT_BEGIN)}
_lock = threading.Lock()  # of what multiprocessing knows of all its processes
_running: set[RmqProcess] = set()


class RmqProcess:
    """As much of subprocess.Popen[str] as tests ask of servers."""

    def __init__(
        self, process: ForkServerProcess, stdout: IO[str] | None, stdin: IO[str] | None = None
    ) -> None:
        assert process.pid is not None
        self._process = process
        self.pid = process.pid
        self.stdout, self.stdin = stdout, stdin
        _running.add(self)
        work.servers.add(self.pid)

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        with _lock:
            code = self._process.exitcode
        if code is not None:
            _running.discard(self)
            work.servers.discard(self.pid)
        return code

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, below 0 for the signal that ended it; subprocess.TimeoutExpired."""
        connection.wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("rmq", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            signal_process(self.pid, number)  # its parent is the process that forks

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


AnyProcess = RmqProcess | subprocess.Popen[str]


def start_rmq(
    words: Sequence[object], *, stderr: IO[Any], stdout: IO[Any] | None = None,
    environment: Mapping[str, str] | None = None, cwd: Path | None = None,
    before: Sequence[str] = (), in_child: Callable[[], object] | None = None, is_fork: bool = True,
) -> AnyProcess:  # fmt: skip
    """stdout: a file; else `.stdout` reads what it says. before: words in front of the command,
    which replace themselves by it. in_child: a function of a module that the process calls first.
    """
    words = list(map(str, words))
    given = dict(os.environ if environment is None else environment)
    at_begin = {key: value for key, value in given.items() if key.startswith(AT_BEGIN)}
    preload = at_begin.get("LD_PRELOAD")
    servers_begin = dict(BEGAN_WITH)
    if preload is not None and "RMQ_FAULTIO" in given:
        servers_begin["LD_PRELOAD"] = preload
    if before or not is_fork or at_begin != servers_begin:
        return subprocess.Popen(
            [*before, sys.executable, "-m", "rmq", *words], stdin=subprocess.DEVNULL,
            stdout=stdout or subprocess.PIPE, stderr=stderr, text=True, env=given, cwd=cwd,
            preexec_fn=in_child,
        )  # fmt: skip
    begin = _Begin(words, given, str(cwd or Path.cwd()), in_child)
    server = _server(preload)
    if stdout is not None:
        return RmqProcess(_forked(server, begin, stdout.fileno(), stderr.fileno()), None)
    descriptor, writing = os.pipe()
    reading = os.fdopen(descriptor)
    try:
        process = _forked(server, begin, writing, stderr.fileno())
    finally:
        os.close(writing)
    return RmqProcess(process, reading)


def start_worker(
    module: str, *words: object, environment: Mapping[str, str], stderr: IO[Any] | None = None
) -> RmqProcess:
    """`python -m module ..` that answers at `.stdout` what it is told at `.stdin`. environment: one
    of faults.py. stderr: None, this process's."""
    begin = _Begin([*map(str, words)], dict(environment), str(Path.cwd()), None, module)
    server = _server(environment["LD_PRELOAD"])
    (read, writing), (reading, write) = os.pipe(), os.pipe()
    stdout, stdin = os.fdopen(read), os.fdopen(write, "w")
    try:
        process = _forked(server, begin, writing, stderr.fileno() if stderr else 2, reading)
    finally:
        os.close(writing)
        os.close(reading)
    return RmqProcess(process, stdout, stdin)


def _forked(server: forkserver.ForkServer, begin: _Begin, *streams: int) -> ForkServerProcess:
    """streams: stdout, stderr, and stdin if it has one."""
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=begin, args=tuple(map(_Descriptor, streams)), daemon=True)
    # multiprocessing knows one, and asks it by this name.
    asked = mock.patch.object(forkserver, "connect_to_new_process", server.connect_to_new_process)
    with _lock, asked:
        process.start()
    return process


class _Descriptor:
    """Duplicated for the process that it is sent to."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _detached, (reduction.DupFd(self.number),)


def _detached(sent: Any) -> int:
    return int(sent.detach())


@functools.cache
def _server(preload: str | None) -> forkserver.ForkServer:
    """Of the processes that begin with these libraries."""
    server = forkserver.ForkServer()
    server.set_forkserver_preload([MODULES])
    # It begins as this process did, whatever a test has set, and finds modules as this one does.
    kept = {key: value for key, value in os.environ.items() if not key.startswith(AT_BEGIN)}
    paths = os.pathsep.join([str(ROOT / "tests"), str(ROOT)])
    environment = {**kept, **BEGAN_WITH, "PYTHONPATH": paths}
    if preload is not None:
        environment["LD_PRELOAD"] = preload
    with mock.patch.dict(os.environ, environment, clear=True):
        server.ensure_running()
    # multiprocessing asks them to end when this process does, and waits for those that cannot.
    atexit.register(_kill_all)
    return server


def _kill_all() -> None:
    for process in list(_running):
        process.kill()


@dataclass
class _Begin:
    """What the new process does."""

    words: list[str]
    environment: dict[str, str]
    place: str
    first: Callable[[], object] | None
    module: str = "rmq.cli.main"  # which has the main

    def __call__(self, stdout: int, stderr: int, stdin: int | None = None) -> None:
        read = MODULES in sys.modules and os.getpid() != READ_BY
        assert read, "the modules, or this one, were not read before"
        atexit.unregister(_kill_all)
        # By it the forkserver sees that the process of tests is gone; a server would hold it open.
        os.close(forkserver._forkserver._forkserver_alive_fd)  # type: ignore[attr-defined]
        if self.first is not None:
            self.first()
        for number, descriptor in ((1, stdout), (2, stderr)):
            os.dup2(descriptor, number)
            os.close(descriptor)
        if stdin is not None:
            os.dup2(stdin, 0)
            os.close(stdin)
            sys.stdin = os.fdopen(0)  # multiprocessing has closed the one before
        os.chdir(self.place)
        os.environ.clear()
        os.environ.update(self.environment)
        map_control()
        sys.argv = ["rmq", *self.words]
        main = importlib.import_module(self.module).main
        try:
            main()
        finally:
            atexit._run_exitfuncs()
