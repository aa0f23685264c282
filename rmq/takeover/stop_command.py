"""Stop command: the operator's command that ends the old master, run in the background.

    command = StopCommand("ssh 10.0.0.5 mqshutdown broker")
    command.check()         RmqError: it ended with another code than 0

It may take longer than one freeze, which is renewed meanwhile.
"""

from __future__ import annotations

import subprocess

from rmq.errors import RmqError


class StopCommand:
    """Run by a shell, with this process's terminal."""

    def __init__(self, command: str) -> None:
        self._process = subprocess.Popen(command, shell=True)

    def check(self) -> None:
        if self._process.poll():
            raise RmqError(f"--stop-command ended with code {self._process.returncode}")
