"""rmq process: `rmq ..` in a process of its own, forked from one that has imported rmq's modules.

    process = start_rmq(["standalone", "--store", store], stderr=log)
    process.stdout.readline(); process.pid; process.terminate(); process.wait(HANG_S)

Importing 670 modules is nine tenths of what the start of a server costs, and that was a third of
the cost of a run of all tests. A test process that starts servers therefore has a process of
multiprocessing's forkserver, which has imported the modules and does nothing else; servers are
forks of it. A second such process is for servers with a faulty disk, because its library must be
loaded when a process begins. A forked server then runs as any other: it has descriptors, signals
and an environment of its own, and calls the main function of rmq's commands, or that of a worker
for tests (start_worker). The shards of such a server may be forks as well (shard_forks.py).

Tests of a start itself start servers as users do, by subprocess: test_standalone.py,
test_ready_line.py, test_operating.py, commands with limits (`before`), and those with
is_fork=False.
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
# Read when a program begins. A fork does not begin, so another value needs a new program.
AT_BEGIN = ("ASAN_OPTIONS", "LD_", "MALLOC_", "PYTHON")
READ_BY = os.getpid()
BEGAN_WITH = {key: value for key, value in os.environ.items() if key.startswith(AT_BEGIN)}
_lock = threading.Lock()  # guards multiprocessing's list of processes
_running: set[RmqProcess] = set()


class RmqProcess:
    """The part of subprocess.Popen[str] that tests use with servers."""

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
        """Waits; returns the exit code, or minus the number of the signal that ended the process.
        subprocess.TimeoutExpired."""
        connection.wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("rmq", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            signal_process(self.pid, number)  # it may have ended: its parent is another process

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
    """Starts `rmq` with these words. stdout: a file; without one, `.stdout` reads the output.
    before: words in front of the command, a program that replaces itself by the command. in_child:
    a function of a module, which the new process calls first. is_fork: False for a new program.
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
    """Starts `python -m module ..`, which reads commands from `.stdin` and answers on `.stdout`.
    environment: Faults.environment(). stderr: None for this process's."""
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
    # multiprocessing has only one forkserver, which it calls by this name.
    asked = mock.patch.object(forkserver, "connect_to_new_process", server.connect_to_new_process)
    with _lock, asked:
        process.start()
    return process


class _Descriptor:
    """A descriptor that is duplicated into the process to which it is pickled."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _detached, (reduction.DupFd(self.number),)


def _detached(sent: Any) -> int:
    return int(sent.detach())


@functools.cache
def _server(preload: str | None) -> forkserver.ForkServer:
    """The forkserver for processes that begin with these libraries preloaded."""
    server = forkserver.ForkServer()
    server.set_forkserver_preload([MODULES])
    # It begins with the environment that this process began with, whatever a test has set, and
    # finds modules in the same places.
    kept = {key: value for key, value in os.environ.items() if not key.startswith(AT_BEGIN)}
    paths = os.pathsep.join([str(ROOT / "tests"), str(ROOT)])
    environment = {**kept, **BEGAN_WITH, "PYTHONPATH": paths}
    if preload is not None:
        environment["LD_PRELOAD"] = preload
    with mock.patch.dict(os.environ, environment, clear=True):
        server.ensure_running()
    # At exit multiprocessing would ask servers to end, and wait for those that do not.
    atexit.register(_kill_all)
    return server


def _kill_all() -> None:
    for process in list(_running):
        process.kill()


@dataclass
class _Begin:
    """Runs in the new process: takes its streams, folder and environment, and calls main."""

    words: list[str]
    environment: dict[str, str]
    place: str
    first: Callable[[], object] | None
    module: str = "rmq.cli.main"  # the module whose main is called

    def __call__(self, stdout: int, stderr: int, stdin: int | None = None) -> None:
        read = MODULES in sys.modules and os.getpid() != READ_BY
        assert read, "the modules, or this one, were not read before"
        atexit.unregister(_kill_all)
        # When this descriptor closes, the forkserver knows that the test process has ended. An open
        # copy in a server would hide that.
        os.close(forkserver._forkserver._forkserver_alive_fd)  # type: ignore[attr-defined]
        if self.first is not None:
            self.first()
        for number, descriptor in ((1, stdout), (2, stderr)):
            os.dup2(descriptor, number)
            os.close(descriptor)
        if stdin is not None:
            os.dup2(stdin, 0)
            os.close(stdin)
            sys.stdin = os.fdopen(0)  # multiprocessing has closed the old one
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
