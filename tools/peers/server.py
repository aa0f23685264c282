"""Server: a child process with a log file: started until it is ready, and stopped or killed.

`stop` sends SIGTERM and waits for a clean end; `kill` sends SIGKILL and leaves the files on the
disk as they are. Both act on this one process id, never on a name.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path


class Server:
    """One child process. `ready` is asked until it is true or the process has ended."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        ready: Callable[[], bool],
        environment: dict[str, str] | None = None,
        ready_seconds: float = 60.0,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self.ready = ready
        self.environment = environment or {}
        self.ready_seconds = ready_seconds
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the process and returns when it is ready. On failure the error has the end of the
        log."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        end = time.monotonic() + self.ready_seconds
        while not self.ready():
            if self.process.poll() is not None:
                code = self.process.returncode
                raise RuntimeError(f"{self.name} ended with {code} at start\n{self.log_tail()}")
            if time.monotonic() > end:
                self.kill()
                raise TimeoutError(
                    f"{self.name} not ready in {self.ready_seconds:.0f} s\n{self.log_tail()}"
                )
            time.sleep(0.05)

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} was not started"
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self, seconds: float = 30.0) -> float:
        """Sends SIGTERM and waits for the end. Returns how long that took, in seconds."""
        if not self.running:
            return 0.0
        assert self.process is not None
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(
                f"{self.name} ignored SIGTERM for {seconds:.0f} s\n{self.log_tail()}"
            ) from None
        return time.monotonic() - begin

    def kill(self) -> None:
        """SIGKILL: nothing of the process runs any more when this returns."""
        if self.running:
            assert self.process is not None
            self.process.kill()
            self.process.wait()

    def log_tail(self, lines: int = 30) -> str:
        if not self.log.exists():
            return "(no log)"
        text = self.log.read_text(errors="replace").splitlines()
        return "\n".join([f"--- {self.log}", *text[-lines:]])
