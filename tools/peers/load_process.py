"""Load process: a load in a process of its own, in Go or in Java, which runs a turn when told to.

    load = LoadProcess(command)         returns when the program has printed that it is ready
    load.turn(2.0, rate=0.0)            {"seconds": 2.0, "messages": 240_000, "failures": {},
                                         "latency_us": {"p50": 410.5, "p99": ..., "p99.9": ...}}
    load.close()

The program reads lines "SECONDS RATE" and answers each by a line of JSON. It ends when its input
ends.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from typing import Any


class LoadProcess:
    """The process. Its methods raise RuntimeError, with the end of the program's output, when the
    program has ended by itself."""

    def __init__(self, command: list[str]) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True
        )
        self._answer()

    def turn(self, seconds: float, rate: float = 0.0) -> dict[str, Any]:
        """Runs one turn; rate in messages a second, 0: as many as possible."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds} {rate}\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        self._process.communicate()
        self._said.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.communicate()
            self._said.seek(0)
            text = self._said.read().decode(errors="replace")[-2000:]
            raise RuntimeError(f"{self._process.args[0]} ended:\n{text}")
        answer: dict[str, Any] = json.loads(line)
        return answer
