"""Shard forks: has a forked supervisor (rmq_process.py) fork its shards as well, so that no shard
imports all modules anew.

    start_rmq(words, stderr=log, in_child=shard_forks.begin)
    is_forked_shard(pid)

Before the supervisor begins, its process forks a helper. When the supervisor wants a shard, the
helper forks it, with the environment, files, folder and processors that the supervisor has at that
moment. The parent of the shard is the supervisor, because the kernel gives it the orphans among its
descendants (PR_SET_CHILD_SUBREAPER). Forked shards have no command line of their own and are
recognized by NAME. These tests start shards as users do: test_ready_line.py, test_shards.py,
test_secrets.py.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from support.fault_control import map_control

from shards import shard

MODULES = "support.rmq_modules"  # imported in every process that forks
NAME = "rmq-test-shard"
PR_SET_CHILD_SUBREAPER = 36
ASKED_BYTES_MAX, PID_BYTES = 1 << 18, 8


@dataclass
class _Asked:
    """What a process inherits from the supervisor that starts it."""

    words: list[str]
    environment: dict[str, str]
    place: str
    processors: set[int]
    policy: int


class _Fork:
    """The part of subprocess.Popen that a supervisor uses with shards."""

    def __init__(
        self, forking: socket.socket, command: list[str], *, env: dict[str, str], **_: Any
    ) -> None:
        asked = _Asked(
            command[3:], env, str(Path.cwd()), os.sched_getaffinity(0), os.sched_getscheduler(0)
        )
        socket.send_fds(forking, [pickle.dumps(asked)], [1, 2])
        self.pid = int.from_bytes(forking.recv(PID_BYTES), "big")
        if self.pid == 0:
            raise OSError("who forks the shards has none")

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def begin() -> None:
    """Call it in the process that will be a supervisor, before it is one. Does nothing if the
    process is about to become a new program, which imports its modules itself."""
    if MODULES not in sys.modules:
        return
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("a supervisor cannot have the forks of others")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        try:
            ours.close()
            _fork_shards(theirs)
        finally:
            os._exit(0)
    theirs.close()
    stand_in = SimpleNamespace(Popen=functools.partial(_Fork, ours), DEVNULL=subprocess.DEVNULL)
    shard.subprocess = stand_in  # type: ignore[attr-defined]


def _fork_shards(theirs: socket.socket) -> None:
    """Forks shards until the supervisor is gone."""
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number != theirs.fileno():
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                os.close(number)
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    while True:
        data, files, _, _ = socket.recv_fds(theirs, ASKED_BYTES_MAX, 2)
        if not data:
            return
        pid = _forked(theirs, data, files)
        for file in files:
            os.close(file)
        theirs.send(pid)


def _forked(theirs: socket.socket, data: bytes, files: list[int]) -> bytes:
    """Forks a shard; returns its pid. The process between them ends at once, so that the supervisor
    becomes the shard's parent. The shard has its name and processors from its first moment on, as
    if the supervisor had started it."""
    reading, writing = os.pipe()
    between = os.fork()
    if between == 0:
        try:
            asked = pickle.loads(data)
            Path("/proc/self/comm").write_text(NAME)
            os.sched_setaffinity(0, asked.processors)
            os.sched_setscheduler(0, asked.policy, os.sched_param(0))
            pid = os.fork()
            if pid == 0:
                for number in (reading, writing):
                    os.close(number)
                theirs.close()
                _be_shard(asked, files)
            os.write(writing, pid.to_bytes(PID_BYTES, "big"))
        finally:
            os._exit(0)
    os.close(writing)
    found = os.read(reading, PID_BYTES)
    os.close(reading)
    os.waitpid(between, 0)
    return found


def _be_shard(asked: _Asked, files: list[int]) -> NoReturn:
    code = 1
    try:
        _take(asked, files)
        from shards import shard_process  # long imported here; no test process needs it

        code = shard_process.main(asked.words)
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


def _take(asked: _Asked, files: list[int]) -> None:
    os.setsid()
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), *files)):
        os.dup2(file, number)
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.chdir(asked.place)
    os.environ.clear()
    os.environ.update(asked.environment)
    map_control()
    sys.argv = ["shards.shard_process", *asked.words]


def is_forked_shard(pid: int) -> bool:
    """Whether the process is a forked shard that has not ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    name, _, rest = text.partition("(")[2].rpartition(")")
    return name == NAME and rest.split()[0] not in "ZX"
