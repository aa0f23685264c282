"""Child: a process that ends with this one, however it ends.

    child = Child("broker-1", command, Path("logs"))
    child.start()
    child.wait_ready(30)        until it has said that it is ready
    child.died()                True once after each end that stop() did not ask for

The kernel kills a child when the thread that started it ends (PR_SET_PDEATHSIG), so start() must be
called by the main thread. Each child is in a session of its own, so that Ctrl-C reaches this
process alone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rmq.errors import RmqError

PR_SET_PDEATHSIG = 1
POLL_S = 0.02
STOP_S = 5.0
_libc = ctypes.CDLL(None, use_errno=True)


class Child:
    """One server, which can be started again with the same command."""

    def __init__(self, name: str, command: Sequence[str], logs: Path) -> None:
        self.name = name
        self.command = list(command)
        self.log_path = logs / f"{name}.log"
        self.died_s: float | None = None  # time.monotonic() at which died() saw the end
        self._process: subprocess.Popen[bytes] | None = None
        self._ready_from = 0

    @property
    def pid(self) -> int | None:
        """None: the server does not run."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        self._ready_from = self.log_path.stat().st_size if self.log_path.exists() else 0
        parent = os.getpid()

        def end_with_parent() -> None:
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # the parent ended before the call
                os.kill(os.getpid(), signal.SIGKILL)

        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, preexec_fn=end_with_parent,
            )  # fmt: skip
        self.died_s = None

    def says_ready(self) -> bool:
        """Whether the server has said, since its last start, that it is ready."""
        with self.log_path.open("rb") as log:
            log.seek(self._ready_from)
            return b" is ready " in log.read()

    def wait_ready(self, timeout_s: float, is_ready: Callable[[], bool] | None = None) -> None:
        """Waits until the server is ready. RmqError: it has ended, or the time is over."""
        until = time.monotonic() + timeout_s
        while not (is_ready or self.says_ready)():
            if self.pid is None:
                raise RmqError(f"{self.name} did not start: {self.last_line()}")
            if time.monotonic() > until:
                raise RmqError(
                    f"{self.name} is not ready after {timeout_s:g} s: see {self.log_path}"
                )
            time.sleep(POLL_S)

    def last_line(self) -> str:
        """The last line of the log that is not blank."""
        lines = self.log_path.read_text(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "it says nothing")

    def died(self) -> bool:
        """Whether the server has ended; True once after each end."""
        if self._process is None or self.died_s is not None or self._process.poll() is None:
            return False
        self.died_s = time.monotonic()
        return True

    def kill(self) -> None:
        """As kill -9 does. The server has ended when this returns, and died() will say so."""
        if self.pid is not None and self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self, timeout_s: float = STOP_S) -> None:
        """Asks the server to end (SIGTERM), and kills it if it runs after timeout_s."""
        if self._process is None:
            return
        if self.pid is not None:
            self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
